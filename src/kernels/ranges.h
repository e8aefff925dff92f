/* Sums over ranges: work launched by each instance, and kernels of each name. Private to kernels/.
 */
#ifndef KERNELS_RANGES_H
#define KERNELS_RANGES_H

#include "kernels/kernels.h"

/* Work launched by one instance of a range. */
struct range_sum {
    uint32_t n_ops;            /* 0 = nothing: the rest is 0 */
    uint32_t n_launches;       /* calls that launched them: one of a graph launches many */
    int64_t first_ns, last_ns; /* from the first start to the last end on the GPU */
    int64_t inclusive_ns, exclusive_ns;
};
/* [n_ranges]; counts only ranges whose style is in `styles` (one of the sets below): exclusive time
 * goes to the innermost of these. */
const struct range_sum *kernels_range_sums(const struct kernels *k, unsigned styles);
void kernels_make_range_sums(
    struct kernels *k); /* part of kernels_open; kernels_close frees them */

enum {
    STYLES_OPERATORS = 1u << TRACE_OPERATOR,
    STYLES_NVTX = 1u << TRACE_PUSH_POP | 1u << TRACE_START_END | 1u << TRACE_ANNOTATION,
};

/* The chain of ranges around operation i, innermost first, of those styles that held its launch;
 * returns how many. */
int kernels_chain(const struct kernels *k, size_t i, unsigned styles,
                  uint32_t out[KERNELS_MAX_DEPTH]);

static inline bool kernels_has_style(unsigned styles, uint8_t style)
{
    return styles >> style & 1;
}

#endif
