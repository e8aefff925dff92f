/* Seeded random weights: normal with standard deviation 0.02, norm weights 1, biases 0.
 *
 * Element i of a tensor depends on the seed, the tensor's name and i alone, so tensors, and parts
 * of them, are made in any order, by any thread or by a GPU (engine/cuda/random.h), bit for bit the
 * same. Block i / 8 of Philox4x32-10 (base/philox.h) has 128 bits, of which 16 select each element
 * from the 65,536 mid-quantiles of the distribution: the tails do not matter in random weights. A
 * value takes about 2 ns.
 *
 * Thread rule: pure functions. */
#ifndef MODEL_RANDOM_H
#define MODEL_RANDOM_H

#include "model/weights.h"

/* Goes up with every change of the values that a seed gives. 1: xoshiro256++, up to November 2026.
 */
enum { RANDOM_WEIGHTS_VERSION = 2 };
#define RANDOM_WEIGHTS_GENERATOR "philox4x32-10"

enum { RANDOM_WEIGHTS_PER_BLOCK = 8, RANDOM_WEIGHTS_QUANTILES = 1 << 16 };

/* All that element i is made from: block i / 8 of this key and stream; of its four words, the
 * lowest first, the lower 16 bits select the element before the one that the upper ones select. */
struct random_weights {
    uint32_t key[2], stream[2];
    bool constant; /* norm weights and biases: every element is value */
    float value;
};

struct random_weights random_weights_of(const struct tensor *t, uint64_t seed);
/* Elements [first, first + n). */
void random_weights_get(const struct random_weights *r, int64_t first, size_t n, float *out);
/* {version, generator, seed}: which weights they are, for artifacts. */
struct node *random_weights_node(struct arena *a, uint64_t seed);
/* All of the tensor. */
void model_random_tensor(const struct tensor *t, uint64_t seed, float *out);

/* The values that are drawn, [RANDOM_WEIGHTS_QUANTILES] ascending. */
const float *random_weights_quantiles(void);

#endif
