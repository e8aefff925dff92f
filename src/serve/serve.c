#include "serve/serve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/heap.h"
#include "serve/front.h"
#include "serve/kv_tables.h"
#include "serve/router.h"
#include "serve/tokens.h"
#include "serve/transfer.h"
#include "workload/release.h"

enum { REASON_BYTES = 160 };
static const int64_t MAX_TOKENS = INT64_C(1) << 40;
/* Longest delay of a signal while the loop sleeps; interval of polling several real replicas. */
static const double NAP_S = 0.05, POLL_S = 50e-6;
static const double LOOK_S = 500e-6; /* interval of polling a live source while batches are out */

/* A batch whose end is known and lies ahead; f NULL: the host of r is free for the next one. */
struct pending {
    double due_s; /* when the loop handles it */
    uint64_t seq;
    struct replica *r;
    struct flight *f;
};

struct serve_loop {
    struct serve_run_state run;
    struct serve_clock *clock;
    const struct request_source *source;
    const volatile sig_atomic_t *stop;
    struct replica *replicas;
    int32_t n_replicas;
    const struct router_ops *router;
    struct router_state routing;

    struct release release;
    struct moment next;    /* planned moment of the next request, as far as is known */
    int64_t taken;         /* requests */
    struct moment arrived; /* planned moment of the one taken last */

    struct front *fronts;        /* [n_replicas], on the virtual clock; NULL = none */
    struct transfers *transfers; /* NULL without disaggregation */
    VEC(struct pending) heap;    /* virtual clock: by due_s, then seq */
    uint64_t seq;
    VEC(struct replica *) dirty; /* something changed: try to build batches */
    int64_t in_flight;
    bool wants_ids;     /* token ids of prompts are needed */
    double host_free_s; /* real clock: when the host became free for the next step */
};

static bool stopped(const struct serve_loop *l)
{
    return l->stop && *l->stop;
}

/* ---- pending completions --------------------------------------------------------------------- */

