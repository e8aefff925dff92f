/* A real engine as a probe: `twinfer bench` in a child process, one run directory per probe.
 *
 * The child runs with one configuration file for all probes (config_dir/config_name.yaml) and, on
 * its command line, what differs between them: seed, the rate or a stretched workload, and out. The
 * result is computed from request_metrics.csv, as for any run.
 *
 * Differences to the simulator:
 *   - it is never flooded: rates grow by doubling at most
 *   - time limit: a child not done within timeout_s (its start included) gets SIGTERM and, 5 s
 *     later, SIGKILL with all it started; the result is timed_out, and holds nothing
 *   - the client: a run that bench rejects because its client was late (exit 5), and that misses
 *     the objective, is repeated once; if that one is so too, nothing is known (search/capacity.h)
 *   - progress: a line when a probe begins and every 10 s, one with its verdict
 *   - no server: a run whose requests all have status error ends the search with the first one's
 *     reason (ST_DEVICE), and its folder is removed
 *   - wrong lengths: a run that bench rejects because answers have other lengths than requested
 *     (exit 5) ends the search with that reason (ST_REJECTED)
 *   - a limit on a latency that the engine's runs lack (delay over HTTP; tpot where whole answers
 *     come at once) is ST_USAGE
 *   - reuse: a probe's folder is named by a hash of all that its run depends on, and a finished one
 *     that is there already, in `dir` or in `resume`, is read instead of run again
 *
 * Probes run one at a time, in the calling process. */
#ifndef SEARCH_PROBE_BENCH_H
#define SEARCH_PROBE_BENCH_H

#include <signal.h>

#include "search/probe.h"

struct probe_bench_params {
    const char *engine;  /* name of the probe */
    const char *program; /* path of this program */
    const char *config_dir, *config_name, *config_text;
    const char *dir;    /* folder of the runs, must exist */
    const char *resume; /* an earlier such folder; finished runs in it move to dir. NULL = none */
    double timeout_s;
    const struct slo *slo;
    /* Seconds from the first arrival to the last at 1 request/s, of the fewest that a rate gets. */
    double (*span_s)(void *self, uint64_t seed);
    /* The settings that make bench serve that seed's requests at that rate, at most
     * PROBE_BENCH_WORDS. scratch is a path that does not exist; anything created there is removed
     * after the run. */
    enum st (*words)(void *self, struct arena *a, double rate, uint64_t seed, const char *scratch,
                     const char **words, size_t *n, struct err *e);
    void *self;
    const volatile sig_atomic_t *stop; /* may be NULL; != 0: ST_INTERRUPTED */
};
enum { PROBE_BENCH_WORDS = 4 };

/* params are copied, their pointers are borrowed. */
struct rate_probe probe_bench_open(const struct probe_bench_params *params);
void probe_bench_close(struct rate_probe *p);

#endif
