/* The calls inside a region that a capture keeps, for capture_work.c. Calls that are in
 * capture_handlers.h and not here are refused by their names; tests/inject/calls_test.c holds both
 * to the list of all functions of the driver. */
#ifndef INJECT_CAPTURE_ROWS_H
#define INJECT_CAPTURE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/abi/cupti.h"

enum what {
    LAUNCH,
    LAUNCH_COOPERATIVE,
    LAUNCH_EX,
    GRAPH,
    COPY,
    COPY_2D,
    COPY_3D,
    SET,
    SET_2D,
    RECORD,
    WAIT,
    WAITED_STREAM, /* the program waited for it, or found it done */
    WAITED_EVENT,
    WAITED_ALL,
    HOST_FUNCTION, /* gives the GPU nothing to do */
};

/* A call: what it is; the unit of a set; the argument that is the stream (-1: stream 0; a launch's
 * stands in its struct); whether the program waits inside; variants with the thread's own stream 0.
 */
#define ID(name) CUPTI_DRIVER_TRACE_CBID_##name
static const struct capture_row {
    uint16_t id, id_per_thread;
    uint8_t what, unit;
    int8_t stream;
    bool waits;
} rows[] = {
    {ID(cuLaunchKernel), ID(cuLaunchKernel_ptsz), LAUNCH, 0, -1, false},
    {ID(cuLaunchKernelEx), ID(cuLaunchKernelEx_ptsz), LAUNCH_EX, 0, -1, false},
    {ID(cuGraphLaunch), ID(cuGraphLaunch_ptsz), GRAPH, 0, 1, false},
    {ID(cuMemsetD8Async), ID(cuMemsetD8Async_ptsz), SET, 1, 3, false},
    {ID(cuMemcpyDtoDAsync_v2), ID(cuMemcpyDtoDAsync_v2_ptsz), COPY, 0, 3, false},
    {ID(cuMemcpyHtoDAsync_v2), ID(cuMemcpyHtoDAsync_v2_ptsz), COPY, 0, 3, false},
    {ID(cuMemcpyDtoHAsync_v2), ID(cuMemcpyDtoHAsync_v2_ptsz), COPY, 0, 3, false},
    {ID(cuMemcpyAsync), ID(cuMemcpyAsync_ptsz), COPY, 0, 3, false},
    {ID(cuMemcpyHtoD_v2), ID(cuMemcpyHtoD_v2_ptds), COPY, 0, -1, true},
    {ID(cuMemcpyDtoH_v2), ID(cuMemcpyDtoH_v2_ptds), COPY, 0, -1, true},
    {ID(cuMemcpyDtoD_v2), ID(cuMemcpyDtoD_v2_ptds), COPY, 0, -1, false},
    {ID(cuMemcpy), ID(cuMemcpy_ptds), COPY, 0, -1, true},
    {ID(cuMemcpy2D_v2), ID(cuMemcpy2D_v2_ptds), COPY_2D, 0, -1, true},
    {ID(cuMemcpy2DUnaligned_v2), ID(cuMemcpy2DUnaligned_v2_ptds), COPY_2D, 0, -1, true},
    {ID(cuMemcpy2DAsync_v2), ID(cuMemcpy2DAsync_v2_ptsz), COPY_2D, 0, 1, false},
    {ID(cuMemcpy3D_v2), ID(cuMemcpy3D_v2_ptds), COPY_3D, 0, -1, true},
    {ID(cuMemcpy3DAsync_v2), ID(cuMemcpy3DAsync_v2_ptsz), COPY_3D, 0, 1, false},
    {ID(cuMemsetD16Async), ID(cuMemsetD16Async_ptsz), SET, 2, 3, false},
    {ID(cuMemsetD32Async), ID(cuMemsetD32Async_ptsz), SET, 4, 3, false},
    {ID(cuMemsetD8_v2), ID(cuMemsetD8_v2_ptds), SET, 1, -1, false},
    {ID(cuMemsetD16_v2), ID(cuMemsetD16_v2_ptds), SET, 2, -1, false},
    {ID(cuMemsetD32_v2), ID(cuMemsetD32_v2_ptds), SET, 4, -1, false},
    {ID(cuMemsetD2D8Async), ID(cuMemsetD2D8Async_ptsz), SET_2D, 1, 5, false},
    {ID(cuMemsetD2D16Async), ID(cuMemsetD2D16Async_ptsz), SET_2D, 2, 5, false},
    {ID(cuMemsetD2D32Async), ID(cuMemsetD2D32Async_ptsz), SET_2D, 4, 5, false},
    {ID(cuMemsetD2D8_v2), ID(cuMemsetD2D8_v2_ptds), SET_2D, 1, -1, false},
    {ID(cuMemsetD2D16_v2), ID(cuMemsetD2D16_v2_ptds), SET_2D, 2, -1, false},
    {ID(cuMemsetD2D32_v2), ID(cuMemsetD2D32_v2_ptds), SET_2D, 4, -1, false},
    {ID(cuLaunchCooperativeKernel), ID(cuLaunchCooperativeKernel_ptsz), LAUNCH_COOPERATIVE, 0, -1,
     false},
    {ID(cuEventRecord), ID(cuEventRecord_ptsz), RECORD, 0, 1, false},
    {ID(cuEventRecordWithFlags), ID(cuEventRecordWithFlags_ptsz), RECORD, 0, 1, false},
    {ID(cuStreamWaitEvent), ID(cuStreamWaitEvent_ptsz), WAIT, 0, 0, false},
    {ID(cuStreamSynchronize), ID(cuStreamSynchronize_ptsz), WAITED_STREAM, 0, 0, false},
    {ID(cuStreamQuery), ID(cuStreamQuery_ptsz), WAITED_STREAM, 0, 0, false},
    {ID(cuEventSynchronize), 0, WAITED_EVENT, 0, -1, false},
    {ID(cuEventQuery), 0, WAITED_EVENT, 0, -1, false},
    {ID(cuLaunchHostFunc), ID(cuLaunchHostFunc_ptsz), HOST_FUNCTION, 0, 0, false},
    {ID(cuStreamAddCallback), ID(cuStreamAddCallback_ptsz), HOST_FUNCTION, 0, 0, false},
    {ID(cuCtxSynchronize), ID(cuCtxSynchronize_v2), WAITED_ALL, 0, -1, false},
};
#undef ID

#endif
