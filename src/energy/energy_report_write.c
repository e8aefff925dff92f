/* The report as JSON and as text. */
#include <math.h>

#include "energy/energy_report.h"
#include "text/table.h"
#include "text/words.h"

/* ---- gpu_energy_report.json ------------------------------------------------------------------ */

#define UNDER_ROWS(T)                                                      \
    FIELD_AS(T, under.sm_mhz, "sm_mhz", .optional = true),                 \
        FIELD_AS(T, under.memory_mhz, "memory_mhz", .optional = true),     \
        FIELD_AS(T, under.celsius_high, "celsius_high", .optional = true), \
        FIELD_AS(T, under.clock_limits, "clock_limits", .optional = true)

#define WHOLE_ROWS                                                                         \
    FIELD(struct energy_whole, num_runs), FIELD(struct energy_whole, total_energy_j),      \
        FIELD(struct energy_whole, energy_per_inference_j),                                \
        FIELD_AS(struct energy_whole, energy.duration_s, "duration_s"),                    \
        FIELD_AS(struct energy_whole, energy.samples, "power_samples"),                    \
        FIELD_AS(struct energy_whole, how, "integration"),                                 \
        FIELD_AS(struct energy_whole, window.start, "start_timestamp"),                    \
        FIELD_AS(struct energy_whole, window.end, "end_timestamp"),                        \
        FIELD_AS(struct energy_whole, inference_us, "inference_us"),                       \
        FIELD_AS(struct energy_whole, power.mean_w, "mean_power_w"),                       \
        FIELD_AS(struct energy_whole, power.spread_w, "power_spread_w"),                   \
        FIELD_AS(struct energy_whole, power.readings, "power_readings"),                   \
        FIELD_AS(struct energy_whole, energy.low_w, "lowest_power_w"),                     \
        FIELD_AS(struct energy_whole, energy.high_w, "highest_power_w"),                   \
        FIELD_AS(struct energy_whole, energy.counter_j, "counter_energy_j"),               \
        FIELD(struct energy_whole, counter_energy_per_inference_j),                        \
        FIELD_PAIR(struct energy_whole, low_j, high_j, "energy_per_inference_interval_j"), \
        FIELD_AS(struct energy_whole, energy.outside_s, "without_power_s"),                \
        FIELD_AS(struct energy_whole, energy.longest_gap_s, "longest_gap_s"),              \
        FIELD_AS(struct energy_whole, idle_w, "idle_power_w"), UNDER_ROWS(struct energy_whole)

static const struct field whole_rows[] = {WHOLE_ROWS};
static const struct fields whole_fields = FIELDS(struct energy_whole, whole_rows);

static const struct field kernel_rows[] = {
    FIELD(struct energy_kernel, name),
    FIELD(struct energy_kernel, tier),
    FIELD(struct energy_kernel, invocation_count),
    FIELD(struct energy_kernel, benchmark_runs),
    FIELD(struct energy_kernel, window_energy_j),
    FIELD(struct energy_kernel, energy_per_invocation_j),
    FIELD(struct energy_kernel, energy_per_inference_j),
    FIELD_AS(struct energy_kernel, energy.duration_s, "duration_s"),
    FIELD_AS(struct energy_kernel, energy.samples, "power_samples"),
    FIELD_AS(struct energy_kernel, how, "integration"),
    FIELD_AS(struct energy_kernel, power.mean_w, "steady_power_w"),
    FIELD_PAIR(struct energy_kernel, power_low_w, power_high_w, "steady_power_interval_w"),
    FIELD(struct energy_kernel, busy_share),
    FIELD(struct energy_kernel, running_power_w),
    FIELD(struct energy_kernel, single_time_us),
    FIELD(struct energy_kernel, in_context_us),
    FIELD(struct energy_kernel, in_context_energy_j),
    FIELD(struct energy_kernel, share_percent),
    FIELD(struct energy_kernel, pooled),
    FIELD_AS(struct energy_kernel, window.start, "start_timestamp"),
    FIELD_AS(struct energy_kernel, window.end, "end_timestamp"),
    UNDER_ROWS(struct energy_kernel),
};
static const struct fields kernel_fields = FIELDS(struct energy_kernel, kernel_rows);

static const struct field isolated_rows[] = {
    FIELD_AS(struct energy_report, n, "num_unique_kernels"),
    FIELD(struct energy_report, num_measured),
    FIELD(struct energy_report, num_estimated),
    FIELD(struct energy_report, num_excluded),
    FIELD_AS(struct energy_report, predicted_j, "predicted_energy_per_inference_j"),
    FIELD_AS(struct energy_report, in_context_j, "in_context_energy_j"),
    FIELD_PAIR(struct energy_report, in_context_low_j, in_context_high_j,
               "in_context_energy_interval_j"),
    FIELD(struct energy_report, busy_share),
};
static const struct fields isolated_fields = FIELDS(struct energy_report, isolated_rows);

