#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/live.h"

#ifndef MHD_HTTP_CONTENT_TOO_LARGE /* the name that older releases lack */
#define MHD_HTTP_CONTENT_TOO_LARGE 413
#endif

enum { TAKE = 64 }; /* tokens formatted at a time */

typedef enum MHD_Result result;

/* A request on its way in, and what became of it. */
struct visit {
    const struct route *route;
    struct buf body;
    struct live *live; /* once it joined */
    const char *path;  /* while it is answered */
    bool too_large;
};

struct route {
    const char *method, *path; /* one that ends in / stands for all that begin with it */
    bool chat;
    result (*answer)(struct server *s, struct MHD_Connection *c, struct visit *v);
};

/* ---- plain answers ------------------------------------------------------------------------- */

/* allow: of a 405, the methods that are wanted; else NULL. */
static result respond_with(struct MHD_Connection *c, unsigned status, const char *type,
                           const char *allow, const struct buf *text)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(
        text->n, text->n ? text->p : (char[]){0}, MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_TOO_MANY_REQUESTS)
        MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    if (allow)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, allow);
    result ok = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return ok;
}

static result respond(struct MHD_Connection *c, unsigned status, const char *type,
                      const struct buf *text)
{
    return respond_with(c, status, type, NULL, text);
}

static result json(struct MHD_Connection *c, unsigned status, struct buf *text)
{
    result ok = respond(c, status, "application/json", text);
    buf_free(text);
    return ok;
}

static result refuse_with(struct server *s, struct MHD_Connection *c, unsigned status,
                          const char *type, const char *message, const char *allow)
{
    struct buf text = {0};
    pthread_mutex_lock(&s->lock);
    s->gauges.refused_bad += status < 500 && status != MHD_HTTP_TOO_MANY_REQUESTS;
    pthread_mutex_unlock(&s->lock);
    answer_error(&text, message, type, (int)status);
    result ok = respond_with(c, status, "application/json", allow, &text);
    buf_free(&text);
    return ok;
}

static result refuse(struct server *s, struct MHD_Connection *c, unsigned status, const char *type,
                     const char *message)
{
    return refuse_with(s, c, status, type, message, NULL);
}

static result answer_health(struct server *s, struct MHD_Connection *c, struct visit *v)
{
    struct buf text = {0};
    (void)v;
    pthread_mutex_lock(&s->lock);
    bool draining = s->draining;
    pthread_mutex_unlock(&s->lock);
    buf_printf(&text, "{\"status\":\"%s\"}", draining ? "draining" : "ok");
    return json(c, draining ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, &text);
}

static result answer_model_list(struct server *s, struct MHD_Connection *c, struct visit *v)
{
    struct buf text = {0};
    (void)v;
    answer_models(&text, s->p->rules.model, s->created_s, s->p->rules.max_model_len);
    return json(c, MHD_HTTP_OK, &text);
}

static result answer_model(struct server *s, struct MHD_Connection *c, struct visit *v)
{
    const char *name = v->path + strlen(v->route->path), *mine = s->p->rules.model;
    struct buf text = {0};
    char message[256];
    if (strcmp(name, mine) != 0) {
        snprintf(message, sizeof message, "the model '%.100s' does not exist; this is %.100s", name,
                 mine);
        return refuse(s, c, MHD_HTTP_NOT_FOUND, "invalid_request_error", message);
    }
    answer_model_entry(&text, mine, s->created_s, s->p->rules.max_model_len);
    return json(c, MHD_HTTP_OK, &text);
}

static result answer_metrics(struct server *s, struct MHD_Connection *c, struct visit *v)
{
    struct buf text = {0};
    (void)v;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    pthread_mutex_lock(&s->lock);
    struct gauges g = s->gauges;
    g.connections = info ? info->num_connections : 0;
    for (const struct live *l = s->all; l; l = l->next) {
        g.running += !l->over && l->ids.n > 0;
        g.waiting += !l->over && l->ids.n == 0;
    }
    pthread_mutex_unlock(&s->lock);
    gauges_write(&text, &g, s->p->rules.model);
    result ok = respond(c, MHD_HTTP_OK, "text/plain; version=0.0.4", &text);
    buf_free(&text);
    return ok;
}

/* ---- generated answers --------------------------------------------------------------------- */

static struct answer_head head_of(const struct server *s, const struct live *l)
{
    return (struct answer_head){l->id, l->created_s, s->p->rules.model, &l->ask};
}

static const char *finish_name(enum live_finish f)
{
    static const char *const names[] = {NULL, "length", "stop"};
    return names[f];
}

