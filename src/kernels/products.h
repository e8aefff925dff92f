/* Matrix products with their shapes, from the operators of a PyTorch trace. Private to kernels/. */
#ifndef KERNELS_PRODUCTS_H
#define KERNELS_PRODUCTS_H

#include "base/map.h"
#include "kernels/ranges.h"

/* [batch] x (m x k) (k x n); batch 0 = no product. */
struct product {
    int64_t batch, m, n, k;
    uint32_t op;    /* string: "aten::addmm" */
    uint32_t dtype; /* place in `types` from 1: "c10::Half"; 0 = unknown */
};

/* [n_ranges]; free with mem_free. Of nested operators (linear around addmm) only the innermost that
 * has the shapes counts. */
struct product *kernels_products(const struct kernels *k, struct map *types);

#endif
