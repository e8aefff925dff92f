#include <math.h>

#include "metrics/metrics.h"

static const char *const names[METRICS] = {
    [METRIC_TTFT] = "ttft",
    [METRIC_TOKEN_LATENCY] = "token_latency",
    [METRIC_TPOT] = "tpot",
    [METRIC_E2E] = "e2e",
};

const char *metric_name(enum metric m)
{
    return names[m];
}

static void put(struct run_metrics *m, enum metric which, double ns)
{
    m->of[which].ns[m->of[which].n++] = ns;
}

/* A request as counted: cut, missing values as RUN_NONE. */
struct counted_request {
    int64_t n; /* output tokens kept */
    int64_t arrival_ns, first_ns, end_ns;
    const struct run_token *tokens; /* [rows] that are kept; a client may get several tokens at */
    int64_t rows;                   /* once, then there are fewer rows than tokens */
};

static struct counted_request count_request(const struct run *run, size_t i, int64_t max_tokens)
{
    const struct run_request *r = &run->requests[i];
    struct counted_request c = {.n = r->num_decode_tokens_actual,
                                .arrival_ns = r->arrival_ns,
                                .first_ns = r->first_token_ns,
                                .end_ns = r->completion_ns};
    if (run->tokens) {
        c.rows = (int64_t)(run->first_token[i + 1] - run->first_token[i]);
        c.tokens = run->tokens + run->first_token[i];
    }
    if (c.n <= max_tokens)
        return c;
    c.rows = c.rows == c.n ? max_tokens : 0; /* rows with several tokens cannot be cut */
    c.n = max_tokens;
    c.end_ns = c.rows > 0 ? c.tokens[c.rows - 1].token_time_ns : RUN_NONE;
    if (c.n == 0)
        c.first_ns = RUN_NONE;
    return c;
}

static void add_token_latencies(const struct counted_request *c, bool include_token0,
                                struct run_metrics *m)
{
    if (include_token0 && c->rows > 0)
        put(m, METRIC_TOKEN_LATENCY, (double)c->tokens[0].token_latency_ns);
    for (int64_t k = 1; k < c->rows; k++)
        put(m, METRIC_TOKEN_LATENCY,
            (double)(c->tokens[k].token_time_ns - c->tokens[k - 1].token_time_ns));
    m->n_missing[METRIC_TOKEN_LATENCY] += c->rows == 0;
}

static void add_request(const struct counted_request *c, struct run_metrics *m)
{
    bool first = c->first_ns != RUN_NONE, end = c->end_ns != RUN_NONE;
    if (first)
        put(m, METRIC_TTFT, (double)(c->first_ns - c->arrival_ns));
    if (end)
        put(m, METRIC_E2E, (double)(c->end_ns - c->arrival_ns));
    bool spans = first && end && c->end_ns > c->first_ns;
    if (spans && c->n > 1)
        put(m, METRIC_TPOT, (double)(c->end_ns - c->first_ns) / (double)(c->n - 1));
    m->n_missing[METRIC_TTFT] += !first;
    m->n_missing[METRIC_E2E] += !end;
    m->n_missing[METRIC_TPOT] += c->n > 1 && !spans;
}

/* ---- selection --------------------------------------------------------------------------- */

/* Steps through the ids of the selection and of the run together, both sorted. */
struct selection {
    const struct metrics_params *p;
    size_t at;
};

/* False when the request is not selected; *max_tokens INT64_MAX = not cut. Ids ascend. */
static bool selected(struct selection *s, int64_t id, int64_t *max_tokens)
{
    const struct metrics_params *p = s->p;
    *max_tokens = INT64_MAX;
    if (!p->request_ids)
        return true;
    while (s->at < p->n_ids && p->request_ids[s->at] < id)
        s->at++;
    if (s->at == p->n_ids || p->request_ids[s->at] != id)
        return false;
    if (p->max_tokens)
        *max_tokens = p->max_tokens[s->at];
    return true;
}

static void add_all(const struct run *r, const struct metrics_params *p, struct run_metrics *m)
{
    int64_t begin = INT64_MAX, end = INT64_MIN;
    struct selection s = {.p = p};
    for (size_t i = 0; i < r->n_requests; i++) {
        const struct run_request *q = &r->requests[i];
        int64_t max_tokens;
        if (!selected(&s, q->request_id, &max_tokens))
            continue;
        if (q->warmup || q->status != RUN_OK) {
            q->warmup ? m->n_warmup++ : m->n_not_ok++;
            continue;
        }
        struct counted_request c = count_request(r, i, max_tokens);
        m->n_requests++;
        m->n_early_stop += q->num_decode_tokens_actual < q->num_decode_tokens;
        m->output_tokens += c.n;
        add_request(&c, m);
        add_token_latencies(&c, p->include_token0, m);
        begin = c.arrival_ns < begin ? c.arrival_ns : begin;
        end = c.end_ns != RUN_NONE && c.end_ns > end ? c.end_ns : end;
    }
    m->duration_s = end >= begin ? (double)(end - begin) / 1e9 : NAN;
    bool known = m->duration_s > 0;
    m->output_tokens_per_s = known ? (double)m->output_tokens / m->duration_s : NAN;
    m->requests_per_s = known ? (double)m->n_requests / m->duration_s : NAN;
}

enum st metrics_from_run(struct arena *a, const struct run *r, const struct metrics_params *p,
                         struct run_metrics *out, struct err *e)
{
    (void)e;
    *out = (struct run_metrics){0};
    size_t most = r->n_requests > r->n_tokens ? r->n_requests : r->n_tokens;
    for (int m = 0; m < METRICS; m++)
        out->of[m].ns =
            arena_array(a, double, m == METRIC_TOKEN_LATENCY ? r->n_tokens : r->n_requests);
    add_all(r, p, out);
    double *scratch = mem_alloc(most * sizeof *scratch);
    for (int m = 0; m < METRICS; m++)
        stats_sort(out->of[m].ns, scratch, out->of[m].n);
    mem_free(scratch);
    return ST_OK;
}

enum st metrics_measured(int64_t ended_well, int64_t failed, int64_t warmup, struct err *e)
{
    if (ended_well > 0 || failed + warmup == 0)
        return ST_OK;
    if (failed == 0) {
        err_set(e, ST_REJECTED, "all %lld requests are warm-up: there is nothing to measure",
                (long long)warmup);
        return err_hint(e, "lower workload.warmup_requests");
    }
    return err_set(e, ST_REJECTED, "none of %lld requests ended well: there is nothing to measure",
                   (long long)failed);
}
