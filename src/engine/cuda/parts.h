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
 *   S = the smallest size with sum of parts(row) <= most, and no row in more than CUDA_ROW_PARTS
 *
 * No part is larger than S, whatever row it is of. As sum ceil(s / S) < sum s / S + rows,
 *
 *   S <= ceil(all stripes / (most - rows)): with most = 2 rows the mean row, with 3 rows half of
 * it.
 *
 * Parts are listed by size, in eighths of S, largest first: the GPU starts blocks in that order, so
 * that what runs last is small.
 *
 * most, for C = head tiles of all KV heads (blocks of a part) and M multiprocessors:
 *
 *   max(n ceil(2 M / (n C)),           n rows fill two blocks a multiprocessor, as few rows must
 *       ceil(3 n / 2),                 room to cut long rows however many rows there are
 *       min(3 n, ceil(8 M / C)))       unless 2 parts of every row run at once (2 n C <= 3 M): up
 *                                      to 3 parts a row, while that is 8 blocks a multiprocessor
 *
 * Equal rows get floor(most / n) parts each. An H200 (M = 132) holds 3 blocks a multiprocessor at
 * once, 396; one reads some 19 GB/s when few run (64 rows of 1,024 tokens, C = 8: 75.4 us measured,
 * of which the last 116 of 512 blocks alone are 27), so about 245 must run to fill 4.65 TB/s:
 *
 *   rows, C    most    equal rows: parts, blocks (before)     their largest part, keys of 1,024
 *    1, 8        33    16 (16), 128 (128)                       64 (64)
 *   16, 8        48     3  (3), 384 (384)                      384 (352)
 *   24, 8        48     2  (2), 384 (384)                      512 (512)
 *   32, 8        96     3  (2), 768 (512)                      384 (512)
 *   33, 8        99     3  (1), 792 (264)                      384 (1024)
 *   48, 8       132     2  (1), 768 (384)                      512 (1024)
 *   64, 8       132     2  (1), 1024 (512)                     512 (1024)
 *  128, 8       192     1  (1), 1024 (1024)                   1024 (1024)
 *   64, 32       96     1  (1), 2048 (2048)                   1024 (1024)
 *
 * Batch 64 of 8 KV heads: 512 blocks were 1.29 times what runs at once, and the last 0.29 filled
 * half the bandwidth; 1,024 blocks of half the size are 2.59 times, and the last 0.59, 232 blocks,
 * fill it. What the second part costs: a part and head writes head_dim + 2 floats and reads them
 * once, in L2: 64 * 2 * 16 * 520 bytes twice, 2.1 MB of 268 MB of keys and values (0.8 %), and a
 * block's start, some 3 us in which two others of its multiprocessor read. With 32 KV heads equal
 * rows are launched as before. A model of these figures (shared bandwidth, 19 GB/s and 3 us a
 * block) says of lengths of lognormal spread 0.9, mean 1,024, C = 8, in us: 33 rows (in the graph
 * of 40) 152 before and 45 now, equal 38 and 41; 64 rows 174 and 71, equal 83 and 72; 128 rows 255
 * and 130, equal 131 and 131. Not yet seen on a GPU: `gpu_bench unequal` measures both rules.
 *
 * Before, a row was cut into ceil(2 M / (n C)) parts whatever the others' lengths: beyond 2 M / C
 * rows into one.
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

/* Writes the plan of the decode rows' segments, one token each, in their order: at most `most`
 * parts, most >= n. Returns how many; n 0: 0. out has room for them. */
int cuda_parts_plan(const struct cuda_segment *rows, int n, int most, struct cuda_part *out);

#endif
