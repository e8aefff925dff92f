/* The roofline as a picture: operations per second over operations per byte of DRAM, both
 * logarithmic, the roofs of memory (DRAM, and of the L2 dashed) and of the units that the kernels
 * used, and a dot for each kernel, coloured by its class. */
#ifndef DEEP_ROOFLINE_H
#define DEEP_ROOFLINE_H

#include "deep/result.h"

/* Whether any kernel has a place and any roof is known. */
bool deep_roofline_any(const struct deep_result *r);
/* An svg element; draws "no data" without any. alone: a file; else of the size of a page's charts.
 */
void deep_roofline(struct buf *out, const struct deep_result *r, bool alone);
/* Whether it has a place there: its operations and bytes are known, and some. */
bool deep_roofline_places(const struct deep_kernel_row *k);

#endif
