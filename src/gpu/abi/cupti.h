/* The parts of CUPTI's binary interface that the guest library uses: types, values and the layout
 * of its records, on 64-bit Linux. Names are CUPTI's own, so that its manual explains them; nothing
 * of NVIDIA's is needed to build. The functions stand in gpu/cupti_list.h. Where NVIDIA's headers
 * are found, tests/abi compares every line of this file with them.
 *
 * Records. Each CUPTI release appends fields to its records and never moves one, so each struct
 * below is the newest layout, and a field is read only where the release has it. cuptiGetVersion
 * identifies the release:
 *
 *   API version     13    14    15-16      17    18    19-25      26-28      130000  130200
 *   CUDA            11.0  11.1  11.2-11.5  11.6  11.8  12.0-12.6  12.8-12.9  13.0    13.2
 *   kernel          5     5     6          7     8     9          9          10      11
 *   copy            3     4     4          5     5     5          6          6       6
 *   copy of peers   2     3     3          4     4     4          4          4       4
 *   set             2     3     3          4     4     4          4          4       4
 *   synchronization 1     1     1          1     1     1          2          2       2
 *
 * Version 13 has no graphId; its place is padding. */
#ifndef GPU_ABI_CUPTI_H
#define GPU_ABI_CUPTI_H

#include <stddef.h>
#include <stdint.h>

#define CUPTIAPI /* a calling convention, of Windows only */

typedef struct CUctx_st *CUcontext;
typedef struct CUpti_Subscriber_st *CUpti_SubscriberHandle;
typedef uint32_t CUpti_CallbackId;

typedef enum {
    CUPTI_SUCCESS = 0,
    CUPTI_ERROR_INVALID_PARAMETER = 1,
    CUPTI_ERROR_MAX_LIMIT_REACHED = 12, /* no further record in the buffer */
    CUPTI_ERROR_INVALID_KIND = 21,
    CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
} CUptiResult;

/* ---- callbacks ---- */

typedef enum {
    CUPTI_CB_DOMAIN_DRIVER_API = 1,
    CUPTI_CB_DOMAIN_RUNTIME_API = 2,
    CUPTI_CB_DOMAIN_RESOURCE = 3,
} CUpti_CallbackDomain;

typedef enum {
    CUPTI_API_ENTER = 0,
    CUPTI_API_EXIT = 1,
} CUpti_ApiCallbackSite;

typedef struct {
    CUpti_ApiCallbackSite callbackSite;
    const char *functionName;
    const void *functionParams;
    void *functionReturnValue;
    const char *symbolName;
    CUcontext context;
    uint32_t contextUid;
    uint64_t *correlationData; /* one word that lives from enter to exit */
    uint32_t correlationId;
} CUpti_CallbackData;

/* Of CUPTI_CB_DOMAIN_RESOURCE. */
typedef enum {
    CUPTI_CBID_RESOURCE_MODULE_LOADED = 6,
    CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING = 7,
} CUpti_CallbackIdResource;

typedef struct {
    CUcontext context;
    void *resourceHandle;
    void *resourceDescriptor;
} CUpti_ResourceData;

typedef struct {
    uint32_t moduleId;
    size_t cubinSize;
    const char *pCubin;
} CUpti_ModuleResourceData;

typedef void (*CUpti_CallbackFunc)(void *userdata, CUpti_CallbackDomain domain,
                                   CUpti_CallbackId cbid, const void *cbdata);

