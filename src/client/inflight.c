#include "client/inflight.h"

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

enum {
    MAX_ERROR_BODY = 4096,    /* bytes kept of an answer that is no stream */
    MAX_OTHER_BODY = 1 << 20, /* bytes after which it is not read any further */
    MAX_EVENTS = 256,
};
static const int64_t SWEEP_NS = 20 * NS_PER_MS; /* longest lateness of detecting a time-out */
static const int64_t GRACE_NS = NS_PER_S;       /* for the response to close after [DONE] */

/* Bounds on an answer, so that one without an end is no request without one: chunks and bytes for
 * each token that was asked for, and some for what is not of a token. A chunk of one token with
 * the logprobs of twenty is 3 KiB. */
enum {
    CHUNKS_A_TOKEN = 16, /* OUTCOME_MOST: more are credible in no file */
    CHUNKS_BESIDE = 1024,
    BYTES_A_TOKEN = 16 << 10,
    BYTES_BESIDE = 1 << 20,
};

/* Bytes that one receive callback brought. */
struct received_segment {
    int64_t time_ns;
    size_t n;
};

/* A transfer in flight; reused with its libcurl handle. */
struct transfer_slot {
    struct inflight *of;
    CURL *easy;
    size_t request;
    struct response response;
    struct buf in; /* received and not parsed */
    VEC(struct received_segment) segments;
    bool live, dirty, failing; /* failing: nothing more is kept of the body */
    bool is_stream;            /* the answer is 200 text/event-stream */
    bool encoded;              /* its body has a Content-Encoding, although none was requested */
    int64_t start_ns;          /* sent */
    int64_t last_ns;           /* last byte received */
    int64_t done_ns;           /* [DONE] */
    int64_t received;          /* bytes of the body */
    double retry_after_s;      /* from the answer; as inflight_watch.ended */
    char why[CURL_ERROR_SIZE];
    size_t at; /* in inflight.live */
};

struct inflight {
    const struct client_params *p;
    const struct inflight_watch *watch;
    CURLM *multi;
    struct curl_slist *headers;
    int epoll, timer;
    int64_t t0_ns;       /* monotonic time of inflight_start */
    int64_t curl_due_ns; /* when libcurl must be called; INT64_MAX = never */
    int64_t armed_ns;    /* setting of the timer */
    int64_t sweep_ns;
    VEC(struct transfer_slot *) live, free, dirty;
    struct inflight_counts counts;
    long upload_bytes; /* libcurl's buffer: the fewest turns that send the largest body */
};

int64_t inflight_now(const struct inflight *t)
{
    return clock_mono_ns() - t->t0_ns;
}

size_t inflight_n(const struct inflight *t)
{
    return t->live.n;
}

struct inflight_counts inflight_counts(const struct inflight *t)
{
    return t->counts;
}

/* ---- what libcurl calls -------------------------------------------------------------------- */

static size_t on_body(char *p, size_t size, size_t n, void *self)
{
    struct transfer_slot *s = self;
    int64_t time_ns = inflight_now(s->of);
    n *= size;
    s->last_ns = time_ns;
    s->of->counts.bytes_received += (int64_t)n;
    s->received += (int64_t)n;
    if (s->failing)
        return n;
    if (!s->is_stream) { /* its beginning will do */
        if (s->received > MAX_OTHER_BODY)
            return 0; /* CURLE_WRITE_ERROR */
        size_t room = s->in.n < MAX_ERROR_BODY ? MAX_ERROR_BODY - s->in.n : 0;
        buf_add(&s->in, p, n < room ? n : room);
        return n;
    }
    buf_add(&s->in, p, n);
    vec_push(&s->segments, (struct received_segment){time_ns, n});
    if (!s->dirty) {
        s->dirty = true;
        vec_push(&s->of->dirty, s);
    }
    return n;
}

/* Decides what the body will be, at the blank line that ends the headers. */
static size_t on_header(char *p, size_t size, size_t n, void *self)
{
    struct transfer_slot *s = self;
    static const char encoding[] = "content-encoding:";
    const size_t name = sizeof encoding - 1;
    s->last_ns = inflight_now(s->of);
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
    struct inflight *t = self;
    (void)easy;
    struct epoll_event ev = {.data.fd = fd};
    if (what & CURL_POLL_IN)
        ev.events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        ev.events |= EPOLLOUT;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(t->epoll, EPOLL_CTL_DEL, fd, &ev);
        return 0;
    }
    if (epoll_ctl(t->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) != 0 && errno == EEXIST)
        epoll_ctl(t->epoll, EPOLL_CTL_MOD, fd, &ev);
    curl_multi_assign(t->multi, fd, t);
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *self)
{
    struct inflight *t = self;
    (void)multi;
    t->curl_due_ns = ms < 0 ? INT64_MAX : inflight_now(t) + ms * NS_PER_MS;
    return 0;
}

