#include "server/visit.h"

struct visit *visit_new(struct server *s, const struct route *route)
{
    struct visit *v = mem_alloc(sizeof *v);
    *v = (struct visit){.server = s, .route = route};
    return v;
}

void visit_free(struct visit *v)
{
    if (v->live)
        live_leave(v->server, v->live);
    visit_drop_body(v);
    pthread_mutex_lock(&v->server->lock);
    v->server->n_read_aside -= v->read_aside;
    pthread_mutex_unlock(&v->server->lock);
    arena_free(&v->a);
    mem_free(v);
}

/* Reserves n more bytes for bodies; false: the limit is reached. */
static bool hold(struct server *s, size_t n)
{
    pthread_mutex_lock(&s->lock);
    const bool room = s->held_bytes + n <= (size_t)s->p->max_held_bytes;
    if (room)
        s->held_bytes += n;
    pthread_mutex_unlock(&s->lock);
    return room;
}

void visit_drop_body(struct visit *v)
{
    pthread_mutex_lock(&v->server->lock);
    v->server->held_bytes -= v->body.n;
    pthread_mutex_unlock(&v->server->lock);
    buf_free(&v->body);
}

bool visit_take(struct visit *v, const char *data, size_t n)
{
    if (v->too_large)
        return false;
    v->seen += n;
    v->too_large = v->seen > (size_t)v->server->p->max_body_bytes;
    v->no_room = !v->too_large && (v->no_room || !hold(v->server, n));
    if (v->too_large || v->no_room)
        visit_drop_body(v); /* the rest is read and dropped, so that the client gets the response */
    else
        buf_add(&v->body, data, n);
    return true;
}

/* ---- answers -------------------------------------------------------------------------------- */

static const char *type_of(unsigned status)
{
    if (status == MHD_HTTP_TOO_MANY_REQUESTS)
        return "overloaded_error";
    return status < 500 ? "invalid_request_error" : "server_error";
}

static void add_header(struct MHD_Response *r, const char *name, const char *value)
{
    (void)!MHD_add_response_header(r, name, value);
}

static struct MHD_Response *response(const char *type, const struct buf *text)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(
        text->n, text->n ? text->p : (char[]){0}, MHD_RESPMEM_MUST_COPY);
    if (r)
        add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return r;
}

static result queue(struct MHD_Connection *c, unsigned status, struct MHD_Response *r)
{
    if (!r)
        return MHD_NO;
    const result ok = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return ok;
}

result visit_respond(struct MHD_Connection *c, unsigned status, const char *type,
                     const struct buf *text)
{
    struct MHD_Response *r = response(type, text);
    if (r && status == MHD_HTTP_SERVICE_UNAVAILABLE)
        add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    return queue(c, status, r);
}

result visit_refuse(struct server *s, struct MHD_Connection *c, const struct refusal *why)
{
    struct buf text = {0};
    const unsigned status = why->status;
    pthread_mutex_lock(&s->lock);
    s->gauges.refused_overload += status == MHD_HTTP_TOO_MANY_REQUESTS;
    s->gauges.refused_bad += status < 500 && status != MHD_HTTP_TOO_MANY_REQUESTS;
    pthread_mutex_unlock(&s->lock);
    answer_error(&text, why->message, type_of(status), why->param, why->code);
    struct MHD_Response *r = response("application/json", &text);
    buf_free(&text);
    if (!r)
        return MHD_NO;
    if (status == MHD_HTTP_TOO_MANY_REQUESTS)
        add_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (status == MHD_HTTP_UNAUTHORIZED)
        add_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE || why->close)
        add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    if (why->allow)
        add_header(r, MHD_HTTP_HEADER_ALLOW, why->allow);
    return queue(c, status, r);
}

result visit_refuse_with(struct server *s, struct MHD_Connection *c, unsigned status,
                         const char *message)
{
    return visit_refuse(s, c, &(struct refusal){.status = status, .message = message});
}
