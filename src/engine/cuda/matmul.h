/* Matrix products of the engine: all that the kernels for few rows do not take.
 *
 *     out[t] = x[t] weight^T (+ bias) (+ out[t])
 *
 * By cuBLASLt (gpu/matmul.h): float32 sums, and full float32 products where that is the dtype. A
 * plan, whose algorithm is chosen when the engine opens (cuda_matmul_prepare) and kept on disk
 * (gpu/cache.h, "gemm"), stands for a shape and a class of row numbers. What was not prepared takes
 * cuBLASLt's own first choice. */
#ifndef ENGINE_CUDA_MATMUL_H
#define ENGINE_CUDA_MATMUL_H

#include "engine/cuda/programs.h"
#include "engine/cuda/weights.h"
#include "gpu/matmul.h"

struct cuda_product {
    struct weight_matrix weight; /* [m, k], bias */
    CUdeviceptr x, out;          /* [rows, k], [rows, m] */
    bool add;                    /* out += */
    bool out_float;              /* out is float32 whatever the dtype; not with add or a bias */
};

struct cuda_matmul {
    struct gpu_blas blas;
    enum cuda_dtype dtype;
    struct gpu_matmul *plans; /* [n] */
    int n, cap;
};

/* ST_DEVICE: no cuBLASLt, no memory. Close in any case. */
enum st cuda_matmul_open(struct cuda_matmul *x, const struct gpu *gpu, enum cuda_dtype t,
                         struct err *e);
void cuda_matmul_close(struct cuda_matmul *x); /* zeroed is fine */

/* Up to how many rows the algorithm for `rows` rows is the same: less than a quarter more. */
int cuda_matmul_class(int rows);

/* Chooses for that many rows, of which x and out have room. The same product of other layers stands
 * every `stride` bytes behind, `layers` of them: so the weights are not in the cache. Overwrites
 * out. */
enum st cuda_matmul_prepare(struct cuda_matmul *x, const struct cuda_product *p, int rows,
                            int64_t layers, size_t stride, CUstream stream, struct err *e);

enum st cuda_matmul_run(struct cuda_matmul *x, const struct cuda_product *p, int rows,
                        CUstream stream, struct err *e);

#endif