/* Callback ids, numbered per domain; a number is never given to another function. */
enum {
    CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy = 11,
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize = 17,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoad = 18,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData = 19,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx = 20,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary = 21,
    CUPTI_DRIVER_TRACE_CBID_cuModuleUnload = 22,
    CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost = 38,
    CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc = 39,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD = 43,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync = 69,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8 = 71,
    CUPTI_DRIVER_TRACE_CBID_cu64MemsetD2D32 = 82,
    CUPTI_DRIVER_TRACE_CBID_cuLaunch = 115,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid = 116,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync = 117,
    CUPTI_DRIVER_TRACE_CBID_cuEventRecord = 119,
    CUPTI_DRIVER_TRACE_CBID_cuEventQuery = 120,
    CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize = 121,
    CUPTI_DRIVER_TRACE_CBID_cuStreamQuery = 125,
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize = 126,
    CUPTI_DRIVER_TRACE_CBID_cuGraphicsMapResources = 133,
    CUPTI_DRIVER_TRACE_CBID_cuGraphicsUnmapResources = 134,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async = 216,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async = 218,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async = 220,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async = 222,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async = 224,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async = 226,
    CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2 = 243,
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocPitch_v2 = 244,
    CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2 = 245,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy_v2 = 248,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2 = 249,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16_v2 = 250,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2 = 251,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8_v2 = 252,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16_v2 = 253,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2 = 254,
    CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc_v2 = 271,
    CUPTI_DRIVER_TRACE_CBID_cuArrayCreate_v2 = 272,
    CUPTI_DRIVER_TRACE_CBID_cuArray3DCreate_v2 = 274,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2 = 276,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2 = 277,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2 = 278,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2 = 279,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2 = 280,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2 = 281,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2 = 287,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2 = 288,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2 = 289,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2 = 290,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2 = 291,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2 = 293,
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2 = 294,
    CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent = 295,
    CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister = 301,
    CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister = 302,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy = 305,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync = 306,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel = 307,
    CUPTI_DRIVER_TRACE_CBID_cuProfilerStart = 308,
    CUPTI_DRIVER_TRACE_CBID_cuProfilerStop = 309,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer = 318,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync = 319,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeerAsync = 321,
    CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2 = 322,
    CUPTI_DRIVER_TRACE_CBID_cuIpcOpenMemHandle = 329,
    CUPTI_DRIVER_TRACE_CBID_cuIpcCloseMemHandle = 330,
    CUPTI_DRIVER_TRACE_CBID_cuTexObjectCreate = 339,
    CUPTI_DRIVER_TRACE_CBID_cuSurfObjectCreate = 343,
    CUPTI_DRIVER_TRACE_CBID_cuStreamAddCallback = 346,
    CUPTI_DRIVER_TRACE_CBID_cuMipmappedArrayCreate = 347,
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged = 371,
    CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2 = 379,
    CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset = 389,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds = 397,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds = 398,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2_ptds = 399,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2_ptds = 405,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2_ptds = 406,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2_ptds = 407,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds = 408,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2_ptds = 411,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16_v2_ptds = 412,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2_ptds = 413,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8_v2_ptds = 414,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16_v2_ptds = 415,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2_ptds = 416,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz = 418,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz = 421,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz = 422,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz = 423,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2_ptsz = 424,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2_ptsz = 425,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz = 428,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async_ptsz = 429,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz = 430,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async_ptsz = 431,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async_ptsz = 432,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async_ptsz = 433,
    CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz = 436,
    CUPTI_DRIVER_TRACE_CBID_cuStreamAddCallback_ptsz = 437,
    CUPTI_DRIVER_TRACE_CBID_cuStreamQuery_ptsz = 439,
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz = 440,
    CUPTI_DRIVER_TRACE_CBID_cuEventRecord_ptsz = 441,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz = 442,
    CUPTI_DRIVER_TRACE_CBID_cuGraphicsMapResources_ptsz = 443,
    CUPTI_DRIVER_TRACE_CBID_cuGraphicsUnmapResources_ptsz = 444,
    CUPTI_DRIVER_TRACE_CBID_cuStreamWaitValue32 = 458,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBatchMemOp_ptsz = 463,
    CUPTI_DRIVER_TRACE_CBID_cuStreamWaitValue64 = 473,
    CUPTI_DRIVER_TRACE_CBID_cuStreamWriteValue64_ptsz = 476,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel = 477,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz = 478,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice = 480,
    CUPTI_DRIVER_TRACE_CBID_cuExternalMemoryGetMappedBuffer = 486,
    CUPTI_DRIVER_TRACE_CBID_cuExternalMemoryGetMappedMipmappedArray = 487,
    CUPTI_DRIVER_TRACE_CBID_cuSignalExternalSemaphoresAsync = 490,
    CUPTI_DRIVER_TRACE_CBID_cuWaitExternalSemaphoresAsync_ptsz = 493,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture = 495,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz = 496,
    CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture = 497,
    CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz = 498,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate = 513,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch = 514,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz = 515,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy = 516,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc = 527,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc_ptsz = 528,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams = 538,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2 = 539,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz = 540,
    CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2 = 545,
    CUPTI_DRIVER_TRACE_CBID_cuMemRelease = 550,
    CUPTI_DRIVER_TRACE_CBID_cuMemMap = 551,
    CUPTI_DRIVER_TRACE_CBID_cuMemUnmap = 552,
    CUPTI_DRIVER_TRACE_CBID_cuMemImportFromShareableHandle = 555,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate = 561,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemcpyNodeSetParams = 562,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecHostNodeSetParams = 564,
    CUPTI_DRIVER_TRACE_CBID_cuMemRetainAllocationHandle = 565,
    CUPTI_DRIVER_TRACE_CBID_cuIpcOpenMemHandle_v2 = 567,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2 = 578,
    CUPTI_DRIVER_TRACE_CBID_cuMemMapArrayAsync = 584,
    CUPTI_DRIVER_TRACE_CBID_cuMemMapArrayAsync_ptsz = 585,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams = 586,
    CUPTI_DRIVER_TRACE_CBID_cuEventRecordWithFlags = 587,
    CUPTI_DRIVER_TRACE_CBID_cuEventRecordWithFlags_ptsz = 588,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventRecordNodeSetEvent = 595,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventWaitNodeSetEvent = 596,
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync = 598,
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz = 599,
    CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync = 600,
    CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync_ptsz = 601,
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync = 611,
    CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz = 612,
    CUPTI_DRIVER_TRACE_CBID_cuMemPoolImportPointer = 616,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecExternalSemaphoresSignalNodeSetParams = 624,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecExternalSemaphoresWaitNodeSetParams = 625,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags = 643,
    CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled = 650,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx = 652,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz = 653,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams = 656,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz = 657,
    CUPTI_DRIVER_TRACE_CBID_cuStreamWaitValue32_v2 = 659,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBatchMemOp_v2_ptsz = 668,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecBatchMemOpNodeSetParams = 672,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData = 678,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadFromFile = 679,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryUnload = 680,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryGetKernel = 681,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryGetModule = 682,
    CUPTI_DRIVER_TRACE_CBID_cuKernelGetFunction = 683,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2 = 692,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2 = 696,
    CUPTI_DRIVER_TRACE_CBID_cuMulticastCreate = 706,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams = 714,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph = 720,
    CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz = 721,
    CUPTI_DRIVER_TRACE_CBID_cuGreenCtxRecordEvent = 749,
    CUPTI_DRIVER_TRACE_CBID_cuGreenCtxWaitEvent = 750,
    CUPTI_DRIVER_TRACE_CBID_cuCtxRecordEvent = 755,
    CUPTI_DRIVER_TRACE_CBID_cuCtxWaitEvent = 756,
    CUPTI_DRIVER_TRACE_CBID_cuMemBatchDecompressAsync = 761,
    CUPTI_DRIVER_TRACE_CBID_cuMemBatchDecompressAsync_ptsz = 762,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync = 776,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_ptsz = 779,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_v2 = 796,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_v2_ptsz = 799,
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2 = 800,
    CUPTI_DRIVER_TRACE_CBID_cuDriverGetGpuCodeIsaVersion = 806,
};
enum {
    CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000 = 171,
    CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000 = 172,
};

