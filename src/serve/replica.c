#include "serve/replica.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "serve/tokens.h"

static struct slot_view view_slot(void *self, int32_t slot)
{
    const struct replica *r = self;
    const struct request *q = r->slots.p[slot];
    int64_t kv = q->kv;
    if (q->state == REQUEST_DECODE)
        kv = decode_set_kv(&r->lanes[q->lane].set, q);
    return (struct slot_view){
        .ids = q->ids, .blocks = q->blocks, .kv_tokens = kv, .n_blocks = q->n_blocks};
}

void replica_init(struct replica *r, struct serve_run_state *run, int32_t index, struct executor ex)
{
    const struct serve_params *p = run->p;
    *r = (struct replica){.run = run, .index = index, .ex = ex};
    r->computes = (ex.ops->caps & EXEC_COMPUTES) != 0;
    link_init(&r->prefills);
    kv_init(&r->kv, run->a, p->block_size, p->num_blocks, p->watermark, r->computes);
    r->n_lanes = executor_lanes(&ex);
    r->lanes = arena_array(run->a, struct lane, r->n_lanes);
    for (int32_t i = 0; i < r->n_lanes; i++) {
        decode_set_init(&r->lanes[i].set, run->a, p->block_size, r->computes);
        link_init(&r->lanes[i].ready);
    }
    r->max_in_flight = ex.ops->max_in_flight(ex.self);
    r->per_lane = r->max_in_flight / r->n_lanes;
    r->flights = arena_array(run->a, struct flight, r->max_in_flight);
    for (int32_t i = r->max_in_flight - 1; i >= 0; i--) {
        link_init(&r->flights[i].finishing);
        vec_push(&r->free_flights, &r->flights[i]);
    }
    if (ex.ops->bind)
        ex.ops->bind(ex.self, (struct slot_source){r, view_slot});
}

void replica_free(struct replica *r)
{
    for (int32_t i = 0; i < r->max_in_flight; i++) {
        struct flight *f = &r->flights[i];
        vec_free(&f->chunks);
        vec_free(&f->chunk_requests);
        vec_free(&f->left);
        vec_free(&f->entered);
        vec_free(&f->tokens);
        vec_free(&f->ended);
    }
    for (int32_t i = 0; i < r->n_lanes; i++) {
        struct lane *l = &r->lanes[i];
        vec_free(&l->left);
        vec_free(&l->entered);
        vec_free(&l->zombies);
        vec_free(&l->ends_ns);
    }
    vec_free(&r->slots);
    vec_free(&r->free_slots);
    vec_free(&r->free_flights);
    queue_free(&r->waiting);
}

void replica_enqueue(struct replica *r, struct request *q)
{
    if (r->active == 0 && r->waiting.n == 0)
        r->idle_until_s = q->w.arrival_s;
    q->state = REQUEST_WAITING;
    queue_push(&r->waiting, q);
}

/* ---- verbs of policies ---------------------------------------------------------------------- */

int64_t replica_rows(const struct replica *r)
{
    const struct flight *f = r->build;
    return (int64_t)f->chunks.n + f->b.n_decodes;
}

void replica_run_decodes(struct replica *r, int32_t lane)
{
    struct decode_set *s = &r->lanes[lane].set;
    if (s->n == 0)
        return;
    decode_set_take_blocks(s, &r->kv);
    r->build->runs_decodes = true;
    r->build->b.n_decodes = (int32_t)s->n;
}

static bool usable(const struct replica *r, int32_t lane, const struct request *q)
{
    const struct lane *l = &r->lanes[q->lane];
    return q->lane == lane || l->submitted == l->delivered;
}

struct request *replica_next_prefill(struct replica *r, int32_t lane, struct request *after)
{
    for (struct link *l = after ? after->list.next : r->prefills.next; l != &r->prefills;
         l = l->next)
        if (usable(r, lane, request_of(l)))
            return request_of(l);
    return NULL;
}

struct request *replica_last_prefill(struct replica *r, int32_t lane)
{
    for (struct link *l = r->prefills.prev; l != &r->prefills; l = l->prev)
        if (usable(r, lane, request_of(l)))
            return request_of(l);
    return NULL;
}

