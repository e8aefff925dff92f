/* Comparison of runs with the first of them: differences and their uncertainty. For real runs of
 * several configurations, or simulations. Neither side is the reference, so differences are no
 * errors and nothing is judged, unless params.gate is set.
 *
 * Runs are called A, B, C ... Where a run served the workload of A (same ids, arrivals and lengths)
 * it is paired with it request by request: counted are requests that succeeded in A and in all runs
 * paired with it and are no warm-up in any, cut to the tokens that all of them produced. Another
 * workload is compared as a sample of its own.
 *
 * A cell: change = 100 * (B - A) / A of a percentile, with the 95 % interval of
 * compare/bootstrap.h. An interval above 0 is "slower", one below it "faster"; all metrics here are
 * latencies; anything else is "no_difference": none was detected. With spread= (repeats of A) it
 * also has the largest change between A and a repeat.
 *
 * Gate "slower": a cell fails where the whole interval is above warn_percent, passes where it is
 * below pass_percent and warns below warn_percent; an interval across the limit, or none, leaves it
 * inconclusive. Judged: P50 and P90 of TTFT, TPOT and E2E, or every cell with an interval. Causes
 * as in compare/cause.h. */
#ifndef COMPARE_AB_H
#define COMPARE_AB_H

#include "compare/bootstrap.h"
#include "compare/compare.h"

enum { AB_MAX_RUNS = CURVES_MAX_RUNS };

enum ab_gate { AB_GATE_NONE, AB_GATE_SLOWER };

struct ab_params {
    const char *const *dirs; /* [n], 2 to AB_MAX_RUNS */
    size_t n;
    const char *const *spread_dirs; /* [n_spread], repeats of the first */
    size_t n_spread;
    bool include_token0;
    bool core_only; /* the gate judges P50 and P90 of TTFT, TPOT and E2E; else all cells */
    enum ab_gate gate;
    double pass_percent, warn_percent;
};

enum ab_call { AB_UNKNOWN, AB_NO_DIFFERENCE, AB_SLOWER, AB_FASTER };
const char *ab_call_name(enum ab_call c); /* "unknown", "no_difference", "slower", "faster" */

/* NAN = unknown. */
struct ab_cell {
    double change_percent, low_percent, high_percent;
    double repeat_percent; /* largest |change| between A and its repeats */
    enum ab_call call;
    enum verdict verdict; /* VERDICT_NONE without a gate */
    uint32_t causes;

    /* For compare.json, whose writer fills them. */
    bool compared;   /* not of A itself */
    double value_ns; /* the percentile */
};

/* A metric of a run in compare.json. */
struct ab_metric {
    struct ab_cell cells[COMPARE_PERCENTILES];
    size_t n; /* values */
};

struct ab_run {
    struct run run;
    const char *key;   /* "a" */
    const char *name;  /* "A", for sentences */
    const char *label; /* "A base": with the folder's name, for legends */
    bool simulated, paired;
    size_t n_requests; /* counted */
    size_t n_left_out; /* warm-up, not ok, or not in all paired runs */
    struct run_metrics metrics;
    struct boot_series *series; /* [METRICS] its values with their requests */

    /* Against A; unset in A itself. */
    struct ab_cell cells[METRICS][COMPARE_PERCENTILES];
    double drift;             /* machine time in this run / in A - 1; NAN */
    bool same_times;          /* every request has A's times to the nanosecond */
    const char *const *lines; /* [n_lines] sentences on P50 of TTFT, TPOT, E2E */
    size_t n_lines;

    /* For compare.json, whose writer fills them. */
    struct ab_metric shown[METRICS];
    double machine_change_percent;
};

/* A setting that differs between runs; NULL = the run lacks it. */
struct ab_setting {
    const char *name, *values[AB_MAX_RUNS];
};

struct ab {
    struct ab_params params; /* borrowed */
    struct ab_run *runs;     /* [params.n] */
    int draws;               /* the fewest of any pair; 0 = no intervals */
    const struct ab_setting *settings;
    size_t n_settings;
    enum verdict verdict;
    struct compare_reason found[CAUSES], reasons[CAUSES];
    size_t n_reasons;
    /* One line: the clearest differences, or the verdict with its slowest cell. */
    const char *outcome;
    const char *const *notes;
    size_t n_notes;
    const struct curves *curves;

    /* For compare.json, whose writer fills them. */
    struct compare_told told;
    const struct node *settings_tree; /* [{name, <key of a run>: value}] */
};
extern const struct fields ab_fields; /* compare.json */

/* ST_USAGE: fewer than 2 or more than AB_MAX_RUNS runs, a run given twice, pass_percent above
 * warn_percent. ST_INPUT: a run that cannot be read, or without counted requests; repeats that are
 * not of A. */
enum st ab_compare(struct arena *a, const struct ab_params *p, struct ab *out, struct err *e);

/* summary.md, compare.json, tables/, figs/ as of a comparison (docs/formats.md). */
enum st ab_write(const struct artifact *art, const struct ab *x, struct err *e);
struct node *ab_node(struct arena *a, const struct ab *x);
struct ab ab_shown(struct arena *a, const struct ab *x); /* as compare.json has it */

/* All that it says, for the terminal, summary.md and the page, which draws its figures
 * "distributions" and "over_time". Of ab_shown or of compare.json. */
struct document *ab_document(struct arena *a, const struct ab *x, const char *title);

/* "4.1 % (2.9 .. 5.3) slower", "no clear difference: +0.3 % (-1.2 .. +1.9)", "+1.2 %". */
const char *ab_change_text(struct arena *a, const struct ab_cell *c);

#endif
