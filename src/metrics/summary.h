/* Streaming figures of a run, in constant memory.
 *
 * Percentiles are exact (stats_percentile over all values) up to SUMMARY_EXACT of them. Beyond
 * that the values are counted in a log-linear histogram: each octave of nanoseconds has 2048 equal
 * buckets, a value counts as the middle of its bucket, and so does each order statistic that a
 * percentile is interpolated from: a percentile is then off by at most SUMMARY_ERROR, relatively,
 * whatever the distribution; below 4096 ns by nothing but TPOT's fraction of a nanosecond. Counts,
 * sums and duration are exact always. Definitions and exclusions: metrics.h. */
#ifndef METRICS_SUMMARY_H
#define METRICS_SUMMARY_H

#include "metrics/metrics.h"

enum { SUMMARY_EXACT = 1 << 16 };
enum { SUMMARY_PARTS = 4096 };
#define SUMMARY_ERROR (1.0 / SUMMARY_PARTS)

struct summary;
struct summary *summary_new(void);
void summary_free(struct summary **s); /* NULL is fine */

/* Limits of a good request, in ns, INFINITY = no limit; a missing latency meets its limit. Call
 * before the first row. */
struct summary_limits {
    double ttft_ns, tpot_ns, e2e_ns;
};
void summary_limit(struct summary *s, const struct summary_limits *limits);

/* Adds a row of the serving core; order does not matter. */
void summary_add(struct summary *s, const struct run_request *r);
/* A gap between tokens; token 0 has none. Its request is taken to have ended well. */
void summary_add_token(struct summary *s, const struct run_token *t);

struct summary_facts {
    int64_t n_requests, n_not_ok, n_warmup, n_all;
    int64_t n_status[RUN_STATUSES]; /* of n_requests + n_not_ok */
    int64_t n_good;                 /* of n_requests: met every limit */
    int64_t output_tokens;
    double duration_s; /* first planned arrival to last completion; NAN = unknown */
    double output_tokens_per_s, requests_per_s; /* NAN when the duration is unknown or 0 */
    double goodput_per_s;                       /* the same; NAN without limits, too */
    bool exact;                                 /* percentiles are exact */
    int64_t bad_id;       /* lowest id among those not ok (warm-up aside); RUN_NONE = none */
    const char *bad_text; /* its message, "" when it has none; owned by the summary */
};
struct summary_facts summary_facts(const struct summary *s);

/* In ns, q in [0, 100]; NAN when no request has the value, or no token was added. */
double summary_percentile(struct summary *s, enum metric m, double q);
/* In ns, exact; NAN as above. */
double summary_mean(const struct summary *s, enum metric m);

#endif