static const struct field comparison_rows[] = {
    FIELD_AS(struct energy_report, full.energy_per_inference_j, "full_model_energy_j"),
    FIELD_AS(struct energy_report, predicted_j, "predicted_energy_j"),
    FIELD_AS(struct energy_report, predicted_error_j, "error_j"),
    FIELD_AS(struct energy_report, predicted_error_percent, "error_percent"),
    FIELD_AS(struct energy_report, ratio, "ratio_predicted_to_actual"),
};
static const struct fields comparison_fields = FIELDS(struct energy_report, comparison_rows);

static const struct field idle_rows[] = {
    FIELD_AS(struct energy_report, idle_w, "power_w"),
    FIELD_PAIR(struct energy_report, idle_low_w, idle_high_w, "power_interval_w"),
};
static const struct fields idle_fields = FIELDS(struct energy_report, idle_rows);

static const struct field prediction_rows[] = {
    FIELD(struct energy_prediction, kernels_us),
    FIELD(struct energy_prediction, gap_us),
    FIELD_AS(struct energy_prediction, kernels_j, "kernels_energy_j"),
    FIELD_AS(struct energy_prediction, idle_j, "idle_energy_j"),
    FIELD_AS(struct energy_prediction, energy_j, "predicted_energy_j"),
    FIELD_PAIR(struct energy_prediction, low_j, high_j, "predicted_energy_interval_j"),
    FIELD_AS(struct energy_prediction, measured_j, "measured_energy_j"),
    FIELD_PAIR(struct energy_prediction, measured_low_j, measured_high_j,
               "measured_energy_interval_j"),
    FIELD(struct energy_prediction, error_percent),
    FIELD_AS(struct energy_prediction, above_idle_j, "predicted_above_idle_j"),
    FIELD_AS(struct energy_prediction, measured_above_idle_j, "measured_above_idle_j"),
    FIELD(struct energy_prediction, above_idle_error_percent),
    FIELD_AS(struct energy_prediction, idle_w, "idle_power_w"),
    FIELD_AS(struct energy_prediction, at_loop_j, "at_loop_power_j"),
    FIELD_AS(struct energy_prediction, at_loop_error_percent, "at_loop_power_error_percent"),
    FIELD_AS(struct energy_prediction, at_loop_above_idle_error_percent,
             "at_loop_power_above_idle_error_percent"),
};
static const struct fields prediction_fields = FIELDS(struct energy_prediction, prediction_rows);

static const struct field context_rows[] = {
    FIELD_MAP(struct energy_report, whole, "full_model", &prediction_fields,
              FIELD_IF(struct energy_report, whole.known)),
    FIELD_MAP(struct energy_report, app, "application", &prediction_fields,
              FIELD_IF(struct energy_report, app.known)),
};
static const struct fields context_fields = FIELDS(struct energy_report, context_rows);

static const struct field report_rows[] = {
    FIELD_MAP(struct energy_report, full, "full_model", &whole_fields),
    FIELD_MAP(struct energy_report, application, "application", &whole_fields,
              FIELD_IF(struct energy_report, has_application)),
    FIELD_PART("isolated_kernels", &isolated_fields),
    FIELD_PART("comparison", &comparison_fields),
    FIELD_PART("idle", &idle_fields),
    FIELD_PART("in_context", &context_fields),
    FIELD_MAPS(struct energy_report, kernels, n, "per_kernel_energies", &kernel_fields),
    FIELD_LIST(struct energy_report, notes, n_notes, "notes"),
};
const struct fields energy_report_fields = FIELDS(struct energy_report, report_rows);

struct node *energy_report_node(struct arena *a, const struct energy_report *r)
{
    struct node *map = fields_node(a, &energy_report_fields, r);
    node_put(a, map, "schema_version", node_int(a, 1));
    return map;
}

