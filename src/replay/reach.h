/* What an operation reaches by its parameters, and the sets that belong to it.
 *
 * A parameter reaches an allocation when an aligned word of it is an address inside. Memory that is
 * reached through pointers in memory alone is not found.
 *
 * A kernel may find in memory what a set before it put there, and use it up: a counter by which its
 * blocks draw their tiles, semaphores of split sums, a result that is added to. Repeated without
 * that set it does other work, mostly less. So a kernel is repeated with the sets that lie between
 * it and the kernel before it, in its stream or along the edges of its graph, and that write into
 * an allocation which its parameters reach. */
#ifndef REPLAY_REACH_H
#define REPLAY_REACH_H

#include "capsule/capsule.h"

/* Live when an operation runs: not freed before the region's end, or the latest at that address.
 * NULL = none. */
const struct capsule_allocation *reach_allocation(const struct capsule *c, uint64_t at);

struct reach_sets {
    uint32_t *ops; /* [n], rising */
    size_t n;
};

/* Those of operation op; none, if it is no kernel. */
struct reach_sets reach_sets(struct arena *a, const struct capsule *c, size_t op);

#endif
