/* Data of the figures of one run, or of several on the same axes: distributions and load over time.
 * Also written as tables (tables/cdf.csv, tables/over_time.csv), so that a report can be made from
 * a folder alone and other tools can plot them. */
#ifndef COMPARE_CURVES_H
#define COMPARE_CURVES_H

#include "metrics/metrics.h"
#include "text/csv.h"

enum { CURVES_QUANTILES = 201, CURVES_BINS = 120, CURVES_MAX_RUNS = 8 };

struct run_curves {
    bool has[METRICS];                    /* false = no values */
    double ns[METRICS][CURVES_QUANTILES]; /* the value at quantile i/200 */
    bool has_running;                     /* needs batches.csv */
    bool has_waiting;                     /* needs scheduled_time_ns */
    double running[CURVES_BINS];          /* sequences in the running batch, stage 0 */
    double waiting[CURVES_BINS];          /* requests that have arrived and were in no batch yet */
};

/* Bins hold time-weighted means over bin_s seconds from the start of the run. */
struct curves {
    int n_runs;
    const char *names[CURVES_MAX_RUNS]; /* for the legend */
    const char *keys[CURVES_MAX_RUNS];  /* for columns; default "real", "sim" */
    double bin_s;                       /* 0 = no data over time */
    struct run_curves of[CURVES_MAX_RUNS];
};

struct curves *curves_new(struct arena *a, int n_runs, const char *const *names,
                          const struct run *const *runs, const struct run_metrics *const *metrics);

/* Figure i as SVG: a CDF per metric, then running and waiting over time. False, and nothing
 * written, where one of two runs, or all of more, lack the data. */
enum { CURVES_FIGURES = METRICS + 2 };
bool curves_figure(const struct curves *c, int i, struct buf *svg);
const char *curves_figure_name(int i); /* "ttft_cdf", ..., "running", "waiting" */

/* The tables of two runs or more: cdf.csv (metric, quantile, <key>_ns of each run) and
 * over_time.csv (time_ns of the bin's middle, <key>_running of each run, then <key>_waiting); empty
 * = unknown. */
enum st curves_write(const struct artifact *art, const struct curves *c, struct err *e);
/* Reads them from the folder `tables` of a comparison; absent files give empty curves. ST_INPUT at
 * file:line:column for anything that is not such a table. */
enum st curves_load(struct arena *a, const char *tables, struct curves **out, struct err *e);
/* The same of n runs with those keys. */
enum st curves_load_runs(struct arena *a, const char *tables, int n, const char *const *keys,
                         const char *const *names, struct curves **out, struct err *e);

#endif
