/* What the CUDA engine will hold of a GPU's memory. */
#ifndef ENGINE_CUDA_PLAN_H
#define ENGINE_CUDA_PLAN_H

#include "engine/cuda/engine.h"
#include "gpu/device.h"

struct cuda_memory {
    size_t weights, cache, buffers, rest; /* bytes; rest: workspace, arrays of a batch */
};

struct cuda_memory cuda_memory_of(const struct cuda_engine_params *p, int sms);
size_t cuda_memory_sum(const struct cuda_memory *m);
/* Adds to an error what was planned: "planned: weights 1.1 GiB, ...". */
enum st cuda_memory_add(const struct cuda_memory *m, const struct cuda_engine_params *p,
                        struct err *e);
/* ST_USAGE, with what was planned, when less than that is free on the GPU: before anything is
 * allocated. */
enum st cuda_memory_fits(const struct cuda_memory *m, const struct gpu *g,
                         const struct cuda_engine_params *p, struct err *e);
/* Entries of all block tables of a batch together, at most. */
int64_t cuda_memory_blocks(const struct cuda_engine_params *p);
/* Largest sizes of a batch. */
struct cuda_sizes cuda_memory_sizes(const struct cuda_engine_params *p, int sms);

/* Of device=cuda or cuda:n; false: it is none. */
bool cuda_ordinal(const char *device, int *ordinal);

#endif
