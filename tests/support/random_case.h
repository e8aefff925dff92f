/* Random workloads for every policy: what must hold whatever is asked of it. */
#ifndef SUPPORT_RANDOM_CASE_H
#define SUPPORT_RANDOM_CASE_H

#include "serve/sched/sched.h"
#include "support/serve_harness.h"

enum { RANDOM_REQUESTS = 60 };

/* The policy, with every limit of tokens it knows set to `tokens` (>= the batch cap). */
void random_case_knobs(struct serve_params *p, const struct sched_ops *sched, int64_t tokens);

/* The block size, and the same number of tokens in blocks of one for policies that want these. */
void random_case_blocks(struct serve_params *p, const struct sched_ops *sched, int64_t block_size,
                        int64_t num_blocks);

/* Lengths and arrivals at random into w [RANDOM_REQUESTS]; blocks few enough that many runs
 * preempt, often enough for the longest request (36 + 24 tokens and a spare block). Batches take
 * 0.5 s and 0.125 s per token. */
struct harness random_case(const struct sched_ops *sched, uint64_t seed,
                           struct workload_request *w);

#endif
