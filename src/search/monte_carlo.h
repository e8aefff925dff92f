/* Uncertainty of a simulated run: simulates the workload repeatedly on bundles as another profile
 * would have found them.
 *
 * Replica i draws from the stream "sim.replicas_mc.<i>" of the seed what all times of a part have
 * in common, the drift of the machine, and a seed from which every measured place has a factor of
 * its own (bundle_uncertainty, bundle_perturbed); from "sim.replicas_mc.<i>.host" a factor of host
 * time per iteration; it replays how batches of the calibration run differed from a place drawn
 * from "sim.replicas_mc.<i>.unevenness" (profile/read/unevenness.h), and simulates the whole
 * workload. The interval of a percentile is the range between the 2.5th and the 97.5th percentile
 * of the replicas' values (linear between them). bench/uncertainty holds how often such an interval
 * holds the truth. Effects that are not modelled are excluded. Times that vary make tails longer
 * than the run as simulated has them: an interval of a high percentile may lie wholly above its
 * value, and the mean of the replicas is the better value where the bundle holds how batches
 * differ. */
#ifndef SEARCH_MONTE_CARLO_H
#define SEARCH_MONTE_CARLO_H

#include "base/rng.h"
#include "search/probe_sim.h"

#define PERCENTILE_INTERVALS "percentile_intervals.csv"
enum { MONTE_CARLO_LEAST = 10 };

struct monte_carlo_params {
    const struct predictor_params *predictor; /* bundle must be set */
    const struct predictor_ops *ops;
    double draft_cost; /* with serve->draft_tokens: sim/drafting.h */
    const struct serve_params *serve;
    struct probe_workload workload; /* used at rate 1, unscaled */
    uint64_t seed;
    int64_t replicas; /* >= MONTE_CARLO_LEAST */
    int64_t workers;  /* processes, >= 1 */
    const volatile sig_atomic_t *stop;
};

struct monte_carlo_cell {
    double value_s;       /* with the unperturbed bundle; NAN = no samples */
    double low_s, high_s; /* 95 % interval */
    double mean_s;        /* of the replicas */
};
/* The latencies of a probe, and the gaps between tokens. */
enum { MONTE_CARLO_TOKEN_LATENCY = SLO_METRICS, MONTE_CARLO_METRICS };
struct monte_carlo {
    struct monte_carlo_cell of[MONTE_CARLO_METRICS][PROBE_PERCENTILES];
    struct bundle_uncertainty uncertainty;
    int64_t replicas;
    bool uneven; /* replicas replayed how batches differ */
};

/* The draws of a replica. *uncertainty must outlive the factors, and so must *host and *unevenness,
 * the generators of its iterations' draws. */
struct bundle_factors monte_carlo_draw(const struct bundle_uncertainty *uncertainty, uint64_t seed,
                                       size_t i, struct rng *host, struct rng *unevenness);

enum st monte_carlo_run(const struct monte_carlo_params *p, struct monte_carlo *out, struct err *e);

/* percentile_intervals.csv: metric,percentile,value_ns,low_ns,high_ns,mean_ns,replicas; mean_ns is
 * empty where the bundle does not hold how batches differ. */
enum st monte_carlo_write(const struct artifact *art, const struct monte_carlo *m, struct err *e);

#endif
