#include "search/monte_carlo.h"

#include <math.h>
#include <string.h>

#include "metrics/metrics.h"
#include "search/launch.h"
#include "sim/drafting.h"
#include "text/csv.h"

/* One value of each percentile, sent by a worker as raw memory: both ends are the same program. */
struct replica_values {
    double s[MONTE_CARLO_METRICS][PROBE_PERCENTILES];
};

struct replica_work {
    const struct monte_carlo_params *p;
    struct bundle_uncertainty uncertainty;
    struct slo slo;
    struct replica_values *of; /* [replicas + 1]; 0 = the unperturbed bundle */
};

static double draw(struct rng *r, double sd)
{
    double z = rng_normal(r); /* drawn even where unused, so that later draws stay the same */
    return exp(sd * z);
}

/* Drift is known from few rounds: Student's distribution with one degree of freedom less, three at
 * least, and no further out than 8. */
static double student(struct rng *r, int64_t rounds)
{
    const double freedom = rounds > 4 ? (double)rounds - 1 : 3;
    const double z = rng_normal(r), chi2 = 2 * rng_gamma(r, freedom / 2);
    return fmax(-8, fmin(8, z / sqrt(chi2 / freedom)));
}

struct bundle_factors monte_carlo_draw(const struct bundle_uncertainty *uncertainty, uint64_t seed,
                                       size_t i, struct rng *host, struct rng *unevenness)
{
    char name[64];
    struct bundle_factors f = {.places = uncertainty, .host_draws = host, .unevenness = unevenness};
    snprintf(name, sizeof name, "sim.replicas_mc.%zu", i);
    struct rng r = rng_stream(seed, name);
    for (int k = 0; k < BUNDLE_PARTS; k++)
        f.part[k] = draw(&r, uncertainty->shift[k]);
    const double drift = student(&r, uncertainty->rounds); /* of all kinds of batches alike */
    f.decode = exp(uncertainty->decode_drift * drift);
    f.prompt = exp(uncertainty->prompt_drift * drift);
    f.places_seed = rng_u64(&r);
    snprintf(name, sizeof name, "sim.replicas_mc.%zu.host", i);
    *host = rng_stream(seed, name);
    snprintf(name, sizeof name, "sim.replicas_mc.%zu.unevenness", i);
    *unevenness = rng_stream(seed, name);
    return f;
}

static enum st simulate(struct arena *a, const struct replica_work *w, const struct bundle *bundle,
                        struct replica_values *out, struct err *e)
{
    struct predictor_params params = *w->p->predictor;
    struct predictor predictor;
    struct probe_result r;
    struct summary *tokens = summary_new();
    params.bundle = bundle;
    enum st st = predictor_open(a, w->p->ops, &params, &predictor, e);
    if (st == ST_OK && w->p->serve->draft_tokens)
        predictor = predictor_drafting(a, &predictor, w->p->draft_cost);
    struct rate_probe probe = probe_sim_open(&(struct probe_sim_params){.predictor = &predictor,
                                                                        .serve = w->p->serve,
                                                                        .workload = w->p->workload,
                                                                        .slo = &w->slo,
                                                                        .tokens = tokens,
                                                                        .stop = w->p->stop});
    if (st == ST_OK)
        st = probe.ops->run(probe.self, 1, w->p->seed, &r, e);
    probe_sim_close(&probe);
    for (int k = 0; k < PROBE_PERCENTILES && st == ST_OK; k++) {
        for (int m = 0; m < SLO_METRICS; m++)
            out->s[m][k] = r.latency_s[m][k];
        out->s[MONTE_CARLO_TOKEN_LATENCY][k] =
            summary_percentile(tokens, METRIC_TOKEN_LATENCY, probe_percentiles[k]) / 1e9;
    }
    summary_free(&tokens);
    return st;
}

/* Factors of 1: a copy, so that the bundle counts the look-ups of the run only. */
static struct bundle_factors as_it_is(void)
{
    struct bundle_factors f = {.decode = 1, .prompt = 1};
    for (int k = 0; k < BUNDLE_PARTS; k++)
        f.part[k] = 1;
    return f;
}

