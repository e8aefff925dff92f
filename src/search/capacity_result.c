#include "search/capacity_result.h"

#include <math.h>
#include <string.h>

#include "base/contention.h"
#include "metrics/metrics.h"
#include "text/csv.h"
#include "text/words.h"

/* ---- notes ------------------------------------------------------------------------------- */

static double largest(const struct capacity_result *r, size_t offset)
{
    double most = 0;
    for (size_t i = 0; r->operating && i < r->n_seeds; i++) {
        double v = *(const double *)(const void *)((const char *)&r->operating[i].r + offset);
        most = v > most ? v : most;
    }
    return most;
}

static const char *unmet(struct arena *a, const struct capacity_result *r)
{
    const struct capacity_seed *s = &r->seeds[0];
    const struct capacity_probe *last = &s->probes[s->n - 1]; /* halved to the end */
    if (last->r.failed > 0)
        return arena_printf(a,
                            "The objective holds at no rate: at %.3g requests/s %.0f of %.0f "
                            "requests fail (longer than scheduler.max_model_len, or than the KV "
                            "cache).",
                            last->rate, last->r.failed, last->r.requests);
    const char *alone = "";
    if (last->r.alone_bad > 0)
        alone = arena_printf(a, ", and of %.0f that had the system to themselves %.0f miss it",
                             last->r.alone, last->r.alone_bad);
    return arena_printf(a,
                        "The objective holds at no rate: at %.3g requests/s, the lowest that was "
                        "tried, %.1f %% of requests meet it%s.",
                        last->rate, 100 * last->r.good, alone);
}

/* Note where the highest rate is not limited by the system. */
static const char *unbounded(struct arena *a, const struct capacity_result *r)
{
    if (r->sum.end == CAPACITY_CAPPED)
        return arena_printf(a,
                            "The objective holds at capacity.max_rate, %.4g requests/s: the "
                            "capacity is that or more.",
                            r->params.max_rate);
    for (size_t i = 0; i < r->n_seeds; i++)
        for (size_t k = 0; k < r->seeds[i].n && r->seeds[i].end == CAPACITY_CLIENT; k++) {
            const struct capacity_probe *p = &r->seeds[i].probes[k];
            if (p->rate == r->seeds[i].high)
                return arena_printf(
                    a,
                    "Inconclusive: at %.4g requests/s the objective is not met, and the client did "
                    "not keep its schedule (p99 of its delay %.1f ms), so what failed there may be "
                    "the client. %s A core of its own for the client may help.",
                    p->rate, 1e3 * p->r.client_delay_p99_s,
                    r->sum.rate > 0 ? "The capacity is at least the rate given."
                                    : "Nothing is known of the system.");
        }
    return NULL;
}

static double count(const struct capacity_result *r, size_t offset)
{
    double n = 0;
    for (size_t i = 0; i < r->n_seeds; i++) {
        for (size_t k = 0; k < r->seeds[i].n; k++)
            n += *(const double *)(const void *)((const char *)&r->seeds[i].probes[k].r + offset);
        if (r->operating)
            n += *(const double *)(const void *)((const char *)&r->operating[i].r + offset);
    }
    return n;
}

static size_t disturbed(const struct capacity_result *r)
{
    size_t busy = 0;
    for (size_t i = 0; i < r->n_seeds; i++) {
        for (size_t k = 0; k < r->seeds[i].n; k++)
            busy += r->seeds[i].probes[k].r.contention > CONTENTION_TOO_MUCH;
        busy += r->operating && r->operating[i].r.contention > CONTENTION_TOO_MUCH;
    }
    return busy;
}

enum { FEW_SEEDS = 5 };

/* Note where Student's factor for few seeds dominates the interval. */
static const char *wide(struct arena *a, const struct capacity_result *r)
{
    if (r->n_seeds == 1)
        return "One seed has no interval: the rates are those between which its search ended, and "
               "say nothing of other arrivals.";
    if (r->n_seeds < 2 || r->n_seeds >= FEW_SEEDS || !(r->sum.rate > 0) ||
        r->sum.high - r->sum.low < 0.2 * r->sum.rate)
        return NULL;
    return arena_printf(
        a,
        "Of %zu seeds the spread is hardly known, so the interval is wide: %.1f standard errors to "
        "either side, %.1f with capacity.seeds=%d.",
        r->n_seeds, stats_student_95(r->n_seeds - 1), stats_student_95(FEW_SEEDS - 1), FEW_SEEDS);
}

