/* inference-perf: stage_N_lifecycle_metrics.json of each stage has quantiles alone; experiment.json
 * beside them says what was sent and to which server, or its own config.yaml what was sent.
 * per_request_lifecycle_metrics.json has the requests. docs/formats.md has their members. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "calibrate/read_experiment.h"
#include "calibrate/read_requests.h"
#include "calibrate/read_tree.h"
#include "text/fields.h"

#define STAGE_FILE "stage_%d_lifecycle_metrics.json"
enum { PIECE = 16, MOST_REQUESTS = 5000000 };

bool observed_is_inference_perf(struct arena *a, const char *path)
{
    return fs_is_dir(path) && (fs_exists(fs_join(a, path, "stage_0_lifecycle_metrics.json")) ||
                               fs_exists(fs_join(a, path, REQUESTS_FILE)) ||
                               fs_exists(fs_join(a, path, "experiment.json")));
}

/* ---- stage_N_lifecycle_metrics.json -----------------------------------------------------------
 */

/* What inference-perf writes of a quantity, in s or tokens. */
struct perf_summary {
    double mean, min, p1, p5, p10, p25, median, p75, p90, p95, p99, max;
};

/* Which percentiles there are, its configuration says. */
#define QUANTITY .min = 0, .max = 1e9, .optional = true
static const struct field summary_rows[] = {
    FIELD(struct perf_summary, mean, QUANTITY),   FIELD(struct perf_summary, min, QUANTITY),
    FIELD(struct perf_summary, p1, QUANTITY),     FIELD(struct perf_summary, p5, QUANTITY),
    FIELD(struct perf_summary, p10, QUANTITY),    FIELD(struct perf_summary, p25, QUANTITY),
    FIELD(struct perf_summary, median, QUANTITY), FIELD(struct perf_summary, p75, QUANTITY),
    FIELD(struct perf_summary, p90, QUANTITY),    FIELD(struct perf_summary, p95, QUANTITY),
    FIELD(struct perf_summary, p99, QUANTITY),    FIELD(struct perf_summary, max, QUANTITY),
};
static const struct fields summary_fields = FIELDS(struct perf_summary, summary_rows);

struct latencies {
    struct perf_summary request_latency, time_to_first_token;
};
static const struct field latency_rows[] = {
    FIELD_MAP(struct latencies, request_latency, "request_latency", &summary_fields,
              .optional = true),
    FIELD_MAP(struct latencies, time_to_first_token, "time_to_first_token", &summary_fields,
              .optional = true),
};
static const struct fields latency_fields = FIELDS(struct latencies, latency_rows);

/* Counts of the client where the server sent none. */
struct fallbacks {
    int64_t output;
};
static const struct field fallback_rows[] = {
    FIELD(struct fallbacks, output, .min = 0, .max = MOST_REQUESTS, .optional = true)};
static const struct fields fallback_fields = FIELDS(struct fallbacks, fallback_rows);

/* Lengths have had two names. Without streaming there is no time to first token. */
struct successes {
    int64_t count;
    struct fallbacks client_fallback_requests;
    struct latencies latency;
    struct perf_summary prompt_len, output_len, prompt_tokens, output_tokens;
};
static const struct field success_rows[] = {
    FIELD(struct successes, count, .min = 0, .max = MOST_REQUESTS),
    FIELD_MAP(struct successes, latency, "latency", &latency_fields, .optional = true),
    FIELD_MAP(struct successes, client_fallback_requests, "client_fallback_requests",
              &fallback_fields, .optional = true),
    FIELD_MAP(struct successes, prompt_len, "prompt_len", &summary_fields, .optional = true),
    FIELD_MAP(struct successes, output_len, "output_len", &summary_fields, .optional = true),
    FIELD_MAP(struct successes, prompt_tokens, "prompt_tokens", &summary_fields, .optional = true),
    FIELD_MAP(struct successes, output_tokens, "output_tokens", &summary_fields, .optional = true),
};
static const struct fields success_fields = FIELDS(struct successes, success_rows);

