/* Seeded random weights piece by piece, for tensors larger than one wants to hold. */
#ifndef MODEL_RANDOM_H
#define MODEL_RANDOM_H

#include "base/rng.h"
#include "model/weights.h"

struct random_weights {
    struct rng rng;
    bool constant; /* norm weights and biases */
    float value;
};

/* The stream of tensor t; pieces taken one after another are what model_random_tensor gives. */
struct random_weights random_weights_begin(const struct tensor *t, uint64_t seed);
/* n is a multiple of 4 except in the last piece. */
void random_weights_next(struct random_weights *r, size_t n, float *out);

#endif
