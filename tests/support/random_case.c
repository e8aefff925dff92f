#include "support/random_case.h"

#include "base/rng.h"

void random_case_knobs(struct serve_params *p, const struct sched_ops *sched, int64_t tokens)
{
    p->policy = sched->name;
    p->token_budget = sched->knobs & KNOB_TOKEN_BUDGET ? tokens : 0;
    p->chunk_size = sched->knobs & KNOB_CHUNK_SIZE ? tokens : 0;
    p->max_tokens_in_batch = sched->knobs & KNOB_MAX_TOKENS_IN_BATCH ? tokens : 0;
    p->max_waiting_iters = sched->knobs & KNOB_MAX_WAITING_ITERS ? 1 + tokens % 7 : 0;
}

void random_case_blocks(struct serve_params *p, const struct sched_ops *sched, int64_t block_size,
                        int64_t num_blocks)
{
    bool ones = sched->traits & SCHED_TOKEN_BLOCKS;
    p->block_size = ones ? 1 : block_size;
    p->num_blocks = ones ? num_blocks * block_size : num_blocks;
}

/* Of a model with a window, pieces and entries, shorter than the longest sequences. */
static const struct key_spans spans = {
    .n = 4,
    .of = {{.unit = 1, .most = 9}, {.unit = 1, .chunk = 7}, {.unit = 3}, {.unit = 2, .most = 5}}};

struct harness random_case(const struct sched_ops *sched, uint64_t seed, struct workload_request *w)
{
    struct rng rng = rng_stream(seed, sched->name);
    struct harness h = harness_default();
    h.p.batch_cap = 1 + (int64_t)rng_below(&rng, 12);
    random_case_knobs(&h.p, sched, h.p.batch_cap + (int64_t)rng_below(&rng, 40));
    int64_t block_size = 1 + (int64_t)rng_below(&rng, 8);
    random_case_blocks(&h.p, sched, block_size, 61 / block_size + 2 + (int64_t)rng_below(&rng, 20));
    if (sched->traits & SCHED_PLANNED_BATCH && seed % 2)
        h.p.max_model_len = 60;
    if (sched->knobs & KNOB_WATERMARK && rng_below(&rng, 2))
        h.p.watermark = 0.1;
    h.p.reserve_full_prompt = sched->knobs & KNOB_RESERVE_FULL_PROMPT && h.p.token_budget % 2;
    h.p.long_prefill_token_threshold = sched->knobs & KNOB_LONG_PREFILL ? h.p.token_budget % 9 : 0;
    if (seed % 3 != 1)
        h.p.spans = spans;
    h.n_requests = 1 + (size_t)rng_below(&rng, RANDOM_REQUESTS);
    double gap_s = rng_unit(&rng) * 8, at_s = 0;
    for (size_t i = 0; i < h.n_requests; i++) {
        w[i] = (struct workload_request){.request_id = (int64_t)i,
                                         .arrival_s = at_s,
                                         .num_prefill_tokens = 1 + (int64_t)rng_below(&rng, 36),
                                         .num_decode_tokens = 1 + (int64_t)rng_below(&rng, 24)};
        if (rng_below(&rng, 3))
            at_s += gap_s * rng_exponential(&rng);
    }
    h.requests = w;
    h.fake.batch_s = 0.5;
    h.fake.token_s = 0.125;
    return h;
}
