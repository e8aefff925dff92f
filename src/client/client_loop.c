#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/client.h"
#include "client/inflight.h"
#include "client/tally.h"
#include "metrics/metrics.h"
#include "workload/release.h"

static const int64_t PROGRESS_NS = NS_PER_S / 5;

struct again {
    int64_t due_ns;
    size_t request;
};

/* What the release is to be told about a request. */
struct follower {
    int32_t session;
    bool over;      /* its end was reported */
    struct sv body; /* to be sent */
};

struct client_loop {
    const struct client_params *p;
    const struct client_request *requests;
    struct client_result *results;
    size_t n, finished, failed; /* n: that are part of the run */
    struct release release;
    size_t pulled;           /* by the release */
    struct moment next;      /* planned moment of the next request, as far as is known */
    size_t sent;             /* requests released */
    struct follower *follow; /* [n] */
    struct inflight *inflight;
    int64_t progress_ns;
    int64_t gone; /* failures in a row of a kind that means the server is gone */
    const struct client_result *gone_result; /* the one at which the run was given up; NULL */
    int64_t freed_ns;        /* when the last place under max_concurrency became free */
    VEC(struct again) again; /* waiting retries; few */
    bool cancelled;          /* nothing more is sent */
    struct tally ttft, itl;
    struct client_health *health;
};

static int64_t now(const struct client_loop *l)
{
    return inflight_now(l->inflight);
}

/* ---- what becomes ready when --------------------------------------------------------------- */

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct client_loop *l = self;
    (void)e;
    if (l->pulled == l->n)
        return ST_END;
    const struct client_request *r = &l->requests[l->pulled];
    *out = (struct workload_request){.request_id = (int64_t)l->pulled++,
                                     .arrival_ns = r->at_ns,
                                     .arrival_s = ns_to_s(r->at_ns),
                                     .session_id = r->session_id,
                                     .turn = r->turn,
                                     .think_ns = r->think_ns};
    return ST_OK;
}

static enum st look_ahead(struct client_loop *l, struct err *e)
{
    return release_next(&l->release, &l->next, e);
}

/* Releases the next request, the i-th, with its body. */
static enum st take(struct client_loop *l, size_t *at, struct err *e)
{
    struct workload_request q;
    int32_t session;
    release_take(&l->release, &q, &session);
    const size_t i = (size_t)q.row;
    l->follow[i].session = session;
    l->results[i].planned_ns = q.arrival_ns;
    l->follow[i].body = l->requests[i].body;
    l->sent++;
    *at = i;
    if (q.turn < 2 || !l->p->turns)
        return ST_OK;
    return l->p->turns->body(l->p->turns->self, i, &l->results[i - 1], &l->follow[i].body, e);
}

static bool has_place(const struct client_loop *l)
{
    return l->p->max_concurrency == 0 || (int64_t)inflight_n(l->inflight) < l->p->max_concurrency;
}

/* Drops requests not sent within the run's duration. */
static void close_at_end(struct client_loop *l)
{
    if (l->p->duration_s > 0 && l->sent < l->n && now(l) >= ns_from_s(l->p->duration_s)) {
        l->health->left_out = (int64_t)(l->n - l->sent);
        l->n = l->sent;
        l->next = (struct moment){INT64_MAX, INFINITY};
    }
}

/* due_ns: since when it could have been sent. */
static enum st send_request(struct client_loop *l, size_t i, int64_t due_ns, struct err *e)
{
    struct client_result *r = &l->results[i];
    TRY(inflight_send(l->inflight, i, l->follow[i].body, r, e));
    const int64_t delay_ns = r->sent_ns - due_ns;
    r->delay_ns = delay_ns > r->delay_ns ? delay_ns : r->delay_ns;
    return ST_OK;
}

/* Sends all requests that are due. */
static enum st send_due(void *self, struct err *e)
{
    struct client_loop *l = self;
    if (l->health->gave_up)
        return ST_OK;
    close_at_end(l);
    if (l->sent < l->n)
        TRY(look_ahead(l, e));
    while (l->sent < l->n && l->next.ns <= now(l)) {
        int64_t due_ns = l->next.ns;
        if (!has_place(l))
            return ST_OK;
        size_t i;
        TRY(take(l, &i, e));
        if (l->freed_ns > due_ns) {
            due_ns = l->freed_ns;
            l->results[i].held = true;
        }
        TRY(send_request(l, i, due_ns, e));
        TRY(look_ahead(l, e));
    }
    for (size_t i = 0; i < l->again.n && has_place(l);) {
        struct again x = l->again.p[i];
        if (x.due_ns > now(l)) {
            i++;
            continue;
        }
        l->again.p[i] = vec_pop(&l->again);
        TRY(send_request(l, x.request, x.due_ns, e));
    }
    return ST_OK;
}

