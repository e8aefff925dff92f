#include "serve/replica.h"
#include "serve/sched/policies.h"

static int64_t chunk(const struct serve_params *p, int64_t left)
{
    return p->token_budget && p->token_budget < left ? p->token_budget : left;
}

static void next_batch(struct replica *r, int32_t lane)
{
    replica_run_decodes(r, lane); /* one request: the blocks are free */
    struct request *q = replica_next_prefill(r, lane, NULL);
    if (q) {
        bool fits = replica_chunk(r, lane, q, chunk(r->run->p, request_prefill_left(q)));
        ASSERT(fits);
    }
    if (r->active > 0 || r->waiting.n == 0)
        return;
    q = replica_head(r);
    int64_t tokens = chunk(r->run->p, request_prefill_left(q));
    replica_admit(r, lane, q->kv + tokens, tokens);
}

static int64_t max_batch_tokens(const struct serve_params *p, int64_t longest)
{
    return chunk(p, p->max_model_len ? p->max_model_len : longest);
}

const struct sched_ops sched_sequential = {
    .name = "sequential",
    .help = "one request at a time",
    .version = SCHED_VERSION,
    .knobs = KNOB_TOKEN_BUDGET | KNOB_PREFIX_CACHING | KNOB_SPECULATION,
    .next_batch = next_batch,
    .max_batch_tokens = max_batch_tokens,
};
