/* Capacity: the highest request rate at which an SLO holds.
 *
 * For each of several seeds (other arrivals, other lengths) the rate is bracketed by doubling or
 * halving and then bisected until high <= low (1 + tolerance): at `low` the SLO held, at `high` it
 * did not. The capacity is the mean of the seeds' `low`; its 95 % interval is Student's
 *     mean(low) - t s(low) / sqrt(n)  ..  mean(high) + t s(high) / sqrt(n)
 * so that it covers both the bracket of the bisection and the variation between draws. One seed has
 * no interval: low and high are its bracket then, and are called so.
 *
 * Latencies count from the planned arrival, so a client that did not keep its schedule can only
 * make requests miss: a probe that meets the objective all the same holds. (With a limit on tpot
 * alone it does not: slo_from_plan.) Where the client was late and the objective is not met,
 * nothing is known of the system: such a probe bounds the search from above like one that fails,
 * but if no lower rate fails by itself the result is CAPACITY_CLIENT, inconclusive, and not a
 * capacity. At less than 10 requests/s no client is late because of the rate: the search ends
 * there. Where most of the requests that were alone in the system miss the objective, and are
 * enough to break it, no lower rate is tried.
 *
 * The capacity is that of the workload's length: a queue that grows slowly may meet a limit for as
 * many requests as there are. `growing` detects this (the delays of the last quarter of the
 * arrivals at `low` have a median over twice that of the second quarter and over a tenth of the
 * limit on delays, or a tenth of a second without one).
 *
 * A run begins empty and ends with its last arrival, so the capacity of few requests is above that
 * of many, and the interval over seeds is one of runs of that length. What a server carries for
 * ever is asked by longer workloads (capacity_long_run). */
#ifndef SEARCH_CAPACITY_H
#define SEARCH_CAPACITY_H

#include "search/probe.h"

struct capacity_params {
    struct slo slo;
    double tolerance;  /* relative width of the last bracket, > 0 */
    double start_rate; /* requests/s to begin at; 0 = the throughput of all requests at once, or 1
                          where the probe must not be flooded */
    uint64_t seed;     /* the first; the others follow it */
    int64_t seeds;     /* >= 1 */
    double max_rate;   /* highest rate to try; 0 = no limit */
    double step;       /* factor between the first rates of the bracket; 0 = 2, as of later ones */
    double first_step; /* between the first two of them, for a start_rate that is likely to be near;
                          0 = step */
};

struct capacity_probe {
    double rate;
    uint64_t seed;
    bool holds;
    struct probe_result r;
};

/* Meaning of `high`. */
enum capacity_end {
    CAPACITY_BROKEN, /* the objective did not hold there */
    CAPACITY_CLIENT, /* nor did the client keep its schedule there: inconclusive */
    CAPACITY_CAPPED, /* it is max_rate, where the objective holds: the capacity is at least that */
    CAPACITY_ENDS,
};
const char *capacity_end_name(enum capacity_end end); /* "broken", "client", "capped" */

/* Result of one seed. */
struct capacity_seed {
    uint64_t seed;
    double low, high; /* low 0: it held at no rate down to 1/1024 of the first one, or to the
                         lowest that the probe can do or the client was late at, or where requests
                         alone in the system break it */
    enum capacity_end end;
    double flood_per_s;            /* requests/s with all at once; NAN when that was not tried */
    struct capacity_probe *probes; /* [n] in the order in which they were made */
    size_t n;
};

/* Whether the result meets the objective. */
bool capacity_holds(const struct slo *s, const struct probe_result *r);
/* Whether it does not, and the client was late: nothing is known of the system at that rate. */
bool capacity_undecided(const struct slo *s, const struct probe_result *r);

/* ST_REJECTED when the SLO holds at 1024 times the first rate too: the workload ends before a queue
 * can form. Probes live in the arena. */
enum st capacity_bisect(struct arena *a, const struct capacity_params *p,
                        const struct rate_probe *probe, uint64_t seed, struct capacity_seed *out,
                        struct err *e);

struct capacity {
    double rate, low, high; /* requests/s; 0 when a seed found no rate at all */
    bool growing;
    enum capacity_end end; /* the worst of the seeds: not CAPACITY_BROKEN, rate and low are bounds
                              from below and high is none */
};
void capacity_sum(const struct capacity_params *p, const struct capacity_seed *seeds, size_t n,
                  struct capacity *out);

/* The capacity in the long run, from workloads of growing length: of 4, 16, 64 ... times the
 * requests, each with all seeds, until one is within two tolerances of the one before. The rest of
 * a sequence that falls by at most half as much with each step is at most the last fall: the
 * interval is the last length's, and its low end lower by that. A queue forms within the square
 * root of a run's length, which would make each fall half of the one before. */
enum { LONG_RUN_STEP = 4 };
extern const double LONG_RUN_BRACKET; /* step of its brackets: near the seed's last capacity */
struct capacity_long_run {
    double requests; /* of the longest workload; 0 = not looked for */
    double rate, low, high;
    bool settled; /* it no longer changes */
};
/* From the results of two lengths, the later one of so many requests. */
struct capacity_long_run capacity_long_run(const struct capacity *before,
                                           const struct capacity *after, double requests,
                                           double tolerance);

/* ---- as trees: between processes, in journals and results
 * ------------------------------------------ */

extern const struct fields capacity_probe_fields, capacity_seed_fields;

#endif
