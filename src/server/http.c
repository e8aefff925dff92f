#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/framing.h"
#include "server/origin.h"
#include "server/visit.h"

#ifndef MHD_HTTP_CONTENT_TOO_LARGE /* the name that older releases lack */
#define MHD_HTTP_CONTENT_TOO_LARGE 413
#endif

/* ---- plain answers ------------------------------------------------------------------------- */

static result json(struct MHD_Connection *c, unsigned status, struct buf *text)
{
    result ok = visit_respond(c, status, "application/json", text);
    buf_free(text);
    return ok;
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
        return visit_refuse(s, c,
                            &(struct refusal){.status = MHD_HTTP_NOT_FOUND,
                                              .message = message,
                                              .code = "model_not_found"});
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
    g.kv_blocks = s->p->kv_blocks;
    for (size_t i = 0; i < s->replicas.n; i++) {
        const struct gauge_replica *r = &s->replicas.p[i];
        g.replicas.kv_blocks_used += r->kv_blocks_used;
        g.replicas.preemptions += r->preemptions;
        g.replicas.prefix_looked_tokens += r->prefix_looked_tokens;
        g.replicas.prefix_hit_tokens += r->prefix_hit_tokens;
    }
    for (const struct live_request *l = s->all; l; l = l->next) {
        g.running += !l->over && l->ids.n > 0;
        g.waiting += !l->over && l->ids.n == 0;
    }
    pthread_mutex_unlock(&s->lock);
    gauges_write(&text, &g, s->p->rules.model);
    result ok = visit_respond(c, MHD_HTTP_OK, "text/plain; version=0.0.4", &text);
    buf_free(&text);
    return ok;
}

/* ---- requests ------------------------------------------------------------------------------ */

static const struct route routes[] = {
    {"POST", "/v1/completions", HTTP_COMPLETIONS, answer_generated},
    {"POST", "/v1/chat/completions", HTTP_CHAT, answer_generated},
    {"POST", "/v1/responses", HTTP_RESPONSES, answer_generated},
    {"GET", "/v1/models", 0, answer_model_list},
    {"GET", "/v1/models/", 0, answer_model},
    {"GET", "/metrics", 0, answer_metrics},
    {"GET", "/health", 0, answer_health},
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
    return visit_refuse(
        s, c,
        &(struct refusal){.status = MHD_HTTP_METHOD_NOT_ALLOWED,
                          .message = get ? "GET is wanted here" : "POST is wanted here",
                          .allow = get ? "GET, HEAD" : "POST"});
}

static result too_large(struct server *s, struct MHD_Connection *c)
{
    char text[96];
    snprintf(text, sizeof text, "the body is larger than %lld bytes",
             (long long)s->p->max_body_bytes);
    return visit_refuse_with(s, c, MHD_HTTP_CONTENT_TOO_LARGE, text);
}

static result no_room(struct server *s, struct MHD_Connection *c)
{
    return visit_refuse_with(s, c, MHD_HTTP_TOO_MANY_REQUESTS,
                             "the bodies of other requests take all the room there is");
}

static enum MHD_Result add_to_framing(void *self, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    (void)kind;
    framing_add(self, sv_of(name), sv_of(value ? value : ""));
    return MHD_YES;
}

static struct conn *conn_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static bool is_over_limit(struct server *s, struct MHD_Connection *c)
{
    const struct conn *conn = conn_of(c);
    pthread_mutex_lock(&s->lock);
    const bool over = conn && conn->over;
    pthread_mutex_unlock(&s->lock);
    return over;
}

