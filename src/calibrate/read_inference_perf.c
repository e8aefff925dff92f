/* inference-perf: stage_N_lifecycle_metrics.json of each stage has quantiles alone; experiment.json
 * beside them says what was sent and to which server. docs/formats.md has its members. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "calibrate/observed.h"
#include "text/fields.h"
#include "text/json.h"

#define STAGE_FILE "stage_%d_lifecycle_metrics.json"
enum { MOST_STAGES = 1000, PIECE = 16, MOST_REQUESTS = 5000000 };

bool observed_is_inference_perf(struct arena *a, const char *path)
{
    return fs_is_dir(path) && (fs_exists(fs_join(a, path, "stage_0_lifecycle_metrics.json")) ||
                               fs_exists(fs_join(a, path, "experiment.json")));
}

/* ---- experiment.json ------------------------------------------------------------------------- */

struct planned_stage {
    double rate, duration;
};

struct prompts {
    int64_t groups, prompts_per_group, system_prompt_tokens, question_tokens, output_tokens_asked;
};

struct experiment {
    const char *model, *gpu, *arrivals, *engine;
    int64_t tensor_parallel, max_num_batched_tokens, max_num_seqs, max_model_len;
    bool ignore_eos;
    struct prompts prompts;
    struct planned_stage *stages;
    size_t n_stages;
};

static const struct field stage_rows[] = {
    FIELD(struct planned_stage, rate, .min = 1e-6, .max = 1e6),
    FIELD(struct planned_stage, duration, .min = 1e-3, .max = 1e8),
};
static const struct fields stage_fields = FIELDS(struct planned_stage, stage_rows);

#define LENGTH .min = 0, .max = 1 << 30
#define COUNT  .min = 1, .max = 1 << 20
static const struct field prompts_rows[] = {
    FIELD(struct prompts, groups, COUNT),
    FIELD(struct prompts, prompts_per_group, COUNT),
    FIELD(struct prompts, system_prompt_tokens, LENGTH),
    FIELD(struct prompts, question_tokens, LENGTH),
    FIELD(struct prompts, output_tokens_asked, .min = 1, .max = 1 << 30),
};
static const struct fields prompts_fields = FIELDS(struct prompts, prompts_rows);

static const struct field experiment_rows[] = {
    FIELD(struct experiment, model),
    FIELD(struct experiment, gpu),
    FIELD(struct experiment, arrivals),
    FIELD(struct experiment, engine),
    FIELD(struct experiment, tensor_parallel, .min = 1, .max = 1024),
    FIELD(struct experiment, max_num_batched_tokens, .min = 1, .max = 1 << 24),
    FIELD(struct experiment, max_num_seqs, .min = 1, .max = 1 << 20),
    FIELD(struct experiment, max_model_len, .min = 1, .max = 1 << 30),
    FIELD(struct experiment, ignore_eos),
    FIELD_MAP(struct experiment, prompts, "prompts", &prompts_fields),
    FIELD_MAPS(struct experiment, stages, n_stages, "stages", &stage_fields),
};
static const struct fields experiment_fields =
    FIELDS(struct experiment, experiment_rows,
           .remedy = "experiment.json says what was sent, and the limits of the server");

enum arrivals { EVEN, POISSON };

static enum st arrivals_of(const struct node *map, const struct experiment *x, enum arrivals *out,
                           struct err *e)
{
    static const struct {
        const char *begins;
        enum arrivals kind;
    } known[] = {{"constant", EVEN}, {"poisson", POISSON}, {"Poisson", POISSON}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(x->arrivals, known[i].begins, strlen(known[i].begins)) == 0) {
            *out = known[i].kind;
            return ST_OK;
        }
    }
    node_err(node_find(map, "arrivals"), ST_INPUT, e, "arrivals: '%s' is not known here",
             x->arrivals);
    return err_hint(e, "arrivals begin with \"constant\" or \"poisson\"");
}

static enum st read_experiment(struct arena *a, const char *dir, struct experiment *x,
                               enum arrivals *kind, struct err *e)
{
    const char *path = fs_join(a, dir, "experiment.json");
    struct node *map;
    if (!fs_exists(path)) {
        err_set(e, ST_INPUT, "%s has no experiment.json", dir);
        return err_hint(e, "it says what was sent and to which server: docs/formats.md");
    }
    TRY(json_load(a, path, NULL, &map, e));
    TRY(fields_read(a, &experiment_fields, map, x, e));
    if (x->n_stages == 0 || x->n_stages > MOST_STAGES)
        return node_err(node_find(map, "stages"), ST_INPUT, e, "stages: expected 1 to %d",
                        (int)MOST_STAGES);
    return arrivals_of(map, x, kind, e);
}

/* ---- stage_N_lifecycle_metrics.json -----------------------------------------------------------
 */

/* What inference-perf writes of a quantity, in s or tokens. */
struct summary {
    double mean, min, p1, p5, p10, p25, median, p75, p90, p95, p99, max;
};

