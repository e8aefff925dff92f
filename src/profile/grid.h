/* Which batches are measured, in three levels: each level is a whole grid and holds the coarser
 * ones, so a thinned profile still covers everything, only with fewer knots.
 *
 *   tokens   batches of T prompt tokens for the operators over tokens: every T up to 8, then eight,
 *            later four and two knots per doubling, where GEMM kernels switch
 *   decode   (batch, kv): batches of equal cache length
 *   prefill  (chunk, kv): one chunk after kv cached tokens
 *
 * Level 0 has powers of 4, level 1 powers of 2, level 2 all; limits are on every level. */
#ifndef PROFILE_GRID_H
#define PROFILE_GRID_H

#include <stdint.h>

#include "base/arena.h"

enum point_kind { POINT_TOKENS, POINT_DECODE, POINT_PREFILL };
/* Refined and sampled separately: a prompt of a thousand tokens costs as much as a hundred decode
 * batches. */
enum point_group { GROUP_DECODE, GROUP_PROMPT, POINT_GROUPS };
enum { GRID_LEVELS = 3 };

struct point {
    enum point_kind kind;
    int64_t x;  /* tokens, sequences, chunk tokens */
    int64_t kv; /* tokens in the cache before, per sequence; 0 for POINT_TOKENS */
    int level;
};

struct grid_limits {
    int64_t max_tokens; /* of a batch */
    int64_t max_batch;  /* decode sequences */
    int64_t max_kv;     /* of a sequence, the batch's own tokens included */
    int64_t block_size, num_blocks;
};

struct point_list {
    struct point *p; /* [n], by (level, kind, x, kv) */
    int64_t n;
    int64_t dropped; /* points whose sequences do not fit into num_blocks */
};

void profile_grid(struct arena *a, const struct grid_limits *l, struct point_list *out);

enum point_group point_group(const struct point *p);
/* Chunks a point's tokens are spread over: sequences hold at most max_kv. 0 for decode points. */
int64_t point_chunks(const struct point *p, const struct grid_limits *l);
/* KV blocks one sequence of the point needs. */
int64_t point_blocks(const struct point *p, const struct grid_limits *l);
int64_t point_tokens(const struct point *p);                            /* T */
int64_t point_rows(const struct point *p, const struct grid_limits *l); /* R */

#endif
