#include "trace/launch_names.h"

#include <stddef.h>

/* CUpti_driver_api_trace_cbid of what launches work; forms for the per-thread default stream
 * (_ptds, _ptsz) and versions go by one name. */
static const struct {
    uint16_t cbid;
    const char *name;
} known[] = {
    {115, "cuLaunch"},
    {116, "cuLaunchGrid"},
    {117, "cuLaunchGridAsync"},
    {248, "cuMemcpy"},
    {249, "cuMemsetD8"},
    {250, "cuMemsetD16"},
    {251, "cuMemsetD32"},
    {216, "cuMemsetD8Async"},
    {218, "cuMemsetD16Async"},
    {220, "cuMemsetD32Async"},
    {276, "cuMemcpyHtoD"},
    {277, "cuMemcpyHtoDAsync"},
    {278, "cuMemcpyDtoH"},
    {279, "cuMemcpyDtoHAsync"},
    {280, "cuMemcpyDtoD"},
    {281, "cuMemcpyDtoDAsync"},
    {287, "cuMemcpy2D"},
    {288, "cuMemcpy2DUnaligned"},
    {289, "cuMemcpy2DAsync"},
    {290, "cuMemcpy3D"},
    {291, "cuMemcpy3DAsync"},
    {305, "cuMemcpy"},
    {306, "cuMemcpyAsync"},
    {307, "cuLaunchKernel"},
    {318, "cuMemcpyPeer"},
    {319, "cuMemcpyPeerAsync"},
    {397, "cuMemcpyHtoD"},
    {398, "cuMemcpyDtoH"},
    {399, "cuMemcpyDtoD"},
    {408, "cuMemcpy"},
    {411, "cuMemsetD8"},
    {412, "cuMemsetD16"},
    {413, "cuMemsetD32"},
    {418, "cuMemcpyAsync"},
    {421, "cuMemcpyHtoDAsync"},
    {422, "cuMemcpyDtoHAsync"},
    {423, "cuMemcpyDtoDAsync"},
    {424, "cuMemcpy2DAsync"},
    {425, "cuMemcpy3DAsync"},
    {428, "cuMemsetD8Async"},
    {429, "cuMemsetD16Async"},
    {430, "cuMemsetD32Async"},
    {442, "cuLaunchKernel"},
    {477, "cuLaunchCooperativeKernel"},
    {478, "cuLaunchCooperativeKernel"},
    {480, "cuLaunchCooperativeKernelMultiDevice"},
    {514, "cuGraphLaunch"},
    {515, "cuGraphLaunch"},
    {527, "cuLaunchHostFunc"},
    {528, "cuLaunchHostFunc"},
    {652, "cuLaunchKernelEx"},
    {653, "cuLaunchKernelEx"},
};

const char *launch_name(uint16_t cbid)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].cbid == cbid)
            return known[i].name;
    return NULL;
}
