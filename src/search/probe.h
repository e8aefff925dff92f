/* Probes measure a system under a request rate.
 *
 * The searches of this folder are independent of the system: a probe serves the workload at a rate,
 * with a seed, and returns the result. probe_sim (search/probe_sim.h) simulates; a probe of an
 * engine needs only this table and probe_samples.
 *
 * A probe's result must depend on rate and seed alone as far as the system allows; the simulator's
 * does exactly. The arrivals of one seed at two rates are the same arrivals, stretched, so that
 * what differs between them is the load and not the draw. */
#ifndef SEARCH_PROBE_H
#define SEARCH_PROBE_H

#include "artifact/run.h"
#include "base/vec.h"
#include "search/slo.h"
#include "text/fields.h"

enum { PROBE_VERSION = 1, PROBE_PERCENTILES = 4 };
extern const double probe_percentiles[PROBE_PERCENTILES]; /* 50 90 95 99 */

/* Unknown is NAN. */
struct probe_result {
    double requests;       /* accepted */
    double failed;         /* those of them that failed */
    double good;           /* fraction of requests that meet every limit */
    double duration_s;     /* first planned arrival to last completion */
    double requests_per_s; /* successful, over the duration */
    double goodput_per_s;  /* met every limit, over the duration */
    double output_tokens_per_s;
    double latency_s[SLO_METRICS][PROBE_PERCENTILES]; /* of successful requests */
    double early_delay_s;   /* median delay of the second quarter of arrivals */
    double late_delay_s;    /* of the last quarter: much larger when the queue grows with the run */
    double energy_j;        /* of all devices, less what warm-up's output tokens bear as others do;
                               NAN unless it is known */
    double extrapolated;    /* look-ups outside the profiled grid */
    double prefix_hit_rate; /* tokens of prefills found in the cache; NAN without one */
    double client_delay_p99_s; /* lateness of the client; NAN: no client */
    double unhealthy;          /* 1: the client did not keep its schedule, and the rest is void */
    double contention;         /* share of time a real engine waited for a core; NAN = unknown */
    double timed_out; /* 1: ended at its time limit, before all requests had their answers */
    double alone;     /* requests alone in the system from arrival to end */
    double alone_bad; /* those of them that miss a limit, at any rate */
};

/* The numbers of a result as a table, all of them doubles, for JSON, CSV and reports. */
enum { PROBE_FIELDS = 18 + SLO_METRICS * PROBE_PERCENTILES };
extern const struct field probe_fields[PROBE_FIELDS]; /* keys "requests", "ttft_p99_s" */
extern const struct fields probe_result_fields;
static inline double *probe_value(struct probe_result *r, int field)
{
    return (double *)(void *)((char *)r + probe_fields[field].at);
}

struct probe_ops {
    const char *name, *help;
    int version; /* PROBE_VERSION */
    /* Serves the workload of that seed at `rate` requests/s; INFINITY = all at once. */
    enum st (*run)(void *self, double rate, uint64_t seed, struct probe_result *out, struct err *e);
    /* A probe at an infinite rate costs nothing but time: its throughput is where a search starts.
     * Never set for shared servers. */
    bool may_flood;
    /* The lowest rate at which the arrivals of that seed end within the probe's time limit; NULL =
     * any rate. */
    double (*least_rate)(void *self, uint64_t seed);
};

struct rate_probe {
    const struct probe_ops *ops;
    void *self;
};

/* ---- for implementing probes: from rows of requests to a result ----------------------------
 */

struct probe_sample {
    int64_t arrival_ns, end_ns;    /* end: RUN_NONE = unknown */
    double latency_s[SLO_METRICS]; /* NAN = has none */
    bool ok;
};

struct probe_samples {
    VEC(struct probe_sample) v;
    int64_t first_arrival_ns, last_completion_ns, output_tokens;
    const struct slo *slo;
};

void probe_samples_begin(struct probe_samples *s, const struct slo *slo); /* keeps the memory */
void probe_samples_add(struct probe_samples *s, const struct run_request *r);
/* All fields but energy_j, prefix_hit_rate, client_delay_p99_s, contention (NAN), extrapolated,
 * unhealthy and timed_out (0). Warm-up requests were left out. Where rows lack the start of the
 * first batch, early and late delay are of TTFT. */
void probe_samples_sum(struct probe_samples *s, struct probe_result *out);
void probe_samples_free(struct probe_samples *s);

/* Note for results where prefix caching was on and never hit; NULL = none. */
const char *probe_no_hits(const struct probe_result *r);

#endif
