/* Compiled by abi.sh against NVIDIA's cuda.h: compare.awk's lines for gpu/abi/cuda.h follow. */
#include <cuda.h>

/* The small types with which gpu/cuda.h declares the driver's functions. */
#define SIZE(type, other) _Static_assert(sizeof(type) == sizeof(other), "size of " #type)
SIZE(CUresult, int);
SIZE(CUdevice, int);
SIZE(CUdeviceptr, unsigned long long);
SIZE(CUuuid, unsigned char[16]);
SIZE(CUfunction, void *);
SIZE(CUkernel, void *);
SIZE(CUgraphExec, void *);
SIZE(CUstream, void *);

/* Functions that compute: declared again, which C takes only for the same types. */
#define GPU_ABI_CUDA_H /* NVIDIA's types */
#include "gpu/driver.h"
#undef GPU_ABI_CUDA_H
#define X(name, arguments, needed) CUresult CUDAAPI name arguments;
GPU_DRIVER_LIST(X)
#undef X
