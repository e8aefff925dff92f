/* The recorder's side of NVTX. Ranges, marks and thread names of every domain; categories' names
 * and resources are not kept. */
#ifndef INJECT_NVTX_H
#define INJECT_NVTX_H

#include <nvtx3/nvToolsExt.h>

/* Patterns were read anew: look at the domains again. */
void nvtx_reset(void);

__attribute__((visibility("default"))) int NVTX_API
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

#endif
