#include <string.h>

#include "serve/kv_tables.h"
#include "serve/replica.h"
#include "serve/sched/policies.h"

enum { DEFAULT_BUDGET = 2048 };

/* A step of the scheduler: what is left of its batch. */
struct scheduler_step {
    struct replica *r;
    int32_t lane;
    int64_t budget;
    int64_t chunk; /* most tokens of one prompt */
    int64_t owed;  /* blocks of decodes looked at, which are taken when all of them are known */
    bool preempted;
};

static int64_t token_budget(const struct serve_params *p)
{
    if (p->token_budget)
        return p->token_budget;
    return p->batch_cap > DEFAULT_BUDGET ? p->batch_cap : DEFAULT_BUDGET;
}

/* The cap on long prompts keeps them from starving others: one that is alone goes without. */
static int64_t most_of_a_prompt(const struct replica *r)
{
    int64_t cap = r->run->p->long_prefill_token_threshold;
    return cap && r->active + (int64_t)r->waiting.n > 1 ? cap : INT64_MAX;
}

/* Whoever else is there. */
static int64_t most_of_a_chunk(const struct serve_params *p)
{
    const int64_t budget = token_budget(p), cap = p->long_prefill_token_threshold;
    return cap && cap < budget ? cap : budget;
}

static int64_t chunk_of(const struct scheduler_step *s, const struct request *q)
{
    return request_chunk(q, s->chunk < s->budget ? s->chunk : s->budget);
}

/* The request admitted last, in flight or not, gives its blocks back. The requests looked at before
 * have `owed` of the blocks that are free. */
static struct request *preempt_last(struct scheduler_step *s)
{
    if (s->r->kv.cache)
        prefix_forget(s->r->kv.cache, s->owed);
    struct request *victim = replica_last_admitted(s->r);
    replica_preempt(s->r, victim);
    s->preempted = true;
    return victim;
}

/* The same with KV groups. A chunk that the budget does not reach to where its state is kept leaves
 * q out of this batch. */
static bool go_on_tables(struct scheduler_step *s, struct request *q)
{
    const int64_t tokens =
        kv_tables_split(&s->r->kv, q, chunk_of(s, q), most_of_a_chunk(s->r->run->p));
    if (tokens == 0)
        return true;
    while (!replica_chunk(s->r, s->lane, q, tokens))
        if (preempt_last(s) == q)
            return false;
    s->budget -= tokens;
    return true;
}

/* A chunk of q, with room made from the back. False: q itself was preempted. */
static bool go_on(struct scheduler_step *s, struct request *q)
{
    const struct kv *kv = &s->r->kv;
    if (kv->pool)
        return go_on_tables(s, q);
    int64_t tokens = chunk_of(s, q);
    while (kv_blocks_for(kv, q->kv + tokens) - q->n_blocks > kv->free - s->owed)
        if (preempt_last(s) == q)
            return false;
    bool fits = replica_chunk(s->r, s->lane, q, tokens);
    ASSERT(fits);
    s->budget -= tokens;
    return true;
}

/* Room for the decode q, whose tables are due. False: q itself was preempted. */
static bool decode_tables(struct scheduler_step *s, struct request *q)
{
    while (!replica_decode_tables(s->r, q))
        if (preempt_last(s) == q)
            return false;
    return true;
}

/* Those decodes alone whose tables are due are looked at. */
static void decodes_due(struct scheduler_step *s)
{
    struct request_list due = {0};
    decode_set_due(replica_set(s->r, s->lane), &due);
    for (size_t i = 0; i < due.n; i++)
        if (due.p[i]->state == REQUEST_DECODE && !decode_tables(s, due.p[i]))
            break;
    vec_free(&due);
}

/* All decodes stand before the prefills: they are counted, not looked at. */
static void decodes_first(struct scheduler_step *s)
{
    struct replica *r = s->r;
    struct decode_set *set = replica_set(r, s->lane);
    if (r->kv.pool)
        decodes_due(s);
    while (decode_set_blocks(set) > r->kv.free) {
        s->owed = r->kv.free; /* a decode wants one block: all have gone to those before it */
        preempt_last(s);
    }
    s->owed = 0;
    s->budget -= set->n;
    replica_run_decodes(r, s->lane);
    struct request *q = replica_next_prefill(r, s->lane, NULL);
    while (q && s->budget > 0 && go_on(s, q))
        q = replica_next_prefill(r, s->lane, q);
}

