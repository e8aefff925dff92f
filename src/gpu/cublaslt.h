/* cuBLASLt: X(name, arguments, needed), all returning cublasStatus_t, except the two that return a
 * version and a text. */
#ifndef GPU_CUBLASLT_H
#define GPU_CUBLASLT_H

#include "gpu/abi/cublaslt.h"
#include "gpu/abi/cuda.h"

#define GPU_CUBLASLT_LIST(X)                                                                      \
    X(cublasLtCreate, (cublasLtHandle_t * handle), 1)                                             \
    X(cublasLtDestroy, (cublasLtHandle_t handle), 1)                                              \
    X(cublasLtMatmulDescCreate,                                                                   \
      (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType scale), 1)          \
    X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc), 1)                                  \
    X(cublasLtMatmulDescSetAttribute,                                                             \
      (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value,    \
       size_t bytes),                                                                             \
      1)                                                                                          \
    X(cublasLtMatrixLayoutCreate,                                                                 \
      (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t cols,          \
       int64_t ld),                                                                               \
      1)                                                                                          \
    X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), 1)                            \
    X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference), 1)               \
    X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), 1)                \
    X(cublasLtMatmulPreferenceSetAttribute,                                                       \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,     \
       const void *value, size_t bytes),                                                          \
      1)                                                                                          \
    X(cublasLtMatmulAlgoGetHeuristic,                                                             \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,              \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,              \
       cublasLtMatmulPreference_t preference, int want, cublasLtMatmulHeuristicResult_t *results, \
       int *n),                                                                                   \
      1)                                                                                          \
    X(cublasLtMatmulAlgoCheck,                                                                    \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,              \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,              \
       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result),                \
      1)                                                                                          \
    X(cublasLtMatmul,                                                                             \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,      \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,           \
       const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,                 \
       cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,        \
       size_t workspace_bytes, CUstream stream),                                                  \
      1)

struct gpu_cublaslt {
#define X(name, arguments, needed) cublasStatus_t(*name) arguments;
    GPU_CUBLASLT_LIST(X)
#undef X
    size_t (*cublasLtGetVersion)(void);
    const char *(*cublasLtGetStatusString)(cublasStatus_t status);
    const char *path; /* of the library */
    size_t version;   /* 130000 = 13.0.0 */
};

#define GPU_CUBLASLT_NAMES                       \
    {                                            \
        "libcublasLt.so.13", "libcublasLt.so.12" \
    }

#endif