/* ---- sending ------------------------------------------------------------------------------- */

static struct transfer_slot *take_slot(struct inflight *t)
{
    struct transfer_slot *s;
    if (t->free.n > 0) {
        s = vec_pop(&t->free);
    } else {
        s = mem_alloc(sizeof *s);
        s->of = t;
        s->easy = easy_new(t->p, t->p->url, t->headers);
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
        curl_easy_setopt(s->easy, CURLOPT_UPLOAD_BUFFERSIZE, t->upload_bytes);
    }
    s->at = t->live.n;
    s->live = true;
    vec_push(&t->live, s);
    return s;
}

static void give_slot(struct inflight *t, struct transfer_slot *s)
{
    struct transfer_slot *last = vec_pop(&t->live);
    if (last != s) {
        t->live.p[s->at] = last;
        last->at = s->at;
    }
    s->live = false;
    vec_push(&t->free, s);
}

static void kick(struct inflight *t)
{
    int running;
    t->curl_due_ns = INT64_MAX;
    curl_multi_socket_action(t->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

enum st inflight_send(struct inflight *t, size_t request, struct sv body, struct client_result *r,
                      struct err *e)
{
    struct transfer_slot *s = take_slot(t);
    if (!s)
        return err_set(e, ST_DEVICE, "libcurl has no memory for another transfer");
    s->request = request;
    s->failing = s->is_stream = s->encoded = s->dirty = false;
    s->segments.n = 0;
    s->why[0] = 0;
    s->retry_after_s = 0;
    s->received = 0;
    buf_clear(&s->in);
    s->response.secrets = t->p->secrets;
    s->response.n_secrets = t->p->n_secrets;
    s->response.sends = t->p->sends;
    response_begin(&s->response, r, t->p->max_event_bytes);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, body.p);
    r->attempts++;
    s->start_ns = s->last_ns = r->sent_ns = inflight_now(t);
    if (curl_multi_add_handle(t->multi, s->easy) != CURLM_OK)
        return err_set(e, ST_DEVICE, "libcurl takes no further transfer");
    kick(t);
    if ((int64_t)t->live.n > t->counts.peak)
        t->counts.peak = (int64_t)t->live.n;
    return ST_OK;
}

/* ---- answers ------------------------------------------------------------------------------- */

static void bound_answer(struct inflight *t, struct transfer_slot *s)
{
    const struct client_result *r = s->response.r;
    const int64_t tokens = r->max_tokens, given = t->p->max_chunks;
    const int64_t chunks = given         ? given
                           : tokens == 0 ? INT64_MAX
                                         : CHUNKS_BESIDE + CHUNKS_A_TOKEN * tokens;
    const int64_t bytes = tokens == 0 ? INT64_MAX : BYTES_BESIDE + BYTES_A_TOKEN * tokens;
    const int64_t n = (int64_t)(r->chunks.n + (given ? 0 : r->empties.n));
    if (s->failing || (n <= chunks && s->received <= bytes))
        return;
    s->failing = true;
    if (n > chunks)
        response_fail(&s->response, s->last_ns, RUN_ERROR, "too_long",
                      "an answer of more than %lld chunks", (long long)chunks);
    else
        response_fail(&s->response, s->last_ns, RUN_ERROR, "too_long",
                      "an answer of more than %lld bytes to a request for %lld tokens",
                      (long long)bytes, (long long)tokens);
}

/* Parses what arrived since the last call. */
static void parse(struct inflight *t, struct transfer_slot *s)
{
    struct client_result *r = s->response.r;
    const bool was_done = r->done;
    size_t before = r->chunks.n, at = 0;
    s->dirty = false;
    if (!s->is_stream)
        return; /* kept whole, for conclude() */
    for (size_t i = 0; i < s->segments.n; i++) {
        struct received_segment g = s->segments.p[i];
        s->failing |= !response_bytes(&s->response, g.time_ns, s->in.p + at, g.n);
        at += g.n;
    }
    s->segments.n = 0;
    buf_clear(&s->in);
    if (r->done && !was_done)
        s->done_ns = s->last_ns;
    t->watch->chunks(t->watch->self, s->request, before);
    if (!r->done)
        bound_answer(t, s);
}

static void leave(struct inflight *t, struct transfer_slot *s)
{
    long opened = 0;
    curl_easy_getinfo(s->easy, CURLINFO_NUM_CONNECTS, &opened);
    t->counts.connections += opened;
    curl_multi_remove_handle(t->multi, s->easy);
    if (s->dirty) { /* out of the list of those to parse */
        s->dirty = false;
        for (size_t i = 0; i < t->dirty.n; i++)
            if (t->dirty.p[i] == s)
                t->dirty.p[i] = NULL;
    }
    give_slot(t, s);
    t->watch->ended(t->watch->self, s->request, s->retry_after_s);
}

/* The answer is no stream: "<what>: <the message of its error document, or its beginning>". */
static void tell_answer(struct transfer_slot *s, int64_t time_ns, enum run_status status,
                        const char *type, const char *what)
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

static void tell_status(struct transfer_slot *s, long status, int64_t time_ns)
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
        const double limit_s = s->of->p->timeout_s;
        const bool put_off = limit_s > 0 && (double)after_s > limit_s;
        s->retry_after_s = put_off ? (double)INFINITY : (double)after_s;
        snprintf(what, sizeof what, "status %ld (Retry-After: %lld s%s)", status,
                 (long long)after_s, put_off ? ", longer than a request may take" : "");
    }
    tell_answer(s, time_ns, overload ? RUN_REJECTED : RUN_ERROR, type, what);
}

