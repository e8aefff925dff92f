/* NVRTC, the compiler of CUDA C that is a library: X(name, arguments, needed); all return
 * nvrtcResult. gpu/compile.h uses it. */
#ifndef GPU_NVRTC_H
#define GPU_NVRTC_H

#include <stddef.h>

#include "gpu/abi/nvrtc.h"

#define GPU_NVRTC_LIST(X)                                                                \
    X(nvrtcVersion, (int *major, int *minor), 1)                                         \
    X(nvrtcGetNumSupportedArchs, (int *n), 1)                                            \
    X(nvrtcGetSupportedArchs, (int *archs), 1)                                           \
    X(nvrtcCreateProgram,                                                                \
      (nvrtcProgram * program, const char *source, const char *name, int headers,        \
       const char *const *header_texts, const char *const *header_names),                \
      1)                                                                                 \
    X(nvrtcDestroyProgram, (nvrtcProgram * program), 1)                                  \
    X(nvrtcCompileProgram, (nvrtcProgram program, int n, const char *const *options), 1) \
    X(nvrtcGetCUBINSize, (nvrtcProgram program, size_t * bytes), 1)                      \
    X(nvrtcGetCUBIN, (nvrtcProgram program, char *image), 1)                             \
    X(nvrtcGetPTXSize, (nvrtcProgram program, size_t * bytes), 1)                        \
    X(nvrtcGetPTX, (nvrtcProgram program, char *text), 1)                                \
    X(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * bytes), 1)                 \
    X(nvrtcGetProgramLog, (nvrtcProgram program, char *text), 1)

struct gpu_nvrtc {
#define X(name, arguments, needed) nvrtcResult(*name) arguments;
    GPU_NVRTC_LIST(X)
#undef X
    const char *path; /* of the library */
    int major, minor; /* its version */
};

#define GPU_NVRTC_NAMES                    \
    {                                      \
        "libnvrtc.so.13", "libnvrtc.so.12" \
    }

#endif
