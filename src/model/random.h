/* Seeded random weights piece by piece, for tensors too large to hold in memory. */
#ifndef MODEL_RANDOM_H
#define MODEL_RANDOM_H

#include "base/rng.h"
#include "model/weights.h"

struct random_weights {
    struct rng rng;
    bool constant; /* norm weights and biases */
    float value;
};

/* The stream of tensor t; its pieces in sequence equal model_random_tensor's result. */
struct random_weights random_weights_begin(const struct tensor *t, uint64_t seed);
/* n is a multiple of 4 except in the last piece. */
void random_weights_next(struct random_weights *r, size_t n, float *out);

/* The values that are drawn, [65536] ascending: the 16-bit parts of a random number, the lowest
 * first, select four elements. For devices that draw for themselves. */
const float *random_weights_quantiles(void);

#endif