struct failures {
    int64_t count;
};
static const struct field failure_rows[] = {
    FIELD(struct failures, count, .min = 0, .max = MOST_REQUESTS)};
static const struct fields failure_fields = FIELDS(struct failures, failure_rows);

struct lifecycle {
    struct successes successes;
    struct failures failures;
};
static const struct field lifecycle_rows[] = {
    FIELD_MAP(struct lifecycle, successes, "successes", &success_fields),
    FIELD_MAP(struct lifecycle, failures, "failures", &failure_fields),
};
static const struct fields lifecycle_fields = FIELDS(struct lifecycle, lifecycle_rows);

static struct observed_series series_of(const struct perf_summary *s)
{
    return (struct observed_series){.mean = s->mean,
                                    .at = {[OBSERVED_P10] = s->p10,
                                           [OBSERVED_P25] = s->p25,
                                           [OBSERVED_P50] = s->median,
                                           [OBSERVED_P75] = s->p75,
                                           [OBSERVED_P90] = s->p90,
                                           [OBSERVED_P99] = s->p99}};
}

/* Quantile function of a summary, linear between what it has; NAN where it has nothing. */
static double quantile(const struct perf_summary *s, double q)
{
    const double at[] = {0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100};
    const double v[] = {s->min, s->p1,  s->p5,  s->p10, s->p25, s->median,
                        s->p75, s->p90, s->p95, s->p99, s->max};
    double from_q = 0, from = (double)NAN;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        if (isnan(v[i]))
            continue;
        if (q <= at[i])
            return isnan(from) ? v[i] : from + (v[i] - from) * (q - from_q) / (at[i] - from_q);
        from_q = at[i];
        from = v[i];
    }
    return isnan(from) ? s->mean : from;
}

static int64_t whole(double v)
{
    return v < 1 ? 1 : (int64_t)(v + 0.5);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The prompts of the experiment, in the order in which they are sent. hash_ids NULL: none is like
 * another. */
struct prompt_pool {
    int64_t n;
    int64_t *length;
    int64_t **hash_ids;
};

/* Values of a distribution in no order: each of n equal parts of it has one. */
static int64_t *shuffled(struct arena *a, const struct perf_summary *s, int64_t n,
                         const char *stream)
{
    struct rng r = rng_stream(0, stream);
    int64_t *v = arena_array(a, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        v[i] = whole(quantile(s, 100 * ((double)i + 0.5) / (double)n));
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)rng_below(&r, (uint64_t)i + 1), swap = v[i];
        v[i] = v[k];
        v[k] = swap;
    }
    return v;
}

/* Groups take turns; whole pieces of the system prompt are shared in a group. Without groups each
 * of the n requests has a prompt of its own. */
static struct prompt_pool make_pool(struct arena *a, const struct prompts *p,
                                    const struct perf_summary *length, int64_t n)
{
    const int64_t all = p->groups * p->prompts_per_group;
    struct prompt_pool out = {.n = p->groups && all < n ? all : n};
    out.length = shuffled(a, length, out.n, "calibrate.prompts");
    if (!p->groups)
        return out;
    out.hash_ids = arena_array(a, int64_t *, out.n);
    int64_t next = p->groups * (p->system_prompt_tokens / PIECE);
    for (int64_t i = 0; i < out.n; i++) {
        int64_t shared = p->system_prompt_tokens / PIECE, group = i % p->groups;
        int64_t pieces = (out.length[i] + PIECE - 1) / PIECE;
        out.hash_ids[i] = arena_array(a, int64_t, pieces);
        for (int64_t k = 0; k < pieces; k++)
            out.hash_ids[i][k] =
                k < shared && (k + 1) * PIECE <= out.length[i] ? group * shared + k : next++;
    }
    return out;
}

static bool known(const struct perf_summary *s)
{
    return !isnan(quantile(s, 50));
}

