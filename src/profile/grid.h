/* Which batches are measured, in three levels: each level is a whole grid and holds the coarser
 * ones, so a thinned profile still covers everything, only with fewer knots.
 *
 *   tokens   batches of T prompt tokens for the operators over tokens: every T up to 8, then eight,
 *            later four and two knots per doubling, where GEMM kernels switch
 *   decode   (batch, kv): batches whose caches hold kv tokens in the mean
 *   prefill  (chunk, kv): one chunk after kv cached tokens
 *   prompts  equal prompts, as many as a batch holds, that fill a GPU (read/together.h)
 *
 * Level 0 has powers of 4, level 1 powers of 2, level 2 all; limits are on every level.
 *
 * Where an executor pads decode batches (GPUs) the time is level from one padded size to the next
 * and steps there: the decode grid then has both ends of every step, on level 0 at one cache length
 * at least; and few rows at many cache lengths, for their attention is cut into parts over these.
 *
 * There batches of prompts have steps too: a GPU's matrix products have kernels of their own for
 * sizes up to p, 5/4 p, 6/4 p and 7/4 p (engine/cuda/matmul.h), p a power of two, and whole tiles.
 * On an H200 1,281 to 1,408 tokens of Qwen3-0.6B took 0.4 ms, 10 %, more than a line between 1,024
 * and 1,536 has. So the tokens of both sides of these sizes are measured, and of the padded ones.
 *
 * There the sequences of a decode batch differ in length, evenly from half the mean to one and a
 * half of it, in whole blocks, as far as a sequence may grow; elsewhere they are equal. Blocks of a
 * GPU's kernel take turns on its multiprocessors. Of equal sequences all blocks are equal too, and
 * what remains behind the last full turn leaves most of the GPU idle: on an H200, attention over 64
 * sequences of 1,024 tokens, 512 equal blocks where 396 run at once, took 1.3 times what its bytes
 * take, of which a model of these turns explains all (engine/cuda/parts.h). In a run lengths
 * differ. */
#ifndef PROFILE_GRID_H
#define PROFILE_GRID_H

#include <stdint.h>

#include "base/arena.h"

enum point_kind { POINT_TOKENS, POINT_DECODE, POINT_PREFILL, POINT_PROMPTS, POINT_KINDS };
/* Refined and sampled separately: a prompt of a thousand tokens costs as much as a hundred decode
 * batches. */
enum point_group { GROUP_DECODE, GROUP_PROMPT, POINT_GROUPS };
enum { GRID_LEVELS = 3 };

struct point {
    enum point_kind kind;
    int64_t x; /* tokens, sequences, chunk tokens */
    /* tokens in the cache before, per sequence in the mean; 0 for POINT_TOKENS; of POINT_PROMPTS
     * the tokens of each prompt, and nothing is in the cache: point_kv */
    int64_t kv;
    int level;
};

struct grid_limits {
    int64_t max_tokens; /* of a batch */
    int64_t max_batch;  /* decode sequences */
    int64_t max_kv;     /* of a sequence, the batch's own tokens included */
    int64_t block_size, num_blocks;
    /* The most decode rows that a batch of so many is padded to, ascending up to max_batch
     * (executor_ops.padded_rows); n_padded 0 = batches are not padded. */
    const int64_t *padded;
    int n_padded;
};

struct point_list {
    struct point *p; /* [n], by (level, kind, x, kv) */
    int64_t n;
    int64_t dropped; /* points whose sequences do not fit into num_blocks */
};

void profile_grid(struct arena *a, const struct grid_limits *l, struct point_list *out);

enum point_group point_group(const struct point *p);
int64_t point_kv(const struct point *p); /* tokens in the cache before */
/* Chunks a point's tokens are spread over: sequences hold at most max_kv. 0 for decode points. */
int64_t point_chunks(const struct point *p, const struct grid_limits *l);
/* KV blocks one sequence of the point needs, in the mean. */
int64_t point_blocks(const struct point *p, const struct grid_limits *l);
/* Tokens in the cache before of row 0 .. rows - 1; their sum is rows kv, the blocks they need
 * together are rows point_blocks. */
int64_t point_row_kv(const struct point *p, const struct grid_limits *l, int64_t row);
int64_t point_tokens(const struct point *p);                            /* T */
int64_t point_rows(const struct point *p, const struct grid_limits *l); /* R */

#endif
