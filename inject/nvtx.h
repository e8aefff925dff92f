/* The recorder's side of NVTX. Ranges, marks and thread names of every domain; categories' names
 * and resources are not kept. */
#ifndef INJECT_NVTX_H
#define INJECT_NVTX_H

#include "gpu/abi/nvtx.h"

/* Matches the domains again, after patterns changed. */
void inject_nvtx_reset(void);

__attribute__((visibility("default"))) int NVTX_API
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
/* The payload extension (nvtx3/nvToolsExtPayload.h), by which NCCL ends some of its ranges. */
__attribute__((visibility("default"))) int NVTX_API
InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);

#endif
