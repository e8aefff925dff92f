/* Compiled by abi.sh against NVIDIA's cublasLt.h: compare.awk's lines for gpu/abi/cublaslt.h
 * follow.
 */
#include <cublasLt.h>

/* Functions: declared again, which C takes only for the same types. */
#define GPU_ABI_CUBLASLT_H /* NVIDIA's types */
#define GPU_ABI_CUDA_H
typedef cudaStream_t CUstream;
#include "gpu/cublaslt.h"
#undef GPU_ABI_CUBLASLT_H
#define X(name, arguments, needed) cublasStatus_t CUBLASWINAPI name arguments;
GPU_CUBLASLT_LIST(X)
#undef X
size_t CUBLASWINAPI cublasLtGetVersion(void);
const char *CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t status);
