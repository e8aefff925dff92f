/* The functions that a tool sees: their bodies here are named fake_..., the exported ones in
 * observe.c call back around them. The compiler's command line includes this in the other files. */
#ifndef FAKE_GPU_OBSERVED_H
#define FAKE_GPU_OBSERVED_H

#define cuInit                      fake_cuInit
#define cuMemAlloc_v2               fake_cuMemAlloc_v2
#define cuMemFree_v2                fake_cuMemFree_v2
#define cuMemAllocAsync             fake_cuMemAllocAsync
#define cuMemFreeAsync              fake_cuMemFreeAsync
#define cuMemHostAlloc              fake_cuMemHostAlloc
#define cuMemFreeHost               fake_cuMemFreeHost
#define cuMemHostRegister_v2        fake_cuMemHostRegister_v2
#define cuMemHostUnregister         fake_cuMemHostUnregister
#define cuMemMap                    fake_cuMemMap
#define cuMemUnmap                  fake_cuMemUnmap
#define cuModuleLoadDataEx          fake_cuModuleLoadDataEx
#define cuModuleUnload              fake_cuModuleUnload
#define cuLaunchKernel              fake_cuLaunchKernel
#define cuLaunchKernelEx            fake_cuLaunchKernelEx
#define cuMemcpyHtoDAsync_v2        fake_cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync_v2        fake_cuMemcpyDtoHAsync_v2
#define cuMemcpyDtoDAsync_v2        fake_cuMemcpyDtoDAsync_v2
#define cuMemcpy2DAsync_v2          fake_cuMemcpy2DAsync_v2
#define cuMemsetD8Async             fake_cuMemsetD8Async
#define cuMemsetD32Async            fake_cuMemsetD32Async
#define cuStreamSynchronize         fake_cuStreamSynchronize
#define cuStreamWaitEvent           fake_cuStreamWaitEvent
#define cuEventRecord               fake_cuEventRecord
#define cuEventSynchronize          fake_cuEventSynchronize
#define cuCtxSynchronize            fake_cuCtxSynchronize
#define cuStreamBeginCapture_v2     fake_cuStreamBeginCapture_v2
#define cuStreamEndCapture          fake_cuStreamEndCapture
#define cuGraphInstantiateWithFlags fake_cuGraphInstantiateWithFlags
#define cuGraphLaunch               fake_cuGraphLaunch
#define cuGraphExecDestroy          fake_cuGraphExecDestroy

#endif
