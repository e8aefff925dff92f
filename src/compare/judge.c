#include <math.h>
#include <stdlib.h>

#include "base/order.h"
#include "compare/intern.h"

const double compare_percentiles[COMPARE_PERCENTILES] = {50, 90, 95, 99};

enum { P50, P90, P95, P99 };

static const struct {
    const char *name;
    int exit_code;
} verdicts[] = {
    [VERDICT_PASS] = {"pass", 0},
    [VERDICT_WARN] = {"warn", 0},
    [VERDICT_INCONCLUSIVE] = {"inconclusive", 5},
    [VERDICT_FAIL] = {"fail", 1},
    [VERDICT_NONE] = {"not judged", 0},
};

const char *verdict_name(enum verdict v)
{
    return verdicts[v].name;
}

int verdict_exit_code(enum verdict v)
{
    return verdicts[v].exit_code;
}

const char *compare_metric_title(enum metric m)
{
    static const char *const titles[METRICS] = {[METRIC_TTFT] = "TTFT",
                                                [METRIC_TOKEN_LATENCY] = "Per-token latency",
                                                [METRIC_TPOT] = "TPOT",
                                                [METRIC_E2E] = "E2E"};
    return titles[m];
}

const char *compare_percentile_name(int p)
{
    static const char *const names[COMPARE_PERCENTILES] = {"p50", "p90", "p95", "p99"};
    return names[p];
}

static double percentile(const struct series *s, int p)
{
    return s->n ? stats_percentile(s->ns, s->n, compare_percentiles[p]) : (double)NAN;
}

/* Averages the cell's real side over all real runs; unchanged where one of them has no value. */
static void average_runs(struct comparison *c, const struct run_metrics *spread, enum metric m,
                         int p)
{
    struct compare_cell *cell = &c->cells[m][p];
    double v[COMPARE_MAX_SPREAD + 1], sum = 0, squares = 0;
    size_t n = 0;
    v[n++] = cell->real_ns;
    for (size_t i = 0; i < c->params.n_spread; i++)
        v[n++] = percentile(&spread[i].of[m], p);
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    if (n == 1 || isnan(sum))
        return;
    const double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - mean) * (v[i] - mean);
    const double half = stats_student_95(n - 1) * sqrt(squares / (double)(n - 1)) / sqrt((double)n);
    qsort(v, n, sizeof *v, order_double);
    const double median = stats_percentile(v, n, 50);
    cell->real_ns = mean;
    cell->real_low_ns = fmax(mean - half, 0);
    cell->real_high_ns = mean + half;
    cell->spread_percent = median > 0 ? 100 * (v[n - 1] - v[0]) / median : (double)NAN;
}

static void measure_cell(struct comparison *c, const struct run_metrics *spread, enum metric m,
                         int p)
{
    struct compare_cell *cell = &c->cells[m][p];
    const struct series *real = &c->real_metrics.of[m];
    double sim_ns = percentile(&c->sim_metrics.of[m], p);
    *cell = (struct compare_cell){.real_ns = percentile(real, p),
                                  .sim_ns = sim_ns * c->uncertainty.mean[m][p],
                                  .error_percent = (double)NAN,
                                  .sim_low_ns = sim_ns * c->uncertainty.low[m][p],
                                  .sim_high_ns = sim_ns * c->uncertainty.high[m][p],
                                  .real_low_ns = (double)NAN,
                                  .real_high_ns = (double)NAN,
                                  .spread_percent = (double)NAN,
                                  .verdict = VERDICT_NONE};
    double low, high;
    if (real->n &&
        stats_percentile_interval(real->ns, real->n, compare_percentiles[p], 0.95, &low, &high))
        cell->real_low_ns = low, cell->real_high_ns = high;
    average_runs(c, spread, m, p);
    if (cell->real_ns > 0)
        cell->error_percent = 100 * (cell->sim_ns - cell->real_ns) / cell->real_ns;
}

