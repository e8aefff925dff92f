#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/easy.h"
#include "client/response.h"
#include "client/tally.h"
#include "metrics/metrics.h"
#include "workload/release.h"

enum {
    MAX_ERROR_BODY = 4096, /* bytes kept of an answer that is no stream */
    MAX_EVENTS = 256,
};
static const int64_t SWEEP_NS = 20 * NS_PER_MS; /* longest lateness of detecting a time-out */
static const int64_t GRACE_NS = NS_PER_S;       /* for the response to close after [DONE] */
static const int64_t PROGRESS_NS = NS_PER_S / 5;

/* Bytes that one receive callback brought. */
struct segment {
    int64_t time_ns;
    size_t n;
};

/* A transfer in flight; reused with its libcurl handle. */
struct slot {
    struct loop *l;
    CURL *easy;
    size_t request;
    struct response response;
    struct buf in; /* received and not parsed */
    VEC(struct segment) segments;
    bool live, dirty, failing; /* failing: nothing more is kept of the body */
    bool is_stream;            /* the answer is 200 text/event-stream */
    bool encoded;              /* its body has a Content-Encoding, although none was requested */
    int64_t start_ns;          /* sent */
    int64_t last_ns;           /* last byte received */
    double retry_after_s;      /* from the answer; 0 = none */
    char why[CURL_ERROR_SIZE];
    size_t at; /* in loop.live */
};

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

struct loop {
    const struct client_params *p;
    const struct client_request *requests;
    struct client_result *results;
    size_t n, finished, failed; /* n: that are part of the run */
    struct release release;
    size_t pulled;           /* by the release */
    struct moment next;      /* planned moment of the next request, as far as is known */
    size_t sent;             /* requests released */
    struct follower *follow; /* [n] */
    CURLM *multi;
    struct curl_slist *headers;
    int epoll, timer;
    int64_t t0_ns;       /* monotonic time of the run's start */
    int64_t curl_due_ns; /* when libcurl must be called; INT64_MAX = never */
    int64_t armed_ns;    /* setting of the timer */
    int64_t sweep_ns, progress_ns;
    int64_t gone; /* failures in a row of a kind that means the server is gone */
    const struct client_result *gone_result; /* the one at which the run was given up; NULL */
    int64_t freed_ns; /* when the last place under max_concurrency became free */
    VEC(struct slot *) live, free, dirty;
    VEC(struct again) again; /* waiting retries; few */
    struct tally *ttft, *itl;
    struct client_health *health;
    int64_t waited_ns;
    long upload_bytes; /* libcurl's buffer: the fewest turns that send the largest body */
};

static int64_t now(const struct loop *l)
{
    return clock_mono_ns() - l->t0_ns;
}

/* ---- what libcurl calls -------------------------------------------------------------------- */

static size_t on_body(char *p, size_t size, size_t n, void *self)
{
    struct slot *s = self;
    int64_t time_ns = now(s->l);
    n *= size;
    s->last_ns = time_ns;
    s->l->health->bytes_received += (int64_t)n;
    if (s->failing)
        return n;
    if (!s->is_stream) { /* its beginning will do */
        size_t room = s->in.n < MAX_ERROR_BODY ? MAX_ERROR_BODY - s->in.n : 0;
        buf_add(&s->in, p, n < room ? n : room);
        return n;
    }
    buf_add(&s->in, p, n);
    vec_push(&s->segments, (struct segment){time_ns, n});
    if (!s->dirty) {
        s->dirty = true;
        vec_push(&s->l->dirty, s);
    }
    return n;
}

