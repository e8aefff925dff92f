/* Memory that is made ready while nobody needs the machine.
 *
 * A server with gigabytes of KV cache should answer at once, and its first requests should not pay
 * for page faults. So the first blocks are made ready before it opens, and the others by a thread
 * of its own, in the order in which blocks are handed out: while the engine is idle, and also while
 * it is not when blocks in use come near to those that are not ready. */
#ifndef ENGINE_CPU_READY_H
#define ENGINE_CPU_READY_H

#include "engine/cpu/pages.h"

struct ready_params {
    float *base;
    int64_t parts;         /* layers' keys and values, one behind the other */
    int64_t part_floats;   /* of each */
    int64_t block_floats;  /* of each block in a part */
    int64_t first, blocks; /* blocks first .. blocks - 1 are made ready */
    bool busy;             /* the engine is busy when this begins */
};

struct ready;
/* NULL where the kernel cannot, or there is nothing to do, or no thread to be had: then pages come
 * as they are used. */
struct ready *ready_begin(const struct ready_params *p);
/* From the engine's thread; r may be NULL. */
void ready_busy(struct ready *r, bool busy);
void ready_in_use(struct ready *r, int64_t block); /* that block is in use, and those before it */
int64_t ready_blocks(const struct ready *r);       /* blocks before it are ready */
void ready_end(struct ready **r);                  /* done or not */

#endif
