#include "serve/replica.h"

#include <string.h>

#include "base/clock.h"
#include "serve/detached.h"
#include "serve/tokens.h"

/* Admits requests received by transfer: gives them blocks and queues them as ready. */
static void let_in(struct replica *r, struct lane *lane, int32_t lane_index)
{
    int64_t room = replica_lane_cap(r) - lane->set.n;
    while (room-- > 0 && !link_empty(&r->received) && r->waiting.n == 0) {
        struct request *q = request_of(r->received.next);
        if (!replica_let_in(r, q))
            return;
        q->lane = lane_index;
        q->joined = lane->spent;
        q->state = REQUEST_READY;
        link_push(&lane->ready, &q->list);
    }
}

void replica_gather_ready(struct replica *r, struct lane *lane)
{
    uint32_t traits = r->run->sched->traits;
    while (!link_empty(&lane->ready)) {
        struct request *q = request_of(lane->ready.next);
        link_remove(&q->list);
        q->state = REQUEST_DECODE;
        q->order = traits & SCHED_BY_ARRIVAL     ? q->seq
                   : traits & SCHED_BY_ADMISSION ? q->admission
                                                 : r->joins++;
        q->announced = false;
        decode_set_join(&lane->set, q, q->w.num_decode_tokens - q->generated);
        q->unwritten = lane->set.tick;
        vec_push(&lane->entered, q->slot);
    }
}

/* Lists in the batch the changes of the set since the lane's last one. */
static void announce(struct replica *r, struct lane *lane, struct flight *f)
{
    for (size_t i = 0; i < lane->left.n; i++)
        vec_push(&f->left, lane->left.p[i]);
    for (size_t i = 0; i < lane->entered.n; i++) {
        vec_push(&f->entered, lane->entered.p[i]);
        r->slots.p[lane->entered.p[i]]->announced = true;
    }
    lane->left.n = lane->entered.n = 0;
}

static void fill_batch(struct replica *r, struct lane *lane, struct flight *f)
{
    struct batch *b = &f->b;
    if (lane->left.n + lane->entered.n)
        announce(r, lane, f);
    b->iteration = r->iterations;
    b->chunks = f->chunks.p;
    b->n_chunks = (int32_t)f->chunks.n;
    b->left = f->left.p;
    b->n_left = (int32_t)f->left.n;
    b->entered = f->entered.p;
    b->n_entered = (int32_t)f->entered.n;
    b->decode_kv_tokens = f->runs_decodes ? lane->set.kv_sum : 0;
    b->decode_kv_max = f->runs_decodes ? decode_set_kv_max(&lane->set) : 0;
    b->train = lane->train = b->n_chunks ? 0 : lane->train + 1;
    b->kv_blocks = r->kv.num_blocks - r->kv.free;
    int64_t decode_tokens = (int64_t)b->n_decodes * (1 + b->draft_tokens);
    b->load.tokens = b->prefill_tokens + decode_tokens;
    b->load.rows = decode_tokens + b->n_last_chunks;
    b->load.seqs = b->n_decodes;
    b->load.kv_tokens = b->decode_kv_tokens + decode_tokens;
    b->load.n_spans = lane->set.spans.n;
    for (int32_t i = 0; f->runs_decodes && i < b->load.n_spans; i++)
        b->load.spans[i].kv_tokens = lane->set.spans.of[i].sum;
}

/* The batch was submitted: its work counts as done for the next one. */
static void advance(struct replica *r, struct lane *lane, struct flight *f)
{
    if (f->runs_decodes) {
        if (lane->set.draft_tokens)
            speculation_advance(r, lane, f);
        else
            decode_set_tick(&lane->set, &f->finishing);
        for (struct link *l = f->finishing.next; l != &f->finishing; l = l->next) {
            struct request *q = request_of(l);
            q->state = REQUEST_LAST;
            vec_push(&lane->left, q->slot);
        }
    }
    f->tick = lane->set.tick - 1;
    for (size_t i = 0; i < f->chunks.n; i++) {
        struct request *q = f->chunk_requests.p[i];
        q->kv += f->chunks.p[i].tokens;
        if (!f->chunks.p[i].last)
            continue;
        link_remove(&q->list);
        q->generated++;
        bool over = q->generated == q->w.num_decode_tokens;
        q->unwritten = lane->set.tick;
        if (r->only_prefills && !over) {
            q->state = REQUEST_MOVING;
            link_push(&f->leaving, &q->list);
            continue;
        }
        q->state = over ? REQUEST_LAST : REQUEST_READY;
        link_push(over ? &f->finishing : &lane->ready, &q->list);
    }
}