void capacity_notes(struct arena *a, struct capacity_result *r, const char *const *extra,
                    size_t n_extra)
{
    const char *made[13];
    size_t n = 0;
    const double requests = capacity_runs(r).most;
    const char *bound = unbounded(a, r);
    if (bound)
        made[n++] = bound;
    if (r->sum.rate <= 0 && r->sum.end != CAPACITY_CLIENT)
        made[n++] = unmet(a, r);
    size_t busy = disturbed(r);
    if (busy > 0)
        made[n++] =
            arena_printf(a,
                         "In %zu probes the machine was busy with something else (over %.0f "
                         "%% of the time a core was needed, there was none): what failed "
                         "there may not be the engine's.",
                         busy, 100 * CONTENTION_TOO_MUCH);
    double timed_out = count(r, offsetof(struct probe_result, timed_out));
    if (timed_out > 0)
        made[n++] = arena_printf(
            a, "%.0f probes were ended at capacity.probe_timeout_s and count as not holding.",
            timed_out);
    if (r->operating && largest(r, offsetof(struct probe_result, unhealthy)) > 0)
        made[n++] = "At the operating point the client did not keep its schedule: the latencies "
                    "there are the client's too.";
    if (r->sum.growing)
        made[n++] = arena_printf(
            a,
            "At the capacity the queue still grows while the %.0f requests arrive: with more of "
            "them (workload.num_requests) the capacity would be lower.",
            requests);
    if (r->long_run.requests > 0 && !r->long_run.settled)
        made[n++] = arena_printf(
            a,
            "From %.0f requests to %.0f the capacity still changed by more than two tolerances: a "
            "larger capacity.long_run asks for longer workloads.",
            r->long_run.requests / LONG_RUN_STEP, r->long_run.requests);
    if (wide(a, r))
        made[n++] = wide(a, r);
    if (largest(r, offsetof(struct probe_result, failed)) > 0)
        made[n++] = arena_printf(a, "Up to %.0f of %.0f requests fail at the operating point.",
                                 largest(r, offsetof(struct probe_result, failed)),
                                 largest(r, offsetof(struct probe_result, requests)));
    if (largest(r, offsetof(struct probe_result, extrapolated)) > 0)
        made[n++] = arena_printf(
            a, "Up to %.0f look-ups of a run fell outside the profiled grid and were extrapolated.",
            largest(r, offsetof(struct probe_result, extrapolated)));
    if (r->operating && r->n_seeds && probe_no_hits(&r->operating[0].r))
        made[n++] = probe_no_hits(&r->operating[0].r);
    const char **all = arena_array(a, const char *, n + n_extra);
    size_t k = 0;
    for (size_t i = 0; i < n_extra; i++)
        if (extra[i])
            all[k++] = extra[i];
    for (size_t i = 0; i < n; i++)
        all[k++] = made[i];
    r->notes = all;
    r->n_notes = k;
}

const char *capacity_sure(struct arena *a, size_t seeds, double low, double high)
{
    if (seeds != 1)
        return arena_printf(a, "95 %% interval %.4g to %.4g", low, high);
    return low > 0 ? arena_printf(a, "one seed: held at %.4g, not at %.4g", low, high)
                   : arena_printf(a, "one seed: not at %.4g", high);
}

struct capacity_runs capacity_runs(const struct capacity_result *r)
{
    struct capacity_runs runs = {(double)INFINITY, 0};
    for (size_t i = 0; i < r->n_seeds; i++) {
        const struct capacity_seed *s = &r->seeds[i];
        double requests = s->n ? s->probes[s->n - 1].r.requests : 0;
        for (size_t k = 0; k < s->n && s->low > 0; k++)
            if (s->probes[k].rate == s->low)
                requests = s->probes[k].r.requests;
        runs.least = fmin(runs.least, requests);
        runs.most = fmax(runs.most, requests);
    }
    return runs;
}

struct capacity_mean capacity_operating(const struct capacity_result *r, int field)
{
    struct capacity_mean m = {(double)NAN, (double)NAN, (double)NAN};
    double sum = 0;
    for (size_t i = 0; r->operating && i < r->n_seeds; i++) {
        double v = *probe_value(&r->operating[i].r, field);
        sum += v;
        m.low = i == 0 || v < m.low ? v : m.low;
        m.high = i == 0 || v > m.high ? v : m.high;
    }
    if (r->operating && isfinite(sum))
        m.mean = sum / (double)r->n_seeds;
    else
        m.low = m.high = (double)NAN;
    return m;
}

/* ---- capacity.json ----------------------------------------------------------------------- */

static const struct field objective_rows[] = {
    FIELD_NAMED(struct capacity_result, params.slo.limit_s, "limits_s", slo_metric_name,
                SLO_METRICS, .omit = true),
    FIELD_AS(struct capacity_result, params.slo.fraction, "fraction"),
    FIELD_AS(struct capacity_result, objective, "text"),
};
static const struct fields objective_fields = FIELDS(struct capacity_result, objective_rows);

static const struct field mean_rows[] = {
    FIELD(struct capacity_mean, mean, .optional = true),
    FIELD(struct capacity_mean, low, .optional = true),
    FIELD(struct capacity_mean, high, .optional = true),
};
static const struct fields mean_fields = FIELDS(struct capacity_mean, mean_rows);