static bool earlier(const struct pending *a, const struct pending *b)
{
    return a->due_s < b->due_s || (a->due_s == b->due_s && a->seq < b->seq);
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static enum request_reject judge(const struct serve_loop *l, struct request *q)
{
    const struct serve_params *p = l->run.p;
    int64_t prompt = q->w.num_prefill_tokens, output = q->w.num_decode_tokens;
    if (prompt < 1 || output < 1)
        return REJECT_NO_TOKENS;
    q->limit = p->max_model_len ? p->max_model_len : MAX_TOKENS;
    bool huge = prompt > MAX_TOKENS || output > MAX_TOKENS;
    q->needs = huge ? MAX_TOKENS : prompt + output;
    if (huge || q->needs > q->limit)
        return REJECT_MAX_MODEL_LEN;
    int64_t kv = prompt + output - 1 + p->draft_tokens;
    q->limit = p->num_blocks;
    const struct kv_pool *pool = l->replicas[0].kv.pool;
    if (pool)
        q->needs = kv_pool_needed(pool, kv);
    else
        q->needs = l->run.sched->blocks_needed ? l->run.sched->blocks_needed(p, kv)
                                               : (kv + p->block_size - 1) / p->block_size;
    return q->needs > q->limit ? REJECT_KV_BLOCKS : REJECT_NONE;
}

static void reject(struct serve_loop *l, struct request *q)
{
    char text[REASON_BYTES];
    const char *type = "no_tokens";
    long long needs = q->needs, limit = q->limit;
    if (q->reject == REJECT_MAX_MODEL_LEN) {
        type = "max_model_len";
        snprintf(text, sizeof text, "prompt and output of %lld tokens exceed max_model_len %lld",
                 needs, limit);
    } else if (q->reject == REJECT_KV_BLOCKS) {
        type = "kv_blocks";
        snprintf(text, sizeof text, "needs %lld KV blocks, a replica has %lld", needs, limit);
    } else {
        snprintf(text, sizeof text, "a request needs a prompt and at least one output token");
    }
    l->run.counters->rejected++;
    tokens_request_row(&l->run, q, RUN_REJECTED, RUN_NONE, type, text);
    request_give(&l->run.pool, q);
}

static enum st look_ahead(struct serve_loop *l, struct err *e)
{
    return release_next(&l->release, &l->next, e);
}

static bool is_due(const struct serve_loop *l, double now_s)
{
    return l->next.s <= now_s;
}

/* The earlier turns as they were, with the engine's own answers. A prompt that does not hold all of
 * the turn before keeps its own tokens. */
static void put_said(const struct serve_loop *l, struct request *q)
{
    if ((size_t)q->session >= l->run.said.n)
        return;
    const struct said *s = &l->run.said.p[q->session];
    if (s->n > 0 && s->n <= q->w.num_prefill_tokens)
        memcpy(q->ids, s->ids, (size_t)s->n * sizeof *s->ids);
}

/* The request that is due; it is out of the source even after an error. */
static enum st take(struct serve_loop *l, struct request **out, struct err *e)
{
    struct request *q = *out = request_take(&l->run.pool);
    enum st st = ST_OK;
    release_take(&l->release, &q->w, &q->session);
    q->arrival_before_ns = l->taken ? l->arrived.ns : RUN_NONE;
    l->arrived = (struct moment){q->w.arrival_ns, q->w.arrival_s};
    q->seq = l->taken++;
    q->warmup = q->w.row < l->run.p->warmup_requests;
    q->reject = judge(l, q);
    if (l->run.p->prefix_caching)
        q->prefix = request_prefix_new();
    if (l->run.p->kv_groups.n)
        q->tables = request_tables_new(l->run.p->kv_groups.n);
    q->prefill = q->w.num_prefill_tokens;
    if (l->wants_ids && q->reject == REJECT_NONE) {
        size_t n = (size_t)(q->w.num_prefill_tokens + q->w.num_decode_tokens);
        q->ids = mem_alloc(n * sizeof *q->ids);
        st = l->source->prompt_ids(l->source->self, &q->w, q->ids, e);
        if (q->w.turn > 1)
            put_said(l, q);
    }
    if (st != ST_OK)
        request_give(&l->run.pool, q);
    return st;
}

static void mark_dirty(struct serve_loop *l, struct replica *r)
{
    if (!r->dirty) {
        r->dirty = true;
        vec_push(&l->dirty, r);
    }
}

static void progress(const struct serve_loop *l)
{
    const struct serve_sink *sink = l->run.sink;
    if (sink->progress)
        sink->progress(sink->self, l->run.finished, clock_now_s(l->clock));
}

/* Live sources: drops requests abandoned in the queue, and polls for new ones. */
static enum st look(struct serve_loop *l, struct err *e)
{
    const struct request_source *source = l->source;
    int64_t id;
    while (source->live->gone(source->self, &id))
        for (int32_t i = 0; i < l->n_replicas; i++)
            if (replica_drop_waiting(&l->replicas[i], id))
                progress(l);
    return look_ahead(l, e);
}

/* The request reaches its replica's engine. */
static void hand_over(struct serve_loop *l, struct replica *r, struct request *q, double now_s)
{
    replica_enqueue(r, q, now_s);
    if (!(r->in_flight && l->run.sched->traits & SCHED_ARRIVALS_WAIT))
        mark_dirty(l, r);
}

static void route(struct serve_loop *l, struct request *q)
{
    const int32_t n = l->transfers ? (int32_t)l->run.p->prefill_replicas : l->n_replicas;
    const int32_t i = l->router->pick(&l->routing, l->replicas, n, q);
    l->routing.routed++;
    if (l->fronts)
        front_take(&l->fronts[i], q, q->w.arrival_s);
    else
        hand_over(l, &l->replicas[i], q, q->w.arrival_s);
}

/* When a front is done with a request; INFINITY = none has any. */
static double fronts_next_s(const struct serve_loop *l)
{
    double next_s = INFINITY;
    for (int32_t i = 0; l->fronts && i < l->n_replicas; i++)
        next_s = fmin(next_s, front_next_s(&l->fronts[i]));
    return next_s;
}

static void hand_over_ready(struct serve_loop *l, double now_s)
{
    struct request *q;
    for (int32_t i = 0; l->fronts && i < l->n_replicas; i++)
        while ((q = front_pop(&l->fronts[i], now_s)))
            hand_over(l, &l->replicas[i], q, now_s);
}

static enum st take_in(struct serve_loop *l, double now_s, struct err *e)
{
    if (l->source->live)
        TRY(look(l, e));
    while (is_due(l, now_s)) {
        struct request *q;
        TRY(take(l, &q, e));
        l->run.counters->requests++;
        l->run.counters->events++;
        l->run.event_s = q->w.arrival_s;
        if (q->reject != REJECT_NONE) {
            reject(l, q);
            progress(l);
        } else {
            route(l, q);
        }
        TRY(look_ahead(l, e));
    }
    return ST_OK;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* The host looks at the end of f later, and answers then. */
static void look_later(struct flight *f, double look_s)
{
    f->look_s = look_s;
    f->c.end_s = look_s + f->c.answer_s;
}

/* The host of r is busy until then: it sees ends that come before when it is done, and handles
 * those that it has seen. */
static void keep_host(struct replica *r, double until_s)
{
    if (until_s <= r->host_until_s)
        return;
    r->host_until_s = until_s;
    for (int32_t i = 0; i < r->max_in_flight; i++) {
        struct flight *f = &r->flights[i];
        if (f->out && !f->seen && f->look_s < until_s)
            look_later(f, until_s);
        f->due_s = fmax(f->c.end_s, until_s);
    }
}

/* The host looks at the end of the newest batch once it has answered those before: one whose answer
 * takes less does not come first. */
static void keep_order(struct replica *r, struct flight *newest)
{
    for (int32_t i = 0; i < r->max_in_flight; i++) {
        const struct flight *f = &r->flights[i];
        if (f == newest || !f->out || f->c.end_s <= newest->look_s)
            continue;
        look_later(newest, f->c.end_s);
        newest->due_s = fmax(newest->c.end_s, r->host_until_s);
    }
}

/* Ends that have been moved go back to their place. */
static void settle(struct serve_loop *l)
{
    while (l->heap.n && l->heap.p[0].f && l->heap.p[0].due_s < l->heap.p[0].f->due_s) {
        struct pending x;
        heap_pop(&l->heap, earlier, &x);
        x.due_s = x.f->due_s;
        heap_push(&l->heap, earlier, x);
    }
}

/* Keeps a virtual executor's completion until its time comes. */
static enum st fetch(struct serve_loop *l, struct replica *r, struct flight *f, struct err *e)
{
    struct completion *c = &f->c;
    const char *name = r->ex.ops->name;
    enum st st = r->ex.ops->next(r->ex.self, INFINITY, c, e);
    if (st == ST_END || (st == ST_OK && c->ticket != f->ticket))
        return err_set(e, ST_DEVICE, "executor %s: no answer for batch %lld", name,
                       (long long)f->b.iteration);
    TRY(st);
    if (!(c->end_s >= l->clock->now_s) || !isfinite(c->end_s))
        return err_set(e, ST_DEVICE, "executor %s: batch %lld ends at %g s, submitted at %g s",
                       name, (long long)f->b.iteration, c->end_s, l->clock->now_s);
    f->tokens.n = f->ended.n = f->stages.n = 0;
    for (int32_t i = 0; i < c->n_tokens; i++)
        vec_push(&f->tokens, c->tokens[i]);
    for (int32_t i = 0; i < c->n_ended; i++)
        vec_push(&f->ended, c->ended[i]);
    c->tokens = f->tokens.p;
    c->ended = f->ended.p;
    for (int32_t i = 0; c->stages && i < c->n_stages; i++)
        vec_push(&f->stages, c->stages[i]);
    if (c->stages)
        c->stages = f->stages.p;
    if (c->op_s) {
        memcpy(f->op_s, c->op_s, sizeof f->op_s);
        c->op_s = f->op_s;
    }
    f->look_s = c->end_s - c->answer_s;
    f->seen = false;
    f->due_s = c->end_s;
    keep_host(r, c->host_until_s);
    if (r->host_until_s > 0)
        keep_order(r, f);
    struct pending x = {f->due_s, l->seq++, r, f};
    heap_push(&l->heap, earlier, x);
    return ST_OK;
}

static enum st follow(struct serve_loop *l, struct replica *r, struct flight *f, struct err *e)
{
    l->in_flight++;
    return l->clock->is_virtual ? fetch(l, r, f, e) : ST_OK;
}

/* ---- a host that does one thing at a time, on the virtual clock --------------------------------
 *
 * The loop of a real executor launches in submit(), and looks for completions and arrivals when
 * that is over, one completion at a time. Where an executor says how long that takes
 * (host_until_s), its replica is treated alike: the same batches are built from the same state at
 * the same moments. */

/* When the host is done with the tokens that it takes now; 0 = it takes none. What came meanwhile
 * is scheduled first: an executor's next() answers nothing beyond its deadline. */
static double answers_until(struct replica *r, double now_s)
{
    for (int32_t i = 0; i < r->max_in_flight; i++) {
        struct flight *f = &r->flights[i];
        if (f->out && f->look_s <= now_s && now_s <= f->c.end_s) {
            f->seen = true;
            return f->c.end_s;
        }
    }
    return 0;
}

/* The loop comes back when r's host is free. */
static void await_host(struct serve_loop *l, struct replica *r, double until_s)
{
    if (r->host_awaited)
        return;
    const struct pending x = {until_s, 0, r, NULL};
    heap_push(&l->heap, earlier, x);
    r->host_awaited = true;
}

/* Whether r's host does something else; then the loop comes back when it is free. */
static bool host_is_busy(struct serve_loop *l, struct replica *r, double now_s)
{
    const bool turn = r->host_turn;
    r->host_turn = false;
    if (!(r->host_until_s > 0) || turn || r->in_flight == r->max_in_flight)
        return false;
    const double answers_s = r->host_fills ? 0 : answers_until(r, now_s);
    const double until_s = fmax(r->host_until_s, answers_s);
    if (until_s <= now_s) {
        r->host_fills = false;
        return false;
    }
    await_host(l, r, until_s);
    return true;
}

/* Whether more batches are built when the one just submitted is launched, of what has come by then.
 */
static bool pauses(struct serve_loop *l, struct replica *r, double now_s)
{
    if (!(r->host_until_s > now_s) || r->in_flight == r->max_in_flight)
        return false;
    r->host_fills = true;
    await_host(l, r, r->host_until_s);
    return true;
}

/* Batches as long as there is room. Arrivals are looked at between two of them, completions are
 * not. */
static enum st fill(struct serve_loop *l, struct replica *r, double now_s, struct err *e)
{
    while (r->queues && replica_next_step(r)) {
        struct flight *f;
        TRY(replica_take_step(r, now_s, &f, e));
        if (f)
            TRY(follow(l, r, f, e));
    }
    if (r->queues)
        return ST_OK;
    for (int32_t lane = 0; lane < r->n_lanes; lane++) {
        const struct lane *x = &r->lanes[lane];
        while (x->submitted - x->delivered < r->per_lane) {
            struct flight *f;
            TRY(replica_submit(r, lane, now_s, &f, e));
            if (!f && r->shares && r->in_flight > 0)
                return ST_OK; /* as Vidur: the next lane is scheduled after the next completion */
            if (!f)
                break;
            TRY(follow(l, r, f, e));
            if (pauses(l, r, now_s))
                return ST_OK;
            if (!l->clock->is_virtual && r->in_flight < r->max_in_flight)
                TRY(take_in(l, clock_now_s(l->clock), e));
        }
    }
    return ST_OK;
}

static enum st schedule(struct serve_loop *l, struct err *e)
{
    double now_s = l->clock->is_virtual ? l->clock->now_s : l->host_free_s;
    for (size_t i = 0; i < l->dirty.n; i++) {
        l->dirty.p[i]->dirty = false;
        if (!host_is_busy(l, l->dirty.p[i], now_s))
            TRY(fill(l, l->dirty.p[i], now_s, e));
    }
    l->dirty.n = 0;
    return ST_OK;
}

/* ---- disaggregation -------------------------------------------------------------------------- */

static int32_t least_busy_decoder(const struct serve_loop *l)
{
    int32_t best = (int32_t)l->run.p->prefill_replicas;
    int64_t least = INT64_MAX;
    for (int32_t i = best; i < l->n_replicas; i++) {
        const struct replica *r = &l->replicas[i];
        int64_t busy = r->active + (int64_t)r->waiting.n + r->coming;
        if (busy < least) {
            least = busy;
            best = i;
        }
    }
    return best;
}

/* Sends the prefills that the flight completed to the decode replicas. */
static void send_on(struct serve_loop *l, const struct replica *r, struct flight *f, double now_s)
{
    while (!link_empty(&f->leaving)) {
        struct request *q = request_of(f->leaving.next);
        int32_t to = least_busy_decoder(l);
        link_remove(&q->list);
        l->replicas[to].coming++;
        l->in_flight++;
        transfers_start(l->transfers, q, q->kv, r->index, to, now_s, l->run.counters);
    }
}

static void take_transfers(struct serve_loop *l, double now_s)
{
    while (transfers_next_s(l->transfers) <= now_s) {
        struct transfer x = transfers_pop(l->transfers);
        l->in_flight--;
        l->run.counters->events++;
        replica_sent(&l->replicas[x.from], x.q);
        replica_receive(&l->replicas[x.to], x.q);
        mark_dirty(l, &l->replicas[x.from]);
        mark_dirty(l, &l->replicas[x.to]);
    }
}

static enum st complete(struct serve_loop *l, struct replica *r, struct flight *f,
                        const struct completion *c, struct err *e)
{
    int64_t finished = l->run.finished;
    l->in_flight--;
    l->run.counters->events++;
    l->run.event_s = c->end_s;
    TRY(replica_complete(r, f, c, e));
    mark_dirty(l, r);
    if (l->transfers)
        send_on(l, r, f, c->end_s);
    if (l->run.finished == finished)
        return ST_OK;
    progress(l);
    /* An end may release others. What a live source has is left there until it can be taken in. */
    return l->source->live || stopped(l) ? ST_OK : look_ahead(l, e);
}

/* ---- the two clocks -------------------------------------------------------------------------- */

/* One pending batch or moment that is due. *seen: of a host, which schedules next. */
static enum st handle(struct serve_loop *l, const struct pending *x, bool *seen, struct err *e)
{
    struct replica *r = x->r;
    *seen = r->host_until_s > 0;
    if (!x->f) {
        r->host_awaited = false;
        mark_dirty(l, r);
        return ST_OK;
    }
    r->host_turn = *seen;
    TRY(complete(l, r, x->f, &x->f->c, e));
    if (*seen)
        keep_host(r, x->due_s);
    return ST_OK;
}

/* Advances to the next event's time and handles all events of that time. */
static enum st step_virtual(struct serve_loop *l, bool arrivals, struct err *e)
{
    bool seen = false;
    settle(l);
    double t = l->heap.n ? l->heap.p[0].due_s : INFINITY;
    if (arrivals && l->next.s < t)
        t = l->next.s;
    t = fmin(t, fronts_next_s(l));
    if (l->transfers && transfers_next_s(l->transfers) < t)
        t = transfers_next_s(l->transfers);
    clock_advance_s(l->clock, t);
    t = l->clock->now_s;
    if (arrivals)
        TRY(take_in(l, t, e));
    hand_over_ready(l, t);
    if (l->transfers)
        take_transfers(l, t);
    while (!seen && l->heap.n && l->heap.p[0].due_s <= t) {
        struct pending x;
        heap_pop(&l->heap, earlier, &x);
        TRY(handle(l, &x, &seen, e));
        settle(l);
    }
    return arrivals && is_due(l, t) ? take_in(l, t, e) : ST_OK;
}

/* The next completion of r by deadline_s; *got: there was one. */
static enum st next_real(struct serve_loop *l, struct replica *r, double deadline_s, bool *got,
                         struct err *e)
{
    struct completion c;
    enum st st = r->ex.ops->next(r->ex.self, deadline_s, &c, e);
    *got = st == ST_OK;
    if (st == ST_END)
        return ST_OK;
    TRY(st);
    struct flight *f = replica_flight(r, c.ticket);
    if (!f || !isfinite(c.end_s))
        return err_set(e, ST_DEVICE, "executor %s: a completion of no batch", r->ex.ops->name);
    l->host_free_s = c.end_s;
    return complete(l, r, f, &c, e);
}

static bool has_room(const struct serve_loop *l)
{
    for (int32_t i = 0; i < l->n_replicas; i++)
        if (l->replicas[i].in_flight < l->replicas[i].max_in_flight)
            return true;
    return false;
}

static enum st wait_real(struct serve_loop *l, bool arrivals, struct err *e)
{
    double next_s = arrivals ? l->next.s : INFINITY;
    bool got = false, live = arrivals && l->source->live, none = !isfinite(l->next.s);
    if (l->in_flight == 0) {
        double nap_s = clock_now_s(l->clock) + NAP_S;
        if (live && none)
            l->source->live->wait(l->source->self, nap_s);
        else
            clock_advance_s(l->clock, next_s < nap_s ? next_s : nap_s);
    } else if (l->n_replicas == 1) {
        if (live && none)
            next_s = clock_now_s(l->clock) + LOOK_S;
        TRY(next_real(l, &l->replicas[0], has_room(l) ? next_s : INFINITY, &got, e));
    } else {
        double now_s = clock_now_s(l->clock);
        for (int32_t i = 0; i < l->n_replicas; i++) {
            bool one = false;
            if (l->replicas[i].in_flight)
                TRY(next_real(l, &l->replicas[i], now_s, &one, e));
            got |= one;
        }
        if (!got)
            clock_advance_s(l->clock, next_s < now_s + POLL_S ? next_s : now_s + POLL_S);
    }
    if (!got)
        l->host_free_s = clock_now_s(l->clock);
    return ST_OK;
}

static enum st step_real(struct serve_loop *l, bool arrivals, struct err *e)
{
    TRY(wait_real(l, arrivals, e));
    return arrivals ? take_in(l, clock_now_s(l->clock), e) : ST_OK;
}

static enum st step(struct serve_loop *l, bool arrivals, struct err *e)
{
    return l->clock->is_virtual ? step_virtual(l, arrivals, e) : step_real(l, arrivals, e);
}

static bool more_may_come(const struct serve_loop *l)
{
    return l->source->live && l->source->live->open(l->source->self);
}

static enum st run_loop(struct serve_loop *l, struct err *e)
{
    l->next = (struct moment){INT64_MAX, INFINITY};
    if (!l->source->live) /* a live source's times count from second 0, which has not begun */
        TRY(look_ahead(l, e));
    if (!l->clock->is_virtual)
        clock_restart(l->clock);
    while (more_may_come(l) || isfinite(l->next.s) || isfinite(fronts_next_s(l)) || l->in_flight) {
        TRY(step(l, true, e));
        if (stopped(l))
            break;
        TRY(schedule(l, e));
    }
    while (l->in_flight)
        TRY(step(l, false, e));
    if (stopped(l))
        return err_set(e, ST_INTERRUPTED, "interrupted");
    for (int32_t i = 0; i < l->n_replicas; i++) { /* a policy that stalls is a bug */
        const struct replica *r = &l->replicas[i];
        ASSERT(r->active == 0 && r->waiting.n == 0 && r->coming == 0 &&
               r->kv.free == r->kv.num_blocks);
    }
    ASSERT(l->source->live || release_done(&l->release));
    return ST_OK;
}

/* ---- whole runs ------------------------------------------------------------------------------ */

static enum st check_executors(const struct serve_loop *l, const struct executor *x, struct err *e)
{
    if (l->source->live && l->clock->is_virtual)
        return err_set(e, ST_USAGE, "requests that come while it runs need the real clock");
    for (int32_t i = 0; i < l->n_replicas; i++) {
        TRY(executor_check(&x[i], e));
        if (executor_lanes(&x[i]) > 1 && l->run.sched->traits & SCHED_ONE_LANE)
            return err_set(e, ST_USAGE, "policy %s does not run in pipeline stages",
                           l->run.sched->name);
        uint32_t caps = x[i].ops->caps;
        if (l->run.p->prefill_replicas && (caps & EXEC_COMPUTES || !(caps & EXEC_VIRTUAL)))
            return err_set(e, ST_USAGE,
                           "cluster.prefill_replicas: executor %s moves no KV, only predictions do",
                           x[i].ops->name);
        if (!(caps & EXEC_VIRTUAL) != !l->clock->is_virtual)
            return err_set(e, ST_USAGE, "executor %s does not run on the %s clock", x[i].ops->name,
                           l->clock->is_virtual ? "virtual" : "real");
        if (l->run.p->draft_tokens && (caps & EXEC_COMPUTES || !(caps & EXEC_VIRTUAL)))
            return err_set(e, ST_USAGE,
                           "speculation.draft_tokens: executor %s drafts nothing, only predictions "
                           "do",
                           x[i].ops->name);
        if (l->run.p->draft_tokens && x[i].ops->max_in_flight(x[i].self) != executor_lanes(&x[i]))
            return err_set(e, ST_USAGE,
                           "speculation.draft_tokens: executor %s wants batches before the tokens "
                           "of the one before are known",
                           x[i].ops->name);
        if ((caps & EXEC_COMPUTES) != (x[0].ops->caps & EXEC_COMPUTES))
            return err_set(e, ST_USAGE, "executors %s and %s cannot share a run", x[0].ops->name,
                           x[i].ops->name);
        if ((caps & EXEC_COMPUTES) && !l->source->prompt_ids)
            return err_set(e, ST_USAGE, "executor %s needs the ids of prompts", x[i].ops->name);
    }
    return ST_OK;
}

static void abandon(struct serve_loop *l, enum st st, struct err *e)
{
    bool stop = st == ST_INTERRUPTED;
    hand_over_ready(l, INFINITY);
    for (int32_t i = 0; i < l->n_replicas; i++)
        replica_abandon(&l->replicas[i], stop ? RUN_CANCELLED : RUN_ERROR,
                        stop ? "interrupted" : "run", stop ? NULL : err_cause(e, 0));
}

static void close_loop(struct serve_loop *l)
{
    struct serve_counters *n = l->run.counters;
    for (int32_t i = 0; i < l->n_replicas; i++) {
        struct replica *r = &l->replicas[i];
        if (r->kv.peak > n->kv_blocks_peak)
            n->kv_blocks_peak = r->kv.peak;
        if (r->kv.cache) {
            n->prefix_looked_tokens += r->kv.cache->looked_tokens;
            n->prefix_hit_tokens += r->kv.cache->hit_tokens;
            n->prefix_evictions += r->kv.cache->evictions;
        }
        replica_free(r);
    }
    n->kv_blocks = l->run.p->num_blocks;
    n->end_s = clock_now_s(l->clock);
    n->follows = release_follows(&l->release);
    n->concurrency_mean = release_concurrency(&l->release);
    n->concurrency_peak = l->release.peak;
    n->sessions = l->release.n_sessions;
    release_free(&l->release);
    for (int32_t i = 0; l->fronts && i < l->n_replicas; i++)
        front_free(&l->fronts[i]);
    for (size_t i = 0; i < l->run.said.n; i++)
        mem_free(l->run.said.p[i].ids);
    vec_free(&l->run.said);
    if (l->transfers)
        transfers_free(l->transfers);
    vec_free(&l->heap);
    vec_free(&l->dirty);
}

enum serve_async serve_async_of(const struct serve_params *p)
{
    return p->async != ASYNC_OFF ? p->async : p->own_async;
}

enum st serve_run(const struct serve_params *p, struct serve_clock *clock,
                  const struct executor *executors, const struct request_source *source,
                  const struct serve_sink *sink, const volatile sig_atomic_t *stop,
                  struct serve_counters *counters, struct err *e)
{
    *counters = (struct serve_counters){0};
    TRY(serve_check_params(p, e));
    struct serve_loop l = {
        .run = {.p = p, .sched = sched_find(p->policy), .sink = sink, .counters = counters},
        .clock = clock,
        .source = source,
        .stop = stop,
        .n_replicas = (int32_t)p->replicas,
        .seq = 1, /* 0: before all completions of that time */
        .router = router_find(p->router)};
    const struct release_params from = {.self = source->self,
                                        .next = source->next,
                                        .live = source->live != NULL,
                                        .concurrency = p->concurrency};
    l.routing = router_begin(p);
    l.run.write_tokens = p->emit_tokens && sink->token;
    TRY(check_executors(&l, executors, e));

    int64_t begin_ns = clock_mono_ns();
    struct arena *a = l.run.a = arena_new();
    request_pool_init(&l.run.pool, a);
    release_init(&l.release, &from);
    l.run.release = &l.release;
    l.replicas = arena_array(a, struct replica, l.n_replicas);
    for (int32_t i = 0; i < l.n_replicas; i++)
        replica_init(&l.replicas[i], &l.run, i, executors[i]);
    if (clock->is_virtual && p->overheads.front_s > 0) {
        l.fronts = arena_array(a, struct front, l.n_replicas);
        for (int32_t i = 0; i < l.n_replicas; i++)
            l.fronts[i].s = p->overheads.front_s;
    }
    struct transfers transfers;
    if (p->prefill_replicas) {
        transfers_init(&transfers, a, p);
        l.transfers = &transfers;
    }
    l.run.computes = l.replicas[0].computes;
    l.wants_ids = l.replicas[0].computes || (p->prefix_caching && source->prompt_ids);
    enum st st = run_loop(&l, e);
    if (st != ST_OK)
        abandon(&l, st, e);
    close_loop(&l);
    arena_free(&a);
    counters->loop_seconds = ns_to_s(clock_mono_ns() - begin_ns);
    return st;
}
