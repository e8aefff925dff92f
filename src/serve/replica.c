#include "serve/replica.h"

#include <string.h>

#include "base/clock.h"
#include "serve/detached.h"
#include "serve/kv_tables.h"
#include "serve/tokens.h"

static struct slot_view view_slot(void *self, int32_t slot)
{
    const struct replica *r = self;
    const struct request *q = r->slots.p[slot];
    int64_t kv = q->kv;
    if (q->state == REQUEST_DECODE)
        kv = decode_set_kv(&r->lanes[q->lane].set, q);
    return (struct slot_view){.ids = q->ids,
                              .blocks = q->blocks,
                              .kv_tokens = kv,
                              .n_blocks = q->n_blocks,
                              .sampling = q->w.sampling};
}

void replica_init(struct replica *r, struct serve_run_state *run, int32_t index, struct executor ex)
{
    const struct serve_params *p = run->p;
    *r = (struct replica){.run = run, .index = index, .ex = ex};
    r->computes = (ex.ops->caps & EXEC_COMPUTES) != 0;
    link_init(&r->prefills);
    link_init(&r->running);
    link_init(&r->received);
    r->only_prefills = index < p->prefill_replicas;
    kv_init(&r->kv, run->a, p->block_size, p->num_blocks, p->watermark, r->computes);
    r->max_in_flight = ex.ops->max_in_flight(ex.self);
    if (p->kv_groups.n) {
        kv_pool_init(&r->kv, run->a, &p->kv_groups, p->prefix_caching,
                     p->max_model_len ? p->max_model_len : INT64_MAX,
                     r->max_in_flight * run->sched->max_batch_tokens(p, p->max_model_len),
                     r->max_in_flight);
    } else if (p->prefix_caching) {
        kv_cache_prefixes(&r->kv, run->a, r->computes);
        r->kv.cache->nameless_first = run->sched->traits & SCHED_NAMELESS_FIRST;
    }
    if (run->sched->traits & SCHED_NULL_BLOCK)
        r->kv.watermark = (int64_t)(p->watermark * (double)(p->num_blocks + 1));
    r->speculation = speculation_begin(p, index);
    r->n_lanes = executor_lanes(&ex);
    r->lanes = arena_array(run->a, struct lane, r->n_lanes + 1);
    for (int32_t i = 0; i <= r->n_lanes; i++) {
        decode_set_init(&r->lanes[i].set, run->a, p->block_size, kv_has_ids(&r->kv) && !r->kv.pool);
        if (r->kv.pool)
            decode_set_with_looks(&r->lanes[i].set, run->a);
        r->lanes[i].set.draft_tokens = (int32_t)p->draft_tokens;
        decode_set_see(&r->lanes[i].set, run->a, &p->spans);
        link_init(&r->lanes[i].ready);
    }
    r->turns = executor_turns(&ex);
    r->per_lane = r->turns ? 2 : r->max_in_flight / r->n_lanes;
    r->shares = run->sched->traits & SCHED_SHARES && r->n_lanes > 1 && r->per_lane == 1;
    r->queues = r->turns || (r->shares && run->sched->traits & SCHED_BATCH_QUEUE);
    r->flights = arena_array(run->a, struct flight, r->max_in_flight);
    for (int32_t i = r->max_in_flight - 1; i >= 0; i--) {
        link_init(&r->flights[i].finishing);
        link_init(&r->flights[i].leaving);
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
        vec_free(&f->stages);
        vec_free(&f->steps);
        vec_free(&f->detached);
    }
    for (int32_t i = 0; i <= r->n_lanes; i++) {
        struct lane *l = &r->lanes[i];
        vec_free(&l->left);
        vec_free(&l->entered);
        vec_free(&l->zombies);
        vec_free(&l->ends_ns);
    }
    kv_pool_free(&r->kv);
    vec_free(&r->slots);
    vec_free(&r->over);
    vec_free(&r->free_slots);
    vec_free(&r->free_flights);
    request_queue_free(&r->waiting);
}

