#include "serve/sched/policies.h"
#include "serve/sched/reserve.h"

static void next_batch(struct replica *r, int32_t lane)
{
    if (replica_set(r, lane)->n > 0)
        replica_run_decodes(r, lane); /* their blocks are reserved */
    else
        reserve_admit(r, lane);
}

const struct sched_ops sched_faster_transformer = {
    .name = "faster_transformer",
    .help = "FasterTransformer: static batches, each runs to its end before the next",
    .version = SCHED_VERSION,
    .traits = SCHED_PLANNED_BATCH,
    .next_batch = next_batch,
    .max_batch_tokens = reserve_max_batch_tokens,
    .blocks_needed = reserve_blocks_needed,
};
