/* Compiled by abi.sh against NVIDIA's NVTX: compare.awk's lines for gpu/abi/nvtx.h follow. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
