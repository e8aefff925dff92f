/* Host overhead per iteration: short runs of the serving loop over the executor being profiled. */
#ifndef PROFILE_HOST_H
#define PROFILE_HOST_H

#include "profile/journal.h"
#include "profile/profile.h"

/* Batch sizes measured: powers of two and the limit. */
int host_batches(int64_t max_batch, int64_t out[64]);

/* Tokens of the prompts of runs with that many sequences. */
int64_t host_prompt_tokens(const struct profile_params *p, const struct executor *ex,
                           int64_t batch);

/* One run with that many sequences in the batch and `decodes` output tokens each; more requests
 * wait and replace those that finish, so there are iterations with and without a prefill chunk.
 * Appends to the journal the iterations that were full: their time beyond the device's, or, where
 * the executor has several batches in flight, what it says of its host work (struct completion).
 * ST_INTERRUPTED leaves it as it was. j NULL: nothing is kept. */
enum st host_measure(const struct profile_params *p, struct executor ex, int64_t batch,
                     int64_t decodes, const volatile sig_atomic_t *stop, struct journal *j,
                     struct err *e);

#endif
