#include "job/counters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/fields.h"

/* NAN = unknown. */
struct run_counters {
    struct serve_counters n;
    bool has_energy, measured;
    double energy_s;                /* of average_power_w */
    const char *energy_unknown;     /* why it was measured in vain */
    double idle_energy_j, energy_j; /* of all devices, the batches' with the idle time's */
    double average_power_w, j_per_request, j_per_token;
    double prefix_hit_rate, tokens_per_step, kv_transfer_mean_ms;
    bool has_lookups;
    int64_t lookups, extrapolated_lookups;
    double setup_seconds;
    int64_t peak_rss_bytes; /* the most memory this process ever had; 0 = unknown */
    const char *dir;
    struct summary_facts f;
};
#define T struct run_counters

static const struct field idle_rows[] = {
    FIELD_AS(T, n.energy_j, "energy_j"),
    FIELD(T, idle_energy_j),
    FIELD(T, average_power_w),
};
static const struct fields idle_fields = FIELDS(T, idle_rows);

static const struct field lookup_rows[] = {
    FIELD(T, lookups),
    FIELD(T, extrapolated_lookups),
};
static const struct fields lookup_fields = FIELDS(T, lookup_rows);

static const struct field counter_rows[] = {
    FIELD_PART(NULL, &idle_fields, FIELD_IF(T, has_energy)),
    FIELD_PART(NULL, &lookup_fields, FIELD_IF(T, has_lookups)),
    FIELD_MAP(T, n, NULL, &serve_counters_fields),
    FIELD(T, setup_seconds),
    FIELD(T, peak_rss_bytes, .zero_is_null = true),
};
static const struct fields counter_fields = FIELDS(T, counter_rows);

static const struct field energy_rows[] = {
    FIELD(T, energy_j),
    FIELD(T, j_per_request, .omit = true),
    FIELD(T, j_per_token, .omit = true),
    FIELD(T, average_power_w, .omit = true),
};
static const struct fields energy_fields = FIELDS(T, energy_rows);

static const struct field release_rows[] = {
    FIELD_AS(T, n.concurrency_mean, "concurrency_mean"),
    FIELD_AS(T, n.concurrency_peak, "concurrency_peak"),
    FIELD_AS(T, n.sessions, "sessions", .omit = true, .zero_is_null = true),
};
static const struct fields release_fields = FIELDS(T, release_rows);

static const struct field result_rows[] = {
    FIELD_AS(T, dir, "out"),
    FIELD_AS(T, f.n_requests, "requests"),
    FIELD_AS(T, f.n_not_ok, "not_ok"),
    FIELD_AS(T, f.n_warmup, "warmup"),
    FIELD_AS(T, f.duration_s, "duration_s"),
    FIELD_AS(T, f.requests_per_s, "requests_per_s"),
    FIELD_AS(T, f.output_tokens_per_s, "output_tokens_per_s"),
    FIELD_AS(T, f.goodput_per_s, "goodput_per_s"),
    FIELD_PART(NULL, &release_fields, FIELD_IF(T, n.follows)),
    FIELD_AS(T, n.iterations, "iterations"),
    FIELD(T, prefix_hit_rate, .omit = true),
    FIELD(T, tokens_per_step, .omit = true),
    FIELD(T, kv_transfer_mean_ms, .omit = true),
    FIELD_PART(NULL, &energy_fields, FIELD_IF(T, has_energy)),
    FIELD_PART(NULL, &lookup_fields, FIELD_IF(T, has_lookups)),
};
static const struct fields result_fields = FIELDS(T, result_rows);
#undef T

static double per(double x, double n)
{
    return n > 0 ? x / n : (double)NAN;
}

static double four_decimals(double v)
{
    return round(v * 1e4) / 1e4;
}

static int64_t peak_rss_bytes(struct arena *a)
{
    static const char key[] = "VmHWM:";
    struct err ignored = {0};
    struct sv text;
    if (fs_read(a, "/proc/self/status", 1 << 16, &text, &ignored) != ST_OK)
        return 0;
    const char *at = strstr(text.p, key);
    return at ? strtoll(at + sizeof key - 1, NULL, 10) * 1024 : 0;
}