/* The chunk's row, and what the request is after it. */
static void add_chunk(struct replica *r, int32_t lane, struct request *q, int64_t tokens)
{
    struct flight *f = r->build;
    struct op_load *load = &f->b.load;
    bool last = tokens == request_prefill_left(q);
    vec_push(&f->chunks, (struct chunk){q->slot, q->kv, tokens, last});
    vec_push(&f->chunk_requests, q);
    f->b.prefill_tokens += tokens;
    f->b.n_last_chunks += last;
    load->kv_tokens_prefill += tokens * q->kv;
    load->chunk_sq += tokens * (tokens + 1) / 2;
    load->kv_read_tokens += q->kv + tokens;
    if (q->scheduled_ns == RUN_NONE) {
        q->scheduled_ns = ns_from_s(f->b.submit_s);
        if (q->scheduled_ns < q->w.arrival_ns) /* came while the host was turning to this batch */
            q->scheduled_ns = q->w.arrival_ns;
    }
    q->lane = lane;
    q->skipped = false;
}

bool replica_chunk(struct replica *r, int32_t lane, struct request *q, int64_t tokens)
{
    int64_t more = kv_blocks_for(&r->kv, q->kv + tokens) - q->n_blocks;
    if (more > r->kv.free)
        return false;
    if (more > 0)
        kv_take(&r->kv, q, more);
    add_chunk(r, lane, q, tokens);
    return true;
}

bool replica_can_admit(const struct replica *r, int64_t reserve_tokens)
{
    if (r->active == 0)
        return kv_blocks_for(&r->kv, reserve_tokens) <= r->kv.free;
    return r->active < r->run->p->batch_cap &&
           r->kv.free - kv_blocks_for(&r->kv, reserve_tokens) >= r->kv.watermark;
}

static void give_slot(struct replica *r, struct request *q)
{
    if (r->free_slots.n) {
        q->slot = vec_pop(&r->free_slots);
        r->slots.p[q->slot] = q;
        return;
    }
    q->slot = (int32_t)r->slots.n;
    ASSERT(q->slot < r->run->p->batch_cap);
    vec_push(&r->slots, q);
}

void replica_admit(struct replica *r, int32_t lane, int64_t reserve_tokens, int64_t tokens)
{
    struct request *q = queue_pop(&r->waiting);
    if (q->slot < 0)
        give_slot(r, q);
    q->state = REQUEST_PREFILL;
    q->kv = 0;
    q->prefill = q->w.num_prefill_tokens + q->generated;
    link_push(&r->prefills, &q->list);
    r->active++;
    if (r->computes && !q->blocks) {
        q->blocks_cap = kv_blocks_for(&r->kv, q->w.num_prefill_tokens + q->w.num_decode_tokens - 1);
        q->blocks = mem_alloc((size_t)q->blocks_cap * sizeof *q->blocks);
    }
    kv_take(&r->kv, q, kv_blocks_for(&r->kv, reserve_tokens));
    add_chunk(r, lane, q, tokens);
}

bool replica_may_preempt(const struct replica *r, int32_t lane)
{
    return r->lanes[lane].submitted == r->lanes[lane].delivered;
}

/* Out of the decode set, so that the executor hears of it exactly if it had heard of the entry. */
static void leave_set(struct lane *lane, struct request *q)
{
    decode_set_leave(&lane->set, q);
    if (q->announced) {
        vec_push(&lane->left, q->slot);
        return;
    }
    size_t i = 0;
    while (lane->entered.p[i] != q->slot)
        i++;
    lane->entered.n--;
    memmove(&lane->entered.p[i], &lane->entered.p[i + 1],
            (lane->entered.n - i) * sizeof *lane->entered.p);
}

void replica_preempt(struct replica *r, struct request *q)
{
    ASSERT(replica_may_preempt(r, q->lane));
    if (q->state == REQUEST_DECODE) {
        struct lane *lane = &r->lanes[q->lane];
        tokens_flush(r, lane, q, lane->set.tick);
        leave_set(lane, q);
    } else {
        link_remove(&q->list);
    }
    kv_give(&r->kv, q);
    r->active--;
    q->state = REQUEST_WAITING;
    q->skipped = false;
    q->preemptions++;
    r->run->counters->preemptions++;
    queue_push_front(&r->waiting, q);
}

/* ---- submission ----------------------------------------------------------------------------- */

/* Requests whose prefill is complete enter the decode set. */
static void gather_ready(struct replica *r, struct lane *lane)
{
    while (!link_empty(&lane->ready)) {
        struct request *q = request_of(lane->ready.next);
        link_remove(&q->list);
        q->state = REQUEST_DECODE;
        q->order = r->joins++;
        q->announced = false;
        decode_set_join(&lane->set, q, q->w.num_decode_tokens - q->generated);
        q->unwritten = lane->set.tick;
        vec_push(&lane->entered, q->slot);
    }
}