/* Decides what the body will be, at the blank line that ends the headers. */
static size_t on_header(char *p, size_t size, size_t n, void *self)
{
    struct slot *s = self;
    static const char encoding[] = "content-encoding:";
    const size_t name = sizeof encoding - 1;
    s->last_ns = now(s->l);
    if (size * n > name && strncasecmp(p, encoding, name) == 0)
        s->encoded = !sv_eq(sv_trim((struct sv){p + name, size * n - name}), "identity");
    if (size * n <= 2 && (*p == '\r' || *p == '\n')) {
        long status = 0;
        char *type = NULL;
        static const char want[] = "text/event-stream";
        curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(s->easy, CURLINFO_CONTENT_TYPE, &type);
        s->is_stream =
            status == 200 && type && !s->encoded && strncasecmp(type, want, sizeof want - 1) == 0;
    }
    return size * n;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *self, void *known)
{
    struct loop *l = self;
    (void)easy;
    struct epoll_event ev = {.data.fd = fd};
    if (what & CURL_POLL_IN)
        ev.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        ev.events |= EPOLLOUT;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, &ev);
        return 0;
    }
    if (epoll_ctl(l->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) != 0 && errno == EEXIST)
        epoll_ctl(l->epoll, EPOLL_CTL_MOD, fd, &ev);
    curl_multi_assign(l->multi, fd, l);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *self)
{
    struct loop *l = self;
    (void)multi;
    l->curl_due_ns = ms < 0 ? INT64_MAX : now(l) + ms * NS_PER_MS;
    return 0;
}

/* ---- requests ------------------------------------------------------------------------------ */

static struct slot *take_slot(struct loop *l)
{
    struct slot *s;
    if (l->free.n > 0) {
        s = vec_pop(&l->free);
    } else {
        s = mem_alloc(sizeof *s);
        s->l = l;
        s->easy = easy_new(l->p, l->p->url, l->headers);
        if (!s->easy) {
            mem_free(s);
            return NULL;
        }
        curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
        curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
        curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, s);
        curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->why);
        curl_easy_setopt(s->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(s->easy, CURLOPT_UPLOAD_BUFFERSIZE, l->upload_bytes);
    }
    s->at = l->live.n;
    s->live = true;
    vec_push(&l->live, s);
    return s;
}

static void give_slot(struct loop *l, struct slot *s)
{
    struct slot *last = vec_pop(&l->live);
    if (last != s) {
        l->live.p[s->at] = last;
        last->at = s->at;
    }
    s->live = false;
    if (l->p->max_concurrency && (int64_t)l->live.n == l->p->max_concurrency - 1)
        l->freed_ns = now(l);
    vec_push(&l->free, s);
}

static void kick(struct loop *l)
{
    int running;
    l->curl_due_ns = INT64_MAX;
    curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

/* due_ns: since when it could have been sent. */
static enum st send_request(struct loop *l, size_t i, int64_t due_ns, struct err *e)
{
    struct slot *s = take_slot(l);
    if (!s)
        return err_set(e, ST_DEVICE, "libcurl has no memory for another transfer");
    struct client_result *r = &l->results[i];
    const struct sv *body = &l->follow[i].body;
    s->request = i;
    s->failing = s->is_stream = s->encoded = s->dirty = false;
    s->segments.n = 0;
    s->why[0] = 0;
    s->retry_after_s = 0;
    buf_clear(&s->in);
    s->response.secrets = l->p->secrets;
    s->response.n_secrets = l->p->n_secrets;
    response_begin(&s->response, r, l->p->max_event_bytes);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->n);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, body->p);
    r->attempts++;
    s->start_ns = s->last_ns = r->sent_ns = now(l);
    int64_t delay_ns = r->sent_ns - due_ns;
    r->delay_ns = delay_ns > r->delay_ns ? delay_ns : r->delay_ns;
    if (curl_multi_add_handle(l->multi, s->easy) != CURLM_OK)
        return err_set(e, ST_DEVICE, "libcurl takes no further transfer");
    kick(l);
    if ((int64_t)l->live.n > l->health->peak_concurrency)
        l->health->peak_concurrency = (int64_t)l->live.n;
    return ST_OK;
}

/* ---- what becomes ready when --------------------------------------------------------------- */

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct loop *l = self;
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

static enum st look_ahead(struct loop *l, struct err *e)
{
    return release_next(&l->release, &l->next, e);
}

/* Releases the next request, the i-th, with its body. */
static enum st take(struct loop *l, size_t *at, struct err *e)
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

/* The request has ended, as far as what follows it goes. */
static void end_seen(struct loop *l, size_t i)
{
    const int64_t t = now(l);
    if (l->follow[i].over)
        return;
    l->follow[i].over = true;
    release_over(&l->release, l->follow[i].session, (struct moment){t, ns_to_s(t)});
}

static bool has_place(const struct loop *l)
{
    return l->p->max_concurrency == 0 || (int64_t)l->live.n < l->p->max_concurrency;
}

