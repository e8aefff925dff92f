#include "serve/replica.h"
#include "serve/sched/policies.h"

enum { DEFAULT_CHUNK = 512 };

static int64_t chunk_size(const struct serve_params *p)
{
    return p->chunk_size ? p->chunk_size : DEFAULT_CHUNK;
}

/* The order of preemption is: decodes in order of joining, then the prefills begun. (Vidur puts a
 * prefill that a batch had no tokens for in front, where it is no victim; without pipeline stages
 * that cannot happen: a prefill that begins leaves tokens for those that join.) */
static void next_batch(struct replica *r, int32_t lane)
{
    const struct serve_params *p = r->run->p;
    if (r->shares)
        replica_gather(r, lane, replica_lane_cap(r));
    if (!replica_make_room(r, lane))
        return;
    int64_t left = chunk_size(p) - replica_decode_tokens(r, lane);
    replica_run_decodes(r, lane);
    for (struct request *q = replica_next_prefill(r, lane, NULL); q && left > 0;
         q = replica_next_prefill(r, lane, q)) {
        int64_t tokens = request_chunk(q, left);
        bool fits = replica_chunk(r, lane, q, tokens); /* its blocks are reserved */
        ASSERT(fits);
        left -= tokens;
    }
    while (r->waiting.n && left > 0 && replica_rows(r) < replica_lane_cap(r)) {
        const struct request *q = replica_head(r);
        int64_t tokens = request_chunk(q, left);
        if (!replica_can_admit(r, q->prefill))
            return;
        replica_admit(r, lane, q->prefill, tokens);
        left -= tokens;
    }
}

static int64_t max_batch_tokens(const struct serve_params *p, int64_t longest)
{
    (void)longest;
    return chunk_size(p) > p->batch_cap ? chunk_size(p) : p->batch_cap;
}

/* The last token of a request that runs alone must find a block free too. */
static int64_t blocks_needed(const struct serve_params *p, int64_t kv_tokens)
{
    return (kv_tokens + p->block_size - 1) / p->block_size + 1;
}

const struct sched_ops sched_sarathi = {
    .name = "sarathi",
    .help = "Sarathi-Serve: chunks of a fixed number of tokens, decodes first",
    .version = SCHED_VERSION,
    .knobs = KNOB_CHUNK_SIZE | KNOB_WATERMARK | KNOB_PREFIX_CACHING | KNOB_SPECULATION |
             KNOB_DISAGGREGATION,
    .traits = SCHED_PREEMPTS | SCHED_SHARES,
    .next_batch = next_batch,
    .max_batch_tokens = max_batch_tokens,
    .blocks_needed = blocks_needed,
};