/* ---- activity ---- */

typedef enum {
    CUPTI_ACTIVITY_KIND_INVALID = 0,
    CUPTI_ACTIVITY_KIND_MEMCPY = 1,
    CUPTI_ACTIVITY_KIND_MEMSET = 2,
    CUPTI_ACTIVITY_KIND_KERNEL = 3, /* serialized; the same record as CONCURRENT_KERNEL */
    CUPTI_ACTIVITY_KIND_DRIVER = 4,
    CUPTI_ACTIVITY_KIND_RUNTIME = 5,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_ACTIVITY_KIND_MEMCPY2 = 22, /* between devices */
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 38,
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE = 51, /* a whole graph launch */
} CUpti_ActivityKind;

typedef enum {
    CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1,
} CUpti_ActivityFlag;

typedef enum {
    CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM = 1, /* gettid's */
} CUpti_ActivityThreadIdType;

typedef enum {
    CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE = 3,
} CUpti_ActivitySynchronizationType;

typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size,
                                                 size_t *maxNumRecords);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext context, uint32_t streamId,
                                                  uint8_t *buffer, size_t size, size_t validSize);
typedef uint64_t (*CUpti_TimestampCallbackFunc)(void);

/* What every record begins with; records are aligned to 8 bytes. Times are ns of the clock that
 * cuptiActivityRegisterTimestampCallback set, or of CUPTI's own; 0 = not known. */
typedef struct {
    _Alignas(8) CUpti_ActivityKind kind;
} CUpti_Activity;

