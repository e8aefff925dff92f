/* The functions of libcuda with which the guest library captures a region: what a program's
 * functions, streams, graphs and memory are. X(name, arguments, needed); all return CUresult.
 * `needed` is whether a capture is possible without it. */
#ifndef GPU_CAPTURE_LIST_H
#define GPU_CAPTURE_LIST_H

#include "gpu/abi/cuda.h"

#define GPU_CAPTURE_LIST(X)                                                                        \
    X(cuCtxGetCurrent, (CUcontext * context), 1)                                                   \
    X(cuCtxPushCurrent_v2, (CUcontext context), 1)                                                 \
    X(cuCtxPopCurrent_v2, (CUcontext * context), 1)                                                \
    X(cuCtxGetDevice, (CUdevice * device), 1)                                                      \
    X(cuCtxSynchronize, (void), 1)                                                                 \
    X(cuMemHostAlloc, (void **at, size_t bytes, unsigned int flags), 1)                            \
    X(cuMemFreeHost, (void *at), 1)                                                                \
    X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), 1)                              \
    X(cuPointerGetAttribute, (void *value, CUpointer_attribute attribute, CUdeviceptr at), 1)      \
    X(cuFuncGetName, (const char **name, CUfunction function), 1)                                  \
    X(cuFuncGetModule, (CUmodule * module, CUfunction function), 1)                                \
    X(cuFuncGetParamInfo, (CUfunction function, size_t i, size_t * offset, size_t * bytes), 1)     \
    X(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function), 1)    \
    X(cuKernelGetFunction, (CUfunction * function, CUkernel kernel), 1)                            \
    X(cuKernelGetLibrary, (CUlibrary * library, CUkernel kernel), 0) /* 12.5 */                    \
    X(cuModuleGetGlobal_v2, (CUdeviceptr * at, size_t * bytes, CUmodule module, const char *name), \
      1)                                                                                           \
    X(cuStreamGetFlags, (CUstream stream, unsigned int *flags), 1)                                 \
    X(cuStreamGetPriority, (CUstream stream, int *priority), 1)                                    \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status), 1)                   \
    X(cuStreamSynchronize, (CUstream stream), 1)                                                   \
    X(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * n), 1)                        \
    X(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType * type), 1)                           \
    X(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS * params), 1)      \
    X(cuGraphKernelNodeGetAttribute,                                                               \
      (CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue * value), 1)               \
    X(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D * params), 1)                   \
    X(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS * params), 1)         \
    X(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph * graph), 1)                       \
    X(cuGraphNodeGetDependencies_v2,                                                               \
      (CUgraphNode node, CUgraphNode * nodes, CUgraphEdgeData * edges, size_t * n), 1)

#endif
