/* Functions that fill nsys' reports: append rows to a table with its header row. Private to
 * kernels/. */
#ifndef KERNELS_REPORTS_H
#define KERNELS_REPORTS_H

#include "kernels/kernels.h"

typedef void kernels_rows_fn(const struct kernels *k, struct table *out);

kernels_rows_fn kernels_gpu_kern_sum, kernels_mem_time_sum, kernels_mem_size_sum, kernels_api_sum,
    kernels_exec_sum;
kernels_rows_fn kernels_nvtx_sum, kernels_nvtx_kern_sum, kernels_proj_sum;

#endif