/* The batch tells what changed in the set since the lane's last one. */
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
    b->kv_blocks = r->kv.num_blocks - r->kv.free;
    b->load.tokens = b->prefill_tokens + b->n_decodes;
    b->load.rows = b->n_decodes + b->n_last_chunks;
    b->load.seqs = b->n_decodes;
    b->load.kv_tokens = b->decode_kv_tokens + b->n_decodes;
}

/* The batch is out: what it holds counts as done for the next one. */
static void advance(struct lane *lane, struct flight *f)
{
    if (f->runs_decodes) {
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
    f->b = (struct batch){.replica = r->index, .lane = lane_index};
    f->b.submit_s = start_s > r->idle_until_s ? start_s : r->idle_until_s;
    f->chunks.n = f->chunk_requests.n = f->left.n = f->entered.n = 0;
    f->runs_decodes = false;

    gather_ready(r, lane);
    r->run->sched->next_batch(r, lane_index);
    if (f->chunks.n == 0 && f->b.n_decodes == 0)
        return ST_OK;

    fill_batch(r, lane, f);
    TRY(r->ex.ops->submit(r->ex.self, &f->b, &f->ticket, e));
    (void)vec_pop(&r->free_flights);
    r->iterations++;
    r->in_flight++;
    lane->submitted++;
    f->out = true;
    advance(lane, f);
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
    kv_give(&r->kv, q);
    r->active--;
    r->slots.p[q->slot] = NULL;
    vec_push(&r->free_slots, q->slot);
    if (r->ex.ops->release)
        r->ex.ops->release(r->ex.self, q->slot);
    request_give(&r->run->pool, q);
}

/* The host has seen the sequence end in this batch, before its last token was due. */
static void end_early(struct replica *r, struct lane *lane, struct request *q,
                      const struct flight *f, int64_t end_ns)
{
    if (q->state == REQUEST_DECODE) {
        tokens_flush(r, lane, q, f->tick + 1);
        leave_set(lane, q);
    } else {
        if (q->state == REQUEST_LAST)
            tokens_flush(r, lane, q, f->tick + 1);
        link_remove(&q->list);
    }
    tokens_request_row(r->run, q, RUN_OK, end_ns, NULL, NULL);
    if (lane->submitted == lane->delivered)
        release(r, q);
    else
        vec_push(&lane->zombies, (struct zombie){q, lane->submitted});
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
    if (f->runs_decodes && r->run->p->emit_tokens && r->run->sink->token)
        tokens_note_end(r, lane, end_ns);
    if (f->b.n_last_chunks == 0)
        return;
    for (size_t i = 0; i < f->chunks.n; i++)
        if (f->chunks.p[i].last && f->chunk_requests.p[i]->state != REQUEST_OVER)
            tokens_deliver(r, f->chunk_requests.p[i], end_ns, RUN_NONE);
}

static void batch_row(struct replica *r, const struct lane *lane, const struct flight *f,
                      const struct completion *c, int64_t end_ns)
{
    const struct serve_sink *sink = r->run->sink;
    const struct batch *b = &f->b;
    double start_s = b->submit_s > lane->last_end_s ? b->submit_s : lane->last_end_s;
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
    sink->batch(sink->self, &row, c);
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
    f->out = false;
    vec_push(&r->free_flights, f);
    n->iterations++;
    n->prefill_tokens += f->b.prefill_tokens;

    if (r->computes)
        TRY(take_tokens(r, f, c, end_ns, e));
    else
        predict_tokens(r, lane, f, end_ns);
    for (int32_t i = 0; i < c->n_ended; i++) {
        struct request *q = live(r, c->ended[i]);
        if (!q || q->state == REQUEST_WAITING || q->state == REQUEST_PREFILL)
            return bad_slot(r, "end", c->ended[i], e);
        if (q->state != REQUEST_OVER)
            end_early(r, lane, q, f, end_ns);
    }
    while (!link_empty(&f->finishing)) {
        struct request *q = request_of(f->finishing.next);
        link_remove(&q->list);
        tokens_flush(r, lane, q, f->tick + 1);
        tokens_request_row(r->run, q, RUN_OK, end_ns, NULL, NULL);
        release(r, q);
    }
    if (lane->zombies.n)
        release_zombies(r, lane);
    if (r->run->sink->batch)
        batch_row(r, lane, f, c, end_ns);
    lane->last_end_s = c->end_s;
    return ST_OK;
}

void replica_abandon(struct replica *r, enum run_status status, const char *error_type,
                     const char *error_msg)
{
    while (r->waiting.n) {
        struct request *q = queue_pop(&r->waiting);
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
