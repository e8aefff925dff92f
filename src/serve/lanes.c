#include "serve/detached.h"

static void move(struct replica *r, struct request *q, int32_t to)
{
    struct lane *lane = &r->lanes[to];
    if (q->chunk_batch <= r->lanes[q->lane].delivered)
        q->chunk_batch = 0;
    detached_leave_decodes(r, q);
    q->lane = to;
    q->joined = lane->spent;
    q->announced = false;
    decode_set_join(&lane->set, q, q->w.num_decode_tokens - q->generated);
    q->unwritten = lane->set.tick;
    vec_push(&lane->entered, q->slot);
}

void replica_gather(struct replica *r, int32_t lane, int64_t most)
{
    for (int32_t i = 0; i <= r->n_lanes; i++) {
        struct lane *from = &r->lanes[i];
        if (i == lane || from->submitted != from->delivered)
            continue;
        replica_gather_ready(r, from);
        while (from->set.n > 0)
            move(r, request_of(from->set.members.next), lane);
    }
    while (r->lanes[lane].set.n > most)
        move(r, decode_set_last(&r->lanes[lane].set), r->n_lanes);
}

void replica_rest(struct replica *r, int32_t lane)
{
    while (r->lanes[lane].set.n > 0)
        move(r, request_of(r->lanes[lane].set.members.next), r->n_lanes);
}

void replica_take_rested(struct replica *r, int32_t lane)
{
    struct decode_set *rested = &r->lanes[r->n_lanes].set;
    while (rested->n > 0)
        move(r, request_of(rested->members.next), lane);
}

void replica_leave_out(struct replica *r, struct request *q)
{
    if (r->lanes[q->lane].submitted != r->lanes[q->lane].delivered)
        detached_add(r, q);
    move(r, q, r->n_lanes);
}
