#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/order.h"
#include "engine/worker/session.h"
#include "workload/release.h"

enum live_state {
    WAITING,   /* its time has not come */
    RUNNING,   /* sent */
    CANCELLED, /* its row is written; messages about it may still come */
    OVER,
};

struct live {
    enum live_state state;
    int64_t tokens;
    int64_t planned_ns;                 /* its moment; until it is released, its arrival */
    int64_t sent_ns, first_ns, last_ns; /* of the run; RUN_NONE */
    int64_t said_ns;                    /* last_ns before its correction */
    bool released;
    int32_t session; /* for release_over */
    /* Of a session: its prompt as it was sent, NULL = the workload's, and its answer. */
    int32_t *prompt;
    VEC(int32_t) answer;
};

struct worker_place {
    int64_t id;
    size_t index;
};

struct worker_serving {
    struct worker *w;
    const struct worker_work *work;
    const struct serve_sink *sink;
    struct live *live;          /* [n] */
    struct worker_place *by_id; /* [n] in order of id; NULL: ids are indices */
    int64_t mono0_ns;           /* second 0 on our clock */
    struct release release;
    size_t pulled;      /* by it */
    struct moment next; /* planned moment of the next request, as far as is known */
    size_t *order;      /* [n_released] requests in the order of their planned moments */
    size_t n_released;
    size_t oldest; /* index of order: all before it are over or cancelled */
    int64_t running, over;
    int64_t heard_ns; /* monotonic: last message, or last work sent */
    int64_t iteration;
    bool drained;
    char moment[64];
};

static int64_t run_time(const struct worker_serving *s, int64_t worker_ns)
{
    return worker_ns - s->w->offset_ns - s->mono0_ns;
}

/* ---- requests by id ---------------------------------------------------------------------- */

