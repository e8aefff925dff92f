/* Draws a token from logits by struct sampling.
 *
 * The draw depends on the seed, the position in the sequence and the logits alone: equal requests
 * give equal tokens, independent of the rest of the batch and of preemptions. O(vocabulary) time on
 * average. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <stddef.h>

#include "base/vec.h"
#include "model/sampling.h"

struct sampler_candidate {
    float weight; /* share of the likeliest token's probability, 0 .. 1 */
    int32_t id;
};

/* Buffers of one thread; zeroed at first. Grow to the vocabulary. */
struct sampler {
    VEC(struct sampler_candidate) list;
};

/* The token at `position` of its sequence; logits [n], n >= 1. A logit that is not a number is
 * never drawn; without any number it is 0. */
int32_t sampler_draw(struct sampler *x, const struct sampling *s, int64_t position, size_t n,
                     const float *logits);
void sampler_free(struct sampler *x);

#endif