/* Drops requests not sent within the run's duration. */
static void close_at_end(struct loop *l)
{
    if (l->p->duration_s > 0 && l->sent < l->n && now(l) >= ns_from_s(l->p->duration_s)) {
        l->health->left_out = (int64_t)(l->n - l->sent);
        l->n = l->sent;
        l->next = (struct moment){INT64_MAX, INFINITY};
    }
}

/* Sends all requests that are due. */
static enum st send_due(struct loop *l, struct err *e)
{
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

/* ---- answers ------------------------------------------------------------------------------- */

static void tally_chunks(struct loop *l, const struct client_result *r, size_t from)
{
    for (size_t i = from; i < r->chunks.n; i++) {
        int64_t t = r->chunks.p[i].time_ns;
        if (i == 0)
            tally_add(l->ttft, t - r->planned_ns);
        else
            tally_add(l->itl, t - r->chunks.p[i - 1].time_ns);
    }
    l->health->chunks += (int64_t)(r->chunks.n - from);
}

/* Parses what arrived since the last call. */
static void parse(struct loop *l, struct slot *s)
{
    struct client_result *r = s->response.r;
    size_t before = r->chunks.n, at = 0;
    s->dirty = false;
    if (!s->is_stream)
        return; /* kept whole, for conclude() */
    for (size_t i = 0; i < s->segments.n; i++) {
        struct segment g = s->segments.p[i];
        s->failing |= !response_bytes(&s->response, g.time_ns, s->in.p + at, g.n);
        at += g.n;
    }
    s->segments.n = 0;
    buf_clear(&s->in);
    tally_chunks(l, r, before);
    if (l->p->max_chunks && (int64_t)r->chunks.n > l->p->max_chunks && !s->failing) {
        s->failing = true;
        response_fail(&s->response, s->last_ns, RUN_ERROR, "too_long",
                      "an answer of more than %lld chunks", (long long)l->p->max_chunks);
    }
}

static bool is_one_of(const char *type, const char *const *types, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(types[i], type) == 0)
            return true;
    return false;
}

/* Whether the server requests a longer wait than a request may take. */
static bool is_put_off(const struct loop *l, const struct slot *s)
{
    return l->p->timeout_s > 0 && s->retry_after_s > l->p->timeout_s;
}

static bool may_retry(const struct loop *l, const struct slot *s)
{
    static const char *const types[] = {"connect", "connection", "http_429", "http_503"};
    const struct client_result *r = s->response.r;
    return r->attempts <= l->p->retries && r->chunks.n == 0 && !is_put_off(l, s) &&
           is_one_of(r->error_type, types, sizeof types / sizeof *types);
}

/* Counts failures in a row that no later request can avoid. */
static void count_gone(struct loop *l, const struct client_result *r)
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

/* Ends the attempt: the request is over, or will be retried. */
static void leave(struct loop *l, struct slot *s)
{
    struct client_result *r = s->response.r;
    long opened = 0;
    curl_easy_getinfo(s->easy, CURLINFO_NUM_CONNECTS, &opened);
    l->health->connections += opened;
    curl_multi_remove_handle(l->multi, s->easy);
    if (s->dirty) { /* out of the list of those to parse */
        s->dirty = false;
        for (size_t i = 0; i < l->dirty.n; i++)
            if (l->dirty.p[i] == s)
                l->dirty.p[i] = NULL;
    }
    if (r->status != RUN_OK && may_retry(l, s)) {
        double wait_s = fmax(l->p->retry_delay_s * ldexp(1, r->attempts - 1), s->retry_after_s);
        vec_push(&l->again, (struct again){now(l) + ns_from_s(wait_s), s->request});
        l->health->retried++;
    } else {
        l->finished++;
        l->failed += r->status != RUN_OK;
        end_seen(l, s->request);
        count_gone(l, r);
    }
    give_slot(l, s);
}

/* The answer is no stream: "<what>: <the message of its error document, or its beginning>". */
static void tell_answer(struct slot *s, int64_t time_ns, enum run_status status, const char *type,
                        const char *what)
{
    struct err e = {0};
    struct stream_chunk c;
    struct buf text = {0};
    struct chunk_ids ids = {0};
    struct sv said = sv_trim((struct sv){buf_str(&s->in), s->in.n});
    chunk_parse(said, &c, &text, &ids, &e); /* of a document that was cut, as far as it goes */
    if (c.error[0])
        said = sv_of(c.error);
    else if (said.n > 160)
        said.n = 160;
    if (s->encoded)
        said.n = 0;
    response_fail(&s->response, time_ns, status, type, "%s%s%.*s", what, said.n ? ": " : "",
                  (int)said.n, said.p);
    buf_free(&text);
    vec_free(&ids);
}