static const char *field_name(unsigned i)
{
    return probe_fields[i].key;
}

static const struct field operating_rows[] = {
    FIELD(struct capacity_result, load),
    FIELD_AS(struct capacity_result, operating_per_s, "requests_per_s"),
    FIELD_NAMED_MAPS(struct capacity_result, over_seeds, "over_seeds", field_name, PROBE_FIELDS,
                     &mean_fields),
    FIELD_MAPS(struct capacity_result, operating, n_operating, "probes", &capacity_probe_fields),
};
static const struct fields operating_fields = FIELDS(struct capacity_result, operating_rows);

static const struct field long_run_rows[] = {
    FIELD_AS(struct capacity_result, long_run.requests, "requests"),
    FIELD_AS(struct capacity_result, long_run.rate, "capacity_per_s"),
    FIELD_PAIR(struct capacity_result, long_run.low, long_run.high, "interval_per_s"),
    FIELD_AS(struct capacity_result, long_run.settled, "settled"),
};
static const struct fields long_run_fields = FIELDS(struct capacity_result, long_run_rows);

static const struct field result_rows[] = {
    FIELD(struct capacity_result, probe),
    FIELD_PART("objective", &objective_fields),
    FIELD_AS(struct capacity_result, sum.rate, "capacity_per_s", .max = 1e300),
    FIELD_PAIR(struct capacity_result, sum.low, sum.high, "interval_per_s", .nulls = true),
    FIELD(struct capacity_result, interval_of, .optional = true),
    FIELD_ENUM(struct capacity_result, sum.end, "end", capacity_end_name, CAPACITY_ENDS),
    FIELD_AS(struct capacity_result, params.tolerance, "tolerance"),
    FIELD_AS(struct capacity_result, sum.growing, "queue_grows"),
    FIELD_PART("long_run", &long_run_fields, FIELD_IF(struct capacity_result, has_long_run)),
    FIELD_PART("operating", &operating_fields, FIELD_IF(struct capacity_result, n_operating)),
    FIELD_MAPS(struct capacity_result, seeds, n_seeds, "seeds", &capacity_seed_fields),
    FIELD_LIST(struct capacity_result, notes, n_notes, "notes"),
};
const struct fields capacity_result_fields = FIELDS(struct capacity_result, result_rows);

struct node *capacity_node(struct arena *a, const struct capacity_result *r)
{
    struct capacity_result all = *r;
    all.objective = slo_words(a, &r->params.slo);
    all.interval_of = r->n_seeds == 1 ? "bisection" : "seeds";
    all.n_operating = r->operating ? r->n_seeds : 0;
    all.has_long_run = r->long_run.requests > 0;
    all.operating_per_s = r->load * r->sum.rate;
    for (int i = 0; i < PROBE_FIELDS; i++)
        all.over_seeds[i] = capacity_operating(r, i);
    struct node *n = fields_node(a, &capacity_result_fields, &all);
    node_set(a, n, SV("schema_version"), node_int(a, 1));
    return n;
}

/* ---- probes.csv -------------------------------------------------------------------------- */

static void probe_row(struct csv_writer *w, const char *phase, const struct capacity_probe *p)
{
    struct capacity_probe copy = *p;
    csv_put_str(w, phase);
    csv_put_int(w, (int64_t)p->seed);
    csv_put_double(w, p->rate);
    csv_put_int(w, p->holds);
    for (int i = 0; i < PROBE_FIELDS; i++)
        csv_put_double(w, *probe_value(&copy.r, i));
    csv_end_row(w);
}

static void probe_rows(FILE *f, const struct capacity_result *r)
{
    struct csv_writer w = {.f = f};
    static const char *const first[] = {"phase", "seed", "rate", "holds"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        csv_put_str(&w, first[i]);
    for (int i = 0; i < PROBE_FIELDS; i++)
        csv_put_str(&w, probe_fields[i].key);
    csv_end_row(&w);
    for (size_t i = 0; i < r->n_seeds; i++)
        for (size_t k = 0; k < r->seeds[i].n; k++)
            probe_row(&w, "bisection", &r->seeds[i].probes[k]);
    for (size_t i = 0; r->operating && i < r->n_seeds; i++)
        probe_row(&w, "operating", &r->operating[i]);
}

enum st capacity_write(const struct artifact *art, const struct capacity_result *r, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, CAPACITY_PROBES, &f, e));
    probe_rows(f, r);
    TRY(artifact_close_file(art, CAPACITY_PROBES, &f, e));
    struct arena *a = arena_new();
    const enum st st = artifact_write_json(art, CAPACITY_JSON, capacity_node(a, r), e);
    arena_free(&a);
    return st;
}
