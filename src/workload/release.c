#include "workload/release.h"

#include <math.h>

#include "base/clock.h"
#include "base/heap.h"

enum { NO_SESSION = -1 };

static bool before(struct moment a, struct moment b)
{
    return a.s < b.s || (a.s == b.s && a.ns < b.ns);
}

static struct moment later(struct moment a, struct moment b)
{
    return before(a, b) ? b : a;
}

static bool earlier_turn(const struct release_turn *a, const struct release_turn *b)
{
    return before(a->at, b->at) || (!before(b->at, a->at) && a->row < b->row);
}

void release_init(struct release *r, const struct release_params *p)
{
    *r = (struct release){.p = *p};
}

void release_free(struct release *r)
{
    for (size_t i = 0; i < r->sessions.n; i++)
        vec_free(&r->sessions.p[i].turns);
    vec_free(&r->sessions);
    vec_free(&r->free_sessions);
    vec_free(&r->turns);
    vec_free(&r->places);
    vec_free(&r->head_turns);
}

/* ---- reading ahead ------------------------------------------------------------------------- */

static enum st read_one(struct release *r, struct workload_request *out, bool *got, struct err *e)
{
    *got = false;
    if (r->ended)
        return ST_OK;
    enum st st = r->p.next(r->p.self, out, e);
    if (st == ST_END) {
        r->ended = !r->p.live;
        return ST_OK;
    }
    TRY(st);
    out->row = r->rows++;
    *got = true;
    return ST_OK;
}

static bool continues(const struct workload_request *q, const struct workload_request *last)
{
    return q->turn == last->turn + 1 && q->session_id == last->session_id;
}

/* The later turns of head's session, and the request behind them. */
static enum st read_turns(struct release *r, struct err *e)
{
    const struct workload_request *last = &r->head;
    struct workload_request q = {0};
    for (;;) {
        TRY(read_one(r, &q, &r->has_beyond, e));
        if (!r->has_beyond || !continues(&q, last))
            break;
        vec_push(&r->head_turns, q);
        last = &vec_last(&r->head_turns);
    }
    r->beyond = q;
    return ST_OK;
}

static enum st check_start(struct release *r, struct err *e)
{
    const struct workload_request *q = &r->head;
    const double at = q->arrival_s;
    if (q->turn > 1)
        return err_set(e, ST_INPUT,
                       "request %lld is turn %lld of session %lld, and turn %lld does not stand "
                       "right before it",
                       (long long)q->request_id, (long long)q->turn, (long long)q->session_id,
                       (long long)q->turn - 1);
    if (r->p.concurrency)
        return ST_OK;
    if (!isfinite(at) || at < r->last_arrival_s)
        return err_set(e, ST_INPUT,
                       "request %lld arrives at %g s, before the one ahead of it (%g s)",
                       (long long)q->request_id, at, r->last_arrival_s);
    r->last_arrival_s = at;
    return ST_OK;
}

static enum st fill(struct release *r, struct err *e)
{
    if (r->has_head)
        return ST_OK;
    if (r->has_beyond) {
        r->head = r->beyond;
        r->has_head = true;
        r->has_beyond = false;
    } else {
        TRY(read_one(r, &r->head, &r->has_head, e));
    }
    if (!r->has_head)
        return ST_OK;
    TRY(check_start(r, e));
    r->head_turns.n = 0;
    return r->head.turn ? read_turns(r, e) : ST_OK;
}

/* ---- closed loop: places ------------------------------------------------------------------- */

static struct moment when(const struct release *r)
{
    double s = concurrency_when(r->p.concurrency, r->cursor.s, r->inside);
    if (s <= r->cursor.s)
        return r->cursor;
    return (struct moment){isfinite(s) ? ns_from_s(s) : INT64_MAX, s};
}

static void occupy(struct release *r, struct moment at)
{
    r->inside++;
    r->cursor = later(r->cursor, at);
}

static void leave(struct release *r, struct moment end)
{
    if (!r->p.concurrency)
        return;
    if (r->has_head || !r->ended) /* places of rises before this end, not taken yet */
        for (struct moment at; at = when(r), before(at, end);) {
            vec_push(&r->places, at);
            occupy(r, at);
        }
    r->inside--;
    r->cursor = later(r->cursor, end);
    struct moment at = when(r);
    if (at.s > r->cursor.s)
        return;
    vec_push(&r->places, at);
    occupy(r, at);
}