/* Which percentiles there are, its configuration says. */
#define QUANTITY .min = 0, .max = 1e9, .optional = true
static const struct field summary_rows[] = {
    FIELD(struct summary, mean, QUANTITY),   FIELD(struct summary, min, QUANTITY),
    FIELD(struct summary, p1, QUANTITY),     FIELD(struct summary, p5, QUANTITY),
    FIELD(struct summary, p10, QUANTITY),    FIELD(struct summary, p25, QUANTITY),
    FIELD(struct summary, median, QUANTITY), FIELD(struct summary, p75, QUANTITY),
    FIELD(struct summary, p90, QUANTITY),    FIELD(struct summary, p95, QUANTITY),
    FIELD(struct summary, p99, QUANTITY),    FIELD(struct summary, max, QUANTITY),
};
static const struct fields summary_fields = FIELDS(struct summary, summary_rows);

struct latencies {
    struct summary request_latency, time_to_first_token;
};
static const struct field latency_rows[] = {
    FIELD_MAP(struct latencies, request_latency, "request_latency", &summary_fields,
              .optional = true),
    FIELD_MAP(struct latencies, time_to_first_token, "time_to_first_token", &summary_fields,
              .optional = true),
};
static const struct fields latency_fields = FIELDS(struct latencies, latency_rows);

