/* Compiled by abi.sh against NVIDIA's nvrtc.h: compare.awk's lines for gpu/abi/nvrtc.h follow. */
#include <nvrtc.h>

/* Functions: declared again, which C takes only for the same types. */
#define GPU_ABI_NVRTC_H /* NVIDIA's types */
#include "gpu/nvrtc.h"
#undef GPU_ABI_NVRTC_H
#define X(name, arguments, needed) nvrtcResult name arguments;
GPU_NVRTC_LIST(X)
#undef X