/* ---- release ------------------------------------------------------------------------------- */

static struct moment start_moment(const struct release *r)
{
    if (!r->has_head)
        return (struct moment){INT64_MAX, INFINITY};
    if (!r->p.concurrency)
        return (struct moment){r->head.arrival_ns, r->head.arrival_s};
    return r->place_at < r->places.n ? r->places.p[r->place_at] : when(r);
}

/* The next one is a later turn. */
static bool is_turn(const struct release *r, struct moment start)
{
    return r->turns.n && !before(start, r->turns.p[0].at);
}

enum st release_next(struct release *r, struct moment *at, struct err *e)
{
    TRY(fill(r, e));
    struct moment start = start_moment(r);
    *at = is_turn(r, start) ? r->turns.p[0].at : start;
    if (r->released)
        *at = later(*at, r->last);
    return ST_OK;
}

static int32_t open_session(struct release *r)
{
    int32_t i = (int32_t)r->sessions.n;
    if (r->free_sessions.n)
        i = vec_pop(&r->free_sessions);
    else
        vec_push(&r->sessions, (struct release_session){0});
    struct release_session *s = &r->sessions.p[i];
    s->next = s->turns.n = 0;
    for (size_t k = 0; k < r->head_turns.n; k++)
        vec_push(&s->turns, r->head_turns.p[k]);
    r->turns_left += (int64_t)s->turns.n;
    r->n_sessions++;
    return i;
}

static void take_start(struct release *r, struct workload_request *out, int32_t *session)
{
    *out = r->head;
    *session = out->turn ? open_session(r) : NO_SESSION;
    r->has_head = false;
    if (!r->p.concurrency)
        return;
    if (r->place_at == r->places.n) {
        occupy(r, when(r));
        return;
    }
    if (++r->place_at == r->places.n)
        r->place_at = r->places.n = 0;
}

static void take_turn(struct release *r, struct workload_request *out, int32_t *session)
{
    struct release_turn x;
    heap_pop(&r->turns, earlier_turn, &x);
    struct release_session *s = &r->sessions.p[x.session];
    *out = s->turns.p[s->next++];
    *session = x.session;
    r->turns_left--;
}

void release_take(struct release *r, struct workload_request *out, int32_t *session)
{
    struct moment start = start_moment(r), at = start;
    bool turn = is_turn(r, start);
    if (turn)
        at = r->turns.p[0].at;
    (turn ? take_turn : take_start)(r, out, session);
    if (r->released++ == 0)
        r->begin = at;
    else
        at = later(at, r->last);
    r->last = at;
    out->arrival_ns = at.ns;
    out->arrival_s = at.s;
    r->sum_s -= at.s;
    if (++r->running > r->peak)
        r->peak = r->running;
}

void release_over(struct release *r, int32_t session, struct moment end)
{
    r->running--;
    r->sum_s += end.s;
    r->end = later(r->end, end);
    if (session == NO_SESSION) {
        leave(r, end);
        return;
    }
    struct release_session *s = &r->sessions.p[session];
    if (s->next == s->turns.n) {
        vec_push(&r->free_sessions, session);
        leave(r, end);
        return;
    }
    const struct workload_request *q = &s->turns.p[s->next];
    struct release_turn next = {
        {end.ns + q->think_ns, end.s + ns_to_s(q->think_ns)}, q->row, session};
    heap_push(&r->turns, earlier_turn, next);
}

bool release_goes_on(const struct release *r, int32_t session)
{
    const struct release_session *s = &r->sessions.p[session];
    return s->next < s->turns.n;
}

bool release_done(const struct release *r)
{
    return r->ended && !r->has_head && !r->has_beyond && r->turns_left == 0;
}

bool release_follows(const struct release *r)
{
    return r->p.concurrency || r->n_sessions > 0;
}

double release_concurrency(const struct release *r)
{
    double span = r->end.s - r->begin.s;
    return span > 0 ? r->sum_s / span : (double)NAN;
}
