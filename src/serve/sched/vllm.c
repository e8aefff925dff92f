#include "serve/replica.h"
#include "serve/sched/policies.h"

enum { DEFAULT_MAX_TOKENS = 4096 };

static int64_t max_tokens(const struct serve_params *p)
{
    return p->max_tokens_in_batch ? p->max_tokens_in_batch : DEFAULT_MAX_TOKENS;
}

/* Prompts are padded to the longest of their batch. */
static void admit(struct replica *r, int32_t lane)
{
    int64_t longest = 0, room = replica_lane_cap(r);
    if (!r->shares)
        room -= replica_set(r, lane)->n;
    for (int64_t n = 1; r->waiting.n && n <= room; n++) {
        const struct request *q = replica_head(r);
        int64_t tokens = request_prefill_left(q);
        longest = tokens > longest ? tokens : longest;
        if (n > 1 && longest > max_tokens(r->run->p) / n)
            return;
        if (!replica_can_admit(r, q->prefill))
            return;
        replica_admit(r, lane, q->prefill, tokens);
    }
}

static void next_batch(struct replica *r, int32_t lane)
{
    admit(r, lane);
    if (replica_rows(r) > 0) {
        if (r->shares)
            replica_rest(r, lane);
        return;
    }
    if (r->shares)
        replica_gather(r, lane, replica_lane_cap(r));
    if (replica_make_room(r, lane))
        replica_run_decodes(r, lane);
}

static int64_t max_batch_tokens(const struct serve_params *p, int64_t longest)
{
    int64_t most = max_tokens(p) > p->batch_cap ? max_tokens(p) : p->batch_cap;
    int64_t alone = p->max_model_len ? p->max_model_len : longest;
    return most > alone ? most : alone;
}

/* The last token of a request that runs alone must find a block free too. */
static int64_t blocks_needed(const struct serve_params *p, int64_t kv_tokens)
{
    return (kv_tokens + p->block_size - 1) / p->block_size + 1;
}

const struct sched_ops sched_vllm = {
    .name = "vllm",
    .help = "vLLM before V1: whole prompts first, decodes when no prompt fits",
    .version = SCHED_VERSION,
    .knobs = KNOB_MAX_TOKENS_IN_BATCH | KNOB_WATERMARK | KNOB_PREFIX_CACHING | KNOB_SPECULATION |
             KNOB_DISAGGREGATION,
    .traits = SCHED_PREEMPTS | SCHED_RESTS | SCHED_BY_ARRIVAL | SCHED_SHARES,
    .next_batch = next_batch,
    .max_batch_tokens = max_batch_tokens,
    .blocks_needed = blocks_needed,
};
