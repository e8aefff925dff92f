/* One operation of a capsule as a small capsule of its own: its code, its parameters, the sets that
 * belong to it (reach.h), and the whole allocations that its parameters reach, with their contents
 * as the operations before it leave them. What it changes there is the new capsule's memory after
 * the region.
 *
 * Memory that is reached through pointers in memory alone is not found: such a kernel fails in a
 * trial of the new capsule (replay_trial), and in nothing else before. */
#ifndef REPLAY_EXTRACT_H
#define REPLAY_EXTRACT_H

#include "replay/issue.h"

struct extracted {
    size_t allocations;
    size_t sets;           /* before the operation, which is the last one */
    uint64_t memory_bytes; /* of them */
    uint64_t file_bytes;   /* of the folder */
};

/* dir must not exist. The capsule's memory is that of after operation `op` then. */
enum st extract_op(struct load *l, size_t op, const char *dir, struct extracted *out,
                   struct err *e);

#endif