/* Lengths have had two names. Without streaming there is no time to first token. */
struct successes {
    int64_t count;
    struct latencies latency;
    struct summary prompt_len, output_len, prompt_tokens, output_tokens;
};
static const struct field success_rows[] = {
    FIELD(struct successes, count, .min = 0, .max = MOST_REQUESTS),
    FIELD_MAP(struct successes, latency, "latency", &latency_fields, .optional = true),
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

static struct observed_series series_of(const struct summary *s)
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
static double quantile(const struct summary *s, double q)
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

/* The prompts of the experiment, in the order in which they are sent. */
struct pool {
    int64_t n;
    int64_t *length;
    int64_t **hash_ids;
};

/* Values of a distribution in no order: each of n equal parts of it has one. */
static int64_t *shuffled(struct arena *a, const struct summary *s, int64_t n, const char *stream)
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

/* Groups take turns; whole pieces of the system prompt are shared in a group. */
static struct pool make_pool(struct arena *a, const struct prompts *p, const struct summary *length)
{
    struct pool out = {.n = p->groups * p->prompts_per_group};
    out.length = shuffled(a, length, out.n, "calibrate.prompts");
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

static bool known(const struct summary *s)
{
    return !isnan(quantile(s, 50));
}

/* Whether requests took longer than their answers' lengths allow: with ignore_eos every answer has
 * the length that was asked for, but a client that counts the tokens of its text again finds fewer
 * where the text has less (special tokens, spaces), or more. */
static bool lengths_refuted(const struct summary *length, const struct summary *e2e)
{
    return length->median > 0 && e2e->median > 0 &&
           e2e->p1 / e2e->median > 1.5 * length->p1 / length->median;
}

static int64_t *output_lengths(struct arena *a, const struct experiment *x,
                               const struct successes *s, int64_t n, struct observed_stage *out)
{
    const struct summary *counted = known(&s->output_len) ? &s->output_len : &s->output_tokens;
    double asked = (double)x->prompts.output_tokens_asked;
    bool refuted = lengths_refuted(counted, &s->latency.request_latency);
    bool as_asked = fabs(quantile(counted, 50) - asked) <= 0.03 * asked + 1 &&
                    quantile(counted, 10) >= 0.95 * asked - 1;
    if (!known(counted)) {
        observed_note(a, out,
                      "it holds no lengths of answers: all are taken to have the %g tokens "
                      "asked for",
                      asked);
    } else if (!x->ignore_eos || !(refuted || as_asked)) {
        if (x->ignore_eos)
            observed_note(a, out,
                          "answers end early although ignore_eos was asked for (P10 %g of %g "
                          "tokens): their counted lengths are used",
                          quantile(counted, 10), asked);
        return shuffled(a, counted, n, "calibrate.answers");
    }
    if (refuted)
        observed_note(a, out,
                      "output_len (P1 %g, P50 %g) contradicts the latencies (P1 %.3g s, P50 %.3g "
                      "s): with ignore_eos every answer has the %g tokens asked for",
                      counted->p1, counted->median, s->latency.request_latency.p1,
                      s->latency.request_latency.median, asked);
    int64_t *v = arena_array(a, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        v[i] = x->prompts.output_tokens_asked;
    return v;
}

static struct workload_request request_at(double s, int64_t id, const struct pool *pool,
                                          int64_t output_tokens)
{
    int64_t k = id % pool->n, ns = ns_from_s(s);
    return (struct workload_request){
        .request_id = id,
        .arrival_ns = ns,
        .arrival_s = ns_to_s(ns),
        .num_prefill_tokens = pool->length[k],
        .num_decode_tokens = output_tokens,
        .hash_ids = pool->hash_ids[k],
        .hash_tokens = PIECE,
    };
}

/* Stages follow each other on one server: those after the first find the prompts in the cache. A
 * round of them at `before` requests/s comes first then, and a pause in which the server drains. */
static enum st make_requests(struct arena *a, const struct experiment *x,
                             const struct planned_stage *planned, double before, enum arrivals kind,
                             const struct lifecycle *l, struct observed_stage *out, struct err *e)
{
    static const double drain_s = 60;
    const struct successes *done = &l->successes;
    const double planned_length =
        (double)(x->prompts.system_prompt_tokens + x->prompts.question_tokens);
    struct summary length = known(&done->prompt_len) ? done->prompt_len : done->prompt_tokens;
    if (!known(&length)) {
        length.median = planned_length;
        observed_note(a, out,
                      "it holds no lengths of prompts: all are taken to have the %g tokens "
                      "planned",
                      planned_length);
    }
    const struct pool pool = make_pool(a, &x->prompts, &length);
    const double want = planned->rate * planned->duration;
    const int64_t counted = l->successes.count + l->failures.count;
    if (!(want >= 1 && want < MOST_REQUESTS))
        return err_set(e, ST_INPUT, "experiment.json: stages: %g s at %g/s are %g requests",
                       planned->duration, planned->rate, want);
    const int64_t n = (int64_t)(want + 0.5);
    if (fabs((double)counted - want) > 0.02 * want + 2)
        observed_note(a, out,
                      "%lld requests are counted, and %g s at %g/s are %lld: as many are simulated",
                      (long long)counted, planned->duration, planned->rate, (long long)n);
    const int64_t *answers = output_lengths(a, x, &l->successes, n, out);
    struct rng gaps = rng_stream(0, "calibrate.arrivals");
    out->warmup = before > 0 ? pool.n : 0;
    const double from = out->warmup ? (double)out->warmup / before + drain_s : 0;
    out->w.n = (size_t)(out->warmup + n);
    out->w.requests = arena_array(a, struct workload_request, out->w.n);
    for (int64_t i = 0; i < out->warmup; i++)
        out->w.requests[i] = request_at((double)i / before, i, &pool, answers[i % n]);
    double at = from;
    for (int64_t i = 0; i < n; i++) {
        at = kind == EVEN ? from + (double)i / planned->rate
                          : at + rng_exponential(&gaps) / planned->rate;
        out->w.requests[out->warmup + i] = request_at(at, out->warmup + i, &pool, answers[i]);
    }
    return ST_OK;
}

static enum st read_stage(struct arena *a, const char *path, const struct experiment *x,
                          const struct planned_stage *planned, double before, enum arrivals kind,
                          struct observed_stage *out, struct err *e)
{
    struct node *map;
    struct lifecycle l;
    TRY(json_load(a, path, NULL, &map, e));
    TRY(fields_read(a, &lifecycle_fields, map, &l, e));
    out->completed = l.successes.count;
    out->failed = l.failures.count;
    out->rate = planned->rate;
    const bool any = out->completed > 0; /* else what it says of them is of nothing */
    const struct latencies *of = &l.successes.latency;
    out->of[OBSERVED_E2E] = any ? series_of(&of->request_latency) : observed_unknown();
    out->of[OBSERVED_TTFT] = any ? series_of(&of->time_to_first_token) : observed_unknown();
    out->of[OBSERVED_TPOT] = observed_unknown(); /* its own counts tokens twice */
    if (any && isnan(of->request_latency.median) && isnan(of->time_to_first_token.median))
        return node_err(node_find(map, "successes"), ST_INPUT, e,
                        "successes.latency: neither request_latency nor time_to_first_token has a "
                        "median");
    return make_requests(a, x, planned, before, kind, &l, out, e);
}

enum st observed_read_inference_perf(struct arena *a, const char *dir, struct observed *out,
                                     struct err *e)
{
    struct experiment x;
    enum arrivals kind = EVEN;
    TRY(read_experiment(a, dir, &x, &kind, e));
    out->settings = (struct observed_settings){.model = x.model,
                                               .gpu = x.gpu,
                                               .tp = x.tensor_parallel,
                                               .token_budget = x.max_num_batched_tokens,
                                               .batch_cap = x.max_num_seqs,
                                               .max_model_len = x.max_model_len,
                                               .prefix_caching = -1};
    out->n_stages = x.n_stages;
    out->stages = arena_array(a, struct observed_stage, x.n_stages);
    for (size_t i = 0; i < x.n_stages; i++) {
        struct observed_stage *s = &out->stages[i];
        const char *path = fs_join(a, dir, arena_printf(a, STAGE_FILE, (int)i));
        s->name = arena_printf(a, "%zu", i);
        if (!fs_exists(path))
            return err_set(e, ST_INPUT,
                           "%s has no " STAGE_FILE ", and experiment.json has %zu stages", dir,
                           (int)i, x.n_stages);
        TRY(read_stage(a, path, &x, &x.stages[i], i ? x.stages[i - 1].rate : 0, kind, s, e));
    }
    const char *next = arena_printf(a, STAGE_FILE, (int)x.n_stages);
    if (fs_exists(fs_join(a, dir, next)))
        observed_note(a, &out->stages[x.n_stages - 1],
                      "%s is not read: experiment.json has %zu stages", next, x.n_stages);
    return ST_OK;
}