/* When send_due is to be called next, whatever the server does; INT64_MAX = no need. */
static int64_t due_next(const struct client_loop *l)
{
    int64_t at = INT64_MAX;
    if (l->sent < l->n && has_place(l))
        at = l->next.ns;
    for (size_t i = 0; i < l->again.n && has_place(l); i++)
        at = l->again.p[i].due_ns < at ? l->again.p[i].due_ns : at;
    if (l->p->duration_s > 0 && l->sent < l->n && ns_from_s(l->p->duration_s) < at)
        at = ns_from_s(l->p->duration_s);
    return at;
}

/* ---- what the transfers say ---------------------------------------------------------------- */

static void on_chunks(void *self, size_t request, size_t from)
{
    struct client_loop *l = self;
    const struct client_result *r = &l->results[request];
    for (size_t i = from; i < r->chunks.n; i++) {
        int64_t t = r->chunks.p[i].time_ns;
        if (i == 0)
            tally_add(&l->ttft, t - r->planned_ns);
        else
            tally_add(&l->itl, t - r->chunks.p[i - 1].time_ns);
    }
    l->health->chunks += (int64_t)(r->chunks.n - from);
}

/* The request has ended, as far as what follows it goes. */
static void on_done(void *self, size_t request)
{
    struct client_loop *l = self;
    const int64_t t = now(l);
    if (l->follow[request].over)
        return;
    l->follow[request].over = true;
    release_over(&l->release, l->follow[request].session, (struct moment){t, ns_to_s(t)});
}

static bool is_one_of(const char *type, const char *const *types, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(types[i], type) == 0)
            return true;
    return false;
}

static bool may_retry(const struct client_loop *l, const struct client_result *r,
                      double retry_after_s)
{
    static const char *const types[] = {"connect", "connection", "http_429", "http_503"};
    return !l->cancelled && r->attempts <= l->p->retries && r->chunks.n == 0 &&
           isfinite(retry_after_s) && is_one_of(r->error_type, types, sizeof types / sizeof *types);
}

/* Counts failures in a row that no later request can avoid. */
static void count_gone(struct client_loop *l, const struct client_result *r)
{
    static const char *const types[] = {"connect",  "resolve",  "tls",     "http_401",
                                        "http_403", "http_404", "http_405"};
    if (is_one_of(r->error_type, types, sizeof types / sizeof *types))
        l->gone++;
    else
        l->gone = 0;
    if (l->p->give_up_after && l->gone == l->p->give_up_after) {
        l->health->gave_up = true;
        l->gone_result = r;
    }
}

/* An attempt has ended: the request is over, or will be retried. */
static void on_end(void *self, size_t request, double retry_after_s)
{
    struct client_loop *l = self;
    const struct client_result *r = &l->results[request];
    const struct client_params *p = l->p;
    if (p->max_concurrency && (int64_t)inflight_n(l->inflight) == p->max_concurrency - 1)
        l->freed_ns = now(l);
    if (r->status != RUN_OK && may_retry(l, r, retry_after_s)) {
        double wait_s = fmax(p->retry_delay_s * ldexp(1, r->attempts - 1), retry_after_s);
        vec_push(&l->again, (struct again){now(l) + ns_from_s(wait_s), request});
        l->health->retried++;
        return;
    }
    l->finished++;
    l->failed += r->status != RUN_OK;
    on_done(l, request);
    count_gone(l, r);
}

/* ---- the run ------------------------------------------------------------------------------- */

static void report(struct client_loop *l, const struct client_watch *watch)
{
    int64_t t = now(l);
    if (!watch || !watch->progress || t < l->progress_ns)
        return;
    l->progress_ns = t + PROGRESS_NS;
    struct client_so_far s = {
        .finished = (int64_t)l->finished,
        .running = (int64_t)inflight_n(l->inflight),
        .failed = (int64_t)l->failed,
        .ttft_p50_ms = tally_percentile(&l->ttft, 50) / 1e6,
        .ttft_p99_ms = tally_percentile(&l->ttft, 99) / 1e6,
        .itl_p50_ms = tally_percentile(&l->itl, 50) / 1e6,
        .itl_p99_ms = tally_percentile(&l->itl, 99) / 1e6,
    };
    watch->progress(watch->self, &s);
}

/* Cancels everything not over, drops everything not sent. */
static void cancel(struct client_loop *l, const char *why)
{
    l->cancelled = true;
    inflight_cancel(l->inflight, why);
    for (size_t i = 0; i < l->again.n; i++)
        l->results[l->again.p[i].request].status = RUN_CANCELLED;
    for (size_t i = 0; i < l->n; i++) {
        struct client_result *r = &l->results[i];
        if (r->attempts)
            continue;
        r->status = RUN_CANCELLED;
        snprintf(r->error_type, sizeof r->error_type, "cancelled");
        snprintf(r->error_msg, sizeof r->error_msg, "never sent: %s", why);
    }
}