/* Text of the tokens first .. first + n - 1 where stop strings cut it; at[n] are its ends. Lock
 * held. */
static void copy_stopped(const struct live *l, int64_t first, int64_t n, struct buf *text,
                         size_t *at)
{
    const size_t *upto = l->stops.upto.p;
    const size_t begin = first > 0 ? upto[first - 1] : 0;
    if (n > 0)
        buf_add(text, buf_str(&l->stops.text) + begin, upto[first + n - 1] - begin);
    for (int64_t i = 0; i < n; i++)
        at[i] = upto[first + i] - begin;
}

/* Events for up to TAKE tokens, and the end, into l->out. False: nothing to be sent now. */
static bool format(struct server *s, struct live *l)
{
    int32_t ids[TAKE];
    size_t at[TAKE], sent = 0;
    struct buf text = {0}, stopped = {0};
    const struct answer_head h = head_of(s, l);
    pthread_mutex_lock(&s->lock);
    int64_t n = (int64_t)l->ids.n - l->n_taken;
    n = n < TAKE ? n : TAKE;
    if (n > 0)
        memcpy(ids, l->ids.p + l->n_taken, (size_t)n * sizeof *ids);
    int64_t index = l->n_taken;
    if (l->ask.n_stops > 0)
        copy_stopped(l, index, n, &stopped, at);
    l->n_taken += n;
    bool all = l->n_taken == (int64_t)l->ids.n;
    enum live_finish finish = all ? l->finish : FINISH_NOT;
    bool over = all && l->over; /* its place is free when the client hears of the end */
    pthread_mutex_unlock(&s->lock);

    buf_clear(&l->out);
    l->out_at = 0;
    for (int64_t i = 0; i < n; i++) {
        enum live_finish f = i + 1 == n ? finish : FINISH_NOT;
        buf_clear(&text);
        if (l->ask.n_stops > 0) {
            buf_add(&text, buf_str(&stopped) + sent, at[i] - sent);
            sent = at[i];
        } else {
            detok_add(&l->detok, ids[i], f != FINISH_NOT, &text);
        }
        answer_event(&l->out, &h, (struct sv){buf_str(&text), text.n}, ids[i], ++index,
                     finish_name(f));
    }
    buf_free(&text);
    buf_free(&stopped);
    if (over && finish != FINISH_NOT)
        answer_end(&l->out, &h, index);
    else if (over)
        answer_event_error(&l->out, l->error[0] ? l->error : "the request was not finished");
    l->ended = over;
    return l->out.n > 0;
}

/* Goes to sleep unless there is something to say. Lock not held. */
static bool sleep_or_go_on(struct server *s, struct live *l)
{
    pthread_mutex_lock(&s->lock);
    bool news = (int64_t)l->ids.n > l->n_taken || l->over;
    if (!news) {
        l->suspended = true;
        MHD_suspend_connection(l->connection);
    }
    pthread_mutex_unlock(&s->lock);
    return news;
}

static ssize_t read_stream(void *self, uint64_t pos, char *to, size_t max)
{
    struct live *l = self;
    struct server *s = l->server;
    (void)pos;
    if (l->out_at == l->out.n) {
        if (l->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        while (!format(s, l))
            if (!sleep_or_go_on(s, l))
                return 0;
    }
    pthread_mutex_lock(&s->lock);
    bool gone = l->gone;
    pthread_mutex_unlock(&s->lock);
    if (gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t n = l->out.n - l->out_at;
    n = n < max ? n : max;
    memcpy(to, l->out.p + l->out_at, n);
    l->out_at += n;
    return (ssize_t)n;
}

static result begin_stream(struct MHD_Connection *c, struct live *l)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read_stream, l, NULL);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    result ok = MHD_queue_response(c, MHD_HTTP_OK, r);
    MHD_destroy_response(r);
    return ok;
}

/* Nothing more comes: the loop is done with it, so its fields are ours to read. */
static result whole_answer(struct server *s, struct MHD_Connection *c, struct live *l)
{
    struct buf out = {0}, text = {0};
    const struct answer_head h = head_of(s, l);
    int64_t n = (int64_t)l->ids.n;
    for (int64_t i = 0; i < n && l->ask.n_stops == 0; i++)
        detok_add(&l->detok, l->ids.p[i], i + 1 == n, &text);
    if (l->ask.n_stops > 0)
        buf_add(&text, buf_str(&l->stops.text), l->stops.text.n);
    answer_document(&out, &h, (struct sv){buf_str(&text), text.n}, l->ids.p, n,
                    finish_name(l->finish));
    buf_free(&text);
    return json(c, MHD_HTTP_OK, &out);
}