struct node *energy_whole_node(struct arena *a, const struct energy_whole *w)
{
    return fields_node(a, &whole_fields, w);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "5.37 J", "12.1 mJ", "n/a" */
static const char *joules(struct arena *a, double j)
{
    if (isnan(j))
        return "n/a";
    return fabs(j) >= 1 ? arena_printf(a, "%.4g J", j) : arena_printf(a, "%.4g mJ", j * 1e3);
}

static const char *interval(struct arena *a, bool bounds, double low, double high)
{
    if (isnan(low) || isnan(high))
        return "";
    if (bounds)
        return arena_printf(a, ", between %s and %s", joules(a, low), joules(a, high));
    return arena_printf(a, ", 95 %% interval %s to %s", joules(a, low), joules(a, high));
}

static void under_text(struct buf *out, const struct timing_under *u)
{
    if (!(u->sm_mhz > 0))
        return;
    buf_printf(out, "  SM at %.0f MHz, memory at %.0f MHz", u->sm_mhz, u->memory_mhz);
    if (isfinite(u->celsius_high))
        buf_printf(out, ", %.0f C", u->celsius_high);
    if (u->clock_limits && *u->clock_limits)
        buf_printf(out, "; clocks held by: %s", u->clock_limits);
    buf_puts(out, "\n");
}

void energy_whole_text(struct arena *a, struct buf *out, const char *what,
                       const struct energy_whole *w)
{
    char each[WORDS_MAX];
    const bool counter = !isnan(w->counter_energy_per_inference_j);
    buf_printf(out, "%s: %lld runs in %.3f s, %s each; %.1f W\n", what, (long long)w->num_runs,
               w->energy.duration_s, words_duration(each, w->inference_us / 1e6), w->power.mean_w);
    under_text(out, &w->under);
    buf_printf(out, "  energy of a run        %s (%lld samples)%s\n",
               joules(a, w->energy_per_inference_j), (long long)w->energy.samples,
               counter ? "" : interval(a, true, w->low_j, w->high_j));
    if (counter)
        buf_printf(out, "  by the energy counter  %s%s\n",
                   joules(a, w->counter_energy_per_inference_j),
                   interval(a, true, w->low_j, w->high_j));
    if (!isnan(w->idle_w))
        buf_printf(out, "  at rest beside it      %.1f W\n", w->idle_w);
}

static void prediction_text(struct arena *a, struct buf *out, const char *what,
                            const struct energy_prediction *p, bool loops)
{
    if (!p->known)
        return;
    buf_printf(out, "%s, predicted: %s%s\n", what, joules(a, p->energy_j),
               interval(a, false, p->low_j, p->high_j));
    buf_printf(out, "  kernels %s in %.3f ms, idle %s in %.3f ms", joules(a, p->kernels_j),
               p->kernels_us / 1e3, joules(a, p->idle_j), p->gap_us / 1e3);
    if (!isnan(p->idle_w))
        buf_printf(out, " at %.1f W", p->idle_w);
    buf_puts(out, "\n");
    buf_printf(out, "  measured %s: %+.2f %%", joules(a, p->measured_j), p->error_percent);
    if (isfinite(p->above_idle_error_percent))
        buf_printf(out, "; above idle %+.1f %%", p->above_idle_error_percent);
    buf_puts(out, "\n");
    if (!loops)
        return;
    buf_printf(out, "  at the loops' mean powers, gaps included: %+.2f %%",
               p->at_loop_error_percent);
    if (isfinite(p->at_loop_above_idle_error_percent))
        buf_printf(out, "; above idle %+.1f %%", p->at_loop_above_idle_error_percent);
    buf_puts(out, "\n");
}

static void number_cell(struct table *t, int digits, double v, const char *unit)
{
    if (isnan(v))
        table_cell(t, "n/a");
    else
        table_cell(t, "%.*f%s", digits, v, unit);
}

static void kernels_text(struct arena *a, struct buf *out, const struct energy_report *r)
{
    enum { TOP = 12 };
    static const char *const heads[] = {"kernel",         "tier",      "count",    "power",
                                        "running",        "SM MHz",    "alone us", "in context us",
                                        "alone, per run", "in context"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    struct table *t = table_new(a, COLUMNS);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, "%s", heads[i]);
    for (size_t i = 0; i < r->n && i < TOP; i++) {
        const struct energy_kernel *k = &r->kernels[i];
        table_cell(t, "%.44s", k->name);
        table_cell(t, "%lld", (long long)k->tier);
        table_cell(t, "%lld", (long long)k->invocation_count);
        number_cell(t, 1, k->power.mean_w, " W");
        number_cell(t, 1, 100 * k->busy_share, " %");
        number_cell(t, 0, k->under.sm_mhz, "");
        number_cell(t, 2, k->single_time_us, "");
        number_cell(t, 2, k->in_context_us, "");
        table_cell(t, "%s", k->pooled ? "pooled" : joules(a, k->energy_per_inference_j));
        table_cell(t, "%s", joules(a, k->in_context_energy_j));
    }
    table_text(out, t);
    if (r->n > TOP)
        buf_printf(out, "... and %zu more, in gpu_energy_report.json\n", r->n - TOP);
}

void energy_report_text(struct arena *a, struct buf *out, const struct energy_report *r)
{
    energy_whole_text(a, out, "The whole", &r->full);
    if (r->has_application)
        energy_whole_text(a, out, "The application", &r->application);
    if (r->n) {
        buf_printf(
            out, "%zu kernels alone: %lld measured, %lld by one sample, %lld without power\n", r->n,
            (long long)r->num_measured, (long long)r->num_estimated, (long long)r->num_excluded);
        if (!isnan(r->predicted_j))
            buf_printf(out, "  their windows sum to   %s a run: %+.1f %% (ratio %.3f)\n",
                       joules(a, r->predicted_j), r->predicted_error_percent, r->ratio);
        if (!isnan(r->in_context_j))
            buf_printf(out, "  in context             %s a run%s\n", joules(a, r->in_context_j),
                       interval(a, false, r->in_context_low_j, r->in_context_high_j));
        if (!isnan(r->busy_share))
            buf_printf(out, "  running                %.1f %% of their loops; the gaps are idle\n",
                       100 * r->busy_share);
        kernels_text(a, out, r);
    }
    const bool loops = !isnan(r->busy_share); /* the powers differ then */
    prediction_text(a, out, "The whole", &r->whole, loops);
    prediction_text(a, out, "The application", &r->app, loops);
    for (size_t i = 0; i < r->n_notes; i++)
        buf_printf(out, "note: %s\n", r->notes[i]);
}