void replica_enqueue(struct replica *r, struct request *q, double from_s)
{
    if (r->active == 0 && r->waiting.n == 0)
        r->idle_until_s = from_s;
    q->state = REQUEST_WAITING;
    r->waiting_tokens += q->prefill;
    request_queue_push(&r->waiting, q);
}

void replica_unqueue(struct replica *r, struct request *q)
{
    size_t i = 0;
    while (queue_at(&r->waiting, i) != q)
        i++;
    request_queue_remove(&r->waiting, i);
    r->waiting_tokens -= q->prefill;
}

bool replica_drop_waiting(struct replica *r, int64_t request_id)
{
    for (size_t i = 0; i < r->waiting.n; i++) {
        struct request *q = queue_at(&r->waiting, i);
        if (q->w.request_id != request_id)
            continue;
        if (q->slot >= 0)
            return false;
        request_queue_remove(&r->waiting, i);
        r->waiting_tokens -= q->prefill;
        tokens_request_row(r->run, q, RUN_CANCELLED, RUN_NONE, "cancelled",
                           "given up before it was in a batch");
        request_give(&r->run->pool, q);
        return true;
    }
    return false;
}

int64_t replica_rows(const struct replica *r)
{
    const struct flight *f = r->build;
    return (int64_t)f->chunks.n + f->b.n_decodes;
}

int64_t replica_decode_tokens(const struct replica *r, int32_t lane)
{
    return r->lanes[lane].set.n * (1 + r->lanes[lane].set.draft_tokens);
}

void replica_run_decodes(struct replica *r, int32_t lane)
{
    struct decode_set *s = &r->lanes[lane].set;
    if (s->n == 0)
        return;
    r->build->spec_blocks = decode_set_take_blocks(s, &r->kv);
    r->build->b.draft_tokens = s->draft_tokens;
    r->build->runs_decodes = true;
    r->build->b.n_decodes = (int32_t)s->n;
}