static int by_request_id(const void *pa, const void *pb)
{
    const struct worker_place *a = pa, *b = pb;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void index_ids(struct worker_serving *s)
{
    const struct worker_work *k = s->work;
    bool dense = true;
    for (size_t i = 0; i < k->n && dense; i++)
        dense = k->requests[i].request_id == (int64_t)i;
    if (dense)
        return;
    s->by_id = mem_alloc(k->n * sizeof *s->by_id);
    for (size_t i = 0; i < k->n; i++)
        s->by_id[i] = (struct worker_place){k->requests[i].request_id, i};
    qsort(s->by_id, k->n, sizeof *s->by_id, by_request_id);
}

/* The index of a request that was sent, or -1. */
static int64_t find_sent(const struct worker_serving *s, int64_t id)
{
    const struct worker_work *k = s->work;
    size_t low = 0, high = k->n;
    if (!s->by_id)
        low = id >= 0 && (uint64_t)id < k->n ? (size_t)id : k->n;
    while (s->by_id && low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->by_id[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    if (low >= k->n)
        return -1;
    size_t i = s->by_id ? s->by_id[low].index : low;
    return k->requests[i].request_id == id && s->live[i].sent_ns != RUN_NONE ? (int64_t)i : -1;
}

/* ---- what becomes ready when ------------------------------------------------------------- */

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct worker_serving *s = self;
    (void)e;
    if (s->pulled == s->work->n)
        return ST_END;
    *out = s->work->requests[s->pulled++];
    return ST_OK;
}

/* Releases the next request; returns its index. */
static size_t take(struct worker_serving *s)
{
    struct workload_request q;
    int32_t session;
    release_take(&s->release, &q, &session);
    const size_t i = (size_t)q.row;
    s->live[i].planned_ns = q.arrival_ns;
    s->live[i].session = session;
    s->live[i].released = true;
    s->order[s->n_released++] = i;
    return i;
}

static void end_seen(struct worker_serving *s, const struct live *l)
{
    const int64_t t = clock_mono_ns() - s->mono0_ns;
    release_over(&s->release, l->session, (struct moment){t, ns_to_s(t)});
}

/* ---- rows -------------------------------------------------------------------------------- */

struct worker_outcome {
    enum run_status status;
    int64_t completion_ns, scheduled_ns;
    const char *type, *message;
};

/* Writes the row of request i and counts it as over. */
static void finish(struct worker_serving *s, size_t i, enum live_state state,
                   const struct worker_outcome *o)
{
    const struct workload_request *q = &s->work->requests[i];
    struct live *l = &s->live[i];
    struct run_request row = {
        .request_id = q->request_id,
        .prompt_id = q->prompt_id,
        .arrival_ns = l->planned_ns,
        .sent_ns = l->sent_ns,
        .scheduled_ns = o->scheduled_ns,
        .first_token_ns = l->first_ns,
        .completion_ns = o->completion_ns,
        .num_prefill_tokens = q->num_prefill_tokens,
        .num_decode_tokens = q->num_decode_tokens,
        .num_decode_tokens_actual = l->tokens,
        .status = o->status,
        .session_id = q->turn ? q->session_id : RUN_NONE,
        .turn = q->turn ? q->turn : RUN_NONE,
        .warmup = (int64_t)i < s->work->warmup_requests,
        .error_type = o->type,
        .error_msg = o->message,
    };
    s->running -= l->state == RUNNING;
    s->over++;
    if (l->released)
        end_seen(s, l);
    l->state = state;
    s->w->counters.failed += o->status == RUN_ERROR;
    s->w->counters.timeouts += o->status == RUN_TIMEOUT;
    s->w->counters.rejected += o->status == RUN_REJECTED;
    if (s->sink->request)
        s->sink->request(s->sink->self, &row);
    if (s->sink->progress)
        s->sink->progress(s->sink->self, s->over, ns_to_s(clock_mono_ns() - s->mono0_ns));
}

/* End time of a failed request: never before its other times. */
static int64_t end_now(const struct worker_serving *s, size_t i)
{
    int64_t now = clock_mono_ns() - s->mono0_ns, last = s->live[i].last_ns;
    int64_t arrival = s->live[i].planned_ns;
    int64_t least = last > arrival ? last : arrival;
    return now > least ? now : least;
}

static void finish_all(struct worker_serving *s, enum run_status status, const char *message)
{
    for (size_t i = 0; i < s->work->n; i++) {
        if (s->live[i].state == WAITING && status == RUN_ERROR)
            continue; /* it was never sent */
        if (s->live[i].state == WAITING || s->live[i].state == RUNNING)
            finish(s, i, OVER,
                   &(struct worker_outcome){
                       status, s->live[i].sent_ns == RUN_NONE ? RUN_NONE : end_now(s, i), RUN_NONE,
                       status == RUN_ERROR ? "worker" : NULL, message});
    }
}

/* ---- sessions ---------------------------------------------------------------------------- */

static bool goes_on(const struct worker_serving *s, size_t i)
{
    const struct workload_request *q = s->work->requests;
    return q[i].turn && i + 1 < s->work->n && q[i + 1].turn == q[i].turn + 1;
}

/* The ids of a prompt; in a later turn with the answers that came, where their ids are known. */
static const int32_t *prompt_of(struct worker_serving *s, size_t i)
{
    const struct workload_request *q = &s->work->requests[i], *last = q - 1;
    const int32_t *planned = s->work->ids[i];
    if (q->turn < 2)
        return planned;
    struct live *said = &s->live[i - 1];
    const size_t n = (size_t)last->num_prefill_tokens, answer = said->answer.n;
    if (answer == 0 || (int64_t)(n + answer) > q->num_prefill_tokens)
        return planned;
    const int32_t *before = said->prompt ? said->prompt : s->work->ids[i - 1];
    int32_t *ids = s->live[i].prompt = mem_alloc((size_t)q->num_prefill_tokens * sizeof *ids);
    memcpy(ids, planned, (size_t)q->num_prefill_tokens * sizeof *ids);
    memcpy(ids, before, n * sizeof *ids);
    memcpy(ids + n, said->answer.p, answer * sizeof *ids);
    return ids;
}

static void forget_sessions(struct worker_serving *s)
{
    for (size_t i = 0; i < s->work->n; i++) {
        mem_free(s->live[i].prompt);
        vec_free(&s->live[i].answer);
    }
}

/* ---- sending ----------------------------------------------------------------------------- */

static void submit(struct worker_serving *s, size_t i)
{
    struct worker *w = s->w;
    const struct workload_request *q = &s->work->requests[i];
    struct live *l = &s->live[i];
    const int64_t limit = w->hello.max_model_len;
    if (limit && q->num_prefill_tokens + q->num_decode_tokens > limit) {
        const char *why = arena_printf(
            w->scratch, "prompt and output of %lld tokens exceed max_model_len %lld",
            (long long)(q->num_prefill_tokens + q->num_decode_tokens), (long long)limit);
        finish(s, i, OVER,
               &(struct worker_outcome){RUN_REJECTED, RUN_NONE, RUN_NONE, "max_model_len", why});
        return;
    }
    const struct worker_submit m = {
        .id = q->request_id,
        .planned_ns = s->mono0_ns + l->planned_ns + w->offset_ns,
        .num_prefill_tokens = q->num_prefill_tokens,
        .max_tokens = q->num_decode_tokens,
        .prompt_ids = w->p.prompt == WORKER_TEXT ? NULL : prompt_of(s, i),
        .prompt = w->p.prompt == WORKER_TEXT ? s->work->texts[i] : NULL,
        .ignore_eos = w->p.ignore_eos,
    };
    worker_put_submit(&w->line, &m);
    int64_t now_ns = clock_mono_ns();
    l->sent_ns = now_ns - s->mono0_ns;
    l->state = RUNNING;
    worker_send_line(w);
    if (s->running++ == 0)
        s->heard_ns = now_ns;
    w->delays_ns[w->n_delays++] = l->sent_ns - l->planned_ns;
}

static enum st send_due(struct worker_serving *s, struct err *e)
{
    int64_t now = clock_mono_ns() - s->mono0_ns;
    TRY(release_next(&s->release, &s->next, e));
    while (isfinite(s->next.s) && s->next.ns <= now) {
        submit(s, take(s));
        TRY(release_next(&s->release, &s->next, e));
    }
    if (s->n_released < s->work->n || s->drained || s->work->more_follows)
        return ST_OK;
    worker_put_plain(&s->w->line, "drain");
    worker_send_line(s->w);
    s->drained = true;
    return ST_OK;
}

/* Cancels requests past their time limit. They are in order of their planned moments, so the first
 * running one expires first. */
static void cancel_late(struct worker_serving *s)
{
    int64_t limit_ns = ns_from_s(s->w->p.request_timeout_s);
    int64_t now = clock_mono_ns() - s->mono0_ns;
    for (; s->oldest < s->n_released; s->oldest++) {
        size_t i = s->order[s->oldest];
        if (s->live[i].state != RUNNING)
            continue;
        if (limit_ns == 0 || now - s->live[i].planned_ns < limit_ns)
            return;
        if (s->w->hello.cancel) {
            worker_put_cancel(&s->w->line, s->work->requests[i].request_id);
            worker_send_line(s->w);
        }
        const char *why =
            arena_printf(s->w->scratch, "not over after %g s", s->w->p.request_timeout_s);
        finish(s, i, CANCELLED,
               &(struct worker_outcome){RUN_TIMEOUT, end_now(s, i), RUN_NONE, "timeout", why});
    }
}

/* ---- messages of the worker ---------------------------------------------------------------- */

static enum st bad(const struct worker_event *ev, struct err *e, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static enum st bad(const struct worker_event *ev, struct err *e, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(e, ST_INPUT, "worker", ev->line, 0, "%s: %s", worker_event_name(ev->type), text);
}

/* The request of a message; *l is NULL when it was cancelled. */
static enum st about(struct worker_serving *s, const struct worker_event *ev, int64_t id, size_t *i,
                     struct live **l, struct err *e)
{
    int64_t at = find_sent(s, id);
    if (at < 0)
        return bad(ev, e, "request %lld was never sent", (long long)id);
    *i = (size_t)at;
    *l = &s->live[at];
    if ((*l)->state == OVER)
        return bad(ev, e, "request %lld is over", (long long)id);
    if ((*l)->state == CANCELLED)
        *l = NULL;
    return ST_OK;
}

static enum st on_token(struct worker_serving *s, const struct worker_event *ev, size_t k,
                        int64_t t, struct err *e)
{
    size_t i;
    struct live *l;
    const int64_t id = ev->tokens.ids[k];
    TRY(about(s, ev, id, &i, &l, e));
    if (!l)
        return ST_OK;
    const struct workload_request *q = &s->work->requests[i];
    const int64_t least = l->tokens ? l->said_ns : l->sent_ns - s->w->slack_ns;
    const int64_t from = l->tokens ? l->last_ns : l->sent_ns;
    if (l->tokens == q->num_decode_tokens)
        return bad(ev, e, "request %lld has more than its %lld tokens", (long long)id,
                   (long long)q->num_decode_tokens);
    if (t < least)
        return bad(ev, e, "t_ns: %lld ns before %s of request %lld",
                   (long long)((l->tokens ? l->said_ns : l->sent_ns) - t),
                   l->tokens ? "the token before" : "the submit", (long long)id);
    l->said_ns = t;
    s->w->counters.moved_times += t < from;
    t = t < from ? from : t;
    struct run_token row = {
        .request_id = id,
        .token_index = l->tokens,
        .token_time_ns = t,
        .token_latency_ns = l->tokens ? t - l->last_ns : 0,
        .token_id = ev->tokens.tokens ? ev->tokens.tokens[k] : RUN_NONE,
    };
    if (row.token_id != RUN_NONE && goes_on(s, i))
        vec_push(&l->answer, (int32_t)row.token_id);
    if (l->tokens++ == 0)
        l->first_ns = t;
    l->last_ns = t;
    s->w->counters.tokens++;
    if (s->sink->token)
        s->sink->token(s->sink->self, &row);
    return ST_OK;
}

static enum st on_tokens(struct worker_serving *s, const struct worker_event *ev, struct err *e)
{
    int64_t t = run_time(s, ev->tokens.t_ns), read = s->w->child.read_ns - s->mono0_ns;
    if (t > read + s->w->slack_ns)
        return bad(ev, e, "t_ns: %lld ns after the line was read", (long long)(t - read));
    if (s->w->hello.token_ids && !ev->tokens.tokens)
        return bad(ev, e, "tokens is missing, and the worker said token_ids");
    for (size_t k = 0; k < ev->tokens.n; k++)
        TRY(on_token(s, ev, k, t, e));
    return ST_OK;
}

static enum st on_batch(struct worker_serving *s, const struct worker_event *ev, struct err *e)
{
    const struct worker_batch *b = &ev->batch;
    if (!s->w->hello.batches)
        return bad(ev, e, "the worker did not say that it sends these");
    int64_t start = run_time(s, b->start_ns), duration = b->end_ns - b->start_ns;
    struct run_batch row = {
        .iteration = s->iteration++,
        .start_ns = start > 0 ? start : 0,
        .duration_ns = duration,
        .device_ns = b->device_ns < 0 ? RUN_NONE : b->device_ns,
        .host_ns = b->device_ns < 0           ? RUN_NONE
                   : b->device_ns <= duration ? duration - b->device_ns
                                              : 0,
        .num_prefill_tokens = b->num_prefill_tokens,
        .num_decode_tokens = b->num_decode_tokens,
        .batch_size = b->batch_size,
        .kv_blocks = RUN_NONE,
    };
    s->w->counters.batches++;
    if (s->sink->batch)
        s->sink->batch(s->sink->self, &row, NULL);
    return ST_OK;
}

static enum st on_finished(struct worker_serving *s, const struct worker_event *ev, struct err *e)
{
    size_t i;
    struct live *l;
    const int64_t id = ev->finished.id;
    TRY(about(s, ev, id, &i, &l, e));
    if (!l) {
        s->live[i].state = OVER;
        return ST_OK;
    }
    if (ev->finished.num_tokens != l->tokens)
        return bad(ev, e, "request %lld has %lld tokens, %lld came", (long long)id,
                   (long long)ev->finished.num_tokens, (long long)l->tokens);
    int64_t scheduled = ev->finished.scheduled_ns;
    struct worker_outcome o = {RUN_OK, l->last_ns, RUN_NONE, NULL, NULL};
    if (scheduled >= 0) {
        scheduled = run_time(s, scheduled);
        o.scheduled_ns = scheduled > l->sent_ns ? scheduled : l->sent_ns;
    }
    const int64_t wanted = s->work->requests[i].num_decode_tokens;
    if (ev->finished.reason == WORKER_CANCELLED || l->tokens == 0 ||
        (ev->finished.reason == WORKER_LENGTH && l->tokens < wanted)) {
        o.status = RUN_ERROR;
        o.type = "short";
        o.message = arena_printf(s->w->scratch, "ended after %lld of %lld tokens",
                                 (long long)l->tokens, (long long)wanted);
        o.completion_ns = end_now(s, i);
    }
    finish(s, i, OVER, &o);
    return ST_OK;
}

static enum st on_error(struct worker_serving *s, const struct worker_event *ev, struct err *e)
{
    size_t i;
    struct live *l;
    if (ev->error.id < 0)
        return worker_unexpected(s->w, ev, s->moment, e);
    TRY(about(s, ev, ev->error.id, &i, &l, e));
    if (l)
        finish(s, i, OVER,
               &(struct worker_outcome){RUN_ERROR, end_now(s, i), RUN_NONE,
                                        ev->error.kind ? ev->error.kind : "engine",
                                        ev->error.message});
    else
        s->live[i].state = OVER;
    return ST_OK;
}

static enum st on_event(void *self, const struct worker_event *ev, struct err *e)
{
    struct worker_serving *s = self;
    s->heard_ns = s->w->child.read_ns;
    switch (ev->type) {
    case WORKER_TOKENS:
        return on_tokens(s, ev, e);
    case WORKER_BATCH:
        return on_batch(s, ev, e);
    case WORKER_FINISHED:
        return on_finished(s, ev, e);
    case WORKER_ERROR:
        return on_error(s, ev, e);
    case WORKER_HELLO:
    case WORKER_READY:
    case WORKER_CLOCK:
    case WORKER_PASSED:
        break;
    }
    return worker_unexpected(s->w, ev, s->moment, e);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Monotonic time of the next own action. */
static int64_t next_deadline(const struct worker_serving *s)
{
    int64_t at = INT64_MAX;
    if (isfinite(s->next.s))
        at = s->mono0_ns + s->next.ns;
    if (s->running == 0)
        return at;
    at = earlier(at, s->heard_ns + ns_from_s(s->w->p.silence_timeout_s));
    if (s->w->p.request_timeout_s > 0 && s->oldest < s->n_released)
        at = earlier(at, s->mono0_ns + s->live[s->order[s->oldest]].planned_ns +
                             ns_from_s(s->w->p.request_timeout_s));
    return at;
}

static enum st check_silence(struct worker_serving *s, struct err *e)
{
    double limit_s = s->w->p.silence_timeout_s;
    if (s->running == 0 || clock_mono_ns() < s->heard_ns + ns_from_s(limit_s))
        return ST_OK;
    err_set(e, ST_DEVICE, "the worker said nothing for %g s %s", limit_s, s->moment);
    err_hint(e, "worker.silence_timeout_s sets the limit");
    return ST_DEVICE;
}

static enum st serve_all(struct worker_serving *s, struct err *e)
{
    for (;;) {
        cancel_late(s);
        TRY(send_due(s, e));
        if ((size_t)s->over == s->work->n)
            return ST_OK;
        if (worker_stopped(s->w))
            return err_set(e, ST_INTERRUPTED, "interrupted by a signal");
        snprintf(s->moment, sizeof s->moment, "while %lld request%s running", (long long)s->running,
                 s->running == 1 ? " was" : "s were");
        struct worker_event ev;
        enum st st = worker_receive(s->w, next_deadline(s), s->moment, &ev, e);
        if (st == ST_OK)
            st = on_event(s, &ev, e);
        else if (st == ST_END)
            st = check_silence(s, e);
        TRY(st);
    }
}

/* Messages about cancelled requests and the last batch may come in between. */
static enum st clocks_again(struct worker_serving *s, struct err *e)
{
    struct worker *w = s->w;
    snprintf(s->moment, sizeof s->moment, "after the last request");
    TRY(worker_exchange_clocks(w, on_event, s, &w->after, e));
    int64_t drift_ns = clock_offset_drift_ns(&w->before, &w->after);
    if (drift_ns)
        log_warn("the worker's clock drifted by %lld ns against ours; times late in the run are "
                 "off by that",
                 (long long)drift_ns);
    return ST_OK;
}

enum st worker_run(struct worker *w, const struct worker_work *work, const struct serve_sink *sink,
                   struct worker_counters *counters, struct err *e)
{
    struct worker_serving s = {.w = w, .work = work, .sink = sink};
    if (w->passes > 0 || w->runs > 0) /* a while ago */
        TRY(worker_set_offset(w, e));
    w->runs++;
    s.live = mem_alloc(work->n * sizeof *s.live);
    w->n_delays = 0;
    w->delays_ns = mem_resize(w->delays_ns, work->n * sizeof *w->delays_ns);
    w->counters = (struct worker_counters){.messages = w->counters.messages,
                                           .bytes_sent = w->counters.bytes_sent};
    s.order = mem_alloc(work->n * sizeof *s.order);
    const struct release_params release = {
        .self = &s, .next = next_request, .concurrency = work->concurrency};
    release_init(&s.release, &release);
    for (size_t i = 0; i < work->n; i++)
        s.live[i] = (struct live){.planned_ns = work->requests[i].arrival_ns,
                                  .sent_ns = RUN_NONE,
                                  .first_ns = RUN_NONE,
                                  .last_ns = RUN_NONE};
    index_ids(&s);
    w->counters.requests = (int64_t)work->n;
    s.mono0_ns = s.heard_ns = clock_mono_ns();
    enum st st = serve_all(&s, e);
    w->counters.loop_seconds = ns_to_s(clock_mono_ns() - s.mono0_ns);
    qsort(w->delays_ns, w->n_delays, sizeof *w->delays_ns, order_int64);
    if (st == ST_OK)
        st = clocks_again(&s, e);
    if (st == ST_INTERRUPTED)
        finish_all(&s, RUN_CANCELLED, NULL);
    else if (st != ST_OK)
        finish_all(&s, RUN_ERROR, err_cause(e, 0));
    w->orderly = st == ST_OK;
    if (st != ST_OK && st != ST_INTERRUPTED)
        w->p.stop_timeout_s = 0; /* do not wait for a broken worker */
    w->counters.follows = release_follows(&s.release);
    w->counters.concurrency_mean = release_concurrency(&s.release);
    w->counters.concurrency_peak = s.release.peak;
    w->counters.sessions = s.release.n_sessions;
    *counters = w->counters;
    release_free(&s.release);
    mem_free(s.order);
    forget_sessions(&s);
    mem_free(s.live);
    mem_free(s.by_id);
    return st;
}