enum st replica_submit(struct replica *r, int32_t lane_index, double start_s, struct flight **out,
                       struct err *e)
{
    struct lane *lane = &r->lanes[lane_index];
    struct flight *f = r->build = vec_last(&r->free_flights);
    *out = NULL;
    f->b = (struct batch){.replica = r->index, .lane = lane_index, .op_times = r->run->p->op_times};
    f->b.submit_s = start_s > r->idle_until_s ? start_s : r->idle_until_s;
    f->chunks.n = f->chunk_requests.n = f->left.n = f->entered.n = f->detached.n = 0;
    f->runs_decodes = false;

    if (r->coming)
        let_in(r, lane, lane_index);
    replica_gather_ready(r, lane);
    r->run->sched->next_batch(r, lane_index);
    if (f->chunks.n == 0 && f->b.n_decodes == 0)
        return ST_OK;

    fill_batch(r, lane, f);
    TRY(r->ex.ops->submit(r->ex.self, &f->b, &f->ticket, e));
    (void)vec_pop(&r->free_flights);
    r->iterations++;
    r->in_flight++;
    lane->submitted++;
    lane->delivered_then = lane->delivered;
    f->waiting = (int64_t)r->waiting.n;
    f->running = r->active;
    f->out = true;
    advance(r, lane, f);
    *out = f;
    return ST_OK;
}

struct flight *replica_flight(struct replica *r, uint64_t ticket)
{
    for (int32_t i = 0; i < r->max_in_flight; i++)
        if (r->flights[i].out && r->flights[i].ticket == ticket)
            return &r->flights[i];
    return NULL;
}

/* ---- completion ----------------------------------------------------------------------------- */

static void release(struct replica *r, struct request *q)
{
    replica_drop(r, q);
    request_give(&r->run->pool, q);
}

/* The host has seen the sequence end in this batch, before its last token was due. */
static void end_early(struct replica *r, struct lane *lane, struct request *q,
                      const struct flight *f, int64_t end_ns, enum run_status status)
{
    bool ok = status == RUN_OK;
    bool rested = q->state == REQUEST_DECODE && q->lane == r->n_lanes;
    struct lane *holds = q->lane == r->n_lanes ? lane : &r->lanes[q->lane];
    if (q->state == REQUEST_WAITING) {
        replica_unqueue(r, q);
    } else if (q->state == REQUEST_DECODE) {
        if (!rested)
            tokens_flush(r, lane, q, f->tick + 1);
        replica_leave_set(&r->lanes[q->lane], q);
    } else {
        if (q->state == REQUEST_LAST)
            tokens_flush(r, lane, q, f->tick + 1);
        link_remove(&q->list);
    }
    if (!rested && q->state != REQUEST_WAITING)
        spent_add_span(&q->spent, &q->joined, &lane->spent);
    tokens_request_row(r->run, q, status, end_ns, ok ? NULL : "cancelled",
                       ok ? NULL : "given up by its client");
    if (r->run->sched->traits & SCHED_FREES_AT_ONCE && q->admitted)
        replica_let_go(r, q);
    if (holds->submitted == holds->delivered)
        release(r, q);
    else
        vec_push(&holds->zombies, (struct zombie){q, holds->submitted});
}

static struct request *live(const struct replica *r, int32_t slot)
{
    return slot >= 0 && (size_t)slot < r->slots.n ? r->slots.p[slot] : NULL;
}

static enum st bad_slot(const struct replica *r, const char *what, int32_t slot, struct err *e)
{
    return err_set(e, ST_DEVICE, "executor %s: %s of slot %d, which has no row in the batch",
                   r->ex.ops->name, what, slot);
}

