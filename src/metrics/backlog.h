/* Whether the requests that waited became ever more while requests arrived: then figures are of the
 * number of requests, and no load that the system carries.
 *
 * A request waits from its planned arrival until it is first in a batch (until its first token,
 * where a run has no batches). The time of the arrivals is cut into quarters. It grew where
 *     the mean wait of the last quarter is above that of the third, and above 1.5 times that of the
 *     second: in a steady state both are alike; at a load above what the system carries a wait is
 *     in proportion to the time since the first arrival, so the last is 7/3 of the second, or more
 *     where the queue began later, and 1.5 is halfway between 1 and that;
 *     and sqrt(n) requests or more waited in the last quarter, in the mean over time, of n: at
 *     exactly the load that is carried a queue is a random walk and comes about that far by chance,
 *     one that grows is in proportion to n, and one that does not is bounded.
 * Of 200 queues of one server with Poisson arrivals and gamma-distributed service times (shape 2),
 * 1,000 requests each: told of none at a load of 0.9, of 22 % at 1, of 83 % at 1.1, of 98 % at 1.2;
 * with 300 requests of 4, 20, 57 and 85 %. Fewer than BACKLOG_LEAST requests show no trend.
 *
 * Constant memory: sums over buckets of time, which double in width when the arrivals outgrow them,
 * so a quarter is off by at most a 32nd of the time. The order of requests does not matter. */
#ifndef METRICS_BACKLOG_H
#define METRICS_BACKLOG_H

#include "artifact/run.h"

enum { BACKLOG_BUCKETS = 64, BACKLOG_LEAST = 20, BACKLOG_QUARTERS = 4 };

struct backlog {
    int64_t width_ns; /* of a bucket; 0 = no request yet */
    int64_t last_ns;  /* latest arrival */
    int64_t n[BACKLOG_BUCKETS];
    double wait_ns[BACKLOG_BUCKETS];
};

/* Requests that never waited to an end (rejected, failed) and warm-up are left out. */
void backlog_add(struct backlog *b, const struct run_request *r);

struct backlog_trend {
    bool grew;
    double wait_s[BACKLOG_QUARTERS]; /* mean; NAN = nobody arrived */
    double waiting;                  /* requests that waited in the last quarter, mean over time */
};
struct backlog_trend backlog_trend(const struct backlog *b);
/* A sentence for a result, of one that grew. */
const char *backlog_words(struct arena *a, const struct backlog_trend *t);

#endif