static void tell_status(struct slot *s, long status, int64_t time_ns)
{
    char type[16], what[200];
    const char *to = NULL;
    curl_off_t after_s = 0;
    bool overload = status == 429 || status == 503;
    snprintf(type, sizeof type, "http_%ld", status);
    snprintf(what, sizeof what, "status %ld", status);
    curl_easy_getinfo(s->easy, CURLINFO_REDIRECT_URL, &to);
    if (to) /* of answers 3xx with a Location */
        snprintf(what, sizeof what, "status %ld, a redirection to %.120s: url should lead there",
                 status, to);
    if (overload && curl_easy_getinfo(s->easy, CURLINFO_RETRY_AFTER, &after_s) == CURLE_OK &&
        after_s > 0) { /* libcurl makes seconds of a date */
        s->retry_after_s = (double)after_s;
        snprintf(what, sizeof what, "status %ld (Retry-After: %lld s%s)", status,
                 (long long)after_s, is_put_off(s->l, s) ? ", longer than a request may take" : "");
    }
    tell_answer(s, time_ns, overload ? RUN_REJECTED : RUN_ERROR, type, what);
}

static void conclude(struct loop *l, struct slot *s, CURLcode code)
{
    struct client_result *r = s->response.r;
    long status = 0;
    const char *type;
    int64_t time_ns = now(l);
    parse(l, s);
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    r->http_status = (int32_t)status;
    enum run_status failure = easy_failure(code, &type);
    if (r->done && s->is_stream)
        response_close(&s->response, time_ns); /* the end of the connection no longer matters */
    else if (status != 0 && status != 200)
        tell_status(s, status, time_ns);
    else if (failure != RUN_OK)
        response_fail(&s->response, time_ns, failure,
                      s->is_stream && strcmp(type, "connection") == 0 ? "truncated" : type, "%s",
                      s->why[0] ? s->why : curl_easy_strerror(code));
    else if (!s->is_stream)
        tell_answer(s, time_ns, RUN_ERROR, "content_type",
                    s->encoded ? "the answer has a Content-Encoding, and none was asked for"
                               : "the answer is no text/event-stream");
    else
        response_close(&s->response, time_ns);
    leave(l, s);
}

static void collect(struct loop *l)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(l->multi, &left)) != NULL) {
        struct slot *s = NULL;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        conclude(l, s, code);
    }
}

static enum st parse_dirty(struct loop *l, struct err *e)
{
    for (size_t i = 0; i < l->dirty.n; i++) {
        struct slot *s = l->dirty.p[i];
        if (!s || !s->live || !s->dirty)
            continue;
        parse(l, s);
        if (s->response.failed)
            leave(l, s);
        TRY(send_due(l, e));
    }
    l->dirty.n = 0;
    return ST_OK;
}

static bool over(double limit_s, int64_t since_ns, int64_t t)
{
    return limit_s > 0 && t - since_ns > ns_from_s(limit_s);
}

/* Ends requests that timed out. */
static void sweep(struct loop *l)
{
    int64_t t = now(l);
    l->sweep_ns = t + SWEEP_NS;
    for (size_t i = l->live.n; i-- > 0;) {
        struct slot *s = l->live.p[i];
        if (s->response.r->done) {
            end_seen(l, s->request);
            if (t - s->last_ns > GRACE_NS || over(l->p->timeout_s, s->start_ns, t))
                conclude(l, s, CURLE_OK);
        } else if (over(l->p->timeout_s, s->start_ns, t)) {
            response_fail(&s->response, t, RUN_TIMEOUT, "timeout",
                          "not over %g s after it was sent", l->p->timeout_s);
            leave(l, s);
        } else if (over(l->p->stall_timeout_s, s->last_ns, t)) {
            response_fail(&s->response, t, RUN_TIMEOUT, "stall", "no byte came for %g s",
                          l->p->stall_timeout_s);
            leave(l, s);
        }
    }
}

