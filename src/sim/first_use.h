/* Engines that prepare something for each shape of a batch: a plan of cuDNN's attention, a kernel
 * that is compiled or tuned. The first batch of a shape takes longer.
 *
 * A shape is the number of prefill chunks and their tokens, the number of sequences that decode,
 * the tokens of the longest of their caches, and whether others are padded to it: without padding
 * there is no mask, and another plan (two rows of 384 tokens in a run of transformers took 643 ms
 * the first time, and 694 ms when later one of two rows was shorter). An engine has seen nothing
 * when a run begins. Replicas share what they have seen. */
#ifndef SIM_FIRST_USE_H
#define SIM_FIRST_USE_H

#include "base/arena.h"
#include "sim/predictor.h"

/* Shapes that were seen. Lives in the arena; zero is empty. */
struct shapes {
    uint64_t *key; /* [size], 0 = free */
    size_t n, size;
};
/* What a batch computes. */
struct shape {
    int64_t chunks, chunk_tokens;
    int64_t sequences, kv_tokens; /* that decode; of all their caches */
    int64_t longest;              /* of these caches; 0 = none decode, or it is not known */
};

/* Whether it is there already; afterwards it is. */
bool shapes_seen(struct arena *a, struct shapes *s, const struct shape *shape);

/* The predictor with so much host time more for the first batch of each shape, without and with
 * chunks, under the same name. Lives in the arena; *p is copied, its pointers are borrowed. */
struct predictor predictor_first_use(struct arena *a, const struct predictor *p, double decode_s,
                                     double prompt_s);

#endif
