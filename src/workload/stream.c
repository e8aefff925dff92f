#include "workload/stream.h"

#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "workload/make.h"

enum { AHEAD = 1 << 14, MAX_REQUESTS = 100000000 };

/* Source of the requests; ST_END after the last. */
typedef enum st next_request(struct workload_stream *s, struct workload_request *out,
                             struct err *e);

struct workload_stream {
    struct arena *a; /* the stream itself, too */
    next_request *next;
    const char *file; /* watched for changes; NULL = none */
    int64_t total, given;
    struct workload_request *ahead; /* [AHEAD], those from `at` on are not given yet */
    size_t at, n;

    struct workload_params params;
    struct arrivals arrivals;
    struct lengths lengths;
    struct sessions sessions;
    VEC(struct workload_request) turns; /* of the session being given, from turn on */
    size_t turn;
    struct rng prefix;
    const struct concurrency *concurrency;
    struct trace_reader trace;
    struct tables tables;
    struct map prompt_ids;
    struct workload held;
};

static struct workload_stream *new_stream(next_request *next)
{
    struct arena *a = arena_new();
    struct workload_stream *s = arena_one(a, struct workload_stream);
    s->a = a;
    s->next = next;
    s->ahead = arena_array(a, struct workload_request, AHEAD);
    map_init(&s->prompt_ids, a);
    return s;
}

void workload_stream_close(struct workload_stream **ps)
{
    struct workload_stream *s = *ps;
    if (!s)
        return;
    *ps = NULL;
    arrivals_end(&s->arrivals);
    lengths_end(&s->lengths);
    workload_trace_close(&s->trace);
    tables_close(&s->tables);
    vec_free(&s->turns);
    struct arena *a = s->a;
    arena_free(&a);
}

const struct concurrency *workload_stream_concurrency(const struct workload_stream *s)
{
    return s->concurrency;
}

int64_t workload_stream_total(const struct workload_stream *s)
{
    return s->total;
}

static enum st changed(const struct workload_stream *s, struct err *e)
{
    return err_set(e, ST_INPUT, "%s changed while it was read", s->file);
}

static enum st refill(struct workload_stream *s, struct err *e)
{
    int64_t left = s->total - s->given;
    size_t want = left < AHEAD ? (size_t)left : AHEAD;
    s->at = s->n = 0;
    for (; s->n < want; s->n++) {
        s->ahead[s->n] = (struct workload_request){.request_id = s->given + (int64_t)s->n};
        enum st st = s->next(s, &s->ahead[s->n], e);
        if (st != ST_OK)
            return st == ST_END ? changed(s, e) : st;
    }
    return ST_OK;
}

enum st workload_stream_next(struct workload_stream *s, struct workload_request *out, struct err *e)
{
    if (s->given == s->total)
        return ST_END;
    if (s->at == s->n)
        TRY(refill(s, e));
    *out = s->ahead[s->at++];
    s->given++;
    return ST_OK;
}

static enum st opened(struct workload_stream *s, enum st st, struct workload_stream **out,
                      struct err *e)
{
    if (st == ST_OK)
        st = refill(s, e);
    if (st != ST_OK)
        workload_stream_close(&s);
    *out = s;
    return st;
}

/* ---- made --------------------------------------------------------------------------------- */

/* The sessions of the last requests end with them. */
static enum st make_session(struct workload_stream *s, int64_t id, struct err *e)
{
    int64_t n = sessions_turns(&s->sessions), left = s->total - id;
    n = n < left ? n : left;
    s->turn = s->turns.n = 0;
    for (int64_t i = 0; i < n; i++) {
        struct workload_request q = {.request_id = id};
        if (i == 0)
            TRY(arrivals_next(&s->arrivals, &q, e));
        TRY(lengths_next(&s->lengths, &q, e));
        vec_push(&s->turns, q);
    }
    return sessions_make(s->a, &s->sessions, s->turns.p, n, e);
}

