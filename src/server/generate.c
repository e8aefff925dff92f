/* Completions, chats and responses: a body is read, joins the loop's queue, and its tokens are sent
 * on. */
#include <string.h>

#include "server/visit.h"

enum { TAKE = 64 };               /* tokens formatted at a time */
enum { READ_AT_ONCE = 16 << 10 }; /* bytes of a body: about a millisecond's work */

static struct answer_head head_of(const struct server *s, const struct live_request *l)
{
    return (struct answer_head){
        .id = l->id, .created_s = l->created_s, .model = s->p->rules.model, .request = &l->request};
}

static const char *finish_name(enum live_finish f)
{
    static const char *const names[] = {NULL, "length", "stop"};
    return names[f];
}

/* Text of the tokens first .. first + n - 1 where stop strings cut it; at[n] are its ends. Lock
 * held. */
static void copy_stopped(const struct live_request *l, int64_t first, int64_t n, struct buf *text,
                         size_t *at)
{
    const size_t *upto = l->stops.upto.p;
    const size_t begin = first > 0 ? upto[first - 1] : 0;
    if (n > 0)
        buf_add(text, buf_str(&l->stops.text) + begin, upto[first + n - 1] - begin);
    for (int64_t i = 0; i < n; i++)
        at[i] = upto[first + i] - begin;
}

/* Formats events for up to TAKE tokens, and the end, into l->out. False: nothing to send now. */
static bool format(struct server *s, struct live_request *l)
{
    int32_t ids[TAKE];
    size_t at[TAKE], sent = 0;
    struct buf text = {0}, stopped = {0};
    struct answer_head h = head_of(s, l);
    pthread_mutex_lock(&s->lock);
    int64_t n = (int64_t)l->ids.n - l->n_taken;
    n = n < TAKE ? n : TAKE;
    if (n > 0)
        memcpy(ids, l->ids.p + l->n_taken, (size_t)n * sizeof *ids);
    int64_t index = l->n_taken;
    if (l->request.n_stops > 0)
        copy_stopped(l, index, n, &stopped, at);
    l->n_taken += n;
    bool all = l->n_taken == (int64_t)l->ids.n;
    enum live_finish finish = all ? l->finish : FINISH_NOT;
    bool over = all && l->over; /* its place is free before the client sees the end */
    pthread_mutex_unlock(&s->lock);

    buf_clear(&l->out);
    l->out_at = 0;
    for (int64_t i = 0; i < n; i++) {
        enum live_finish f = i + 1 == n ? finish : FINISH_NOT;
        buf_clear(&text);
        if (l->request.n_stops > 0) {
            buf_add(&text, buf_str(&stopped) + sent, at[i] - sent);
            sent = at[i];
        } else {
            detok_add(&l->detok, ids[i], f != FINISH_NOT, &text);
        }
        if (l->request.api == HTTP_RESPONSES)
            buf_add(&l->said, buf_str(&text), text.n);
        answer_event(&l->out, &h, (struct sv){buf_str(&text), text.n}, ids[i], ++index,
                     finish_name(f));
    }
    buf_free(&text);
    buf_free(&stopped);
    h.said = (struct sv){buf_str(&l->said), l->said.n};
    h.finish = finish_name(finish);
    if (over && finish != FINISH_NOT)
        answer_end(&l->out, &h, index);
    else if (over)
        answer_event_error(&l->out, &h, l->error[0] ? l->error : "the request was not finished");
    l->ended = over;
    return l->out.n > 0;
}

/* Suspends the stream unless there is something to send. Lock not held. */
static bool sleep_or_go_on(struct server *s, struct live_request *l)
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
    struct live_request *l = self;
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

static result begin_stream(struct MHD_Connection *c, struct live_request *l)
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

/* Answers a finished request: the loop is done with it, so its fields may be read without the lock.
 */
static result whole_answer(struct server *s, struct MHD_Connection *c, struct live_request *l)
{
    struct buf out = {0}, text = {0};
    const struct answer_head h = head_of(s, l);
    int64_t n = (int64_t)l->ids.n;
    for (int64_t i = 0; i < n && l->request.n_stops == 0; i++)
        detok_add(&l->detok, l->ids.p[i], i + 1 == n, &text);
    if (l->request.n_stops > 0)
        buf_add(&text, buf_str(&l->stops.text), l->stops.text.n);
    answer_document(&out, &h, (struct sv){buf_str(&text), text.n}, l->ids.p, n,
                    finish_name(l->finish));
    const result ok = visit_respond(c, MHD_HTTP_OK, "application/json", &out);
    buf_free(&text);
    buf_free(&out);
    return ok;
}