/* Lengths are in experiment.json or in the stage. */
static enum st check_lengths(const struct experiment *x, const struct perf_summary *prompt,
                             const struct successes *done, struct err *e)
{
    const char *missing = NULL, *plan = NULL;
    if (!known(&done->output_len) && !known(&done->output_tokens) &&
        !x->prompts.output_tokens_asked) {
        missing = "output_len";
        plan = "output_tokens_asked";
    }
    if (!known(prompt) && x->prompts.question_tokens < 0) {
        missing = "prompt_len";
        plan = "question_tokens";
    }
    if (!missing)
        return ST_OK;
    err_set(e, ST_INPUT, "neither prompts.%s of %s nor %s of a stage says how long %s are", plan,
            x->path, missing, missing[0] == 'p' ? "prompts" : "answers");
    return err_hint(e, "prompts.%s states it", plan);
}

/* Lengths of prompts and answers as the server counted them (prompt_tokens, output_tokens), else as
 * the client did (prompt_len, output_len), or as a version without the others names them. */
static struct perf_summary prompts_of(const struct successes *s)
{
    return known(&s->prompt_tokens) ? s->prompt_tokens : s->prompt_len;
}

static const struct perf_summary *answers_of(const struct successes *s)
{
    return known(&s->output_tokens) ? &s->output_tokens : &s->output_len;
}

/* The server's own counts need no second thought. A version that writes both says how many requests
 * had none of the server's. */
static bool server_counted(const struct successes *s)
{
    return known(&s->output_tokens) && known(&s->output_len) &&
           2 * s->client_fallback_requests.output < s->count;
}

/* Whether requests took longer than their answers' lengths allow: with ignore_eos every answer has
 * the length that was asked for, but a client that counts the tokens of its text again finds fewer
 * where the text has less (special tokens, spaces), or more. Short answers are judged by P1, where
 * the record has it: it lasts as long as a first token and its share of the median's decode. */
static bool lengths_refuted(const struct perf_summary *length, const struct latencies *of)
{
    const struct perf_summary *e2e = &of->request_latency;
    const bool p1 = !isnan(length->p1) && !isnan(e2e->p1);
    const double q = p1 ? 1 : 10, part = quantile(length, q) / length->median;
    const double ttft = isnan(of->time_to_first_token.median) ? 0 : of->time_to_first_token.median;
    const double first = fmin(ttft / e2e->median, 1);
    return length->median > 0 && e2e->median > 0 &&
           quantile(e2e, q) / e2e->median > 1.5 * (first + (1 - first) * part);
}

static bool as_asked(const struct perf_summary *length, double asked)
{
    return fabs(quantile(length, 50) - asked) <= 0.03 * asked + 1 &&
           quantile(length, 10) >= 0.95 * asked - 1;
}

/* Whether the server gave every answer the length asked for: one decision for all stages, as they
 * are of one server. A stage that refutes its own counts decides; else most requests do. */
static bool heeds_ignore_eos(const struct experiment *x, const struct lifecycle *l, size_t n)
{
    const double asked = (double)x->prompts.output_tokens_asked;
    int64_t all = 0, yes = 0;
    if (!x->ignore_eos || !(asked > 0))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct successes *s = &l[i].successes;
        const struct perf_summary *counted = answers_of(s);
        if (s->count == 0 || !known(counted))
            continue;
        if (server_counted(s))
            return false;
        if (lengths_refuted(counted, &s->latency))
            return true;
        all += s->count;
        yes += as_asked(counted, asked) ? s->count : 0;
    }
    return all > 0 && 2 * yes >= all;
}

