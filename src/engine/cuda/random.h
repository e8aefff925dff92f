/* Seeded random weights drawn by the GPU: bit for bit those of model/random.h, which `model init`
 * writes, rounded to the engine's type. */
#ifndef ENGINE_CUDA_RANDOM_H
#define ENGINE_CUDA_RANDOM_H

#include "engine/cuda/programs.h"
#include "engine/cuda/weights.h"

struct cuda_random_maker {
    const struct cuda_programs *programs; /* of the weights' type; borrowed */
    CUdeviceptr quantiles;
};

enum st cuda_random_open(const struct cuda_programs *p, struct cuda_random_maker *out,
                         struct err *e);
void cuda_random_close(struct cuda_random_maker *r); /* zeroed is fine */
/* For cuda_weights_load; valid as long as the maker is. */
struct cuda_random cuda_random_of(struct cuda_random_maker *r);

#endif
