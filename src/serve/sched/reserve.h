/* Shared by orca and faster_transformer: every request reserves the cache for the longest sequence
 * there may be, and whole prompts make batches without a limit of tokens. */
#ifndef SERVE_SCHED_RESERVE_H
#define SERVE_SCHED_RESERVE_H

#include "serve/replica.h"

/* Admit from the queue while the lane's share of the batch cap and blocks allow. */
void reserve_admit(struct replica *r, int32_t lane);

/* As the hooks of struct sched_ops. */
int64_t reserve_max_batch_tokens(const struct serve_params *p, int64_t longest);
int64_t reserve_blocks_needed(const struct serve_params *p, int64_t kv_tokens);

#endif