static int64_t *output_lengths(struct arena *a, const struct experiment *x,
                               const struct successes *s, bool heeded, int64_t n,
                               struct observed_stage *out)
{
    const struct perf_summary *counted = answers_of(s);
    const double asked = (double)x->prompts.output_tokens_asked;
    if (!known(counted)) {
        observed_note(a, out,
                      "it holds no lengths of answers: all are taken to have the %g tokens "
                      "asked for",
                      asked);
    } else if (!heeded) {
        if (x->ignore_eos && asked > 0 && !as_asked(counted, asked))
            observed_note(a, out,
                          "answers end early although ignore_eos was asked for (P10 %g of %g "
                          "tokens): their counted lengths are used",
                          quantile(counted, 10), asked);
        return shuffled(a, counted, n, "calibrate.answers");
    } else if (!as_asked(counted, asked)) {
        observed_note(a, out,
                      "output_len (P10 %.4g, P50 %.4g) contradicts the latencies (P10 %.3g s, P50 "
                      "%.3g s) or the other stages: with ignore_eos every answer has the %g tokens "
                      "asked for",
                      quantile(counted, 10), quantile(counted, 50),
                      quantile(&s->latency.request_latency, 10), s->latency.request_latency.median,
                      asked);
    }
    int64_t *v = arena_array(a, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        v[i] = x->prompts.output_tokens_asked;
    return v;
}

static struct workload_request request_at(double s, int64_t id, const struct prompt_pool *pool,
                                          int64_t output_tokens)
{
    int64_t k = id % pool->n, ns = ns_from_s(s);
    return (struct workload_request){
        .request_id = id,
        .arrival_ns = ns,
        .arrival_s = ns_to_s(ns),
        .num_prefill_tokens = pool->length[k],
        .num_decode_tokens = output_tokens,
        .hash_ids = pool->hash_ids ? pool->hash_ids[k] : NULL,
        .hash_tokens = pool->hash_ids ? PIECE : 0,
    };
}

/* Seconds from the first. Drawn gaps are scaled so that together they last as long as the stage. */
static void draw_arrivals(enum arrival_spacing kind, double rate, int draw, double *at, int64_t n)
{
    struct rng gaps = rng_stream((uint64_t)draw, "calibrate.arrivals");
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        at[i] = sum += kind == EVEN ? 1 : rng_exponential(&gaps);
    const double first = at[0], gap_s = (double)n / rate / sum;
    for (int64_t i = 0; i < n; i++)
        at[i] = (at[i] - first) * gap_s;
}

/* Stages follow each other on one server: those after the first find the prompts in the cache. A
 * round of them at `before` requests/s comes first then, and a pause in which the server drains. */
static enum st make_requests(struct arena *a, const struct experiment *x,
                             const struct planned_stage *planned, double before,
                             const struct lifecycle *l, bool heeded, struct observed_stage *out,
                             struct err *e)
{
    static const double drain_s = 60;
    const struct successes *done = &l->successes;
    const double planned_length =
        (double)(x->prompts.system_prompt_tokens + x->prompts.question_tokens);
    struct perf_summary length = prompts_of(done);
    TRY(check_lengths(x, &length, done, e));
    if (!known(&length)) {
        length.median = planned_length;
        observed_note(a, out,
                      "it holds no lengths of prompts: all are taken to have the %g tokens "
                      "planned",
                      planned_length);
    }
    const int64_t counted = l->successes.count + l->failures.count;
    const double want = !planned->concurrency ? planned->rate * planned->duration
                        : planned->requests   ? (double)planned->requests
                                              : (double)counted;
    if (!(want >= 1 && want < MOST_REQUESTS))
        return err_set(e, ST_INPUT, "%s: stages: %g s at %g/s are %g requests", x->path,
                       planned->duration, planned->rate, want);
    const int64_t n = (int64_t)(want + 0.5);
    const struct prompt_pool pool = make_pool(a, &x->prompts, &length, n);
    if (!planned->concurrency && fabs((double)counted - want) > 0.02 * want + 2)
        observed_note(a, out,
                      "%lld requests are counted, and %g s at %g/s are %lld: as many are simulated",
                      (long long)counted, planned->duration, planned->rate, (long long)n);
    const int64_t *answers = output_lengths(a, x, &l->successes, heeded, n, out);
    if (planned->concurrency)
        out->w.concurrency = concurrency_of(a, planned->concurrency, 0);
    out->warmup = before > 0 && x->prompts.groups && !planned->concurrency ? pool.n : 0;
    const double from = out->warmup ? (double)out->warmup / before + drain_s : 0;
    out->w.n = (size_t)(out->warmup + n);
    out->w.requests = arena_array(a, struct workload_request, out->w.n);
    for (int64_t i = 0; i < out->warmup; i++)
        out->w.requests[i] = request_at((double)i / before, i, &pool, answers[i % n]);
    double *at = arena_array(a, double, n);
    if (!planned->concurrency)
        draw_arrivals(x->arrivals, planned->rate, 0, at, n);
    for (int64_t i = 0; i < n; i++)
        out->w.requests[out->warmup + i] =
            request_at(from + at[i], out->warmup + i, &pool, answers[i]);
    if (x->arrivals == EVEN || planned->concurrency)
        return ST_OK;
    int64_t *other_ns = arena_array(a, int64_t, (OBSERVED_DRAWS - 1) * out->w.n);
    out->drawn_ns = other_ns;
    for (int k = 1; k < OBSERVED_DRAWS; k++) {
        draw_arrivals(x->arrivals, planned->rate, k, at, n);
        for (int64_t i = 0; i < out->warmup; i++)
            *other_ns++ = out->w.requests[i].arrival_ns;
        for (int64_t i = 0; i < n; i++)
            *other_ns++ = ns_from_s(from + at[i]);
    }
    return ST_OK;
}

static enum st read_lifecycle(struct arena *a, const char *path, struct lifecycle *out,
                              struct err *e)
{
    struct node *map;
    TRY(read_tree(a, path, &map, e));
    TRY(fields_read(a, &lifecycle_fields, map, out, e));
    const struct latencies *of = &out->successes.latency;
    if (out->successes.count > 0 && isnan(of->request_latency.median) &&
        isnan(of->time_to_first_token.median))
        return node_err(node_find(map, "successes"), ST_INPUT, e,
                        "successes.latency: neither request_latency nor time_to_first_token has a "
                        "median");
    return ST_OK;
}

static enum st make_stage(struct arena *a, const struct experiment *x,
                          const struct planned_stage *planned, double before,
                          const struct lifecycle *l, bool heeded, struct observed_stage *out,
                          struct err *e)
{
    out->completed = l->successes.count;
    out->failed = l->failures.count;
    out->rate = planned->rate;
    const bool any = out->completed > 0; /* else what it says of them is of nothing */
    const struct latencies *of = &l->successes.latency;
    out->of[OBSERVED_E2E] = any ? series_of(&of->request_latency) : observed_unknown();
    out->of[OBSERVED_TTFT] = any ? series_of(&of->time_to_first_token) : observed_unknown();
    out->of[OBSERVED_TPOT] = observed_unknown(); /* its own counts tokens twice */
    return make_requests(a, x, planned, before, l, heeded, out, e);
}

static enum st no_stage(const char *dir, int i, const struct experiment *x, struct err *e)
{
    const char *plan = fs_base(x->path);
    err_set(e, ST_INPUT, "%s has no " STAGE_FILE ", and %s has %zu stages", dir, i, plan,
            x->n_stages);
    return err_hint(e, "add the file, or leave the stage out of %s", plan);
}

/* ---- its requests ---------------------------------------------------------------------------- */

/* Prompts of a pool that are sent over and over are in the cache or not: only a server that says so
 * tells which. Its stages follow each other, so their counts cut the requests. */
static bool requests_tell(const struct experiment *x, const struct lifecycle *l,
                          const struct requests *q)
{
    int64_t counted = 0;
    for (size_t i = 0; i < x->n_stages; i++)
        counted += l[i].successes.count + l[i].failures.count;
    return q->n > 0 && counted == (int64_t)q->n && (!x->prompts.groups || q->cached);
}

static enum st stage_of_rows(struct arena *a, const char *path, const struct experiment *x,
                             const struct lifecycle *l, bool heeded, struct observed_row *rows,
                             bool usage, struct observed_stage *out, struct err *e)
{
    const size_t n = (size_t)(l->successes.count + l->failures.count);
    for (size_t i = 0; i < n && heeded && !usage; i++)
        rows[i].output_tokens = x->prompts.output_tokens_asked;
    if (heeded && !usage)
        observed_note(a, out, "with ignore_eos every answer has the %lld tokens asked for",
                      (long long)x->prompts.output_tokens_asked);
    return observed_from_rows(a, path, rows, n, out, e);
}

/* The requests alone, without a stage's file: one stage. */
static enum st read_rows_alone(struct arena *a, const char *dir, struct observed *out,
                               struct err *e)
{
    const char *path = fs_join(a, dir, REQUESTS_FILE);
    struct requests q;
    struct experiment x = {.settings = {.prefix_caching = -1}};
    TRY(requests_load(a, path, &q, e));
    if (fs_exists(fs_join(a, dir, "config.yaml")))
        TRY(experiment_of_config(a, dir, &x, e));
    if (x.n_stages > 1) {
        err_set(e, ST_INPUT,
                "%s: requests of %zu stages, and no " STAGE_FILE " says how many each "
                "has",
                path, x.n_stages, 0);
        return err_hint(e, "report.request_lifecycle.per_stage writes these files");
    }
    out->settings = x.settings;
    out->doubts = x.doubts;
    out->n_doubts = x.n_doubts;
    out->n_stages = 1;
    out->stages = arena_one(a, struct observed_stage);
    out->stages->name = "0";
    return observed_from_rows(a, path, q.rows, q.n, out->stages, e);
}

/* ---- all ------------------------------------------------------------------------------------- */

static enum st read_stages(struct arena *a, const char *dir, const struct experiment *x,
                           struct observed *out, struct err *e)
{
    const char *path = fs_join(a, dir, REQUESTS_FILE);
    struct lifecycle *l = arena_array(a, struct lifecycle, x->n_stages);
    struct requests q = {0};
    for (size_t i = 0; i < x->n_stages; i++) {
        const char *file = fs_join(a, dir, arena_printf(a, STAGE_FILE, (int)i));
        if (!fs_exists(file))
            return no_stage(dir, (int)i, x, e);
        TRY(read_lifecycle(a, file, &l[i], e));
    }
    if (fs_exists(path))
        TRY(requests_load(a, path, &q, e));
    const bool heeded = heeds_ignore_eos(x, l, x->n_stages), rows = requests_tell(x, l, &q);
    if (x->load && !rows)
        return experiment_no_load(x, e);
    size_t at = 0;
    for (size_t i = 0; i < x->n_stages; i++) {
        struct observed_stage *s = &out->stages[i];
        s->name = arena_printf(a, "%zu", i);
        if (rows && l[i].successes.count)
            TRY(stage_of_rows(a, path, x, &l[i], heeded, q.rows + at, q.usage, s, e));
        else
            TRY(make_stage(a, x, &x->stages[i], i ? x->stages[i - 1].rate : 0, &l[i], heeded, s,
                           e));
        at += (size_t)(l[i].successes.count + l[i].failures.count);
    }
    return ST_OK;
}

enum st observed_read_inference_perf(struct arena *a, const char *dir, struct observed *out,
                                     struct err *e)
{
    struct experiment x;
    if (!fs_exists(fs_join(a, dir, "experiment.json")) &&
        !fs_exists(fs_join(a, dir, arena_printf(a, STAGE_FILE, 0))))
        return read_rows_alone(a, dir, out, e);
    TRY(experiment_read(a, dir, &x, e));
    out->settings = x.settings;
    out->doubts = x.doubts;
    out->n_doubts = x.n_doubts;
    out->n_stages = x.n_stages;
    out->stages = arena_array(a, struct observed_stage, x.n_stages);
    TRY(read_stages(a, dir, &x, out, e));
    const char *next = arena_printf(a, STAGE_FILE, (int)x.n_stages);
    if (fs_exists(fs_join(a, dir, next)))
        observed_note(a, &out->stages[x.n_stages - 1], "%s is not read: %s has %zu stages", next,
                      fs_base(x.path), x.n_stages);
    return ST_OK;
}
