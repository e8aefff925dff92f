/* The table of handlers.h, continued: handlers of a capture. They see the same calls as the
 * recorder's and are called before those at entry. */
#ifndef INJECT_CAPTURE_HANDLERS_H
#define INJECT_CAPTURE_HANDLERS_H

#include "gpu/abi/cupti.h"

enum { /* in the manner of the other domains */
       CUPTI_CB_DOMAIN_RESOURCE_API = CUPTI_CB_DOMAIN_RESOURCE,
       CUPTI_RESOURCE_TRACE_CBID_MODULE_LOADED = CUPTI_CBID_RESOURCE_MODULE_LOADED,
       CUPTI_RESOURCE_TRACE_CBID_MODULE_UNLOAD_STARTING =
           CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
       /* Functions younger than the ids of CUDA 13.0 in gpu/abi/cupti.h. */
       CUPTI_DRIVER_TRACE_CBID_YOUNGER = CUPTI_DRIVER_TRACE_CBID_cuDriverGetGpuCodeIsaVersion + 1,
       CUPTI_DRIVER_TRACE_CBID_YOUNGEST = 1023,
};

/* clang-format off */
#define CAPTURE_HANDLER_TABLE(X) \
    X(RESOURCE, MODULE_LOADED, MODULE_UNLOAD_STARTING, capture_image) \
    X(DRIVER, cuModuleLoad, cuModuleLoadFatBinary, capture_module) \
    X(DRIVER, cuLibraryLoadData, cuLibraryLoadFromFile, capture_module) \
    X(DRIVER, cuLibraryGetKernel, cuKernelGetFunction, capture_module) \
    X(DRIVER, cuCtxDestroy, cuCtxDestroy, capture_memory) \
    X(DRIVER, cuMemFreeHost, cuMemHostAlloc, capture_memory) \
    X(DRIVER, cuMemAlloc_v2, cuMemFree_v2, capture_memory) \
    X(DRIVER, cuMemHostAlloc_v2, cuArrayCreate_v2, capture_memory) \
    X(DRIVER, cuArray3DCreate_v2, cuArray3DCreate_v2, capture_memory) \
    X(DRIVER, cuMemAllocHost_v2, cuMemAllocHost_v2, capture_memory) \
    X(DRIVER, cuMemHostRegister, cuMemHostUnregister, capture_memory) \
    X(DRIVER, cuCtxDestroy_v2, cuCtxDestroy_v2, capture_memory) \
    X(DRIVER, cuIpcOpenMemHandle, cuIpcCloseMemHandle, capture_memory) \
    X(DRIVER, cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedMipmappedArray, capture_memory) \
    X(DRIVER, cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, capture_memory) \
    X(DRIVER, cuMulticastCreate, cuMulticastCreate, capture_memory) \
    X(DRIVER, cuTexObjectCreate, cuTexObjectCreate, capture_memory) \
    X(DRIVER, cuSurfObjectCreate, cuSurfObjectCreate, capture_memory) \
    X(DRIVER, cuMipmappedArrayCreate, cuMipmappedArrayCreate, capture_memory) \
    X(DRIVER, cuMemAllocManaged, cuMemAllocManaged, capture_memory) \
    X(DRIVER, cuMemHostRegister_v2, cuMemHostRegister_v2, capture_memory) \
    X(DRIVER, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, capture_memory) \
    X(DRIVER, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset_v2, capture_memory) \
    X(DRIVER, cuMemRelease, cuMemUnmap, capture_memory) \
    X(DRIVER, cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, capture_memory) \
    X(DRIVER, cuGraphExecExternalSemaphoresSignalNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams, capture_graph) \
    X(DRIVER, cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle_v2, capture_memory) \
    X(DRIVER, cuMemAllocAsync, cuMemFreeAsync_ptsz, capture_memory) \
    X(DRIVER, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz, capture_memory) \
    X(DRIVER, cuMemPoolImportPointer, cuMemPoolImportPointer, capture_memory) \
    X(DRIVER, cuStreamBeginCapture, cuStreamEndCapture_ptsz, capture_graph) \
    X(DRIVER, cuGraphInstantiate, cuGraphInstantiate, capture_graph) \
    X(DRIVER, cuGraphExecDestroy, cuGraphExecDestroy, capture_graph) \
    X(DRIVER, cuGraphExecKernelNodeSetParams, cuStreamBeginCapture_v2_ptsz, capture_graph) \
    X(DRIVER, cuGraphExecUpdate, cuGraphExecHostNodeSetParams, capture_graph) \
    X(DRIVER, cuGraphInstantiate_v2, cuGraphInstantiate_v2, capture_graph) \
    X(DRIVER, cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams, capture_graph) \
    X(DRIVER, cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, capture_graph) \
    X(DRIVER, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, capture_graph) \
    X(DRIVER, cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, capture_graph) \
    X(DRIVER, cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz, capture_graph) \
    X(DRIVER, cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, capture_graph) \
    X(DRIVER, cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2, capture_graph) \
    X(DRIVER, cuGraphExecUpdate_v2, cuGraphExecUpdate_v2, capture_graph) \
    X(DRIVER, cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, capture_graph) \
    X(DRIVER, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, capture_graph) \
    X(DRIVER, cuCtxSynchronize, cuCtxSynchronize, capture_work) \
    X(DRIVER, cuMemcpyHtoD, cuMemcpy3DAsync, capture_work) \
    X(DRIVER, cuMemsetD8, cu64MemsetD2D32, capture_work) \
    X(DRIVER, cuLaunch, cuLaunchGridAsync, capture_work) \
    X(DRIVER, cuEventRecord, cuEventSynchronize, capture_work) \
    X(DRIVER, cuStreamQuery, cuStreamSynchronize, capture_work) \
    X(DRIVER, cuMemsetD8Async, cuMemsetD2D32Async, capture_work) \
    X(DRIVER, cuMemcpy_v2, cuMemsetD2D32_v2, capture_work) \
    X(DRIVER, cuMemcpyHtoD_v2, cuMemcpyHtoAAsync_v2, capture_work) \
    X(DRIVER, cuStreamWaitEvent, cuStreamWaitEvent, capture_work) \
    X(DRIVER, cuMemcpy, cuLaunchKernel, capture_work) \
    X(DRIVER, cuMemcpyPeer, cuMemcpy3DPeerAsync, capture_work) \
    X(DRIVER, cuStreamAddCallback, cuStreamAddCallback, capture_work) \
    X(DRIVER, cuMemcpyHtoD_v2_ptds, cuMemsetD2D32_v2_ptds, capture_work) \
    X(DRIVER, cuMemcpyAsync_ptsz, cuMemsetD2D32Async_ptsz, capture_work) \
    X(DRIVER, cuStreamWaitEvent_ptsz, cuStreamAddCallback_ptsz, capture_work) \
    X(DRIVER, cuStreamQuery_ptsz, cuLaunchKernel_ptsz, capture_work) \
    X(DRIVER, cuStreamWaitValue32, cuStreamBatchMemOp_ptsz, capture_work) \
    X(DRIVER, cuStreamWaitValue64, cuStreamWriteValue64_ptsz, capture_work) \
    X(DRIVER, cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, capture_work) \
    X(DRIVER, cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, capture_work) \
    X(DRIVER, cuGraphLaunch, cuGraphLaunch_ptsz, capture_launched) \
    X(DRIVER, cuLaunchHostFunc, cuLaunchHostFunc_ptsz, capture_work) \
    X(DRIVER, cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz, capture_work) \
    X(DRIVER, cuLaunchKernelEx, cuLaunchKernelEx_ptsz, capture_work) \
    X(DRIVER, cuStreamWaitValue32_v2, cuStreamBatchMemOp_v2_ptsz, capture_work) \
    X(DRIVER, cuMemcpyBatchAsync, cuMemcpy3DBatchAsync_ptsz, capture_work) \
    X(DRIVER, cuMemcpyBatchAsync_v2, cuCtxSynchronize_v2, capture_work) \
    X(DRIVER, cuGraphicsMapResources, cuGraphicsUnmapResources, capture_work) \
    X(DRIVER, cuGraphicsMapResources_ptsz, cuGraphicsUnmapResources_ptsz, capture_work) \
    X(DRIVER, cuSignalExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz, capture_work) \
    X(DRIVER, cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz, capture_work) \
    X(DRIVER, cuGreenCtxRecordEvent, cuGreenCtxWaitEvent, capture_work) \
    X(DRIVER, cuCtxRecordEvent, cuCtxWaitEvent, capture_work) \
    X(DRIVER, cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz, capture_work) \
    X(DRIVER, YOUNGER, YOUNGEST, capture_younger)
/* clang-format on */

#endif
