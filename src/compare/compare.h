/* Two runs of one workload: how far apart, and is that within what the real side varies by itself?
 *
 * Requests are aligned by request_id; those missing or not ok on one side, and warm-up, are left
 * out and counted. Token series are cut to the real run's num_decode_tokens_actual (early stop),
 * and E2E of an early-stopped request is compared at that token.
 *
 * Verdict per metric and percentile: error = |sim - real| / real; pass <= 5 %, warn <= 9 %, else
 * fail. P99 is judged only with 1,000 requests or more. With spread runs (more real runs on the
 * same arrivals) a miss whose size is inside their spread is excused, but only where the spread is
 * at most twice the limit; a wider spread makes that cell inconclusive. Overall: the worst judged
 * cell; fail
 * -> exit 1, inconclusive -> exit 5. */
#ifndef COMPARE_COMPARE_H
#define COMPARE_COMPARE_H

#include "metrics/metrics.h"

enum verdict { VERDICT_PASS, VERDICT_WARN, VERDICT_INCONCLUSIVE, VERDICT_FAIL, VERDICT_NONE };
const char *verdict_name(enum verdict v); /* "pass", ..., VERDICT_NONE "not judged" */

enum { COMPARE_PERCENTILES = 4, COMPARE_MAX_SPREAD = 32 };
extern const double compare_percentiles[COMPARE_PERCENTILES]; /* 50 90 95 99 */

struct compare_params {
    const char *real_dir, *sim_dir;
    const char *const *spread_dirs;
    size_t n_spread;
    bool include_token0;
    double pass_percent, warn_percent; /* 5, 9 */
};

struct compare_cell {
    double real_ns, sim_ns, error_percent; /* error signed: + = the simulation is slower */
    double spread_percent;                 /* (max - min) / median of the real runs; < 0 unknown */
    double real_low_ns, real_high_ns;      /* 95 % order-statistic interval; equal when unknown */
    bool excused;
    enum verdict verdict;
};

/* One part of the batch times on both sides: where the difference comes from. */
struct compare_part {
    const char *name;     /* "prefill batches", "decode batches", "mixed batches", "host" */
    double real_s, sim_s; /* mean per batch */
    int64_t real_n, sim_n;
    const char *finding; /* one sentence or NULL */
};

struct comparison {
    struct run real, sim;
    struct run_metrics real_metrics, sim_metrics;
    struct compare_cell cells[METRICS][COMPARE_PERCENTILES];
    enum verdict verdict;
    size_t n_aligned, n_only_real, n_only_sim, n_not_ok, n_early_stop, n_warmup;
    struct compare_part parts[8];
    int n_parts;
    bool diagnosed; /* error over the threshold: parts are filled */
    const char *notes[16];
    int n_notes;
};

enum st compare_runs(struct arena *a, const struct compare_params *p, struct comparison *out,
                     struct err *e);

/* summary.md, compare.json, tables/, figs/ into the artifact being built. */
enum st compare_write(const struct artifact *art, const struct comparison *c, struct err *e);

#endif