static enum st run(struct client_loop *l, const volatile sig_atomic_t *stop,
                   const struct client_watch *watch, struct err *e)
{
    while (l->finished < l->n) {
        TRY(inflight_step(l->inflight, due_next(l), e));
        report(l, watch);
        if (l->health->gave_up) {
            err_set(e, ST_DEVICE, "%s: %s", l->gone_result->error_type, l->gone_result->error_msg);
            return err_add(e, "the server is gone: %lld requests in a row ended alike",
                           (long long)l->p->give_up_after);
        }
        if (stop && *stop)
            return err_set(e, ST_INTERRUPTED, "interrupted");
    }
    return ST_OK;
}

static void judge(struct client_loop *l, int64_t wall_ns, int64_t cpu_ns)
{
    struct client_health *h = l->health;
    const struct inflight_counts counts = inflight_counts(l->inflight);
    double *delay = mem_alloc(2 * (l->n + 1) * sizeof *delay);
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct client_result *r = &l->results[i];
        h->held += r->held;
        h->dropped += r->sent_ns == RUN_NONE;
        if (r->sent_ns == RUN_NONE)
            continue;
        h->late += r->delay_ns > CLIENT_MAX_DELAY_NS;
        delay[n++] = (double)r->delay_ns;
    }
    h->sent = (int64_t)n;
    stats_sort(delay, delay + l->n + 1, n);
    if (n > 0) {
        h->delay_p50_ns = (int64_t)stats_percentile(delay, n, 50);
        h->delay_p90_ns = (int64_t)stats_percentile(delay, n, 90);
        h->delay_p99_ns = (int64_t)stats_percentile(delay, n, 99);
        h->delay_max_ns = (int64_t)delay[n - 1];
    }
    mem_free(delay);
    h->wall_s = ns_to_s(wall_ns);
    h->cpu_s = ns_to_s(cpu_ns);
    h->busy_fraction = wall_ns > 0 ? 1 - (double)counts.waited_ns / (double)wall_ns : 0;
    h->connections = counts.connections;
    h->bytes_received = counts.bytes_received;
    h->peak_concurrency = counts.peak;
    h->follows = release_follows(&l->release);
    h->concurrency_mean = release_concurrency(&l->release);
    h->sessions = l->release.n_sessions;
    h->healthy = h->delay_p99_ns <= CLIENT_MAX_DELAY_NS && h->dropped == 0;
}

enum st client_run(const struct client_params *p, const struct client_request *requests, size_t n,
                   const volatile sig_atomic_t *stop, const struct client_watch *watch,
                   struct client_result *results, struct client_health *health, struct err *e)
{
    size_t largest = 0;
    *health = (struct client_health){0};
    for (size_t i = 0; i < n; i++) {
        largest = requests[i].body.n > largest ? requests[i].body.n : largest;
        results[i] = (struct client_result){.planned_ns = requests[i].at_ns,
                                            .sent_ns = RUN_NONE,
                                            .first_byte_ns = RUN_NONE,
                                            .end_ns = RUN_NONE,
                                            .max_tokens = requests[i].max_tokens,
                                            .prompt_tokens = -1,
                                            .completion_tokens = -1};
    }
    struct client_loop l = {.p = p,
                            .requests = requests,
                            .results = results,
                            .n = n,
                            .next = {INT64_MAX, INFINITY},
                            .follow = mem_alloc(n * sizeof *l.follow),
                            .health = health};
    const struct release_params release = {
        .self = &l, .next = next_request, .concurrency = p->concurrency};
    const struct inflight_watch heard = {
        .self = &l, .between = send_due, .chunks = on_chunks, .done = on_done, .ended = on_end};
    release_init(&l.release, &release);
    enum st st = inflight_open(p, &heard, largest, stop, &l.inflight, e);
    if (st == ST_OK) {
        int64_t cpu_ns = clock_cpu_ns();
        inflight_start(l.inflight);
        st = run(&l, stop, watch, e);
        if (st != ST_OK)
            cancel(&l, st == ST_INTERRUPTED ? "interrupted"
                       : health->gave_up    ? "the server is gone"
                                            : err_cause(e, 0));
        judge(&l, now(&l), clock_cpu_ns() - cpu_ns);
    }
    inflight_close(&l.inflight);
    vec_free(&l.again);
    release_free(&l.release);
    mem_free(l.follow);
    return st;
}
