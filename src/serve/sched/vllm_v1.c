#include "serve/kv_tables.h"
#include "serve/replica.h"
#include "serve/sched/policies.h"

enum { DEFAULT_BUDGET = 2048 };

static int64_t token_budget(const struct serve_params *p)
{
    if (p->token_budget)
        return p->token_budget;
    return p->batch_cap > DEFAULT_BUDGET ? p->batch_cap : DEFAULT_BUDGET;
}

static int64_t chunk_of(const struct replica *r, const struct request *q, int64_t budget)
{
    const int64_t tokens = request_chunk(q, budget);
    return r->kv.pool ? kv_tables_split(&r->kv, q, tokens, token_budget(r->run->p)) : tokens;
}

/* Blocks for the decodes whose tables are due; false: a preemption has to wait. */
static bool decodes_due(struct replica *r, int32_t lane, bool *preempted)
{
    struct request_list due = {0};
    bool waits = false;
    decode_set_due(replica_set(r, lane), &due);
    for (size_t i = 0; i < due.n && !waits; i++)
        while (due.p[i]->state == REQUEST_DECODE && !replica_decode_tables(r, due.p[i])) {
            waits = !replica_may_preempt(r, lane);
            if (waits)
                break;
            replica_preempt(r, replica_last_running(r, lane));
            *preempted = true;
        }
    vec_free(&due);
    return !waits;
}

static bool admit(struct replica *r, int32_t lane, const struct request *q, int64_t tokens)
{
    if (r->kv.pool)
        return tokens > 0 && replica_admit_tables(r, lane, tokens);
    if (!replica_can_admit(r, q->kv + tokens))
        return false;
    replica_admit(r, lane, q->kv + tokens, tokens);
    return true;
}

/* Chunks of the prefills begun, as far as tokens and blocks go; false: blocks ran out. */
static bool go_on(struct replica *r, int32_t lane, int64_t *budget, bool *preempted)
{
    struct request *q = replica_next_prefill(r, lane, NULL);
    while (q && *budget > 0) {
        int64_t tokens = chunk_of(r, q, *budget);
        if (tokens == 0) { /* the budget does not reach to where a state is kept */
            q = replica_next_prefill(r, lane, q);
            continue;
        }
        while (!replica_chunk(r, lane, q, tokens)) {
            if (!replica_may_preempt(r, lane))
                return false;
            struct request *victim = replica_last_prefill(r, lane);
            replica_preempt(r, victim);
            *preempted = true;
            if (victim == q)
                return false;
        }
        *budget -= tokens;
        q = replica_next_prefill(r, lane, q);
    }
    return true;
}

static void next_batch(struct replica *r, int32_t lane)
{
    if (r->shares)
        replica_gather(r, lane, r->run->p->batch_cap);
    struct decode_set *set = replica_set(r, lane);
    int64_t budget = token_budget(r->run->p);
    bool preempted = false;
    if (r->kv.pool) {
        kv_pool_step(&r->kv);
        if (!decodes_due(r, lane, &preempted))
            return;
    }
    while (decode_set_blocks(set) > r->kv.free) {
        if (!replica_may_preempt(r, lane))
            return;
        replica_preempt(r, replica_last_running(r, lane));
        preempted = true;
    }
    budget -= replica_decode_tokens(r, lane);
    replica_run_decodes(r, lane);
    if (!link_empty(&r->prefills) && !go_on(r, lane, &budget, &preempted))
        return;
    while (!preempted && budget > 0 && r->waiting.n) {
        const struct request *q = replica_head(r);
        const int64_t tokens = chunk_of(r, q, budget);
        if (!admit(r, lane, q, tokens))
            return;
        budget -= tokens;
    }
}

static int64_t max_batch_tokens(const struct serve_params *p, int64_t longest)
{
    (void)longest;
    return token_budget(p);
}

static enum st check(const struct serve_params *p, struct err *e)
{
    if (token_budget(p) / (1 + p->draft_tokens) >= p->batch_cap)
        return ST_OK;
    if (p->draft_tokens) {
        err_set(e, ST_USAGE,
                "scheduler.token_budget: %lld is below scheduler.batch_cap %lld times 1 + "
                "speculation.draft_tokens %lld",
                (long long)token_budget(p), (long long)p->batch_cap, (long long)p->draft_tokens);
        return err_hint(e, "every running request takes that many tokens of each batch");
    }
    err_set(e, ST_USAGE, "scheduler.token_budget: %lld is below scheduler.batch_cap %lld",
            (long long)p->token_budget, (long long)p->batch_cap);
    return err_hint(e, "every running request takes a token of each batch");
}

const struct sched_ops sched_vllm_v1 = {
    .name = "vllm_v1",
    .help = "vLLM's V1 engine: a token budget shared by decodes and chunked prefills",
    .version = SCHED_VERSION,
    .knobs = KNOB_TOKEN_BUDGET | KNOB_WATERMARK | KNOB_PREFIX_CACHING | KNOB_SPECULATION |
             KNOB_DISAGGREGATION,
    .traits = SCHED_PREEMPTS | SCHED_SHARES | SCHED_KV_GROUPS,
    .next_batch = next_batch,
    .max_batch_tokens = max_batch_tokens,
    .check = check,
};
