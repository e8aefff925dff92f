/* Matrix products on a GPU by cuBLASLt: y[r, j] = bias[j] + sum over i of x[r, i] w[j, i], or that
 * added to y.
 *
 *     x: [rows, k]   w: [m, k], out features first, as weights are stored   y: [rows, m]
 *     2 rows m k FLOP; at least (rows k + m k + rows m) elements are moved
 *
 * A plan is one shape. cuBLASLt proposes up to GPU_MATMUL_CANDIDATES algorithms; gpu_matmul_tune
 * times them on the buffers given and keeps the best, and with a cache folder (gpu/cache.h) later
 * starts take that choice without timing: its key is the GPU, the driver's and cuBLASLt's version
 * and the shape. Without tuning the first proposal counts.
 *
 * Sums are float32, or tensor-float32 products of float32 where that is asked for. All buffers are
 * aligned to 16 bytes. One thread at a time per struct gpu_blas, one stream at a time: products
 * share its workspace. */
#ifndef GPU_MATMUL_H
#define GPU_MATMUL_H

#include "gpu/cublaslt.h"
#include "gpu/device.h"

enum gpu_matmul_type {
    GPU_MATMUL_F32,
    GPU_MATMUL_TF32, /* float32 in memory, 10 bits of mantissa in products */
    GPU_MATMUL_F16,
    GPU_MATMUL_BF16,
    GPU_MATMUL_TYPES
};
const char *gpu_matmul_type_name(enum gpu_matmul_type t); /* "bf16" */
size_t gpu_matmul_type_bytes(enum gpu_matmul_type t);

struct gpu_blas {
    const struct gpu *g; /* borrowed */
    struct gpu_cublaslt lt;
    cublasLtHandle_t handle;
    CUdeviceptr workspace;
    size_t workspace_bytes;
    const char *cache;         /* folder or NULL */
    int64_t tuned, from_cache; /* plans so far */
    struct arena *arena;
};

enum { GPU_MATMUL_CANDIDATES = 16 };
static const size_t gpu_matmul_workspace_bytes = 32 << 20; /* what NVIDIA advises for Hopper */

/* ST_DEVICE: no cuBLASLt, no memory for the workspace. */
enum st gpu_blas_open(const struct gpu *g, const char *cache, struct gpu_blas *out, struct err *e);
void gpu_blas_close(struct gpu_blas *b); /* zeroed is fine */

struct gpu_matmul_shape {
    int64_t rows, m, k;
    enum gpu_matmul_type type;
    bool bias;    /* of the same type as y */
    bool f32_out; /* y is float32 whatever the type: logits */
    bool add;     /* y += */
};

struct gpu_matmul {
    struct gpu_matmul_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulHeuristicResult_t candidates[GPU_MATMUL_CANDIDATES];
    int n;       /* of them */
    int best;    /* the one that runs */
    bool chosen; /* by time, now or in an earlier start */
};

enum st gpu_matmul_open(struct gpu_blas *b, const struct gpu_matmul_shape *s,
                        struct gpu_matmul *out, struct err *e);
void gpu_matmul_close(struct gpu_blas *b, struct gpu_matmul *m);

/* bias: 0 unless the shape has one. */
struct gpu_matmul_buffers {
    CUdeviceptr w, x, y, bias;
};
enum st gpu_matmul_run(struct gpu_blas *b, const struct gpu_matmul *m,
                       const struct gpu_matmul_buffers *at, CUstream stream, struct err *e);
/* With another number of rows, of which the buffers have room: by the plan's choice, or where
 * cuBLASLt does not take that, by its own first proposal for them. */
enum st gpu_matmul_run_rows(struct gpu_blas *b, const struct gpu_matmul *m, int64_t rows,
                            const struct gpu_matmul_buffers *at, CUstream stream, struct err *e);

/* How a choice is made: the first candidates that are proposed, the least time of some rounds of a
 * few products in a row. Copies of w, every `stride` bytes, are taken in turn: the weights of other
 * layers, so that they are not in the cache. */
struct gpu_matmul_search {
    int candidates, rounds, repeats;
    int64_t copies; /* 0 = w alone */
    size_t stride;
};
/* Overwrites y; waits for the stream. Does nothing where the choice was in the cache. how NULL: as
 * thoroughly as a measurement wants it. */
enum st gpu_matmul_tune(struct gpu_blas *b, struct gpu_matmul *m,
                        const struct gpu_matmul_buffers *at, const struct gpu_matmul_search *how,
                        CUstream stream, struct err *e);

#endif
