/* From a run to latencies and percentiles. Definitions (DESIGN section 4):
 * TTFT = first token - planned arrival; E2E = completion - planned arrival; TPOT = (E2E - TTFT)/(n
 * - 1) for n > 1; per-token latency = gaps between tokens, token 0 excluded unless asked. Warm-up
 * requests and requests without status ok are left out and counted. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "artifact/run.h"

enum metric { METRIC_TTFT, METRIC_TOKEN_LATENCY, METRIC_TPOT, METRIC_E2E, METRICS };
const char *metric_name(enum metric m); /* "ttft", "token_latency", "tpot", "e2e" */

/* Percentile by linear interpolation between order statistics (NumPy's default): q in [0, 100],
 * sorted ascending, n >= 1. Exact for the sample; says nothing about the population's tail: an
 * order statistic interval does, below. */
double metrics_percentile(const double *sorted, size_t n, double q);

/* Distribution-free interval of the q-th percentile at about the confidence: indices of the order
 * statistics by the binomial distribution (exact for n <= 1000, normal above). False when n is too
 * small to bound it on both sides. */
bool metrics_percentile_interval(const double *sorted, size_t n, double q, double confidence,
                                 double *low, double *high);

struct series {
    double *ns; /* sorted ascending */
    size_t n;
};

struct run_metrics {
    struct series of[METRICS];
    size_t n_requests, n_warmup, n_not_ok, n_early_stop;
    double duration_s; /* first planned arrival to last completion */
    double output_tokens_per_s, requests_per_s;
    int64_t output_tokens;
};

struct metrics_params {
    bool include_token0;
    /* Aligned comparisons: keep only these requests (NULL = all) and cut each one's tokens. */
    const int64_t *request_ids; /* sorted, [n_ids] */
    const int64_t *max_tokens;  /* [n_ids] or NULL */
    size_t n_ids;
};

enum st metrics_from_run(struct arena *a, const struct run *r, const struct metrics_params *p,
                         struct run_metrics *out, struct err *e);

#endif