struct run_counters *run_counters_of(const struct job_context *c, const struct job_run *r,
                                     const struct serve_counters *n, double setup_s,
                                     const struct job_energy *measured)
{
    struct run_counters *k = arena_one(c->a, struct run_counters);
    *k = (struct run_counters){
        .n = *n, .setup_seconds = setup_s, .peak_rss_bytes = peak_rss_bytes(c->a)};
    k->has_energy = n->energy_j > 0;
    if (k->has_energy && r->predictor)
        k->idle_energy_j =
            predictor_idle_j(r->predictor, c->plan->serve.replicas, n->busy_s, n->end_s);
    k->energy_j = n->energy_j + k->idle_energy_j;
    k->energy_s = n->end_s;
    if (measured) {
        k->measured = true;
        k->has_energy = !isnan(measured->energy_j);
        k->n.energy_j = n->energy_j > 0 ? n->energy_j : (double)NAN; /* of batches not made here */
        k->energy_j = measured->energy_j;
        k->idle_energy_j = fmax(measured->energy_j - k->n.energy_j, 0);
        k->idle_energy_j = isnan(k->n.energy_j) ? k->n.energy_j : k->idle_energy_j;
        k->energy_s = measured->duration_s;
        k->energy_unknown = measured->why;
    }
    k->average_power_w = per(k->energy_j, k->energy_s);
    k->j_per_request = per(k->energy_j, (double)(n->requests - n->rejected));
    k->j_per_token = per(k->energy_j, (double)n->tokens);
    k->prefix_hit_rate =
        four_decimals(per((double)n->prefix_hit_tokens, (double)n->prefix_looked_tokens));
    k->tokens_per_step =
        four_decimals(1 + per((double)n->spec_accepted_tokens, (double)n->spec_steps));
    k->kv_transfer_mean_ms = four_decimals(per(n->kv_transfer_s, (double)n->kv_transfers) * 1e3);
    k->has_lookups = r->bundle != NULL;
    if (k->has_lookups) {
        k->lookups = bundle_lookups(r->bundle);
        k->extrapolated_lookups = bundle_extrapolations(r->bundle);
    }
    return k;
}

struct node *run_counters_energy(const struct job_context *c, const struct job_run *r,
                                 const struct run_counters *k)
{
    const double unknown = (double)NAN;
    struct run_energy x = {.measured = k->measured,
                           .energy_j = k->has_energy ? k->energy_j : unknown,
                           .idle_energy_j = k->has_energy ? k->idle_energy_j : unknown,
                           .duration_s = k->energy_s,
                           .requests = k->n.requests - k->n.rejected,
                           .tokens = k->n.tokens,
                           .why = k->energy_unknown};
    if (!r->clock->is_virtual && !k->measured)
        return NULL;
    if (!k->has_energy && !k->measured)
        x.why = !r->bundle ? "predictions without a profiling bundle have no energy"
                : bundle_energy_missing(r->bundle) ? bundle_energy_missing(r->bundle)
                : bundle_has_energy(r->bundle)
                    ? "no batch ran"
                    : "the bundle has no energy: twinfer profile profile.energy=true measures it";
    return run_energy_node(c->a, &x);
}

struct node *run_counters_node(struct arena *a, const struct run_counters *k)
{
    return fields_node(a, &counter_fields, k);
}

static void put_ms(struct arena *a, struct node *out, enum metric m, const char *what, double ns)
{
    if (!isnan(ns))
        node_set(a, out, sv_of(arena_printf(a, "%s_%s_ms", metric_name(m), what)),
                 node_float(a, round(ns / 1e2) / 1e4));
}

static void put_latencies(struct arena *a, struct node *out, struct summary *s)
{
    static const enum metric shown[] = {METRIC_TTFT, METRIC_TPOT, METRIC_E2E};
    static const double quantiles[] = {50, 90, 99};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        put_ms(a, out, shown[i], "mean", summary_mean(s, shown[i]));
        for (size_t k = 0; k < sizeof quantiles / sizeof *quantiles; k++)
            put_ms(a, out, shown[i], arena_printf(a, "p%.0f", quantiles[k]),
                   summary_percentile(s, shown[i], quantiles[k]));
    }
}

struct node *run_result_node(struct arena *a, const struct run_counters *k, const char *dir,
                             struct summary *s)
{
    struct run_counters all = *k;
    all.dir = dir;
    all.f = summary_facts(s);
    struct node *out = fields_node(a, &result_fields, &all);
    put_latencies(a, out, s);
    node_set(a, out, SV("percentile_error"), node_float(a, all.f.exact ? 0 : SUMMARY_ERROR));
    return out;
}