/* The reason to refuse a request by its headers alone; NULL = none. */
static const struct refusal *refusal_of(struct server *s, struct MHD_Connection *c,
                                        const char *path, const char *version, struct refusal *out)
{
    struct framing framing = {0};
    MHD_get_connection_values(c, MHD_HEADER_KIND, add_to_framing, &framing);
    const char *fault = framing_fault(&framing, strcmp(version, MHD_HTTP_VERSION_1_0) == 0);
    if (fault) {
        *out = (struct refusal){.status = MHD_HTTP_BAD_REQUEST, .message = fault, .close = true};
        return out;
    }
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (!origin_host_ok(host, s->p->host, s->p->hosts)) {
        *out = (struct refusal){.status = MHD_HTTP_FORBIDDEN,
                                .message = "Host names another server; server.hosts allows more "
                                           "names",
                                .code = "unknown_host",
                                .close = true};
        return out;
    }
    if (is_over_limit(s, c) && strcmp(path, "/health") != 0) {
        *out = (struct refusal){.status = MHD_HTTP_SERVICE_UNAVAILABLE,
                                .message = "too many connections are in use"};
        return out;
    }
    if (strncmp(path, "/v1/", 4) != 0)
        return NULL;
    switch (keys_check(&s->p->keys, MHD_lookup_connection_value(c, MHD_HEADER_KIND,
                                                                MHD_HTTP_HEADER_AUTHORIZATION))) {
    case KEYS_GOOD:
        return NULL;
    case KEYS_MISSING:
        *out = (struct refusal){.status = MHD_HTTP_UNAUTHORIZED,
                                .message = "You didn't provide an API key: send it as "
                                           "'Authorization: Bearer KEY'"};
        return out;
    case KEYS_WRONG:
        break;
    }
    *out = (struct refusal){.status = MHD_HTTP_UNAUTHORIZED,
                            .message = "Incorrect API key provided",
                            .code = "invalid_api_key"};
    return out;
}

static void set_awaits(struct server *s, struct MHD_Connection *c, bool awaits_request)
{
    struct conn *conn = conn_of(c);
    if (!conn)
        return;
    pthread_mutex_lock(&s->lock);
    if (awaits_request)
        conn_awaits_request(conn, clock_mono_ns());
    else
        conn_has_request(conn);
    pthread_mutex_unlock(&s->lock);
}

static void on_connection(void *self, struct MHD_Connection *c, void **conn,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *s = self;
    pthread_mutex_lock(&s->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *fd =
            MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        const union MHD_ConnectionInfo *from =
            MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        *conn = conn_add(&s->conns, &s->limits, fd ? fd->connect_fd : -1,
                         from ? from->client_addr : NULL, clock_mono_ns());
    } else if (*conn) {
        conn_remove(&s->conns, *conn);
        *conn = NULL;
    }
    pthread_mutex_unlock(&s->lock);
}

static result begin_visit(struct server *s, struct MHD_Connection *c, const char *path,
                          const char *method, const char *version, void **self)
{
    struct refusal why;
    if (refusal_of(s, c, path, version, &why))
        return visit_refuse(s, c, &why);
    const struct route *route = find_route(path);
    const char *length =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    int64_t n = 0;
    if (!route)
        return visit_refuse_with(s, c, MHD_HTTP_NOT_FOUND, "there is nothing at this path");
    if (strcmp(method, "HEAD") == 0) /* the library leaves out the body */
        method = "GET";
    if (strcmp(method, route->method) != 0)
        return no_method(s, c, route);
    if (strcmp(method, "POST") == 0 && !origin_is_json(MHD_lookup_connection_value(
                                           c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE)))
        return visit_refuse_with(s, c, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                 "send Content-Type: application/json");
    if (length && (!str_int64(sv_of(length), &n) || n > s->p->max_body_bytes))
        return too_large(s, c);
    *self = visit_new(s, route);
    return MHD_YES;
}

static result on_request(void *self, struct MHD_Connection *c, const char *path, const char *method,
                         const char *version, const char *data, size_t *n, void **visit)
{
    struct server *s = self;
    struct visit *v = *visit;
    if (!v)
        return begin_visit(s, c, path, method, version, visit);
    if (*n > 0) {
        const bool go_on = visit_take(v, data, *n);
        *n = 0;
        return go_on ? MHD_YES : MHD_NO;
    }
    set_awaits(s, c, false);
    v->path = path;
    if (v->too_large)
        return too_large(s, c);
    return v->no_room ? no_room(s, c) : v->route->answer(s, c, v);
}

