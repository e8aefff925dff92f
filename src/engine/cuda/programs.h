/* The engine's kernels on a GPU: every program that a type and head size need, compiled on all
 * cores or taken from the cache (gpu/compile.h), loaded, its entries found.
 *
 * An entry is missing where the GPU is too old for it or no program is made for that head size;
 * cuda_attention_fits and cuda_matmul_pick (engine/cuda/kernels.h) say which others serve then. */
#ifndef ENGINE_CUDA_PROGRAMS_H
#define ENGINE_CUDA_PROGRAMS_H

#include "engine/cuda/kernels.h"
#include "gpu/compile.h"
#include "gpu/module.h"
#include "model/weights.h"

struct cuda_programs {
    const struct gpu *g;
    enum cuda_dtype dtype;
    struct gpu_kernel kernel[CUDA_KERNELS]; /* function NULL = missing */
    CUmodule modules[CUDA_KERNELS];
    int n_modules;
    double ready_s; /* from the text to the last entry */
    struct arena *arena;
};

/* F32, F16 or BF16. */
enum cuda_dtype cuda_dtype_of(enum dtype t);

/* head_dim 0: only what needs none. threads as in gpu_compile_all. ST_DEVICE names the source that
 * does not compile or load; *out is zeroed then. */
enum st cuda_programs_open(const struct gpu *g, struct gpu_compiler *compiler, enum cuda_dtype t,
                           int head_dim, int threads, struct cuda_programs *out, struct err *e);
void cuda_programs_close(struct cuda_programs *p); /* zeroed is fine */

/* Launches an entry by its row's rule on arguments of its type (engine/cuda/kernels/args.h). early:
 * it may start before the kernel ahead of it in the stream has ended; never for the first of a
 * step. */
enum st cuda_programs_launch(const struct cuda_programs *p, enum cuda_kernel_id id,
                             const void *args, const struct cuda_sizes *most, bool early,
                             CUstream stream, struct err *e);

#endif
