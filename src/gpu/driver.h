/* The functions of libcuda that compute: contexts, memory, streams, events, modules, launches,
 * graphs. X(name, arguments, needed); all return CUresult. What is needed has been there since CUDA
 * 12.0. Facts of devices stand in gpu/cuda.h, whose table the guest library uses too; helpers with
 * errors in words in gpu/device.h, gpu/stream.h and gpu/module.h. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <stddef.h>

#include "gpu/abi/cuda.h"

#define GPU_DRIVER_LIST(X)                                                                         \
    X(cuGetErrorName, (CUresult error, const char **text), 1)                                      \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), 1)                         \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device), 1)                                          \
    X(cuCtxSetCurrent, (CUcontext context), 1)                                                     \
    X(cuCtxSynchronize, (void), 1)                                                                 \
    X(cuMemGetInfo_v2, (size_t * free, size_t * total), 1)                                         \
    X(cuMemAlloc_v2, (CUdeviceptr * at, size_t bytes), 1)                                          \
    X(cuMemFree_v2, (CUdeviceptr at), 1)                                                           \
    X(cuMemAllocAsync, (CUdeviceptr * at, size_t bytes, CUstream stream), 1)                       \
    X(cuMemFreeAsync, (CUdeviceptr at, CUstream stream), 1)                                        \
    X(cuMemHostAlloc, (void **at, size_t bytes, unsigned int flags), 1)                            \
    X(cuMemFreeHost, (void *at), 1)                                                                \
    X(cuMemHostRegister_v2, (void *at, size_t bytes, unsigned int flags), 1)                       \
    X(cuMemHostUnregister, (void *at), 1)                                                          \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), 1)  \
    X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), 1)        \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), 1)  \
    X(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t n, CUstream stream), 1)        \
    X(cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t n, CUstream stream), 1)        \
    X(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t n, CUstream stream), 1)      \
    X(cuMemsetD2D8Async,                                                                           \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,             \
       CUstream stream),                                                                           \
      1)                                                                                           \
    X(cuMemsetD2D16Async,                                                                          \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,            \
       CUstream stream),                                                                           \
      1)                                                                                           \
    X(cuMemsetD2D32Async,                                                                          \
      (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,              \
       CUstream stream),                                                                           \
      1)                                                                                           \
    X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream), 1)                         \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void *at, unsigned int flags), 1)          \
    X(cuMemAddressReserve,                                                                         \
      (CUdeviceptr * at, size_t bytes, size_t align, CUdeviceptr want, unsigned long long flags),  \
      1)                                                                                           \
    X(cuMemAddressFree, (CUdeviceptr at, size_t bytes), 1)                                         \
    X(cuMemCreate,                                                                                 \
      (CUmemGenericAllocationHandle * out, size_t bytes, const CUmemAllocationProp *properties,    \
       unsigned long long flags),                                                                  \
      1)                                                                                           \
    X(cuMemRelease, (CUmemGenericAllocationHandle handle), 1)                                      \
    X(cuMemMap,                                                                                    \
      (CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,           \
       unsigned long long flags),                                                                  \
      1)                                                                                           \
    X(cuMemUnmap, (CUdeviceptr at, size_t bytes), 1)                                               \
    X(cuMemSetAccess, (CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n), 1)  \
    X(cuStreamCreate, (CUstream * stream, unsigned int flags), 1)                                  \
    X(cuStreamCreateWithPriority, (CUstream * stream, unsigned int flags, int priority), 1)        \
    X(cuStreamDestroy_v2, (CUstream stream), 1)                                                    \
    X(cuStreamSynchronize, (CUstream stream), 1)                                                   \
    X(cuStreamQuery, (CUstream stream), 1)                                                         \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags), 1)                  \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), 1)                     \
    X(cuStreamEndCapture, (CUstream stream, CUgraph * graph), 1)                                   \
    X(cuEventCreate, (CUevent * event, unsigned int flags), 1)                                     \
    X(cuEventRecord, (CUevent event, CUstream stream), 1)                                          \
    X(cuEventQuery, (CUevent event), 1)                                                            \
    X(cuEventSynchronize, (CUevent event), 1)                                                      \
    X(cuEventElapsedTime, (float *ms, CUevent start, CUevent end), 1)                              \
    X(cuEventDestroy_v2, (CUevent event), 1)                                                       \
    X(cuModuleLoadDataEx,                                                                          \
      (CUmodule * module, const void *image, unsigned int n, CUjit_option *options,                \
       void **values),                                                                             \
      1)                                                                                           \
    X(cuModuleUnload, (CUmodule module), 1)                                                        \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name), 1)          \
    X(cuModuleGetGlobal_v2, (CUdeviceptr * at, size_t * bytes, CUmodule module, const char *name), \
      1)                                                                                           \
    X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value), 1)     \
    X(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function), 1)    \
    X(cuLaunchKernel,                                                                              \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,         \
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,      \
       CUstream stream, void **params, void **extra),                                              \
      1)                                                                                           \
    X(cuLaunchKernelEx,                                                                            \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra), 1)         \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                 \
      (int *blocks, CUfunction function, int block, size_t shared), 1)                             \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags),   \
      1)                                                                                           \
    X(cuGraphLaunch, (CUgraphExec graph, CUstream stream), 1)                                      \
    X(cuGraphUpload, (CUgraphExec graph, CUstream stream), 1)                                      \
    X(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * n), 1)                        \
    X(cuGraphExecDestroy, (CUgraphExec graph), 1)                                                  \
    X(cuGraphDestroy, (CUgraph graph), 1)

struct gpu_driver {
#define X(name, arguments, needed) CUresult(*name) arguments;
    GPU_DRIVER_LIST(X)
#undef X
};

#endif