static void on_completed(void *self, struct MHD_Connection *c, void **visit,
                         enum MHD_RequestTerminationCode why)
{
    (void)why;
    set_awaits(self, c, true); /* the next request, where the connection is kept */
    if (*visit)
        visit_free(*visit);
    *visit = NULL;
}

static void discard_log(void *self, const char *fmt, va_list ap)
{
    (void)self, (void)fmt, (void)ap;
}

/* ---- begin and end ------------------------------------------------------------------------- */

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool parse_address(const char *host, int64_t port, union socket_address *out)
{
    *out = (union socket_address){0};
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
    union socket_address at;
    if (!parse_address(host, 0, &at))
        return false;
    if (at.any.sa_family == AF_INET)
        return ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr);
}

/* Connections for which there are descriptors: accept fails beyond, and nobody gets in any more. */
static void set_limits(struct server *s)
{
    enum { OTHER_FILES = 64 }; /* of the run that is written, of an engine */
    const int64_t want = s->p->max_connections;
    struct rlimit files;
    s->limits = (struct conn_limits){(size_t)want, (size_t)s->p->max_per_address};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    const rlim_t need = (rlim_t)want + s->reserve + OTHER_FILES;
    if (files.rlim_cur < need) {
        files.rlim_cur = need < files.rlim_max ? need : files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= need)
        return;
    const int64_t room = (int64_t)files.rlim_cur - (int64_t)s->reserve - OTHER_FILES;
    s->limits.all = room > 1 ? (size_t)room : 1;
    log_warn("serve: %zu connections at once, not server.max_connections=%lld: the limit on open "
             "files (ulimit -n) is %lld",
             s->limits.all, (long long)want, (long long)files.rlim_cur);
}

static enum st listen_on(struct server *s, struct err *e)
{
    const struct server_params *p = s->p;
    union socket_address at;
    if (!parse_address(p->host, p->port, &at))
        return err_set(e, ST_USAGE, "server.host: '%s' is no numeric address", p->host);
    enum { RESERVE_OF_THREAD = 64 }; /* the library shares the limit out among its threads */
    s->reserve = RESERVE_OF_THREAD * (p->threads > 1 ? (size_t)p->threads : 1);
    set_limits(s);
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     (at.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : MHD_NO_FLAG);
    s->daemon = MHD_start_daemon(
        flags, (uint16_t)p->port, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER,
        discard_log, NULL, MHD_OPTION_SOCK_ADDR, &at.any, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(s->limits.all + s->reserve), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)p->max_header_bytes, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(p->idle_timeout_s + 0.999), MHD_OPTION_LISTEN_BACKLOG_SIZE, 4096u,
        MHD_OPTION_THREAD_POOL_SIZE, p->threads > 1 ? (unsigned)p->threads : 0u, MHD_OPTION_END);
    if (!s->daemon) {
        err_set(e, ST_DEVICE, "cannot listen on %s port %lld", p->host, (long long)p->port);
        return err_hint(e, "is the port in use? server.port=0 takes any free one");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    s->port = info ? info->port : (int)p->port;
    return ST_OK;
}

enum st server_open(const struct server_params *p, struct server **out, struct err *e)
{
    pthread_condattr_t mono;
    struct server *s = *out = mem_alloc(sizeof *s);
    s->p = p;
    s->last = &s->first;
    s->created_s = clock_wall_ns() / NS_PER_S;
    s->by_id_cap = 256;
    s->by_id = mem_alloc(s->by_id_cap * sizeof *s->by_id);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_cond_init(&s->arrived, &mono);
    pthread_condattr_destroy(&mono);
    enum st st = intake_open(&s->intake, e);
    if (st == ST_OK)
        st = listen_on(s, e);
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
    live_refuse_new(s);
    if (s->intake)
        intake_close(s->intake); /* connections that wait for it are answered */
    live_end_all(s);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    intake_free(&s->intake);
    pthread_cond_destroy(&s->arrived);
    pthread_mutex_destroy(&s->lock);
    vec_free(&s->replicas);
    mem_free(s->by_id);
    mem_free(s);
}
