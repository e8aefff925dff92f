/* Types and values of NVRTC's interface, under its names; the functions stand in gpu/nvrtc.h. Where
 * NVIDIA's nvrtc.h is found, tests/abi compares every line of this file with it. */
#ifndef GPU_ABI_NVRTC_H
#define GPU_ABI_NVRTC_H

typedef struct _nvrtcProgram *nvrtcProgram;

typedef enum {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
    NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7, /* libnvrtc-builtins is missing */
} nvrtcResult;

#endif