static enum st take_tokens(struct replica *r, const struct flight *f, const struct completion *c,
                           int64_t end_ns, struct err *e)
{
    if (c->n_tokens != f->b.load.rows)
        return err_set(e, ST_DEVICE, "executor %s: %d tokens for a batch of %lld emitting rows",
                       r->ex.ops->name, c->n_tokens, (long long)f->b.load.rows);
    for (int32_t i = 0; i < c->n_tokens; i++) {
        struct request *q = live(r, c->tokens[i].slot);
        if (q && q->state == REQUEST_OVER)
            continue;
        if (!q || q->delivered == q->w.num_decode_tokens)
            return bad_slot(r, "token", c->tokens[i].slot, e);
        q->ids[q->w.num_prefill_tokens + q->delivered] = c->tokens[i].token_id;
        tokens_deliver(r, q, end_ns, c->tokens[i].token_id);
    }
    return ST_OK;
}

static void predict_tokens(struct replica *r, struct lane *lane, const struct flight *f,
                           int64_t end_ns)
{
    if (f->runs_decodes && lane->set.draft_tokens)
        speculation_deliver(r, f, end_ns);
    else if (f->runs_decodes && r->run->write_tokens)
        tokens_note_end(r, lane, end_ns);
    if (f->b.n_last_chunks == 0)
        return;
    for (size_t i = 0; i < f->chunks.n; i++)
        if (f->chunks.p[i].last && f->chunk_requests.p[i]->state != REQUEST_OVER)
            tokens_deliver(r, f->chunk_requests.p[i], end_ns, RUN_NONE);
}

/* Charges every request in a batch with all of the batch's time, and with energy by its share of
 * tokens. Decodes are charged when they leave the set. */
static void charge(struct lane *lane, const struct flight *f, const struct completion *c)
{
    double busy = c->host_s + c->device_s;
    double token_j = c->energy_j > 0 ? c->energy_j / (double)f->b.load.tokens : 0;
    if (f->runs_decodes)
        spent_add(&lane->spent, busy, c->device_s, token_j * (1 + f->b.draft_tokens));
    for (size_t i = 0; i < f->chunks.n; i++) {
        struct request *q = f->chunk_requests.p[i];
        if (q->first_start_ns == RUN_NONE)
            q->first_start_ns = ns_from_s(c->start_s);
        spent_add(&q->spent, busy, c->device_s, token_j * (double)f->chunks.p[i].tokens);
        q->joined = lane->spent;
    }
}

static double start_of(const struct lane *lane, const struct flight *f, const struct completion *c)
{
    if (c->stages)
        return c->start_s;
    return f->b.submit_s > lane->last_end_s ? f->b.submit_s : lane->last_end_s;
}

static void batch_row(struct replica *r, const struct lane *lane, const struct flight *f,
                      const struct completion *c, int64_t end_ns)
{
    const struct serve_sink *sink = r->run->sink;
    const struct batch *b = &f->b;
    double start_s = start_of(lane, f, c);
    struct run_batch row = {.iteration = b->iteration,
                            .replica = b->replica,
                            .start_ns = ns_from_s(start_s),
                            .device_ns = ns_from_s(c->device_s),
                            .num_prefill_tokens = b->prefill_tokens,
                            .num_decode_tokens = b->n_decodes,
                            .batch_size = b->n_decodes + b->n_chunks,
                            .kv_blocks = b->kv_blocks};
    row.duration_ns = end_ns - row.start_ns;
    row.host_ns = row.duration_ns > row.device_ns ? row.duration_ns - row.device_ns : 0;
    if (!c->stages) {
        sink->batch(sink->self, &row, c);
        return;
    }
    for (row.stage = 0; row.stage < c->n_stages; row.stage++) {
        const struct stage_span *s = &c->stages[row.stage];
        row.start_ns = ns_from_s(s->start_s);
        row.duration_ns = ns_from_s(s->start_s + s->host_s + s->device_s) - row.start_ns;
        row.device_ns = ns_from_s(s->device_s);
        row.host_ns = row.duration_ns > row.device_ns ? row.duration_ns - row.device_ns : 0;
        sink->batch(sink->self, &row, c);
    }
}

static void release_zombies(struct replica *r, struct lane *lane)
{
    size_t n = 0;
    while (n < lane->zombies.n && lane->zombies.p[n].until <= lane->delivered)
        release(r, lane->zombies.p[n++].q);
    lane->zombies.n -= n;
    memmove(lane->zombies.p, lane->zombies.p + n, lane->zombies.n * sizeof *lane->zombies.p);
}