/* Called again each time the connection resumes, until a response is queued. */
static result go_on(struct server *s, struct MHD_Connection *c, struct live_request *l)
{
    pthread_mutex_lock(&s->lock);
    bool over = l->over, any = l->ids.n > 0, good = l->finish != FINISH_NOT;
    bool ready = over || (any && l->request.stream);
    enum run_status status = l->status;
    if (!ready) {
        l->suspended = true;
        MHD_suspend_connection(c);
    }
    pthread_mutex_unlock(&s->lock);
    if (!ready)
        return MHD_YES;
    if (any && l->request.stream)
        return begin_stream(c, l);
    if (good)
        return whole_answer(s, c, l);
    if (status == RUN_REJECTED)
        return visit_refuse_with(s, c, MHD_HTTP_BAD_REQUEST, l->error);
    return visit_refuse_with(s, c, MHD_HTTP_SERVICE_UNAVAILABLE,
                             l->error[0] ? l->error : "the request was not finished");
}

static result join(struct server *s, struct MHD_Connection *c, struct visit *v)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct arena *a = v->a;
    v->a = NULL;
    switch (live_join(s, a, &v->request, c, info ? info->connect_fd : -1, &v->live)) {
    case LIVE_JOINED:
        return go_on(s, c, v->live);
    case LIVE_FULL:
        arena_free(&a);
        return visit_refuse_with(s, c, MHD_HTTP_TOO_MANY_REQUESTS,
                                 "too many requests wait already");
    case LIVE_DRAINING:
        break;
    }
    arena_free(&a);
    return visit_refuse_with(s, c, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is going down");
}

/* ---- bodies --------------------------------------------------------------------------------- */

static void read_body(struct visit *v)
{
    v->a = arena_new();
    const struct sv body = {buf_str(&v->body), v->body.n};
    if (http_request_parse(v->a, &v->server->p->rules, v->route->api, body, &v->request,
                           &v->refusal, &v->e) != ST_OK)
        arena_free(&v->a);
    visit_drop_body(v);
}

static struct visit *visit_of(struct intake_job *job)
{
    return (struct visit *)((char *)job - offsetof(struct visit, job));
}

static void job_run(struct intake_job *job)
{
    read_body(visit_of(job));
}

/* The visit may be freed as soon as its connection resumes. */
static void job_done(struct intake_job *job)
{
    struct visit *v = visit_of(job);
    struct MHD_Connection *c = v->connection;
    pthread_mutex_lock(&v->server->lock);
    v->reading = READING_DONE;
    pthread_mutex_unlock(&v->server->lock);
    MHD_resume_connection(c);
}

static void queue_body(struct server *s, struct MHD_Connection *c, struct visit *v)
{
    v->connection = c;
    v->job = (struct intake_job){.bytes = v->body.n, .run = job_run, .done = job_done};
    v->reading = READING_QUEUED;
    v->read_aside = true;
    pthread_mutex_lock(&s->lock);
    s->n_read_aside++;
    pthread_mutex_unlock(&s->lock);
    MHD_suspend_connection(c);
    if (!intake_push(s->intake, &v->job))
        job_done(&v->job);
}

static enum body_reading reading_of(struct server *s, const struct visit *v)
{
    pthread_mutex_lock(&s->lock);
    const enum body_reading r = v->reading;
    pthread_mutex_unlock(&s->lock);
    return r;
}

result answer_generated(struct server *s, struct MHD_Connection *c, struct visit *v)
{
    if (v->live)
        return go_on(s, c, v->live);
    switch (reading_of(s, v)) {
    case READING_NOT:
        if (v->body.n > READ_AT_ONCE) {
            queue_body(s, c, v);
            return MHD_YES;
        }
        read_body(v);
        break;
    case READING_QUEUED:
        return MHD_YES;
    case READING_DONE:
        break;
    }
    if (v->a)
        return join(s, c, v);
    if (v->e.st != ST_OK)
        return visit_refuse(s, c,
                            &(struct refusal){.status = (unsigned)v->refusal.status,
                                              .message = err_cause(&v->e, 0),
                                              .param = v->refusal.param,
                                              .code = v->refusal.code});
    return visit_refuse_with(s, c, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is going down");
}
