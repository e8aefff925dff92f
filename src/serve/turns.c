/* Pipeline stages, as vLLM's engine has them (vllm/v1/engine/core.py, step_with_batch_queue): the
 * engine waits for the batch ahead only when its queue of batches is full. Steps of the scheduler
 * that give no batch stand in that queue too, and are over as soon as those ahead of them are.
 *
 * The queue holds as many batches as there are stages. With asynchronous scheduling it holds one
 * more, and a sequence decodes again as many steps later as there are stages, whether or not a
 * batch came of them (v1/core/sched/async_scheduler.py). So these steps take turns on as many lanes
 * as there are stages; sequences that a step left out may go with the next one. */
#include "serve/replica.h"

static bool has_requests(const struct replica *r)
{
    return r->active > 0 || r->waiting.n > 0;
}

/* Takes those off that are over. */
static void pop_hollow(struct replica *r)
{
    r->hollow -= r->hollow_first;
    r->hollow_first = 0;
}

bool replica_next_step(struct replica *r)
{
    if (!has_requests(r)) {
        pop_hollow(r);
        return false;
    }
    if (r->in_flight + r->hollow < r->max_in_flight)
        return true;
    if (r->hollow_first == 0)
        return false;
    r->hollow_first--;
    r->hollow--;
    return true;
}

/* Without turns, the lanes share their requests, and there is one without a batch. */
static int32_t lane_of_step(struct replica *r)
{
    if (r->turns)
        return (int32_t)(r->turn++ % r->n_lanes);
    int32_t lane = 0;
    while (r->lanes[lane].submitted != r->lanes[lane].delivered)
        lane++;
    return lane;
}

enum st replica_take_step(struct replica *r, double start_s, struct flight **f, struct err *e)
{
    TRY(replica_submit(r, lane_of_step(r), start_s, f, e));
    if (*f) {
        r->last = *f;
        return ST_OK;
    }
    r->hollow++;
    if (r->in_flight)
        r->last->hollow++;
    else
        r->hollow_first++;
    return ST_OK;
}
