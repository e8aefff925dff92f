/* sessions.csv: which requests are the turns of a session, and their think times. */
#include <stdlib.h>

#include "base/vec.h"
#include "workload/make.h"

bool workload_has_sessions(const struct workload *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->requests[i].turn)
            return true;
    return false;
}

enum st sessions_write(const struct artifact *art, const struct workload *w, struct err *e)
{
    static const char *const names[] = {"request_id", "session_id", "turn", "think_ns"};
    FILE *f;
    TRY(artifact_create_file(art, SESSIONS_NAME, &f, e));
    struct csv_writer out = {.f = f};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        csv_put_str(&out, names[i]);
    csv_end_row(&out);
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *q = &w->requests[i];
        if (!q->turn)
            continue;
        csv_put_int(&out, q->request_id);
        csv_put_int(&out, q->session_id);
        csv_put_int(&out, q->turn);
        csv_put_int(&out, q->think_ns);
        csv_end_row(&out);
    }
    return artifact_close_file(art, SESSIONS_NAME, &f, e);
}

/* ---- reading ------------------------------------------------------------------------------- */

struct session_columns {
    int request, session, turn, think;
};

struct begun {
    int64_t session;
    long line;
};

/* Rows stand in the order of the workload; requests without a row are passed over. */
struct sessions_reading {
    struct csv_reader *csv;
    struct session_columns c;
    struct workload *w;
    size_t at;                         /* next request */
    const struct workload_request *on; /* of the row before; NULL = none */
    VEC(struct begun) begun;
};

static enum st find_columns(struct sessions_reading *r, struct err *e)
{
    TRY(csv_require(r->csv, "request_id", &r->c.request, e));
    TRY(csv_require(r->csv, "session_id", &r->c.session, e));
    TRY(csv_require(r->csv, "turn", &r->c.turn, e));
    return csv_require(r->csv, "think_ns", &r->c.think, e);
}

static enum st read_row(struct sessions_reading *r, struct err *e)
{
    int64_t id, session, turn, think_ns;
    TRY(csv_int(r->csv, r->c.request, 0, INT64_MAX, &id, e));
    TRY(csv_int(r->csv, r->c.session, 0, INT64_MAX, &session, e));
    TRY(csv_int(r->csv, r->c.turn, 1, INT32_MAX, &turn, e));
    TRY(csv_int(r->csv, r->c.think, 0, THINK_MOST_NS, &think_ns, e));
    size_t from = r->at;
    while (r->at < r->w->n && r->w->requests[r->at].request_id != id)
        r->at++;
    if (r->at == r->w->n)
        return csv_err(r->csv, r->c.request, e,
                       "%lld is not in the workload, or does not stand in its order",
                       (long long)id);
    struct workload_request *q = &r->w->requests[r->at++];
    bool follows =
        r->on && r->at - 1 == from && r->on->session_id == session && r->on->turn + 1 == turn;
    if (turn > 1 && !follows)
        return csv_err(r->csv, r->c.turn, e,
                       "turn %lld of session %lld does not stand right behind the turn before it",
                       (long long)turn, (long long)session);
    if (turn == 1)
        vec_push(&r->begun, (struct begun){session, csv_line(r->csv)});
    q->session_id = session;
    q->turn = turn;
    q->think_ns = think_ns;
    r->on = q;
    return ST_OK;
}

static int by_session(const void *pa, const void *pb)
{
    const struct begun *a = pa, *b = pb;
    if (a->session != b->session)
        return a->session < b->session ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

static enum st check_unique(struct sessions_reading *r, const char *path, struct err *e)
{
    if (r->begun.n)
        qsort(r->begun.p, r->begun.n, sizeof *r->begun.p, by_session);
    for (size_t i = 1; i < r->begun.n; i++)
        if (r->begun.p[i].session == r->begun.p[i - 1].session)
            return err_at(e, ST_INPUT, path, r->begun.p[i].line, 0,
                          "session_id: %lld begins in line %ld already",
                          (long long)r->begun.p[i].session, r->begun.p[i - 1].line);
    return ST_OK;
}

enum st sessions_load(const char *path, struct workload *w, struct err *e)
{
    struct sessions_reading r = {.w = w};
    TRY(csv_open(&r.csv, path, e));
    enum st st = find_columns(&r, e);
    while (st == ST_OK && (st = csv_next(r.csv, e)) == ST_OK)
        st = read_row(&r, e);
    csv_close(&r.csv);
    if (st == ST_END)
        st = check_unique(&r, path, e);
    vec_free(&r.begun);
    return st;
}