/* Room for the decode q. False: q itself was preempted. */
static bool decode_fits(struct scheduler_step *s, struct request *q)
{
    const struct decode_set *set = replica_set(s->r, s->lane);
    if (s->r->kv.pool) {
        s->budget--;
        return q->look != set->tick || decode_tables(s, q);
    }
    int64_t needs = decode_set_needs(set, q);
    while (needs > 0 && s->owed + needs > s->r->kv.free)
        if (preempt_last(s) == q)
            return false;
    s->owed += needs;
    s->budget--;
    return true;
}

/* Prefills and decodes mixed, by order of admission. Decodes that the budget does not reach rest
 * for this batch. */
static void by_admission(struct scheduler_step *s)
{
    struct replica *r = s->r;
    struct decode_set *set = replica_set(r, s->lane);
    int64_t reached = INT64_MAX;
    for (struct link *l = r->running.next; l != &r->running; l = l->next) {
        struct request *q = LINK_OF(l, struct request, running);
        if (s->budget == 0) {
            reached = q->admission - 1;
            break;
        }
        if (q->state == REQUEST_PREFILL && !go_on(s, q))
            break;
        bool decodes = q->state == REQUEST_DECODE && q->lane == s->lane;
        if (decodes && !decode_fits(s, q))
            break;
    }
    while (set->n > 0 && decode_set_last(set)->admission > reached)
        replica_leave_out(r, decode_set_last(set));
    replica_run_decodes(r, s->lane);
}

static bool mixed(struct replica *r, int32_t lane)
{
    const struct request *first = replica_next_prefill(r, lane, NULL);
    const struct request *last = decode_set_last(replica_set(r, lane));
    return first && last && first->admission < last->admission;
}

/* The same with KV groups. */
static void admit_tables(struct scheduler_step *s)
{
    struct replica *r = s->r;
    const struct request *q;
    while (!s->preempted && s->budget > 0 && r->waiting.n && (q = replica_head(r))) {
        const int64_t tokens =
            kv_tables_split(&r->kv, q, chunk_of(s, q), most_of_a_chunk(r->run->p));
        if (tokens == 0 || !replica_admit_tables(r, s->lane, tokens))
            return;
        s->budget -= tokens;
    }
}

static void admit(struct scheduler_step *s)
{
    struct replica *r = s->r;
    const struct serve_params *p = r->run->p;
    const struct request *q;
    while (!s->preempted && s->budget > 0 && r->waiting.n && (q = replica_head(r))) {
        int64_t tokens = chunk_of(s, q), holds = q->kv + tokens;
        if (!replica_can_admit(r, p->reserve_full_prompt ? q->prefill : holds))
            return;
        replica_admit(r, s->lane, holds, tokens);
        s->budget -= tokens;
    }
}

static void next_batch(struct replica *r, int32_t lane)
{
    struct scheduler_step s = {
        .r = r, .lane = lane, .budget = token_budget(r->run->p), .chunk = most_of_a_prompt(r)};
    if (r->kv.pool)
        kv_pool_step(&r->kv);
    if (r->shares)
        replica_gather(r, lane, r->run->p->batch_cap);
    else
        replica_take_rested(r, lane);
    if (mixed(r, lane))
        by_admission(&s);
    else
        decodes_first(&s);
    if (r->kv.pool)
        admit_tables(&s);
    else
        admit(&s);
}

/* The server's defaults by the memory of a GPU (vllm/engine/arg_utils.py, get_batch_defaults). */
static const struct {
    double memory_gb; /* from here on */
    int64_t token_budget, batch_cap;
} by_memory[] = {{160, 16384, 1024}, {70, 8192, 1024}, {0, 2048, 256}};
enum { SMALL_GPU = 2, CPU_TOKENS = 2048, CPU_SEQUENCES = 128 }; /* CPU: of each device */

