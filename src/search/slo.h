/* Service-level objectives: limits on a request's latencies, and the fraction of requests that must
 * meet all of theirs.
 *
 * A limit is "name:milliseconds" in the syntax of vLLM's `--goodput ttft:200 tpot:50 e2el:1000`:
 *     ttft   first token - planned arrival
 *     tpot   (e2el - ttft) / (n - 1); a request of one token, or whose tokens all came at
 *            once, has none and meets any limit
 *     e2el   completion - planned arrival
 * and one further name:
 *     delay  first batch built - planned arrival, Vidur's request_scheduling_delay
 * With the one limit delay:5000 and the fraction 0.99 it is Vidur's objective, P99 scheduling delay
 * <= 5 s (P99 as the smallest value that 99 % of the requests do not exceed). */
#ifndef SEARCH_SLO_H
#define SEARCH_SLO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

enum slo_metric { SLO_DELAY, SLO_TTFT, SLO_TPOT, SLO_E2EL, SLO_METRICS };
const char *slo_metric_name(enum slo_metric m); /* "delay", "ttft", "tpot", "e2el" */

struct slo {
    double limit_s[SLO_METRICS]; /* INFINITY = no limit */
    double fraction;             /* of all requests, those that failed included; (0, 1] */
};

/* ST_USAGE: no limit, an unknown name (the hint lists them), a name given twice, a limit that is
 * not above 0, a fraction outside (0, 1]. */
enum st slo_parse(const char *const *items, size_t n, double fraction, struct slo *out,
                  struct err *e);

/* Whether a request's latencies meet every limit; NAN = no such latency, which meets any. */
bool slo_meets(const struct slo *s, const double latency_s[SLO_METRICS]);

/* Whether a limit counts from the planned arrival. Where one does, a client that is late can only
 * make a request miss it; tpot alone does not see how late a request was sent. */
bool slo_from_plan(const struct slo *s);

/* "99 % of requests: delay <= 5 s, ttft <= 500 ms" */
const char *slo_words(struct arena *a, const struct slo *s);

#endif