/* Called again each time the connection wakes up, until an answer is queued. */
static result go_on(struct server *s, struct MHD_Connection *c, struct live *l)
{
    pthread_mutex_lock(&s->lock);
    bool over = l->over, any = l->ids.n > 0, good = l->finish != FINISH_NOT;
    bool ready = over || (any && l->ask.stream);
    enum run_status status = l->status;
    if (!ready) {
        l->suspended = true;
        MHD_suspend_connection(c);
    }
    pthread_mutex_unlock(&s->lock);
    if (!ready)
        return MHD_YES;
    if (any && l->ask.stream)
        return begin_stream(c, l);
    if (good)
        return whole_answer(s, c, l);
    if (status == RUN_REJECTED)
        return refuse(s, c, MHD_HTTP_BAD_REQUEST, "invalid_request_error", l->error);
    return refuse(s, c, MHD_HTTP_SERVICE_UNAVAILABLE, "server_error",
                  l->error[0] ? l->error : "the request was not finished");
}

static result join(struct server *s, struct MHD_Connection *c, struct visit *v, struct arena *a,
                   const struct ask *ask)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    switch (live_join(s, a, ask, c, info ? info->connect_fd : -1, &v->live)) {
    case LIVE_JOINED:
        return go_on(s, c, v->live);
    case LIVE_FULL:
        arena_free(&a);
        return refuse(s, c, MHD_HTTP_TOO_MANY_REQUESTS, "overloaded_error",
                      "too many requests wait already");
    case LIVE_DRAINING:
        break;
    }
    arena_free(&a);
    return refuse(s, c, MHD_HTTP_SERVICE_UNAVAILABLE, "server_error", "the server is going down");
}

static result answer_generated(struct server *s, struct MHD_Connection *c, struct visit *v)
{
    struct err e = {0};
    struct ask ask;
    int status;
    if (v->live)
        return go_on(s, c, v->live);
    struct arena *a = arena_new();
    struct sv body = {buf_str(&v->body), v->body.n};
    if (ask_parse(a, &s->p->rules, v->route->chat, body, &ask, &status, &e) != ST_OK) {
        arena_free(&a);
        return refuse(s, c, (unsigned)status, "invalid_request_error", err_cause(&e, 0));
    }
    buf_free(&v->body);
    return join(s, c, v, a, &ask);
}

/* ---- requests ------------------------------------------------------------------------------ */

static const struct route routes[] = {
    {"POST", "/v1/completions", false, answer_generated},
    {"POST", "/v1/chat/completions", true, answer_generated},
    {"GET", "/v1/models", false, answer_model_list},
    {"GET", "/v1/models/", false, answer_model},
    {"GET", "/metrics", false, answer_metrics},
    {"GET", "/health", false, answer_health},
};

static const struct route *find_route(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const char *want = routes[i].path;
        const size_t n = strlen(want);
        if (strcmp(path, want) == 0 || (want[n - 1] == '/' && strncmp(path, want, n) == 0))
            return &routes[i];
    }
    return NULL;
}

static result no_method(struct server *s, struct MHD_Connection *c, const struct route *route)
{
    const bool get = strcmp(route->method, "GET") == 0;
    return refuse_with(s, c, MHD_HTTP_METHOD_NOT_ALLOWED, "invalid_request_error",
                       get ? "GET is wanted here" : "POST is wanted here",
                       get ? "GET, HEAD" : "POST");
}

static result too_large(struct server *s, struct MHD_Connection *c)
{
    char text[96];
    snprintf(text, sizeof text, "the body is larger than %zu bytes", s->p->max_body_bytes);
    return refuse(s, c, MHD_HTTP_CONTENT_TOO_LARGE, "invalid_request_error", text);
}

static void set_asks(struct server *s, struct MHD_Connection *c, bool asks)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (!info || !info->socket_context)
        return;
    pthread_mutex_lock(&s->lock);
    if (asks)
        guest_asks(info->socket_context, clock_mono_ns());
    else
        guest_has_asked(info->socket_context);
    pthread_mutex_unlock(&s->lock);
}

static void on_connection(void *self, struct MHD_Connection *c, void **guest,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *s = self;
    pthread_mutex_lock(&s->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        *guest = guests_add(&s->guests, info ? info->connect_fd : -1, clock_mono_ns());
    } else if (*guest) {
        guests_remove(&s->guests, *guest);
        *guest = NULL;
    }
    pthread_mutex_unlock(&s->lock);
}