static enum st run_replica(void *self, size_t i, struct buf *out, struct err *e)
{
    const struct replica_work *w = self;
    struct replica_values v;
    struct arena *a = arena_new();
    struct rng host, unevenness;
    struct bundle_factors f = as_it_is();
    if (i > 0)
        f = monte_carlo_draw(&w->uncertainty, w->p->seed, i - 1, &host, &unevenness);
    enum st st = simulate(a, w, bundle_perturbed(a, w->p->predictor->bundle, &f), &v, e);
    arena_free(&a);
    if (st == ST_OK)
        buf_add(out, &v, sizeof v);
    return st;
}

static enum st take_replica(void *self, size_t i, struct sv bytes, struct err *e)
{
    struct replica_work *w = self;
    (void)e;
    ASSERT(bytes.n == sizeof *w->of);
    memcpy(&w->of[i], bytes.p, sizeof *w->of);
    return ST_OK;
}

static struct monte_carlo_cell cell(const struct replica_values *of, size_t n, int m, int k,
                                    double *values, double *scratch)
{
    const struct monte_carlo_cell none = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    struct monte_carlo_cell c = {.value_s = of[0].s[m][k]};
    for (size_t i = 0; i < n; i++) {
        values[i] = of[i + 1].s[m][k];
        if (isnan(values[i]) || isnan(c.value_s))
            return none;
        c.mean_s += values[i] / (double)n;
    }
    stats_sort(values, scratch, n);
    c.low_s = stats_percentile(values, n, 2.5);
    c.high_s = stats_percentile(values, n, 97.5);
    return c;
}

enum st monte_carlo_run(const struct monte_carlo_params *p, struct monte_carlo *out, struct err *e)
{
    size_t n = (size_t)p->replicas;
    struct replica_work w = {.p = p, .slo = {.fraction = 1}};
    ASSERT(p->predictor->bundle && p->replicas >= MONTE_CARLO_LEAST);
    for (int m = 0; m < SLO_METRICS; m++)
        w.slo.limit_s[m] = (double)INFINITY;
    bundle_uncertainty(p->predictor->bundle, &w.uncertainty);
    w.of = mem_alloc((n + 1) * sizeof *w.of);
    struct launch_work launch = {.self = &w,
                                 .n = n + 1,
                                 .workers = p->workers,
                                 .job = run_replica,
                                 .done = take_replica,
                                 .stop = p->stop};
    enum st st = launch_fork.run(&launch, e);
    double *values = mem_alloc(2 * n * sizeof(double));
    *out = (struct monte_carlo){.uncertainty = w.uncertainty,
                                .replicas = p->replicas,
                                .uneven = bundle_is_uneven(p->predictor->bundle)};
    for (int m = 0; m < MONTE_CARLO_METRICS && st == ST_OK; m++)
        for (int k = 0; k < PROBE_PERCENTILES; k++)
            out->of[m][k] = cell(w.of, n, m, k, values, values + n);
    mem_free(values);
    mem_free(w.of);
    return st;
}

static void put_ns(struct csv_writer *w, double s)
{
    if (isnan(s))
        csv_put_empty(w);
    else
        csv_put_int(w, llround(s * 1e9));
}

enum st monte_carlo_write(const struct artifact *art, const struct monte_carlo *m, struct err *e)
{
    static const char *const heads[] = {"metric",  "percentile", "value_ns", "low_ns",
                                        "high_ns", "mean_ns",    "replicas"};
    static const int order[] = {SLO_TTFT, MONTE_CARLO_TOKEN_LATENCY, SLO_TPOT, SLO_E2EL, SLO_DELAY};
    static const char *const names[] = {"ttft", "token_latency", "tpot", "e2e", "delay"};
    FILE *f;
    TRY(artifact_create_file(art, PERCENTILE_INTERVALS, &f, e));
    struct csv_writer w = {.f = f};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        csv_put_str(&w, heads[i]);
    csv_end_row(&w);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        for (int k = 0; k < PROBE_PERCENTILES; k++) {
            char name[16];
            const struct monte_carlo_cell *c = &m->of[order[i]][k];
            snprintf(name, sizeof name, "p%.0f", probe_percentiles[k]);
            csv_put_str(&w, names[i]);
            csv_put_str(&w, name);
            put_ns(&w, c->value_s);
            put_ns(&w, c->low_s);
            put_ns(&w, c->high_s);
            put_ns(&w, m->uneven ? c->mean_s : (double)NAN);
            csv_put_int(&w, m->replicas);
            csv_end_row(&w);
        }
    return artifact_close_file(art, PERCENTILE_INTERVALS, &f, e);
}