static bool usable(const struct replica *r, int32_t lane, const struct request *q)
{
    const struct lane *l = &r->lanes[q->lane];
    return q->lane == lane || r->run->sched->traits & SCHED_CHUNKS_FOLLOW ||
           q->chunk_batch <= l->delivered;
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

/* Adds the chunk to the batch and updates the request. */
static void add_chunk(struct replica *r, int32_t lane, struct request *q, int64_t tokens)
{
    struct flight *f = r->build;
    struct op_load *load = &f->b.load;
    bool last = tokens == request_prefill_left(q);
    vec_push(&f->chunks, (struct chunk){q->slot, q->kv, tokens, last});
    vec_push(&f->chunk_requests, q);
    f->b.prefill_tokens += tokens;
    f->b.n_last_chunks += last;
    op_load_add_chunk(load, &r->run->p->spans, q->kv, tokens);
    if (q->scheduled_ns == RUN_NONE) {
        q->scheduled_ns = ns_from_s(f->b.submit_s);
        if (q->scheduled_ns < q->w.arrival_ns) /* arrived while the host was building this batch */
            q->scheduled_ns = q->w.arrival_ns;
    }
    q->lane = lane;
    q->chunk_batch = r->lanes[lane].submitted + 1;
    if (r->kv.cache && !r->kv.pool)
        prefix_name_blocks(r->kv.cache, q, q->kv + tokens);
}

bool replica_chunk(struct replica *r, int32_t lane, struct request *q, int64_t tokens)
{
    int64_t more = kv_blocks_for(&r->kv, q->kv + tokens) - q->n_blocks;
    if (r->kv.pool) {
        if (!kv_tables_extend(&r->kv, q, q->kv, tokens, q->kv - detached_in_flight(r, q)))
            return false;
    } else if (more > r->kv.free) {
        return false;
    } else if (more > 0) {
        kv_take(&r->kv, q, more);
    }
    add_chunk(r, lane, q, tokens);
    return true;
}

struct request *replica_head(struct replica *r)
{
    for (r->head = 0; r->head < r->waiting.n; r->head++) {
        struct request *q = queue_at(&r->waiting, r->head);
        if (q->pending)
            continue;
        if (r->kv.pool)
            kv_tables_look(&r->kv, q);
        else if (r->kv.cache)
            prefix_look(r->kv.cache, q);
        return q;
    }
    r->head = 0;
    return NULL;
}

/* Preempted requests that are passed over keep their slots. */
static bool has_slot(const struct replica *r, const struct request *q)
{
    return !r->computes || q->slot >= 0 || r->free_slots.n ||
           (int64_t)r->slots.n < r->run->p->batch_cap;
}

bool replica_can_admit(const struct replica *r, int64_t reserve_tokens)
{
    const struct request *q = queue_at(&r->waiting, r->head);
    int64_t blocks = kv_admission(&r->kv, q, reserve_tokens);
    if (!has_slot(r, q))
        return false;
    if (r->active == 0)
        return blocks <= r->kv.free;
    return r->active < r->run->p->batch_cap && r->kv.free - blocks >= r->kv.watermark;
}

/* From admission to the end or a preemption. */
static void hold(struct replica *r, struct request *q)
{
    q->admitted = true;
    q->admission = r->admissions++;
    link_push(&r->running, &q->running);
    r->active++;
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

/* The head of the queue is a prefill from now on. */
static struct request *begin_prefill(struct replica *r)
{
    struct request *q = request_queue_take(&r->waiting, r->head);
    r->head = 0;
    if (q->slot < 0)
        give_slot(r, q);
    q->state = REQUEST_PREFILL;
    q->t0 = INT64_MAX; /* in no decode set yet */
    link_push(&r->prefills, &q->list);
    hold(r, q);
    r->waiting_tokens -= q->prefill;
    return q;
}

void replica_admit(struct replica *r, int32_t lane, int64_t reserve_tokens, int64_t tokens)
{
    struct request *q = begin_prefill(r);
    if (kv_has_ids(&r->kv) && !q->blocks) {
        q->blocks_cap = kv_blocks_for(&r->kv, q->w.num_prefill_tokens + q->w.num_decode_tokens - 1);
        q->blocks = mem_alloc((size_t)q->blocks_cap * sizeof *q->blocks);
    }
    if (r->kv.cache)
        kv_share(&r->kv, q);
    kv_take(&r->kv, q, kv_blocks_for(&r->kv, reserve_tokens) - q->n_blocks);
    q->fixed_blocks = reserve_tokens >= q->w.num_prefill_tokens + q->w.num_decode_tokens - 1;
    add_chunk(r, lane, q, tokens);
}

bool replica_admit_tables(struct replica *r, int32_t lane, int64_t tokens)
{
    const struct serve_params *p = r->run->p;
    struct request *q = queue_at(&r->waiting, r->head);
    if (r->active >= p->batch_cap || !has_slot(r, q) ||
        !kv_tables_admit(&r->kv, q, tokens, p->reserve_full_prompt,
                         r->active ? r->kv.watermark : 0))
        return false;
    begin_prefill(r);
    q->fixed_blocks = true; /* the decode set takes none for it */
    q->look_kv = 0;
    add_chunk(r, lane, q, tokens);
    return true;
}

bool replica_decode_tables(struct replica *r, struct request *q)
{
    struct decode_set *set = &r->lanes[q->lane].set;
    const int64_t kv = decode_set_kv(set, q), processed = kv - detached_in_flight(r, q);
    if (!kv_tables_extend(&r->kv, q, kv, 1, processed))
        return false;
    decode_set_look_at(set, q, kv_tables_next(&r->kv, q, kv, processed));
    return true;
}

bool replica_may_preempt(const struct replica *r, int32_t lane)
{
    return r->lanes[lane].submitted == r->lanes[lane].delivered;
}

void replica_leave_set(struct lane *lane, struct request *q)
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

/* Where batches are built before the tokens of the one before are known, a block is named one token
 * late: when the next batch is built. Whether q, preempted now, has a token from after its lane's
 * last batch. */
static bool emitted_since(const struct replica *r, const struct request *q)
{
    const struct lane *l = &r->lanes[q->lane];
    return r->per_lane > 1 && q->state != REQUEST_OVER && l->delivered > l->delivered_then &&
           q->delivered > q->prefill - q->w.num_prefill_tokens;
}

void replica_give_blocks(struct replica *r, struct request *q)
{
    int64_t known = q->w.num_prefill_tokens + q->delivered;
    if (r->kv.cache && r->run->sched->traits & SCHED_NAMELESS_FIRST && emitted_since(r, q))
        known--;
    if (q->kv < known)
        known = q->kv;
    if (r->kv.pool) {
        kv_tables_give(&r->kv, q, known);
        return;
    }
    if (r->kv.cache)
        prefix_name_blocks(r->kv.cache, q, known);
    kv_give(&r->kv, q);
}

void replica_let_go(struct replica *r, struct request *q)
{
    replica_give_blocks(r, q);
    q->admitted = false;
    link_remove(&q->running);
    r->active--;
}

static void take_slot(struct replica *r, struct request *q)
{
    r->slots.p[q->slot] = NULL;
    vec_push(&r->free_slots, q->slot);
    if (r->ex.ops->release)
        r->ex.ops->release(r->ex.self, q->slot);
    q->slot = -1;
}

void replica_drop(struct replica *r, struct request *q)
{
    if (q->admitted)
        replica_let_go(r, q);
    if (q->slot >= 0)
        take_slot(r, q);
}

/* ---- disaggregation (serve/transfer.h) ------------------------------------------------------- */

void replica_sent(struct replica *r, struct request *q)
{
    replica_drop(r, q);
    q->lane = -1;
    if (q->prefix)
        q->prefix->epoch = -1; /* of the other cache */
}

void replica_receive(struct replica *r, struct request *q)
{
    link_push(&r->received, &q->list);
}

bool replica_let_in(struct replica *r, struct request *q)
{
    int64_t blocks = kv_blocks_for(&r->kv, q->kv), left = r->kv.free - blocks;
    if (r->active >= r->run->p->batch_cap || left < (r->active ? r->kv.watermark : 0))
        return false;
    link_remove(&q->list);
    r->coming--;
    give_slot(r, q);
    hold(r, q);
    kv_take(&r->kv, q, blocks);
    return true;
}

void replica_preempt(struct replica *r, struct request *q)
{
    if (r->in_flight)
        detached_add(r, q);
    if (q->state == REQUEST_DECODE || q->state == REQUEST_LAST)
        detached_leave_decodes(r, q);
    if (q->state != REQUEST_DECODE)
        link_remove(&q->list);
    replica_let_go(r, q);
    q->state = REQUEST_WAITING;
    q->kv = 0;
    q->prefill = q->w.num_prefill_tokens + q->generated;
    q->preemptions++;
    r->preemptions++;
    r->run->counters->preemptions++;
    r->waiting_tokens += q->prefill;
    request_queue_push_front(&r->waiting, q);
    if (q->pending && !r->computes)
        take_slot(r, q); /* others are admitted meanwhile */
}

struct request *replica_last_admitted(struct replica *r)
{
    return link_empty(&r->running) ? NULL : LINK_OF(r->running.prev, struct request, running);
}

struct request *replica_last_running(struct replica *r, int32_t lane)
{
    struct request *q = replica_last_prefill(r, lane);
    if (!q)
        q = decode_set_last(replica_set(r, r->n_lanes));
    return q ? q : decode_set_last(replica_set(r, lane));
}

/* Earlier decodes take what they need; the check is that the last one finds a block. */
bool replica_make_room(struct replica *r, int32_t lane)
{
    struct decode_set *set = replica_set(r, lane);
    while (set->n > 0) {
        int64_t need = decode_set_blocks(set) + 1;
        if (need <= r->kv.free)
            return true;
        if (need - (decode_set_needs(set, decode_set_last(set)) > 0) <= r->kv.free)
            return true;
        if (!replica_may_preempt(r, lane))
            return false;
        replica_preempt(r, replica_last_running(r, lane));
    }
    return true;
}