/* NULL when the cell is to be judged, else the reason why not. */
static const char *not_judged(struct arena *a, const struct comparison *c, enum metric m, int p)
{
    const struct compare_cell *cell = &c->cells[m][p];
    char have[WORDS_MAX], need[WORDS_MAX];
    if (isnan(cell->real_ns) || isnan(cell->sim_ns))
        return arena_printf(a, "no values on the %s side",
                            isnan(cell->real_ns) ? "real" : "simulated");
    if (isnan(cell->error_percent))
        return "the real value is 0";
    if (p == P99 && c->n_aligned < COMPARE_P99_REQUESTS)
        return arena_printf(a, "%s request%s, %s needed", words_count(have, (int64_t)c->n_aligned),
                            c->n_aligned == 1 ? "" : "s", words_count(need, COMPARE_P99_REQUESTS));
    bool core = m != METRIC_TOKEN_LATENCY && p != P95;
    if (c->params.core_only && !core)
        return "compare.cells=all judges it";
    if (core && p <= P90)
        return NULL;
    if (isnan(cell->real_low_ns))
        return arena_printf(a, "%s value%s are too few to bound it",
                            words_count(have, (int64_t)c->real_metrics.of[m].n),
                            c->real_metrics.of[m].n == 1 ? "" : "s");
    double width = 100 * (cell->real_high_ns - cell->real_low_ns) / cell->real_ns;
    if (width > 2 * c->params.warn_percent)
        return arena_printf(a, "its 95 %% interval is %.1f %% wide, %.1f %% allowed", width,
                            2 * c->params.warn_percent);
    return NULL;
}

static void hold(struct compare_cell *cell, enum compare_cause cause)
{
    cell->verdict = VERDICT_INCONCLUSIVE;
    cell->causes |= 1u << cause;
}

/* Excuses a miss of this size and direction that the metas explain. */
static void excuse_by_machine(const struct comparison *c, struct compare_cell *cell)
{
    const double drift = 100 * fabs(c->drift), size = fabs(cell->error_percent);
    const double waited = 100 * (cell->error_percent < 0 ? c->waited_real : c->waited_sim);
    if (fmax(c->waited_real, c->waited_sim) > CONTENTION_TOO_MUCH ||
        size <= COMPARE_AMPLIFIED * waited)
        hold(cell, CAUSE_WAITED_FOR_CORES);
    if (c->found[CAUSE_MACHINE_CHANGED].text && (c->drift > 0) == (cell->error_percent < 0) &&
        size <= COMPARE_AMPLIFIED * drift)
        hold(cell, CAUSE_MACHINE_CHANGED);
}

/* Excuses a fail within the spread of the real runs. */
static void excuse_by_spread(struct arena *a, struct comparison *c, struct compare_cell *cell)
{
    char spread[WORDS_MAX];
    words_percent(spread, cell->spread_percent);
    if (cell->spread_percent <= 2 * c->params.warn_percent) {
        cell->excused = true;
        cell->verdict = VERDICT_WARN;
        cell->why = arena_printf(a, "excused: the real runs themselves spread by %s", spread);
        return;
    }
    excuse_by_machine(c, cell);
    hold(cell, CAUSE_SPREAD);
}

static void judge_cell(struct arena *a, struct comparison *c, enum metric m, int p)
{
    struct compare_cell *cell = &c->cells[m][p];
    const double pass = c->params.pass_percent, warn = c->params.warn_percent;
    cell->why = not_judged(a, c, m, p);
    if (cell->why)
        return;
    for (enum compare_cause k = 0; k < CAUSES; k++)
        if (cause_is_of_run(k) && c->found[k].text)
            hold(cell, k);
    if (cell->causes)
        return;
    if (c->path.is) {
        cell->why = "the difference is what HTTP costs";
        return;
    }
    double size = fabs(cell->error_percent);
    cell->verdict = size <= pass ? VERDICT_PASS : size <= warn ? VERDICT_WARN : VERDICT_FAIL;
    /* Comparisons with NAN are false. */
    if (cell->verdict != VERDICT_PASS && cell->real_ns >= cell->sim_low_ns &&
        cell->real_ns <= cell->sim_high_ns) {
        cell->why = "the simulation's own interval holds the real value";
        if (cell->verdict == VERDICT_FAIL) {
            hold(cell, CAUSE_STATED_ERROR);
            excuse_by_machine(c, cell);
        }
    }
    if (cell->verdict != VERDICT_FAIL)
        return;
    if (size <= cell->spread_percent) /* without spread runs a fail stays a fail */
        excuse_by_spread(a, c, cell);
    else
        excuse_by_machine(c, cell);
}

struct cell_place {
    const struct compare_cell *cell; /* NULL = none */
    enum metric metric;
    int percentile;
};

static double size_of_spread(const struct compare_cell *c)
{
    return c->spread_percent;
}

static double size_of_error(const struct compare_cell *c)
{
    return fabs(c->error_percent);
}

