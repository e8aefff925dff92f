#include "trace/launch_names.h"

#include <stddef.h>

#include "gpu/abi/cupti.h"

/* Forms for the per-thread default stream
 * (_ptds, _ptsz) and versions go by one name. */
#define ID(function) CUPTI_DRIVER_TRACE_CBID_##function
static const struct {
    uint16_t cbid;
    const char *name;
} known[] = {
    {ID(cuLaunch), "cuLaunch"},
    {ID(cuLaunchGrid), "cuLaunchGrid"},
    {ID(cuLaunchGridAsync), "cuLaunchGridAsync"},
    {ID(cuMemcpy_v2), "cuMemcpy"},
    {ID(cuMemsetD8_v2), "cuMemsetD8"},
    {ID(cuMemsetD16_v2), "cuMemsetD16"},
    {ID(cuMemsetD32_v2), "cuMemsetD32"},
    {ID(cuMemsetD8Async), "cuMemsetD8Async"},
    {ID(cuMemsetD16Async), "cuMemsetD16Async"},
    {ID(cuMemsetD32Async), "cuMemsetD32Async"},
    {ID(cuMemcpyHtoD_v2), "cuMemcpyHtoD"},
    {ID(cuMemcpyHtoDAsync_v2), "cuMemcpyHtoDAsync"},
    {ID(cuMemcpyDtoH_v2), "cuMemcpyDtoH"},
    {ID(cuMemcpyDtoHAsync_v2), "cuMemcpyDtoHAsync"},
    {ID(cuMemcpyDtoD_v2), "cuMemcpyDtoD"},
    {ID(cuMemcpyDtoDAsync_v2), "cuMemcpyDtoDAsync"},
    {ID(cuMemcpy2D_v2), "cuMemcpy2D"},
    {ID(cuMemcpy2DUnaligned_v2), "cuMemcpy2DUnaligned"},
    {ID(cuMemcpy2DAsync_v2), "cuMemcpy2DAsync"},
    {ID(cuMemcpy3D_v2), "cuMemcpy3D"},
    {ID(cuMemcpy3DAsync_v2), "cuMemcpy3DAsync"},
    {ID(cuMemcpy), "cuMemcpy"},
    {ID(cuMemcpyAsync), "cuMemcpyAsync"},
    {ID(cuLaunchKernel), "cuLaunchKernel"},
    {ID(cuMemcpyPeer), "cuMemcpyPeer"},
    {ID(cuMemcpyPeerAsync), "cuMemcpyPeerAsync"},
    {ID(cuMemcpyHtoD_v2_ptds), "cuMemcpyHtoD"},
    {ID(cuMemcpyDtoH_v2_ptds), "cuMemcpyDtoH"},
    {ID(cuMemcpyDtoD_v2_ptds), "cuMemcpyDtoD"},
    {ID(cuMemcpy_ptds), "cuMemcpy"},
    {ID(cuMemsetD8_v2_ptds), "cuMemsetD8"},
    {ID(cuMemsetD16_v2_ptds), "cuMemsetD16"},
    {ID(cuMemsetD32_v2_ptds), "cuMemsetD32"},
    {ID(cuMemcpyAsync_ptsz), "cuMemcpyAsync"},
    {ID(cuMemcpyHtoDAsync_v2_ptsz), "cuMemcpyHtoDAsync"},
    {ID(cuMemcpyDtoHAsync_v2_ptsz), "cuMemcpyDtoHAsync"},
    {ID(cuMemcpyDtoDAsync_v2_ptsz), "cuMemcpyDtoDAsync"},
    {ID(cuMemcpy2DAsync_v2_ptsz), "cuMemcpy2DAsync"},
    {ID(cuMemcpy3DAsync_v2_ptsz), "cuMemcpy3DAsync"},
    {ID(cuMemsetD8Async_ptsz), "cuMemsetD8Async"},
    {ID(cuMemsetD16Async_ptsz), "cuMemsetD16Async"},
    {ID(cuMemsetD32Async_ptsz), "cuMemsetD32Async"},
    {ID(cuLaunchKernel_ptsz), "cuLaunchKernel"},
    {ID(cuLaunchCooperativeKernel), "cuLaunchCooperativeKernel"},
    {ID(cuLaunchCooperativeKernel_ptsz), "cuLaunchCooperativeKernel"},
    {ID(cuLaunchCooperativeKernelMultiDevice), "cuLaunchCooperativeKernelMultiDevice"},
    {ID(cuGraphLaunch), "cuGraphLaunch"},
    {ID(cuGraphLaunch_ptsz), "cuGraphLaunch"},
    {ID(cuLaunchHostFunc), "cuLaunchHostFunc"},
    {ID(cuLaunchHostFunc_ptsz), "cuLaunchHostFunc"},
    {ID(cuLaunchKernelEx), "cuLaunchKernelEx"},
    {ID(cuLaunchKernelEx_ptsz), "cuLaunchKernelEx"},
};

const char *trace_launch_name(uint16_t cbid)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].cbid == cbid)
            return known[i].name;
    return NULL;
}
