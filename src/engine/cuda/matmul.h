/* Matrix products by cuBLASLt: all that the kernels for few rows do not take.
 *
 *     out[t] = x[t] weight^T (+ bias) (+ out[t])
 *
 * float32 sums, and full float32 products where that is the dtype. Which of cuBLASLt's algorithms
 * is fastest is measured, for each shape and each class of row numbers, when the engine opens
 * (cuda_matmul_prepare), and kept on disk (gpu/cache.h, "gemm") for this GPU, driver and version of
 * cuBLASLt. What was not prepared takes cuBLASLt's own first choice. */
#ifndef ENGINE_CUDA_MATMUL_H
#define ENGINE_CUDA_MATMUL_H

#include "engine/cuda/programs.h"
#include "engine/cuda/weights.h"
#include "gpu/library.h"

struct cuda_product {
    struct cuda_matrix weight; /* [m, k], bias */
    CUdeviceptr x, out;        /* [rows, k], [rows, m] */
    bool add;                  /* out += */
    bool out_float;            /* out is float32 whatever the dtype; not with add */
};

struct cuda_matmul_row; /* an algorithm that was chosen */

struct cuda_matmul {
    const struct gpu *gpu;
    enum cuda_dtype dtype;
    struct gpu_cublaslt lt;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t plain, biased;
    cublasLtMatmulPreference_t preference;
    CUdeviceptr workspace;
    struct cuda_matmul_row *rows; /* [n] */
    int n, cap, measured;         /* measured: rows that are not from the disk */
    const char *cache;            /* folder; NULL = none */
    CUevent begin, end;
    struct arena *arena;
};

enum { CUDA_MATMUL_WORKSPACE = 32 << 20 }; /* bytes, on the GPU */

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
/* Writes the file, if anything was measured. A folder that cannot be written costs time, later. */
void cuda_matmul_save(struct cuda_matmul *x);

enum st cuda_matmul_run(struct cuda_matmul *x, const struct cuda_product *p, int rows,
                        CUstream stream, struct err *e);

#endif