static void conclude(struct inflight *t, struct transfer_slot *s, CURLcode code)
{
    struct client_result *r = s->response.r;
    long status = 0;
    const char *type;
    int64_t time_ns = inflight_now(t);
    parse(t, s);
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    r->http_status = (int32_t)status;
    if (code == CURLE_WRITE_ERROR && !s->is_stream) /* on_body has enough of it */
        code = CURLE_OK;
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
    leave(t, s);
}

static void collect(struct inflight *t)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(t->multi, &left)) != NULL) {
        struct transfer_slot *s = NULL;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        conclude(t, s, code);
    }
}

static enum st between(struct inflight *t, struct err *e)
{
    return t->watch->between(t->watch->self, e);
}

static enum st parse_dirty(struct inflight *t, struct err *e)
{
    for (size_t i = 0; i < t->dirty.n; i++) {
        struct transfer_slot *s = t->dirty.p[i];
        if (!s || !s->live || !s->dirty)
            continue;
        parse(t, s);
        if (s->response.failed)
            leave(t, s);
        TRY(between(t, e));
    }
    t->dirty.n = 0;
    return ST_OK;
}

static bool over(double limit_s, int64_t since_ns, int64_t time_ns)
{
    return limit_s > 0 && time_ns - since_ns > ns_from_s(limit_s);
}

/* Ends requests that timed out. */
static void sweep(struct inflight *t)
{
    const struct client_params *p = t->p;
    const int64_t time_ns = inflight_now(t);
    t->sweep_ns = time_ns + SWEEP_NS;
    for (size_t i = t->live.n; i-- > 0;) {
        struct transfer_slot *s = t->live.p[i];
        if (s->response.r->done) {
            t->watch->done(t->watch->self, s->request);
            if (time_ns - s->done_ns > GRACE_NS || over(p->timeout_s, s->start_ns, time_ns))
                conclude(t, s, CURLE_OK);
        } else if (over(p->timeout_s, s->start_ns, time_ns)) {
            response_fail(&s->response, time_ns, RUN_TIMEOUT, "timeout",
                          "not over %g s after it was sent", p->timeout_s);
            leave(t, s);
        } else if (over(p->stall_timeout_s, s->last_ns, time_ns)) {
            response_fail(&s->response, time_ns, RUN_TIMEOUT, "stall", "no byte came for %g s",
                          p->stall_timeout_s);
            leave(t, s);
        }
    }
}

