/* What the files of the fake libcuda share. */
#ifndef FAKE_GPU_DEVICE_H
#define FAKE_GPU_DEVICE_H

#include <stddef.h>

#include "gpu/capture_list.h"
#include "gpu/driver.h"
#include "support/fake_gpu/fake_gpu.h"

/* The functions of gpu/cuda.h that this library has; the rest of that list is optional. */
#define GPU_CUDA_FACTS(X)                                               \
    X(cuInit, (unsigned flags), 1)                                      \
    X(cuDriverGetVersion, (int *version), 1)                            \
    X(cuDeviceGetCount, (int *n), 1)                                    \
    X(cuDeviceGet, (int *device, int ordinal), 1)                       \
    X(cuDeviceGetName, (char *name, int bytes, int device), 1)          \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device), 1) \
    X(cuDeviceTotalMem_v2, (size_t * bytes, int device), 1)             \
    X(cuDeviceGetUuid_v2, (unsigned char uuid[16], int device), 1)      \
    X(cuGetErrorString, (int result, const char **text), 1)

#define X(name, arguments, needed) FAKE_EXPORT CUresult name arguments;
GPU_DRIVER_LIST(X)
#undef X

#define X(name, arguments, needed) FAKE_EXPORT CUresult name arguments;
GPU_CAPTURE_LIST(X)
#undef X

#define FAKE_IMAGE "fake image"
/* What stands in an image of the fake NVRTC, also in one behind an ELF header whose entry says
 * where; NULL: machine code of a real one. */
const char *fake_image_text(const void *image);
enum { FAKE_SMS = 4, FAKE_SHARED_MAX = 227 << 10 };

struct CUfunc_st {
    struct fake_twin twin;
    char *name; /* owned */
    unsigned shared_max;
    CUmodule module;
    struct CUfunc_st *next;
};

bool fake_twin_builtin(const char *kernel, struct fake_twin *out); /* twins.c */

bool fake_context_is_current(void);
size_t fake_memory_total(void);
/* Those bytes are one allocation's; pinned: page-locked host memory. */
bool fake_memory_is_device(uint64_t at, size_t bytes);
bool fake_memory_is_pinned(const void *at, size_t bytes);
int64_t fake_memory_allocations(void);

void fake_stream_drain_all(void);
bool fake_stream_is_capturing(void);   /* on this thread */
CUresult fake_stream_fault(void);      /* after which the context is lost; CUDA_SUCCESS = none */
void fake_stream_raise(CUresult code); /* of the kernel that runs: such a fault */

#endif
