/* Touches the KV cache's memory in the background.
 *
 * A server with gigabytes of KV cache should answer at once, and its first requests should not pay
 * for page faults. So the first blocks are touched before it opens, and the others by a background
 * thread, in the order of allocation: while the engine is idle, and also while it is busy once
 * blocks in use come near to untouched ones. */
#ifndef ENGINE_CPU_READY_H
#define ENGINE_CPU_READY_H

#include "engine/cpu/pages.h"

struct ready_params {
    float *base;
    int64_t parts;         /* layers' keys and values, one behind the other */
    int64_t part_floats;   /* of each */
    int64_t block_floats;  /* of each block in a part */
    int64_t first, blocks; /* touches blocks first .. blocks - 1 */
    bool busy;             /* the engine is busy when this begins */
};

struct ready;
/* NULL where the kernel does not support it, nothing is left to do, or no thread can start: pages
 * are then faulted in on use. */
struct ready *ready_begin(const struct ready_params *p);
/* From the engine's thread; r may be NULL. */
void ready_busy(struct ready *r, bool busy);
void ready_in_use(struct ready *r, int64_t block); /* that block is in use, and those before it */
int64_t ready_blocks(const struct ready *r);       /* blocks before it are touched */
void ready_end(struct ready **r);                  /* finished or not */

#endif
