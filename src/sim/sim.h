/* The simulator: the serving core with a predicting executor and the virtual clock. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "profile/read/bundle.h"
#include "serve/serve.h"

struct sim_params {
    const struct model *model;
    const struct bundle *bundle; /* loaded for that model */
    bool host_overhead;          /* add the bundle's host time per iteration */
};

/* An executor whose batches end after the predicted time: start = submit_s or the end of the batch
 * before, end = start + host + device. One batch in flight; sequences never end early (no EOS);
 * completions carry no tokens: every row emits one. No allocation per batch. Lives in the arena;
 * close() frees nothing. *p is copied. */
struct executor sim_executor(struct arena *a, const struct sim_params *p);

/* Seconds predicted for a batch. Device: every operator of the forward pass, prefill attention
 * summed over the chunks, decode attention at the mean cache length of its rows (attention time is
 * linear in the keys read, so the mean stands for unequal lengths). Host: per iteration, by number
 * of sequences, for iterations with and without prefill chunks; 0 without host_overhead. */
void sim_predict(const struct sim_params *p, const struct batch *b, double *device_s,
                 double *host_s);

#endif
