/* The simulator as a probe. */
#ifndef SEARCH_PROBE_SIM_H
#define SEARCH_PROBE_SIM_H

#include "metrics/summary.h"
#include "search/probe.h"
#include "sim/sim.h"

/* Source of the requests of a seed, at a mean rate of 1 request/s (all at 0 is allowed: then any
 * rate is infinite). They live in the arena. */
struct probe_workload {
    void *self;
    /* *ids: [out->n][num_prefill_tokens], token ids of prompts for prefix caching; left NULL =
     * identified by hash_ids or prompt_id. */
    enum st (*make)(void *self, struct arena *a, uint64_t seed, struct workload *out,
                    int32_t ***ids, struct err *e);
};

struct probe_sim_params {
    const struct predictor *predictor;
    const struct bundle *bundle; /* the predictor's, to count look-ups outside it; NULL = none */
    const struct serve_params *serve; /* emit_tokens is ignored here */
    struct probe_workload workload;
    const struct slo *slo;
    struct summary *tokens;            /* receives gaps between tokens; NULL = none */
    const volatile sig_atomic_t *stop; /* may be NULL */
};

/* params are copied, their pointers are borrowed. Free with probe_sim_close. */
struct rate_probe probe_sim_open(const struct probe_sim_params *params);
void probe_sim_close(struct rate_probe *p);

#endif
