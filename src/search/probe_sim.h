/* The simulator as a probe. */
#ifndef SEARCH_PROBE_SIM_H
#define SEARCH_PROBE_SIM_H

#include "search/probe.h"
#include "sim/sim.h"

/* Where the requests of a seed come from, at a mean rate of 1 request/s (all at 0 is fine: then any
 * rate is infinite). They live in the arena. */
struct probe_workload {
    void *self;
    enum st (*make)(void *self, struct arena *a, uint64_t seed, struct workload *out,
                    struct err *e);
};

struct probe_sim_params {
    const struct predictor *predictor;
    const struct bundle *bundle; /* the predictor's, to count look-ups outside it; NULL = none */
    const struct serve_params *serve; /* emit_tokens is off whatever it says */
    struct probe_workload workload;
    const struct slo *slo;
    const volatile sig_atomic_t *stop; /* may be NULL */
};

/* params are copied, what they point to is borrowed. probe_sim_close frees what it holds. */
struct probe probe_sim_open(const struct probe_sim_params *params);
void probe_sim_close(struct probe *p);

#endif