typedef struct {
    CUpti_ActivityKind kind;
    union {
        uint8_t both;
        struct {
            uint8_t requested : 4;
            uint8_t executed : 4;
        } config;
    } cacheConfig;
    uint8_t sharedMemoryConfig;
    uint16_t registersPerThread;
    uint32_t partitionedGlobalCacheRequested;
    uint32_t partitionedGlobalCacheExecuted;
    uint64_t start;
    uint64_t end;
    uint64_t completed;
    uint32_t deviceId;
    uint32_t contextId;
    uint32_t streamId;
    int32_t gridX;
    int32_t gridY;
    int32_t gridZ;
    int32_t blockX;
    int32_t blockY;
    int32_t blockZ;
    int32_t staticSharedMemory;
    int32_t dynamicSharedMemory;
    uint32_t localMemoryPerThread;
    uint32_t localMemoryTotal;
    uint32_t correlationId;
    int64_t gridId;
    const char *name; /* mangled; lives as long as its module */
    void *reserved0;
    uint64_t queued;
    uint64_t submitted;
    uint8_t launchType;
    uint8_t isSharedMemoryCarveoutRequested;
    uint8_t sharedMemoryCarveoutRequested;
    uint8_t padding;
    uint32_t sharedMemoryExecuted;
    uint64_t graphNodeId;
    uint32_t shmemLimitConfig;
    uint32_t graphId;          /* kernel 5 ends here */
    void *pAccessPolicyWindow; /* 6 ends here */
    uint32_t channelID;
    uint32_t channelType; /* 7 ends here */
    uint32_t clusterX;
    uint32_t clusterY;
    uint32_t clusterZ;
    uint32_t clusterSchedulingPolicy;
    uint64_t localMemoryTotal_v2; /* 8 ends here */
    uint32_t maxPotentialClusterSize;
    uint32_t maxActiveClusters; /* 9 ends here */
    uint8_t isDeviceLaunched;
    uint8_t padding3[7];
} CUpti_ActivityKernel10;

typedef struct {
    CUpti_ActivityKind kind;
    uint8_t copyKind;
    uint8_t srcKind;
    uint8_t dstKind;
    uint8_t flags;
    uint64_t bytes;
    uint64_t start;
    uint64_t end;
    uint32_t deviceId;
    uint32_t contextId;
    uint32_t streamId;
    uint32_t correlationId;
    uint32_t runtimeCorrelationId;
    uint32_t pad;
    void *reserved0;
    uint64_t graphNodeId; /* copy 3 ends here */
    uint32_t graphId;
    uint32_t channelID; /* 4 ends here, with padding in this field's place */
    uint32_t channelType;
    uint8_t isDeviceLaunched;
    uint8_t pad2[3]; /* 5 ends here */
    uint64_t copyCount;
} CUpti_ActivityMemcpy6;

typedef struct {
    CUpti_ActivityKind kind;
    uint8_t copyKind;
    uint8_t srcKind;
    uint8_t dstKind;
    uint8_t flags;
    uint64_t bytes;
    uint64_t start;
    uint64_t end;
    uint32_t deviceId;
    uint32_t contextId;
    uint32_t streamId;
    uint32_t srcDeviceId;
    uint32_t srcContextId;
    uint32_t dstDeviceId;
    uint32_t dstContextId;
    uint32_t correlationId;
    void *reserved0;
    uint64_t graphNodeId; /* 2 ends here */
    uint32_t graphId;
    uint32_t channelID; /* 3 ends here, with padding in this field's place */
    uint32_t channelType;
} CUpti_ActivityMemcpyPtoP4;

typedef struct {
    CUpti_ActivityKind kind;
    uint32_t value;
    uint64_t bytes;
    uint64_t start;
    uint64_t end;
    uint32_t deviceId;
    uint32_t contextId;
    uint32_t streamId;
    uint32_t correlationId;
    uint16_t flags;
    uint16_t memoryKind;
    uint32_t pad;
    void *reserved0;
    uint64_t graphNodeId; /* set 2 ends here */
    uint32_t graphId;
    uint32_t channelID; /* 3 ends here, with padding in this field's place */
    uint32_t channelType;
    uint8_t isDeviceLaunched;
    uint8_t pad2[3];
} CUpti_ActivityMemset4;

typedef struct {
    CUpti_ActivityKind kind;
    CUpti_ActivitySynchronizationType type;
    uint64_t start;
    uint64_t end;
    uint32_t correlationId;
    uint32_t contextId;
    uint32_t streamId;
    uint32_t cudaEventId; /* 1 ends here */
    uint64_t cudaEventSyncId;
    uint32_t returnValue;
    uint32_t pad;
} CUpti_ActivitySynchronization2;

typedef struct {
    CUpti_ActivityKind kind;
    uint32_t correlationId;
    uint64_t start;
    uint64_t end;
    uint32_t deviceId;
    uint32_t graphId;
    uint32_t contextId;
    uint32_t streamId;
    void *reserved; /* 1 ends here */
    uint32_t endDeviceId;
    uint32_t endContextId;
} CUpti_ActivityGraphTrace2;

typedef struct {
    CUpti_ActivityKind kind;
    CUpti_CallbackId cbid;
    uint64_t start;
    uint64_t end;
    uint32_t processId;
    uint32_t threadId;
    uint32_t correlationId;
    uint32_t returnValue;
} CUpti_ActivityAPI;

#endif