static enum st next_turn(struct workload_stream *s, struct workload_request *out, struct err *e)
{
    if (s->turn == s->turns.n)
        TRY(make_session(s, out->request_id, e));
    *out = s->turns.p[s->turn++];
    return ST_OK;
}

static enum st next_made(struct workload_stream *s, struct workload_request *out, struct err *e)
{
    const struct workload_params *p = &s->params;
    if (p->n_prompts)
        out->prompt_id = p->prompts[(uint64_t)out->request_id % p->n_prompts].id;
    TRY(arrivals_next(&s->arrivals, out, e));
    TRY(lengths_next(&s->lengths, out, e));
    return shared_prefix_add(s->a, p, &s->prefix, out, e);
}

/* Requests that arrive within the duration, limit at most. */
static enum st count_within(const struct workload_params *p, int64_t limit, int64_t *n,
                            struct err *e)
{
    struct arrivals g;
    struct sessions sessions;
    struct workload_request r;
    enum st st = ST_OK;
    if (p->arrival_kind == ARRIVAL_STATIC)
        return err_set(e, ST_USAGE,
                       "workload.duration_s: static arrivals are all at 0: they have no duration");
    TRY(sessions_begin(p, &sessions, e));
    TRY(arrivals_begin(p, &g, e));
    for (*n = 0; *n < limit; *n += sessions_turns(&sessions))
        if ((st = arrivals_next(&g, &r, e)) != ST_OK || r.arrival_s >= p->duration_s)
            break;
    arrivals_end(&g);
    *n = *n < limit ? *n : limit;
    if (st != ST_OK && st != ST_END)
        return st;
    if (*n == 0)
        return err_set(e, ST_USAGE, "no request arrives within workload.duration_s=%g",
                       p->duration_s);
    if (*n == MAX_REQUESTS)
        return err_set(e, ST_USAGE, "workload.duration_s=%g: more than %d requests", p->duration_s,
                       MAX_REQUESTS);
    return ST_OK;
}

static enum st enough_rows(const char *path, int64_t rows, int64_t n, struct err *e)
{
    if (rows == 0 || n <= rows)
        return ST_OK;
    err_set(e, ST_USAGE, "workload.num_requests is %lld, but %s has %lld rows", (long long)n, path,
            (long long)rows);
    return err_hint(e, "set workload.num_requests=%lld or less", (long long)rows);
}

static enum st count_requests(const struct workload_params *p, int64_t *n, struct err *e)
{
    int64_t arrivals = 0, lengths = 0, want = p->num_requests;
    if (p->arrival_kind == ARRIVAL_TRACE) {
        if (!p->arrival_trace)
            return err_set(e, ST_USAGE, "workload.arrival.kind=trace needs workload.arrival.trace");
        TRY(workload_trace_count(p->arrival_trace, true, false, &arrivals, e));
    }
    if (p->lengths_kind == LENGTHS_TRACE) {
        if (!p->lengths_trace)
            return err_set(e, ST_USAGE, "workload.lengths.kind=trace needs workload.lengths.trace");
        TRY(workload_trace_count(p->lengths_trace, false, true, &lengths, e));
    }
    if (want < 0 || want > MAX_REQUESTS)
        return err_set(e, ST_USAGE, "workload.num_requests must be 0 to %d, got %lld", MAX_REQUESTS,
                       (long long)want);
    if (p->duration_s > 0)
        TRY(count_within(p, want ? want : arrivals ? arrivals : MAX_REQUESTS, &want, e));
    if (want == 0) {
        int64_t rows = arrivals && (!lengths || arrivals < lengths) ? arrivals : lengths;
        want = rows ? rows : (int64_t)p->n_prompts;
    }
    if (want == 0)
        return err_set(e, ST_USAGE,
                       "workload.num_requests is not set, and there is neither a trace "
                       "nor a file of prompts to count");
    TRY(enough_rows(p->arrival_trace, arrivals, want, e));
    TRY(enough_rows(p->lengths_trace, lengths, want, e));
    *n = want;
    return ST_OK;
}