void inflight_cancel(struct inflight *t, const char *why)
{
    const int64_t time_ns = inflight_now(t);
    while (t->live.n > 0) {
        struct transfer_slot *s = vec_last(&t->live);
        response_fail(&s->response, time_ns, RUN_CANCELLED, "cancelled", "%s", why);
        leave(t, s);
    }
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void arm(struct inflight *t, int64_t due_ns)
{
    int64_t at = t->sweep_ns < t->curl_due_ns ? t->sweep_ns : t->curl_due_ns;
    at = due_ns < at ? due_ns : at;
    if (at == t->armed_ns)
        return;
    t->armed_ns = at;
    int64_t mono = t->t0_ns + (at > 0 ? at : 1);
    struct itimerspec it = {.it_value = {.tv_sec = mono / NS_PER_S, .tv_nsec = mono % NS_PER_S}};
    timerfd_settime(t->timer, TFD_TIMER_ABSTIME, &it, NULL);
}

static int wait_events(struct inflight *t, int64_t due_ns, struct epoll_event *ev)
{
    if (t->p->spin)
        return epoll_wait(t->epoll, ev, MAX_EVENTS, 0);
    arm(t, due_ns);
    int64_t begin_ns = clock_mono_ns();
    int n = epoll_wait(t->epoll, ev, MAX_EVENTS, -1);
    t->counts.waited_ns += clock_mono_ns() - begin_ns;
    return n;
}

enum st inflight_step(struct inflight *t, int64_t due_ns, struct err *e)
{
    struct epoll_event ev[MAX_EVENTS];
    int running, n = wait_events(t, due_ns, ev);
    if (n < 0 && errno != EINTR)
        return err_errno(e, false, "waiting for sockets");
    TRY(between(t, e));
    for (int i = 0; i < n; i++) {
        if (ev[i].data.fd == t->timer) {
            t->armed_ns = -1; /* fired, or to be reset: either way no longer armed */
            uint64_t fired;
            if (read(t->timer, &fired, sizeof fired) < 0 && errno != EAGAIN)
                return err_errno(e, false, "reading a timer");
            continue;
        }
        int mask = (ev[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                   (ev[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (ev[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0);
        curl_multi_socket_action(t->multi, ev[i].data.fd, mask, &running);
        TRY(between(t, e));
    }
    if (t->curl_due_ns <= inflight_now(t))
        kick(t);
    collect(t);
    TRY(parse_dirty(t, e));
    if (t->sweep_ns <= inflight_now(t))
        sweep(t);
    return between(t, e);
}

/* ---- begin and end ------------------------------------------------------------------------- */

static long upload_bytes(size_t largest)
{
    enum { LEAST = 64 << 10, MOST = 2 << 20 }; /* libcurl's default and limit */
    return largest < LEAST ? LEAST : largest > MOST ? MOST : (long)largest;
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

static enum st open_all(struct inflight *t, const volatile sig_atomic_t *stop, struct err *e)
{
    TRY(easy_global(e));
    raise_limits();
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    t->multi = curl_multi_init();
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = t->timer};
    if (t->epoll < 0 || t->timer < 0 || epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->timer, &ev) != 0)
        return err_set(e, ST_DEVICE, "no epoll or timer: %s", strerror(errno));
    if (!t->multi)
        return err_set(e, ST_DEVICE, "libcurl has no memory");
    easy_touch(t->multi, t->p, stop);
    curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
    curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
    curl_multi_setopt(t->multi, CURLMOPT_MAXCONNECTS, 1L << 20);
    t->headers = easy_headers(t->p, true);
    return ST_OK;
}

enum st inflight_open(const struct client_params *p, const struct inflight_watch *watch,
                      size_t largest_bytes, const volatile sig_atomic_t *stop,
                      struct inflight **out, struct err *e)
{
    struct inflight *t = *out = mem_alloc(sizeof *t);
    *t = (struct inflight){.p = p,
                           .watch = watch,
                           .epoll = -1,
                           .timer = -1,
                           .curl_due_ns = INT64_MAX,
                           .upload_bytes = upload_bytes(largest_bytes)};
    const enum st st = open_all(t, stop, e);
    if (st != ST_OK)
        inflight_close(out);
    return st;
}

void inflight_start(struct inflight *t)
{
    t->t0_ns = clock_mono_ns();
    t->armed_ns = -1;
}

void inflight_close(struct inflight **self)
{
    struct inflight *t = *self;
    if (!t)
        return;
    for (size_t i = 0; i < t->free.n; i++) {
        struct transfer_slot *s = t->free.p[i];
        curl_easy_cleanup(s->easy);
        response_free(&s->response);
        buf_free(&s->in);
        vec_free(&s->segments);
        mem_free(s);
    }
    if (t->multi)
        curl_multi_cleanup(t->multi);
    curl_slist_free_all(t->headers);
    if (t->epoll >= 0)
        close(t->epoll);
    if (t->timer >= 0)
        close(t->timer);
    vec_free(&t->live);
    vec_free(&t->free);
    vec_free(&t->dirty);
    mem_free(t);
    *self = NULL;
}