/* The largest cell by `size` among those that the cause leaves inconclusive. */
static struct cell_place largest(const struct comparison *c, enum compare_cause cause,
                                 double size(const struct compare_cell *))
{
    struct cell_place found = {0};
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            const struct compare_cell *cell = &c->cells[m][p];
            if ((cell->causes & 1u << cause) && (!found.cell || size(cell) > size(found.cell)))
                found = (struct cell_place){cell, m, p};
        }
    }
    return found;
}

/* The widest spread that left a cell inconclusive. */
static void found_spread(struct arena *a, struct comparison *c)
{
    const struct cell_place widest = largest(c, CAUSE_SPREAD, size_of_spread);
    char spread[WORDS_MAX];
    if (!widest.cell)
        return;
    words_percent(spread, widest.cell->spread_percent);
    struct compare_reason *r = cause_found(
        a, c->found, CAUSE_SPREAD,
        arena_printf(a, "the real runs vary too much to tell, by up to %s", spread),
        arena_printf(a, "the real runs themselves spread by up to %s (%s P%.0f of %zu runs)",
                     spread, compare_metric_title(widest.metric),
                     compare_percentiles[widest.percentile], c->params.n_spread + 1));
    cause_figure(a, r, "spread_percent", widest.cell->spread_percent);
    cause_figure(a, r, "limit_percent", 2 * c->params.warn_percent);
    cause_figure(a, r, "runs", (double)(c->params.n_spread + 1));
}

static void found_stated_error(struct arena *a, struct comparison *c)
{
    static const char clause[] = "the simulation's own interval holds the real value";
    const struct cell_place worst = largest(c, CAUSE_STATED_ERROR, size_of_error);
    char real[WORDS_MAX], low[WORDS_MAX], high[WORDS_MAX];
    if (!worst.cell)
        return;
    struct compare_reason *r = cause_found(
        a, c->found, CAUSE_STATED_ERROR, clause,
        arena_printf(a, "%s (%s P%.0f: %s in %s .. %s)", clause, compare_metric_title(worst.metric),
                     compare_percentiles[worst.percentile],
                     words_duration(real, worst.cell->real_ns / 1e9),
                     words_duration(low, worst.cell->sim_low_ns / 1e9),
                     words_duration(high, worst.cell->sim_high_ns / 1e9)));
    cause_figure(a, r, "real_ns", worst.cell->real_ns);
    cause_figure(a, r, "low_ns", worst.cell->sim_low_ns);
    cause_figure(a, r, "high_ns", worst.cell->sim_high_ns);
}

/* Gives each cell the text of its heaviest cause. */
static void tell_causes(struct arena *a, struct comparison *c)
{
    found_spread(a, c);
    found_stated_error(a, c);
    for (enum metric m = 0; m < METRICS; m++)
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            causes_count(c->found, c->cells[m][p].causes, c->cells[m][p].error_percent);
    c->n_reasons = causes_weigh(c->found, c->reasons);
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            struct compare_cell *cell = &c->cells[m][p];
            size_t i = 0;
            char spread[WORDS_MAX];
            if (!cell->causes)
                continue;
            while (!(cell->causes & 1u << c->reasons[i].cause))
                i++;
            cell->why =
                c->reasons[i].cause == CAUSE_SPREAD
                    ? arena_printf(a, "the real runs themselves spread by %s, too much to tell",
                                   words_percent(spread, cell->spread_percent))
                    : c->reasons[i].clause;
        }
    }
}

/* Sets the overall verdict, the worst one, and the cell to diagnose: the one with the largest error
 * among those. */
static void sum_up(struct comparison *c)
{
    double worst = -1;
    c->verdict = VERDICT_NONE;
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            const struct compare_cell *cell = &c->cells[m][p];
            if (cell->verdict == VERDICT_NONE)
                continue;
            if (c->verdict != VERDICT_NONE && cell->verdict < c->verdict)
                continue;
            if (cell->verdict != c->verdict)
                worst = -1;
            c->verdict = cell->verdict;
            if (fabs(cell->error_percent) > worst) {
                worst = fabs(cell->error_percent);
                c->worst_metric = m;
                c->worst_percentile = p;
            }
        }
    }
    c->diagnosed = worst > c->params.pass_percent;
}

void compare_judge(struct arena *a, struct comparison *c, const struct run_metrics *spread)
{
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            measure_cell(c, spread, m, p);
            judge_cell(a, c, m, p);
        }
    }
    tell_causes(a, c);
    sum_up(c);
}
