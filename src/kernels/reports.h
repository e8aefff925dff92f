/* What fills nsys' reports: a table that has its header row, its rows appended. Private to
 * kernels/.
 */
#ifndef KERNELS_REPORTS_H
#define KERNELS_REPORTS_H

#include "kernels/kernels.h"

typedef void kern_rows_fn(const struct kernels *k, struct table *out);

kern_rows_fn kern_gpu_kern_sum, kern_mem_time_sum, kern_mem_size_sum, kern_api_sum, kern_exec_sum;
kern_rows_fn kern_nvtx_sum, kern_nvtx_kern_sum, kern_proj_sum;

#endif
