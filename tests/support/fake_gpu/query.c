/* Questions that tools ask: about contexts, functions, pointers, streams. */
#include "support/fake_gpu/query.h"

#include <string.h>

#include "support/fake_gpu/device.h"

void *fake_context_current(void)
{
    CUcontext context = NULL;
    return fake_context_is_current() && cuCtxGetCurrent(&context) == CUDA_SUCCESS ? (void *)context
                                                                                  : NULL;
}

static _Thread_local int pushed;

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    pushed++;
    return cuCtxSetCurrent(context);
}

/* One context in all: what was current before the first push may have been none. */
CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (pushed == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pushed--;
    return cuCtxGetCurrent(context);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return fake_context_is_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    const int error = fake_script_fail("cuMemcpyDtoH_v2");
    if (error)
        return (CUresult)error;
    fake_stream_drain_all();
    if (!fake_memory_is_device(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return fake_stream_fault();
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr at)
{
    const bool device = fake_memory_is_device(at, 1);
    if (attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
        (!device && !fake_memory_is_pinned((const void *)(uintptr_t)at, 1)))
        return CUDA_ERROR_INVALID_VALUE;
    *(CUmemorytype *)value = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    if (fake_is_kernel(function))
        return CUDA_ERROR_INVALID_HANDLE;
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    *module = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t i, size_t *offset, size_t *bytes)
{
    const uint16_t *sizes = function->twin.param_bytes;
    *offset = 0;
    for (size_t k = 0; sizes[k]; k++) {
        const size_t n = sizes[k], low = n & (~n + 1), align = low > 16 ? 16 : low;
        *offset = (*offset + align - 1) / align * align;
        *bytes = n;
        if (k == i)
            return CUDA_SUCCESS;
        *offset += n;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    *flags = stream ? CU_STREAM_NON_BLOCKING : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    (void)stream;
    *priority = 0;
    return CUDA_SUCCESS;
}
