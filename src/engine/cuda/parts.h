/* How decode attention is dealt out to the GPU's blocks, so that its time follows all keys of a
 * batch together and neither those of its longest row nor how rows fill the GPU.
 *
 * The host knows the lengths when it writes a batch (engine/cuda/step.h), so it makes the plan: a
 * list of parts (struct cuda_part), each some stripes of 64 keys of one row, and a list of runs,
 * each some parts one behind the other. attention_decode has a block for each run and head tile,
 * which takes the parts of its run in turn. Both lists travel with the batch's other arrays, so a
 * CUDA graph stays valid whatever the lengths are: its grid has room for `most` runs, and blocks
 * past the end of the list leave. 32 bytes a part, 4 a run: 4 KiB for 64 rows.
 *
 * Two forms, of which a plan takes the faster by a model (cuda_parts_cost):
 *
 *   single   a part a block. stripes(row) = ceil(keys / 64), parts(row) = ceil(stripes / S), cut
 *            evenly; S the fastest of up to four sizes: that which cuts the longest row into 3, 2
 *            and 1 parts, and the smallest with sum of parts(row) <= most and no row in more than
 *            CUDA_ROW_PARTS, which is <= ceil(all stripes / (most - rows)). Listed by size, in
 *            eighths of S, largest first: the GPU starts blocks in that order, so that what runs
 *            last is small.
 *   runs     as many blocks as run at once, and each the same share: the stripes of all rows are
 *            laid end to end and cut into `most` equal pieces, wherever that is. A piece may cover
 *            the end of one row, whole rows, and the begin of another; those wholly in it need no
 *            partial sums. Each part weighs a stripe more than it has, for what it takes besides.
 *            The first pages of a part are on their way while the part in front is finished.
 *
 * The model: blocks start in the list's order, 3 a multiprocessor at once. One takes 2.5 us before
 * it reads (START); a part behind another in a run takes as long, which is the most it can be (runs
 * measured since take what the model says, or up to 4 us less). Then it reads at its own speed: 28
 * GB/s alone on its multiprocessor, 21 as one of two, 15 as one of three; all together at most
 * at 4.54 TB/s. With up to a third, and up to half of all slots taken it counts as alone, and as
 * one of two; beyond, blocks start where slots fall free, as if some multiprocessor had three (256
 * and 264 blocks are no faster than that). The launch and the end of the kernel are 5.7 us more,
 * whatever the plan. These are the constants nearest to 130 times of `gpu_bench unequal` on an H200
 * (five plans each of 26 batches): root of the mean square 3.1 %, where the constants before (3 us,
 * 19 GB/s however many read, 4.65 TB/s) were off by 12.6 %; worst 14 % (33 equal rows in 3 parts
 * each: 42 us, the model 48). Making a plan takes the host 1 to 60 us on one core.
 *
 * most, for C = head tiles of all KV heads (blocks of a run) and M multiprocessors: runs that run
 * at once, 3 M / C, for up to 3/2 times as many rows; this grid has the single form too where it
 * has room for it. More rows fill the GPU often enough that only the last of some waves is not
 * full, and their blocks start one by one: measured, a part a block is 1 to 4 % faster there (24
 * rows of 32 heads 97 us against 98, lognormal 95 against 99; 128 of 8 131 against 133), below it
 * up to 17 % slower (33 of 8 45 against 39, 64 of 8 77 against 70, 16 of 32 76 against 68). They
 * stay a part a block, with
 *
 *   max(n ceil(2 M / (n C)),           n rows fill two blocks a multiprocessor, as few rows must
 *       ceil(3 n / 2),                 room to cut long rows however many rows there are
 *       min(3 n, ceil(8 M / C)))       unless 2 parts of every row run at once (2 n C <= 3 M): up
 *                                      to 3 parts a row, while that is 8 blocks a multiprocessor
 *
 * CUDA_DEAL is the switch: with CUDA_DEAL_SINGLE in its place there are no runs.
 *
 * The model for equal rows of 1,024 keys, M = 132, us without the 5.7; "best" is the fastest that
 * was measured of five single plans, "runs" what these were measured at since, both less these, and
 * "floor" bytes at 4.54 TB/s:
 *
 *   rows, C   floor   best   runs   single   fastest
 *    16, 8     14.8   15.9   16.8    17.7     17.7
 *    24, 8     22.2   23.1   24.8    24.9     24.9
 *    33, 8     30.5   36.5   33.6    37.5     34.3
 *    48, 8     44.4   44.7   47.7    47.3     47.3
 *    64, 8     59.2   69.6   64.4    69.5     65.4
 *   128, 8    118.3  126.1  127.5   133.9    133.9
 *    16, 32    59.1   68.2   62.4    69.5     66.5
 *    64, 32   236.4  251.1  251.9   262.4    262.4
 *
 * Attention with a window reads the last keys of a row alone: its plan is one of its own, over the
 * stripes from the one with the first key that the row sees, and a batch brings a plan for each
 * span (struct cuda_sizes).
 *
 * `gpu_bench unequal` measures both forms; its table is in bench/gpu/README.md.
 *
 * The same batch has the same plan, and sums are added in its order: same inputs, same bytes. A
 * row's last bits depend on how it is cut, and so on the lengths of the others. */
#ifndef ENGINE_CUDA_PARTS_H
#define ENGINE_CUDA_PARTS_H

#include "engine/cuda/kernels.h"

enum cuda_deal {
    CUDA_DEAL_SMALLEST, /* single, in parts of the smallest size */
    CUDA_DEAL_SINGLE,   /* single, of the fastest size */
    CUDA_DEAL_RUNS,     /* runs */
    CUDA_DEAL_FASTEST,  /* the faster of the last two, for few rows; single for many */
};
static const enum cuda_deal CUDA_DEAL = CUDA_DEAL_FASTEST; /* the engine's */

/* Most runs of a batch of n decode rows; n 0: 0. heads and kv_heads as in the model. */
int cuda_parts_most(enum cuda_deal deal, int n, int heads, int kv_heads, int sms);
/* The largest of these for up to n rows, of CUDA_DEAL. */
int cuda_parts_bound(int n, int heads, int kv_heads, int sms);
/* Runs, with a block for each head tile, that run at once; at least 1. */
int cuda_parts_at_once(int heads, int kv_heads, int sms);
/* Parts of all rows at most, in at most `most` runs. */
int cuda_parts_room(int most, int n);
/* Fills runs, parts and parts_at_once for s->decodes rows on s->sms multiprocessors. */
void cuda_parts_sizes(enum cuda_deal deal, int heads, int kv_heads, struct cuda_sizes *s);

struct cuda_parts_limits {
    enum cuda_deal deal;
    int most;    /* runs; at least n, but for runs at least 1 */
    int at_once; /* CUDA_DEAL_SMALLEST does not read it */
    int window;  /* keys that a row sees, its own included; 0 = all */
};

/* Writes the plan of the decode rows' segments, one token each, in their order: parts[room],
 * runs[most + 1], where those past the last run are the end; n_parts and n_runs of the step. n 0:
 * no runs. */
void cuda_parts_plan(const struct cuda_segment *rows, int n, const struct cuda_parts_limits *m,
                     struct cuda_part *parts, int *runs, struct cuda_step *step);

/* The time of a plan by the model above, in that of a stripe which a block reads beside two others
 * (2.18 us on an H200 with 64 keys of 512 bytes). */
double cuda_parts_cost(const struct cuda_part *parts, const int *runs, int n_runs, int at_once);

#endif