static enum st batch_defaults(struct serve_params *p, const struct sched_hardware *hw,
                              struct err *e)
{
    if (p->token_budget && p->batch_cap)
        return ST_OK;
    bool cpu = hw->id && strcmp(hw->id, "cpu") == 0;
    if (!cpu && hw->memory_gb <= 0) {
        err_set(e, ST_USAGE,
                "scheduler.%s: vLLM sets it by the memory of the GPU, which hardware.id %s does "
                "not say",
                p->token_budget ? "batch_cap" : "token_budget", hw->id ? hw->id : "(unset)");
        return err_hint(e, "hardware.memory_gb=80, or scheduler.token_budget and "
                           "scheduler.batch_cap themselves");
    }
    size_t row = 0;
    while (hw->memory_gb < by_memory[row].memory_gb)
        row++;
    if (hw->id && strncmp(hw->id, "a100", 4) == 0 && hw->memory_gb < by_memory[0].memory_gb)
        row = SMALL_GPU; /* large batches were slower there */
    int64_t tokens = cpu ? CPU_TOKENS * hw->devices : by_memory[row].token_budget;
    int64_t sequences = cpu ? CPU_SEQUENCES * hw->devices : by_memory[row].batch_cap;
    if (p->batch_cap)
        sequences = p->batch_cap;
    if (p->token_budget)
        tokens = p->token_budget;
    else if (p->max_model_len && sequences * p->max_model_len < tokens)
        tokens = sequences * p->max_model_len;
    p->token_budget = tokens;
    if (p->batch_cap == 0)
        p->batch_cap = sequences < tokens ? sequences : tokens;
    return ST_OK;
}

/* Decode steps as one graph, others in pieces, up to twice the sequences (vllm/config/vllm.py,
 * _set_cudagraph_sizes). */
static void launching_defaults(struct serve_params *p, const struct sched_hardware *hw)
{
    const bool blackwell =
        hw->id && (strncmp(hw->id, "b200", 4) == 0 || strncmp(hw->id, "gb200", 5) == 0);
    const int64_t most = blackwell ? 1024 : 512;
    struct launching *l = &p->launching;
    if (l->mode == LAUNCHING_UNTOLD)
        l->mode =
            hw->id && strcmp(hw->id, "cpu") == 0 ? LAUNCHING_UNTOLD : LAUNCHING_FULL_AND_PIECEWISE;
    if (l->tokens > 0 || l->mode == LAUNCHING_UNTOLD || l->mode == LAUNCHING_NONE)
        return;
    l->tokens = 2 * p->batch_cap < most ? 2 * p->batch_cap : most;
    if (p->token_budget < l->tokens)
        l->tokens = p->token_budget;
}

static enum st defaults(struct serve_params *p, const struct sched_hardware *hw, struct err *e)
{
    TRY(batch_defaults(p, hw, e));
    launching_defaults(p, hw);
    return ST_OK;
}

static int64_t max_batch_tokens(const struct serve_params *p, int64_t longest)
{
    (void)longest;
    return token_budget(p);
}

static enum st check(const struct serve_params *p, struct err *e)
{
    if (token_budget(p) >= p->batch_cap)
        return ST_OK;
    err_set(e, ST_USAGE, "scheduler.token_budget: %lld is below scheduler.batch_cap %lld",
            (long long)p->token_budget, (long long)p->batch_cap);
    return err_hint(e, "every running request takes a token of each batch");
}

const struct sched_ops sched_vllm_0_33 = {
    .name = "vllm_0_33",
    .help = "vLLM 0.33, batch for batch",
    .version = SCHED_VERSION,
    .knobs = KNOB_TOKEN_BUDGET | KNOB_WATERMARK | KNOB_PREFIX_CACHING | KNOB_RESERVE_FULL_PROMPT |
             KNOB_LONG_PREFILL | KNOB_ASYNC,
    .traits = SCHED_PREEMPTS | SCHED_SHARES | SCHED_BY_ADMISSION | SCHED_CHUNKS_FOLLOW |
              SCHED_ARRIVALS_WAIT | SCHED_NAMELESS_FIRST | SCHED_NULL_BLOCK | SCHED_FREES_AT_ONCE |
              SCHED_BATCH_QUEUE | SCHED_KV_GROUPS,
    .next_batch = next_batch,
    .max_batch_tokens = max_batch_tokens,
    .defaults = defaults,
    .check = check,
};
