/* Asynchronous scheduling with pipeline stages, as vLLM's engine has it (vllm/v1/engine/core.py,
 * step_with_batch_queue; v1/core/sched/async_scheduler.py): up to stages + 1 batches are out, and a
 * sequence decodes again as many steps of the scheduler later as there are stages. A step counts
 * even when no batch comes of it. So steps take turns on as many lanes as there are stages, and
 * sequences that a step left out may go with the next one.
 *
 * The engine waits for the batch ahead only when its queue of stages + 1 batches is full. Steps
 * without a batch stand in that queue too, and are over as soon as those ahead of them are. */
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

bool replica_next_turn(struct replica *r)
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

enum st replica_take_turn(struct replica *r, double start_s, struct flight **f, struct err *e)
{
    const int32_t lane = (int32_t)(r->turn++ % r->n_lanes);
    TRY(replica_submit(r, lane, start_s, f, e));
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
