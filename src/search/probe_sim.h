/* The simulator as a probe. */
#ifndef SEARCH_PROBE_SIM_H
#define SEARCH_PROBE_SIM_H

#include "metrics/summary.h"
#include "search/probe.h"
#include "sim/sim.h"

/* Where the requests of a seed come from, at a mean rate of 1 request/s (all at 0 is fine: then any
 * rate is infinite). They live in the arena. */
struct probe_workload {
    void *self;
    /* *ids: [out->n][num_prefill_tokens], the token ids that prefix caching knows prompts by; NULL
     * as it comes in = by their hash_ids or prompt_id. */
    enum st (*make)(void *self, struct arena *a, uint64_t seed, struct workload *out,
                    int32_t ***ids, struct err *e);
};

struct probe_sim_params {
    const struct predictor *predictor;
    const struct bundle *bundle; /* the predictor's, to count look-ups outside it; NULL = none */
    const struct serve_params *serve; /* emit_tokens counts for nothing here */
    struct probe_workload workload;
    const struct slo *slo;
    struct summary *tokens;            /* gaps between tokens go there; NULL = nowhere */
    const volatile sig_atomic_t *stop; /* may be NULL */
};

/* params are copied, what they point to is borrowed. probe_sim_close frees what it holds. */
struct probe probe_sim_open(const struct probe_sim_params *params);
void probe_sim_close(struct probe *p);

#endif
