/* CUPTI's functions as a table, opened by gpu/library.h; the guest library has one of its own. */
#ifndef GPU_CUPTI_H
#define GPU_CUPTI_H

#include "gpu/abi/cupti.h"
#include "gpu/cupti_list.h"

struct gpu_cupti {
#define X(name, arguments, needed) CUptiResult(*name) arguments;
    GPU_CUPTI_LIST(X)
#undef X
    const char *path; /* of the library */
    uint32_t version; /* of its interface: 130000 = CUDA 13.0, 18 to 28 = CUDA 12 */
};

#endif
