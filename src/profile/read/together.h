/* Attention of several prefill chunks of a batch whose kernel takes them together, as a GPU's does:
 * its blocks, each some queries of a chunk, run beside each other. One chunk of a few hundred
 * tokens leaves most of the GPU idle, so a second one beside it costs little; chunks that fill it
 * take turns. The sum of their single times is too long by their number then: on an H200 batches of
 * Qwen3-0.6B with two prompts got 5 to 14 % too much, with three or four 9 to 24 %, and
 * attention of 128 short ones 11 times what it took.
 *
 * A chunk has a latency and work:
 *
 *     latency  what the table's shortest chunk takes for as many keys: a block goes over all keys
 *              of its queries, however many blocks there are
 *     work     w(c) + pair_s c kv, of c tokens behind kv others: its part of the time of a full
 * GPU; of bounded attention (seen.h) the pairs that it computes instead of c kv
 *
 * w comes from batches of equal prompts that fill the GPU, pair_s from the table's point with the
 * most pairs of query and key. A chunk alone takes f = r hypot(latency, work), which says its r,
 * near 1. A batch takes
 *
 *     R hypot(largest latency, sum of work), R the mean of r with weights f,
 *
 * at least the longest f, at most the sum of all. One chunk is exactly its f. */
#ifndef PROFILE_READ_TOGETHER_H
#define PROFILE_READ_TOGETHER_H

#include "profile/read/meta.h"
#include "profile/read/table.h"

struct together {
    double pair_s;     /* of one repeat; 0 = chunks go one after the other */
    struct curve work; /* w over c */
};

/* batches: any order. n 0, or a table without times: {0}. Bundles from before there were such
 * batches have none, and factors of a calibration run that was held against the sum. */
struct together together_of(struct arena *a, const struct op_table *prefill,
                            const struct bundle_prompt_batch *batches, size_t n);

/* Chunks of one batch; {0} = none. Seconds of all repeats. */
struct together_sum {
    int64_t n;
    double sum_s, longest_s, latency_s, work_s, ratio_s;
};
/* single_s: the chunk's time alone, of the table, all repeats. */
void together_add(const struct together *t, const struct op_table *prefill, double kv_before,
                  double tokens, double single_s, int32_t repeat, struct together_sum *sum);
double together_s(const struct together *t, const struct together_sum *sum);

#endif
