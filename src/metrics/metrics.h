/* From a run to latencies and percentiles. Definitions:
 *   TTFT           first token - planned arrival
 *   E2E            completion - planned arrival
 *   TPOT           (E2E - TTFT) / (n - 1) for n > 1 output tokens that did not all come at once
 *   token latency  gap to the token before; token 0 is excluded by default, else counts
 *                  with the token_latency_ns its row carries (0 in our runs)
 * Warm-up requests and requests without status ok are left out and counted. Values that a request
 * lacks (no first token, no completion, no token file) are missing, not zero: the series is shorter
 * by n_missing. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "artifact/run.h"
#include "base/stats.h"

enum metric { METRIC_TTFT, METRIC_TOKEN_LATENCY, METRIC_TPOT, METRIC_E2E, METRICS };
const char *metric_name(enum metric m); /* "ttft", "token_latency", "tpot", "e2e" */

/* ---- a run ------------------------------------------------------------------------------- */

struct series {
    double *ns; /* sorted ascending */
    size_t n;
};

struct run_metrics {
    struct series of[METRICS];
    size_t n_missing[METRICS]; /* requests (tokens: requests too) that lack the value. TPOT counts
                                * only requests of more than one token */
    size_t n_requests;         /* requests in the sums below */
    size_t n_warmup, n_not_ok;
    size_t n_early_stop;        /* of n_requests: fewer tokens than requested */
    double duration_s;          /* first planned arrival to last completion; NaN = unknown */
    double output_tokens_per_s; /* NaN when the duration is unknown or 0 */
    double requests_per_s;
    int64_t output_tokens;
};

struct metrics_params {
    bool include_token0;
    /* Aligned comparisons: keep only these requests (NULL = all) and cut each one's tokens. A
     * request with more tokens than max_tokens counts as if it had ended with the last one kept,
     * which needs its token times: without them its E2E and TPOT are missing. With max_tokens 0
     * it has no latencies at all. */
    const int64_t *request_ids; /* sorted, unique, [n_ids] */
    const int64_t *max_tokens;  /* [n_ids] or NULL */
    size_t n_ids;
};

/* Never fails on a run that run_load accepted; an empty selection gives empty series. */
enum st metrics_from_run(struct arena *a, const struct run *r, const struct metrics_params *p,
                         struct run_metrics *out, struct err *e);

/* Of a run, which is kept: ST_REJECTED when requests failed and none ended well, or all are warm-up
 * (which the other two do not count). */
enum st metrics_measured(int64_t ended_well, int64_t failed, int64_t warmup, struct err *e);

#endif