enum st workload_stream_make(const struct workload_params *p, struct workload_stream **out,
                             struct err *e)
{
    struct workload_stream *s = new_stream(sessions_wanted(p) ? next_turn : next_made);
    s->params = *p;
    s->prefix = rng_stream(p->seed, "workload.prefix");
    s->file = p->arrival_kind == ARRIVAL_TRACE ? p->arrival_trace : p->lengths_trace;
    enum st st = sessions_begin(&s->params, &s->sessions, e);
    if (st == ST_OK)
        st = count_requests(p, &s->total, e);
    if (st == ST_OK)
        st = arrivals_begin(&s->params, &s->arrivals, e);
    if (st == ST_OK)
        st = lengths_begin(s->a, &s->params, s->total, &s->lengths, e);
    return opened(s, st, out, e);
}

/* ---- files -------------------------------------------------------------------------------- */

static enum st next_of_trace(struct workload_stream *s, struct workload_request *out, struct err *e)
{
    struct trace_row row;
    TRY(workload_trace_next(&s->trace, &row, e));
    out->arrival_ns = row.arrival_ns;
    out->arrival_s = row.arrival_s;
    out->num_prefill_tokens = row.prefill;
    out->num_decode_tokens = row.decode;
    return ST_OK;
}

static enum st next_held(struct workload_stream *s, struct workload_request *out, struct err *e)
{
    (void)e;
    *out = s->held.requests[out->request_id];
    return ST_OK;
}

enum st workload_stream_trace(const char *csv, struct workload_stream **out, struct err *e)
{
    struct workload_stream *s = new_stream(next_of_trace);
    s->file = arena_str(s->a, csv);
    if (workload_is_mooncake(csv)) { /* its hash ids dominate its size, and must stay in memory */
        s->next = next_held;
        enum st held = workload_load_mooncake(s->a, csv, &s->held, e);
        s->total = (int64_t)s->held.n;
        return opened(s, held, out, e);
    }
    enum st st = workload_trace_count(csv, true, true, &s->total, e);
    if (st == ST_OK)
        st = workload_trace_open(csv, true, true, &s->trace, e);
    return opened(s, st, out, e);
}

static enum st next_of_tables(struct workload_stream *s, struct workload_request *out,
                              struct err *e)
{
    struct sv prompt;
    TRY(tables_next(&s->tables, out, &prompt, e));
    if (prompt.n)
        out->prompt_id = map_put(&s->prompt_ids, prompt.p, prompt.n, NULL)->key;
    return ST_OK;
}

/* Rows of both tables if they can be read in step; else 0: workload_load reports errors better. */
static int64_t count_tables(const struct workload_paths *p)
{
    struct tables t;
    struct workload_request row;
    struct sv prompt;
    struct err e = {0};
    int64_t n = 0;
    enum st st = tables_open(p, &t, &e);
    while (st == ST_OK && (st = tables_next(&t, &row, &prompt, &e)) == ST_OK)
        n++;
    tables_close(&t);
    return st == ST_END ? n : 0;
}

enum st workload_stream_dir(const char *dir, struct workload_stream **out, struct err *e)
{
    struct workload_stream *s = new_stream(next_of_tables);
    struct workload_paths paths;
    enum st st = workload_find(s->a, dir, &paths, e);
    if (st == ST_OK)
        s->concurrency = paths.concurrency;
    if (st == ST_OK && !paths.hash_ids && !paths.sessions &&
        (s->total = count_tables(&paths)) > 0) {
        s->file = arena_str(s->a, dir);
        st = tables_open(&paths, &s->tables, e);
    } else if (st == ST_OK) {
        s->next = next_held;
        st = workload_load(s->a, dir, &s->held, e);
        s->total = (int64_t)s->held.n;
    }
    return opened(s, st, out, e);
}

bool workload_stream_has_sessions(const struct workload_stream *s)
{
    return s->next == next_turn || workload_has_sessions(&s->held);
}