static result begin_visit(struct server *s, struct MHD_Connection *c, const char *path,
                          const char *method, void **self)
{
    const struct route *route = find_route(path);
    const char *length =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    int64_t n = 0;
    if (!route)
        return refuse(s, c, MHD_HTTP_NOT_FOUND, "invalid_request_error",
                      "there is nothing at this path");
    if (strcmp(method, "HEAD") == 0) /* the library leaves out the body */
        method = "GET";
    if (strcmp(method, route->method) != 0)
        return no_method(s, c, route);
    if (length && str_int64(sv_of(length), &n) && n > (int64_t)s->p->max_body_bytes)
        return too_large(s, c);
    struct visit *v = mem_alloc(sizeof *v);
    v->route = route;
    *self = v;
    return MHD_YES;
}

static result on_request(void *self, struct MHD_Connection *c, const char *path, const char *method,
                         const char *version, const char *data, size_t *n, void **visit)
{
    struct server *s = self;
    struct visit *v = *visit;
    (void)version;
    if (!v)
        return begin_visit(s, c, path, method, visit);
    if (*n == 0) {
        set_asks(s, c, false);
        v->path = path;
        return v->too_large ? too_large(s, c) : v->route->answer(s, c, v);
    }
    if (v->body.n + *n <= s->p->max_body_bytes) {
        buf_add(&v->body, data, *n);
    } else if (v->too_large) {
        return MHD_NO;
    } else {
        v->too_large = true;
        buf_free(&v->body);
        v->body.n = s->p->max_body_bytes; /* one more piece, and the connection is closed */
    }
    *n = 0;
    return MHD_YES;
}

static void on_completed(void *self, struct MHD_Connection *c, void **visit,
                         enum MHD_RequestTerminationCode why)
{
    struct visit *v = *visit;
    (void)why;
    set_asks(self, c, true); /* the next one, where the connection is kept */
    if (!v)
        return;
    if (v->live)
        live_leave(self, v->live);
    if (!v->too_large)
        buf_free(&v->body);
    mem_free(v);
    *visit = NULL;
}

static void discard_log(void *self, const char *fmt, va_list ap)
{
    (void)self, (void)fmt, (void)ap;
}

/* ---- begin and end ------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool parse_address(const char *host, int port, union address *out)
{
    *out = (union address){0};
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons((uint16_t)port);
        return true;
    }
    if (inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons((uint16_t)port);
        return true;
    }
    return false;
}

bool server_is_loopback(const char *host)
{
    union address at;
    if (!parse_address(host, 0, &at))
        return false;
    if (at.any.sa_family == AF_INET)
        return ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr);
}

static enum st listen_on(struct server *s, struct err *e)
{
    const struct server_params *p = s->p;
    union address at;
    if (!parse_address(p->host, p->port, &at))
        return err_set(e, ST_USAGE, "server.host: '%s' is no numeric address", p->host);
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     (at.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : MHD_NO_FLAG);
    s->daemon = MHD_start_daemon(
        flags, (uint16_t)p->port, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER,
        discard_log, NULL, MHD_OPTION_SOCK_ADDR, &at.any, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)p->max_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, p->max_header_bytes,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(p->idle_timeout_s + 0.999),
        MHD_OPTION_LISTEN_BACKLOG_SIZE, 4096u, MHD_OPTION_THREAD_POOL_SIZE,
        p->threads > 1 ? (unsigned)p->threads : 0u, MHD_OPTION_END);
    if (!s->daemon) {
        err_set(e, ST_DEVICE, "cannot listen on %s port %d", p->host, p->port);
        return err_hint(e, "is the port in use? server.port=0 takes any free one");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    s->port = info ? info->port : p->port;
    return ST_OK;
}

enum st server_open(const struct server_params *p, struct server **out, struct err *e)
{
    pthread_condattr_t mono;
    struct server *s = *out = mem_alloc(sizeof *s);
    s->p = p;
    s->last = &s->first;
    s->listener = -1;
    s->created_s = clock_wall_ns() / NS_PER_S;
    s->by_id_cap = 256;
    s->by_id = mem_alloc(s->by_id_cap * sizeof *s->by_id);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_cond_init(&s->arrived, &mono);
    pthread_condattr_destroy(&mono);
    enum st st = listen_on(s, e);
    if (st != ST_OK)
        server_close(out);
    return st;
}

int server_port(const struct server *s)
{
    return s->port;
}

void server_close(struct server **out)
{
    struct server *s = *out;
    *out = NULL;
    if (!s)
        return;
    live_end_all(s);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (s->listener >= 0)
        close(s->listener);
    pthread_cond_destroy(&s->arrived);
    pthread_mutex_destroy(&s->lock);
    mem_free(s->by_id);
    mem_free(s);
}
