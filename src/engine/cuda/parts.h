/* How decode attention is dealt out to the GPU's blocks, so that its time follows all keys of a
 * batch together and not those of its longest row.
 *
 * The host knows the lengths when it writes a batch (engine/cuda/step.h), so it makes the plan: a
 * list of parts (struct cuda_part), each some stripes of 64 keys of one row. attention_decode has a
 * block for each part and head tile; the list travels with the batch's other arrays, so a CUDA
 * graph stays valid whatever the lengths are: its grid has room for `most` parts, and blocks past
 * the list's end leave. A list is 32 bytes a part: 4 KiB for 64 rows.
 *
 *   stripes(row) = ceil(keys / 64), parts(row) = ceil(stripes / S), cut evenly
 *   smallest S: that with sum of parts(row) <= most, and no row in more than CUDA_ROW_PARTS
 *
 * No part is larger than S, whatever row it is of. As sum ceil(s / S) < sum s / S + rows,
 *
 *   smallest S <= ceil(all stripes / (most - rows)): with most = 2 rows the mean row, with 3 rows
 * half of it.
 *
 * Parts are listed by size, in eighths of S, largest first: the GPU starts blocks in that order, so
 * that what runs last is small.
 *
 * The smallest S is not always the fastest: more blocks start more often, and the last of them may
 * leave memory idle. So the plan takes the fastest of up to four sizes, the smallest one and those
 * that cut the longest row into 3, 2 and 1 parts, by a model (cuda_parts_cost): blocks start in the
 * list's order, 3 a multiprocessor at once; one takes START before it reads, and reads at its own
 * speed, or at its share of the bandwidth where more than 245 of 396 read. On an H200 (M = 132)
 * these are 3 us, 19 GB/s and 4.65 TB/s: 64 rows of 1,024 tokens of 8 KV heads of 128 took 75.4 us
 * with a part each (the model: 78), of 32 heads 254 us (269). That takes 2 to 30 us of the host a
 * batch, on one core.
 *
 * most, for C = head tiles of all KV heads (blocks of a part) and M multiprocessors:
 *
 *   max(n ceil(2 M / (n C)),           n rows fill two blocks a multiprocessor, as few rows must
 *       ceil(3 n / 2),                 room to cut long rows however many rows there are
 *       min(3 n, ceil(8 M / C)))       unless 2 parts of every row run at once (2 n C <= 3 M): up
 *                                      to 3 parts a row, while that is 8 blocks a multiprocessor
 *
 * Before, a row was cut into ceil(2 M / (n C)) parts whatever the others' lengths: beyond 2 M / C
 * rows into one. The model, in us, 1,024 keys in the mean, unequal: lognormal of spread 0.9 at its
 * quantiles; the parts are those of equal rows:
 *
 *   rows, C   parts   equal: before, now   unequal: before, now   floor
 *    1, 8       16         5,   5               5,   5               1
 *   16, 8       32        18,  18              36,  18              14
 *   32, 8       32        42,  32              70,  37              29
 *   33, 8       33        33,  33             137,  37              30
 *   40, 8       40        39,  39             148,  50              36
 *   48, 8       48        47,  47             159,  57              43
 *   64, 8      128        78,  68             181,  71              58
 *  128, 8      128       126, 126             244, 124             115
 *   16, 32      32        78,  69             120,  66              58
 *   64, 32      64       269, 269             256, 253             231
 *
 * With equal rows no batch takes longer than before. Not yet seen on a GPU: `gpu_bench unequal`
 * measures both rules.
 *
 * The same batch has the same plan, and sums are added in its order: same inputs, same bytes. A
 * row's last bits depend on how it is cut, and so on the lengths of the others. */
#ifndef ENGINE_CUDA_PARTS_H
#define ENGINE_CUDA_PARTS_H

#include "engine/cuda/kernels.h"

/* Most parts of a batch of n decode rows; n 0: 0. heads and kv_heads as in the model. */
int cuda_parts_most(int n, int heads, int kv_heads, int sms);
/* The largest of these for up to n rows. */
int cuda_parts_bound(int n, int heads, int kv_heads, int sms);
/* Parts, with a block for each head tile, that run at once; at least 1. */
int cuda_parts_at_once(int heads, int kv_heads, int sms);

/* Writes the plan of the decode rows' segments, one token each, in their order: at most `most`
 * parts, most >= n. Returns how many; n 0: 0. out has room for them. at_once 0: of the smallest
 * size, else of the fastest by cuda_parts_cost. */
int cuda_parts_plan(const struct cuda_segment *rows, int n, int most, int at_once,
                    struct cuda_part *out);

/* The time of parts of at most `size` stripes by the model above, in that of a stripe which a block
 * reads while few others do (1.72 us on an H200 with 64 keys of 512 bytes). */
double cuda_parts_cost(const struct cuda_segment *rows, int n, int size, int at_once);

#endif