static void report(struct loop *l, const struct client_watch *watch)
{
    int64_t t = now(l);
    if (!watch || !watch->progress || t < l->progress_ns)
        return;
    l->progress_ns = t + PROGRESS_NS;
    struct client_so_far s = {
        .finished = (int64_t)l->finished,
        .running = (int64_t)l->live.n,
        .failed = (int64_t)l->failed,
        .ttft_p50_ms = tally_percentile(l->ttft, 50) / 1e6,
        .ttft_p99_ms = tally_percentile(l->ttft, 99) / 1e6,
        .itl_p50_ms = tally_percentile(l->itl, 50) / 1e6,
        .itl_p99_ms = tally_percentile(l->itl, 99) / 1e6,
    };
    watch->progress(watch->self, &s);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void arm(struct loop *l)
{
    int64_t at = l->sweep_ns < l->curl_due_ns ? l->sweep_ns : l->curl_due_ns;
    if (l->sent < l->n && has_place(l) && l->next.ns < at)
        at = l->next.ns;
    for (size_t i = 0; i < l->again.n && has_place(l); i++)
        at = l->again.p[i].due_ns < at ? l->again.p[i].due_ns : at;
    if (l->p->duration_s > 0 && l->sent < l->n && ns_from_s(l->p->duration_s) < at)
        at = ns_from_s(l->p->duration_s);
    if (at == l->armed_ns)
        return;
    l->armed_ns = at;
    int64_t mono = l->t0_ns + (at > 0 ? at : 1);
    struct itimerspec t = {.it_value = {.tv_sec = mono / NS_PER_S, .tv_nsec = mono % NS_PER_S}};
    timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static int wait_events(struct loop *l, struct epoll_event *ev)
{
    if (l->p->spin)
        return epoll_wait(l->epoll, ev, MAX_EVENTS, 0);
    arm(l);
    int64_t begin_ns = clock_mono_ns();
    int n = epoll_wait(l->epoll, ev, MAX_EVENTS, -1);
    l->waited_ns += clock_mono_ns() - begin_ns;
    return n;
}

static enum st step(struct loop *l, struct err *e)
{
    struct epoll_event ev[MAX_EVENTS];
    int running, n = wait_events(l, ev);
    if (n < 0 && errno != EINTR)
        return err_errno(e, false, "waiting for sockets");
    TRY(send_due(l, e));
    for (int i = 0; i < n; i++) {
        if (ev[i].data.fd == l->timer) {
            l->armed_ns = -1; /* fired, or to be reset: either way no longer armed */
            uint64_t fired;
            if (read(l->timer, &fired, sizeof fired) < 0 && errno != EAGAIN)
                return err_errno(e, false, "reading a timer");
            continue;
        }
        int mask = (ev[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                   (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (ev[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0);
        curl_multi_socket_action(l->multi, ev[i].data.fd, mask, &running);
        TRY(send_due(l, e));
    }
    if (l->curl_due_ns <= now(l))
        kick(l);
    collect(l);
    TRY(parse_dirty(l, e));
    if (l->sweep_ns <= now(l))
        sweep(l);
    return send_due(l, e);
}

/* Cancels everything not over, drops everything not sent. */
static void cancel(struct loop *l, const char *why)
{
    int64_t t = now(l);
    while (l->live.n > 0) {
        struct slot *s = vec_last(&l->live);
        s->response.r->attempts = INT32_MAX / 2; /* no retry */
        response_fail(&s->response, t, RUN_CANCELLED, "cancelled", "%s", why);
        leave(l, s);
    }
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

static enum st run(struct loop *l, const volatile sig_atomic_t *stop,
                   const struct client_watch *watch, struct err *e)
{
    while (l->finished < l->n) {
        TRY(step(l, e));
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

/* ---- begin and end ------------------------------------------------------------------------- */

static long upload_bytes(const struct client_request *requests, size_t n)
{
    enum { LEAST = 64 << 10, MOST = 2 << 20 }; /* libcurl's default and limit */
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = requests[i].body.n > most ? requests[i].body.n : most;
    return most < LEAST ? LEAST : most > MOST ? MOST : (long)most;
}

/* Raises the limit on open files: each stream needs a socket. */
static void raise_limits(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static enum st open_loop(struct loop *l, const volatile sig_atomic_t *stop, struct err *e)
{
    TRY(easy_global(e));
    raise_limits();
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    l->multi = curl_multi_init();
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = l->timer};
    if (l->epoll < 0 || l->timer < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &ev) != 0)
        return err_set(e, ST_DEVICE, "no epoll or timer: %s", strerror(errno));
    if (!l->multi)
        return err_set(e, ST_DEVICE, "libcurl has no memory");
    easy_touch(l->multi, l->p, stop);
    curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l);
    curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l);
    curl_multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, 1L << 20);
    l->headers = easy_headers(l->p, true);
    l->ttft = mem_alloc(sizeof *l->ttft);
    l->itl = mem_alloc(sizeof *l->itl);
    return ST_OK;
}

static void close_loop(struct loop *l)
{
    for (size_t i = 0; i < l->free.n; i++) {
        struct slot *s = l->free.p[i];
        curl_easy_cleanup(s->easy);
        response_free(&s->response);
        buf_free(&s->in);
        vec_free(&s->segments);
        mem_free(s);
    }
    if (l->multi)
        curl_multi_cleanup(l->multi);
    curl_slist_free_all(l->headers);
    if (l->epoll >= 0)
        close(l->epoll);
    if (l->timer >= 0)
        close(l->timer);
    vec_free(&l->live);
    vec_free(&l->free);
    vec_free(&l->dirty);
    vec_free(&l->again);
    release_free(&l->release);
    mem_free(l->follow);
    mem_free(l->ttft);
    mem_free(l->itl);
}

static void judge(struct loop *l, int64_t wall_ns, int64_t cpu_ns)
{
    struct client_health *h = l->health;
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
    metrics_sort(delay, delay + l->n + 1, n);
    if (n > 0) {
        h->delay_p50_ns = (int64_t)metrics_percentile(delay, n, 50);
        h->delay_p90_ns = (int64_t)metrics_percentile(delay, n, 90);
        h->delay_p99_ns = (int64_t)metrics_percentile(delay, n, 99);
        h->delay_max_ns = (int64_t)delay[n - 1];
    }
    mem_free(delay);
    h->wall_s = ns_to_s(wall_ns);
    h->cpu_s = ns_to_s(cpu_ns);
    h->busy_fraction = wall_ns > 0 ? 1 - (double)l->waited_ns / (double)wall_ns : 0;
    h->follows = release_follows(&l->release);
    h->concurrency_mean = release_concurrency(&l->release);
    h->sessions = l->release.n_sessions;
    h->healthy = h->delay_p99_ns <= CLIENT_MAX_DELAY_NS && h->dropped == 0;
}

enum st client_run(const struct client_params *p, const struct client_request *requests, size_t n,
                   const volatile sig_atomic_t *stop, const struct client_watch *watch,
                   struct client_result *results, struct client_health *health, struct err *e)
{
    *health = (struct client_health){0};
    for (size_t i = 0; i < n; i++)
        results[i] = (struct client_result){.planned_ns = requests[i].at_ns,
                                            .sent_ns = RUN_NONE,
                                            .first_byte_ns = RUN_NONE,
                                            .end_ns = RUN_NONE,
                                            .max_tokens = requests[i].max_tokens,
                                            .prompt_tokens = -1,
                                            .completion_tokens = -1};
    struct loop l = {.p = p,
                     .requests = requests,
                     .results = results,
                     .n = n,
                     .epoll = -1,
                     .timer = -1,
                     .curl_due_ns = INT64_MAX,
                     .upload_bytes = upload_bytes(requests, n),
                     .next = {INT64_MAX, INFINITY},
                     .follow = mem_alloc(n * sizeof *l.follow),
                     .health = health};
    const struct release_params release = {
        .self = &l, .next = next_request, .concurrency = p->concurrency};
    release_init(&l.release, &release);
    enum st st = open_loop(&l, stop, e);
    if (st == ST_OK) {
        int64_t cpu_ns = clock_cpu_ns();
        l.t0_ns = clock_mono_ns();
        l.armed_ns = -1;
        st = run(&l, stop, watch, e);
        if (st != ST_OK)
            cancel(&l, st == ST_INTERRUPTED ? "interrupted"
                       : health->gave_up    ? "the server is gone"
                                            : err_cause(e, 0));
        judge(&l, now(&l), clock_cpu_ns() - cpu_ns);
    }
    close_loop(&l);
    return st;
}
