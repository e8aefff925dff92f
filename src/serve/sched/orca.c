#include "serve/sched/policies.h"
#include "serve/sched/reserve.h"

static void next_batch(struct replica *r, int32_t lane)
{
    replica_run_decodes(r, lane); /* their blocks are reserved */
    reserve_admit(r, lane);
}

const struct sched_ops sched_orca = {
    .name = "orca",
    .help = "Orca: continuous batching, each request reserves the longest sequence",
    .version = SCHED_VERSION,
    .traits = SCHED_PLANNED_BATCH,
    .next_batch = next_batch,
    .max_batch_tokens = reserve_max_batch_tokens,
    .blocks_needed = reserve_blocks_needed,
};
