#include "serve/detached.h"

#include "serve/tokens.h"

/* Whether f holds a decode row of q, which is in its lane's set or emits its last token. */
static bool decodes_in(const struct flight *f, const struct request *q)
{
    bool decodes = q->state == REQUEST_DECODE || q->state == REQUEST_LAST;
    return decodes && f->runs_decodes && f->b.lane == q->lane && f->tick >= q->t0 &&
           f->tick <= q->finish;
}

static bool has_chunk(const struct flight *f, const struct request *q)
{
    for (size_t i = 0; i < f->chunk_requests.n; i++)
        if (f->chunk_requests.p[i] == q)
            return true;
    return false;
}

void detached_add(struct replica *r, struct request *q)
{
    for (int32_t i = 0; i < r->max_in_flight; i++) {
        struct flight *f = &r->flights[i];
        bool decodes = f->out && decodes_in(f, q);
        if (!decodes && !(f->out && has_chunk(f, q)))
            continue;
        vec_push(&f->detached, (struct detached){q, decodes});
        q->pending++;
    }
}

int64_t detached_in_flight(const struct replica *r, const struct request *q)
{
    int64_t n = 0;
    for (int32_t i = 0; r->in_flight && i < r->max_in_flight; i++) {
        const struct flight *f = &r->flights[i];
        if (!f->out)
            continue;
        n += decodes_in(f, q);
        for (size_t k = 0; k < f->chunk_requests.n; k++)
            n += f->chunk_requests.p[k] == q ? f->chunks.p[k].tokens : 0;
        for (size_t k = 0; k < f->detached.n; k++)
            n += f->detached.p[k].q == q && f->detached.p[k].decodes;
    }
    return n;
}

bool detached_holds(const struct flight *f, const struct request *q)
{
    for (size_t i = 0; i < f->detached.n; i++)
        if (f->detached.p[i].q == q)
            return true;
    return false;
}

/* Ticks of the lane whose batches came back. */
static int64_t ticks_delivered(const struct replica *r, const struct lane *lane)
{
    int64_t tick = lane->set.tick;
    for (int32_t i = 0; lane->submitted != lane->delivered && i < r->max_in_flight; i++) {
        const struct flight *f = &r->flights[i];
        tick -= f->out && f->runs_decodes && &r->lanes[f->b.lane] == lane;
    }
    return tick;
}

void detached_leave_decodes(struct replica *r, struct request *q)
{
    struct lane *lane = &r->lanes[q->lane];
    if (q->t0 == INT64_MAX)
        return;
    int64_t tick = ticks_delivered(r, lane);
    if (tick > q->unwritten)
        tokens_flush(r, lane, q, tick);
    if (q->state == REQUEST_DECODE)
        replica_leave_set(lane, q);
    bool rested = lane == &r->lanes[r->n_lanes], charged = q->chunk_batch <= lane->delivered;
    if (!rested && charged)
        spent_add_span(&q->spent, &q->joined, &lane->spent);
}

void detached_deliver(struct replica *r, struct flight *f, const struct completion *c,
                      int64_t end_ns)
{
    bool predicted = !r->computes && f->b.draft_tokens == 0;
    double token_j = c->energy_j > 0 ? c->energy_j / (double)f->b.load.tokens : 0;
    for (size_t i = 0; i < f->detached.n; i++) {
        struct request *q = f->detached.p[i].q;
        q->pending--;
        if (!f->detached.p[i].decodes || q->state == REQUEST_OVER)
            continue;
        spent_add(&q->spent, c->host_s + c->device_s, c->device_s, token_j);
        if (predicted)
            tokens_deliver(r, q, end_ns, RUN_NONE);
    }
}

struct request *detached_pop_over(struct flight *f)
{
    while (f->detached.n) {
        struct request *q = vec_pop(&f->detached).q;
        if (q->state == REQUEST_WAITING && !q->pending && q->delivered == q->w.num_decode_tokens)
            return q;
    }
    return NULL;
}