enum st replica_complete(struct replica *r, struct flight *f, const struct completion *c,
                         struct err *e)
{
    struct lane *lane = &r->lanes[f->b.lane];
    struct serve_counters *n = r->run->counters;
    int64_t end_ns = ns_from_s(c->end_s);
    lane->delivered++;
    r->in_flight--;
    r->hollow_first += f->hollow;
    f->hollow = 0;
    f->out = false;
    vec_push(&r->free_flights, f);
    n->iterations++;
    n->prefill_tokens += f->b.prefill_tokens;
    n->busy_s += c->host_s + c->device_s;
    n->energy_j += c->energy_j;

    charge(lane, f, c);
    if (r->computes)
        TRY(take_tokens(r, f, c, end_ns, e));
    else
        predict_tokens(r, lane, f, end_ns);
    if (f->detached.n)
        detached_deliver(r, f, c, end_ns);
    for (int32_t i = 0; i < c->n_ended; i++) {
        struct request *q = live(r, c->ended[i]);
        bool here =
            q && (q->state == REQUEST_WAITING ? detached_holds(f, q) : q->state != REQUEST_PREFILL);
        if (!here)
            return bad_slot(r, "end", c->ended[i], e);
        if (q->state != REQUEST_OVER)
            end_early(r, lane, q, f, end_ns, RUN_OK);
    }
    for (size_t i = 0; i < r->over.n; i++)
        if (r->over.p[i].q->state != REQUEST_OVER)
            end_early(r, lane, r->over.p[i].q, f, end_ns, r->over.p[i].status);
    r->over.n = 0;
    for (struct request *q; f->detached.n && (q = detached_pop_over(f));) {
        replica_unqueue(r, q);
        tokens_request_row(r->run, q, RUN_OK, end_ns, NULL, NULL);
        release(r, q);
    }
    while (!link_empty(&f->finishing)) {
        struct request *q = request_of(f->finishing.next);
        link_remove(&q->list);
        tokens_flush(r, lane, q, f->tick + 1);
        spent_add_span(&q->spent, &q->joined, &lane->spent);
        tokens_request_row(r->run, q, RUN_OK, end_ns, NULL, NULL);
        release(r, q);
    }
    if (lane->zombies.n)
        release_zombies(r, lane);
    if (r->run->sink->batch)
        batch_row(r, lane, f, c, end_ns);
    if (r->run->sink->iteration) {
        const struct prefix_cache *cache = r->kv.cache;
        const struct serve_iteration i = {
            .b = &f->b,
            .c = c,
            .start_s = start_of(lane, f, c),
            .end_s = c->end_s,
            .waiting = f->waiting,
            .running = f->running,
            .kv_blocks_after = r->kv.num_blocks - r->kv.free,
            .preemptions = r->preemptions,
            .prefix_looked_tokens = cache ? cache->looked_tokens : 0,
            .prefix_hit_tokens = cache ? cache->hit_tokens : 0,
        };
        r->run->sink->iteration(r->run->sink->self, &i);
    }
    lane->last_end_s = c->end_s;
    return ST_OK;
}

static void abandon_received(struct replica *r, enum run_status status, const char *error_type,
                             const char *error_msg)
{
    while (!link_empty(&r->received)) {
        struct request *q = request_of(r->received.next);
        link_remove(&q->list);
        tokens_request_row(r->run, q, status, RUN_NONE, error_type, error_msg);
        request_give(&r->run->pool, q);
    }
}

void replica_abandon(struct replica *r, enum run_status status, const char *error_type,
                     const char *error_msg)
{
    abandon_received(r, status, error_type, error_msg);
    while (r->waiting.n) {
        struct request *q = request_queue_pop(&r->waiting);
        tokens_request_row(r->run, q, status, RUN_NONE, error_type, error_msg);
        if (q->slot < 0)
            request_give(&r->run->pool, q);
    }
    for (size_t i = 0; i < r->slots.n; i++) {
        struct request *q = r->slots.p[i];
        if (!q)
            continue;
        if (q->state == REQUEST_DECODE && r->in_flight == 0)
            tokens_flush(r, &r->lanes[q->lane], q, r->lanes[q->lane].set.tick);
        if (q->state != REQUEST_OVER)
            tokens_request_row(r->run, q, status, RUN_NONE, error_type, error_msg);
        request_give(&r->run->pool, q);
    }
}
