/* vLLM's memory plan: against the KV blocks that vLLM logged or published (sources:
 * docs/serving.md), and by hand. */
#include <math.h>
#include <string.h>

#include "serve/memory.h"
#include "support/support.h"
#include "text/json.h"

static const double GIB = 1024.0 * 1024 * 1024;

/* Dimensions: the models' config.json on Hugging Face. */
#define GATED .act = ACT_SILU_GATED, .head_dim = 128
static const struct model llama31_8b = {
    GATED,         .name = "Llama-3.1-8B", .layers = 32,    .hidden = 4096,         .heads = 32,
    .kv_heads = 8, .intermediate = 14336,  .vocab = 128256, .max_positions = 131072};
static const struct model llama31_70b = {
    GATED,         .name = "Llama-3.1-70B", .layers = 80,    .hidden = 8192,         .heads = 64,
    .kv_heads = 8, .intermediate = 28672,   .vocab = 128256, .max_positions = 131072};
static const struct model qwen3_06b = {
    GATED,         .name = "Qwen3-0.6B", .layers = 28,    .hidden = 1024,         .heads = 16,
    .kv_heads = 8, .intermediate = 3072, .vocab = 151936, .max_positions = 40960, .qk_norm = true,
    .tied = true};
static const struct model qwen3_8b = {
    GATED,         .name = "Qwen3-8B",    .layers = 36,    .hidden = 4096,         .heads = 32,
    .kv_heads = 8, .intermediate = 12288, .vocab = 151936, .max_positions = 40960, .qk_norm = true};
static const struct model qwen3_14b = {
    GATED,         .name = "Qwen3-14B",   .layers = 40,    .hidden = 5120,         .heads = 40,
    .kv_heads = 8, .intermediate = 17408, .vocab = 151936, .max_positions = 40960, .qk_norm = true};
static const struct model qwen3_32b = {
    GATED,         .name = "Qwen3-32B",   .layers = 64,    .hidden = 5120,         .heads = 64,
    .kv_heads = 8, .intermediate = 25600, .vocab = 151936, .max_positions = 40960, .qk_norm = true};
static const struct model qwen25_7b = {GATED,
                                       .name = "Qwen2.5-7B",
                                       .layers = 28,
                                       .hidden = 3584,
                                       .heads = 28,
                                       .kv_heads = 4,
                                       .intermediate = 18944,
                                       .vocab = 152064,
                                       .max_positions = 32768,
                                       .qkv_bias = true};
static const struct model qwen25_05b = {.act = ACT_SILU_GATED,
                                        .name = "Qwen2.5-0.5B",
                                        .layers = 24,
                                        .hidden = 896,
                                        .heads = 14,
                                        .kv_heads = 2,
                                        .head_dim = 64,
                                        .intermediate = 4864,
                                        .vocab = 151936,
                                        .max_positions = 32768,
                                        .qkv_bias = true,
                                        .tied = true};

/* Memory is what CUDA reports of the GPU, GiB. Blocks hold 16 tokens. */
struct published {
    const char *gpu, *version;
    const struct model *model;
    double memory_gb, utilization;
    int64_t tp, batch_tokens, batch_cap, request_tokens, blocks;
    bool without_graphs; /* its log shows that none were subtracted */
};

static const struct published recent[] = {
    {"A100 80GB", "0.31.0", &llama31_8b, 79.25, 0.92, 1, 2048, 256, 131072, 28781, false},
    {"L4", "0.30.0", &qwen3_8b, 22.06, 0.92, 1, 2048, 256, 8192, 1440, false},
    {"L40S", "0.28.0", &qwen3_14b, 44.40, 0.92, 1, 2048, 256, 40960, 4739, false},
    {"16 GB", "2026-08", &qwen25_05b, 15.55, 0.9, 1, 32768, 256, 32768, 65192, true},
};

static const struct published older[] = {
    {"48 GB", "0.22.0", &qwen25_7b, 44.5, 0.95, 1, 2048, 128, 4096, 30807, false},
    {"A6000", "0.14", &qwen3_8b, 47.37, 0.9, 1, 2048, 256, 16384, 11804, false},
    {"H100", "0.11", &llama31_8b, 79.18, 0.9, 1, 8192, 1024, 16000, 26306, false},
    {"H100", "0.11", &qwen3_06b, 79.18, 0.9, 1, 8192, 1024, 16000, 37711, false},
    {"H100", "0.11", &qwen3_32b, 79.18, 0.9, 1, 8192, 1024, 16000, 1139, false},
    {"H100", "0.10", &qwen3_8b, 79.18, 0.9, 1, 8192, 1024, 40960, 22900, false},
    {"H100 x2", "0.10", &qwen3_32b, 79.18, 0.9, 2, 8192, 1024, 40960, 17235, false},
    {"H100 x4", "0.10", &llama31_70b, 79.18, 0.9, 4, 8192, 1024, 131072, 26263, false},
};

static struct memory_facts facts_of(const struct published *c)
{
    return (struct memory_facts){.rule = MEMORY_VLLM,
                                 .memory_gb = c->memory_gb,
                                 .utilization = c->utilization,
                                 .nvlink = true,
                                 .model = c->model,
                                 .tp = c->tp,
                                 .pp = 1,
                                 .block_size = 16,
                                 .request_tokens = c->request_tokens,
                                 .batch_cap = c->batch_cap,
                                 .batch_tokens = c->batch_tokens};
}

/* Errors are of the memory of a GPU: where weights leave little, a small one is many blocks. */
static void near(struct test *t, const struct published *cases, size_t n, double tolerance)
{
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        const struct published *c = &cases[i];
        const struct memory_facts f = facts_of(c);
        struct memory_plan p;
        assert_ok(memory_plan(&f, &p, &t->e), t);
        const double block_gib = p.cache_bytes / GIB / (double)p.num_blocks;
        const double kept = c->without_graphs ? p.graph_bytes / GIB : 0;
        const double off = ((double)(p.num_blocks - c->blocks) * block_gib + kept) / c->memory_gb;
        print_message("%-9s %-6s %-13s weights %5.2f, activations %4.2f, graphs %4.2f, other %4.2f "
                      "GiB; %5lld blocks, vLLM %5lld: %.3f, %+.1f %% of memory\n",
                      c->gpu, c->version, c->model->name, p.weight_bytes / GIB,
                      p.activation_bytes / GIB, p.graph_bytes / GIB, p.other_bytes / GIB,
                      (long long)p.num_blocks, (long long)c->blocks,
                      (double)p.num_blocks / (double)c->blocks, 100 * off);
        wrong += fabs(off) > tolerance;
    }
    assert_int_equal(wrong, 0);
}

/* Of versions that profile as 0.33 does, or nearly so. */
static void blocks_are_those_of_recent_versions(void **state)
{
    near(*state, recent, sizeof recent / sizeof *recent, 0.01);
}

/* These profiled another sampler, and did not subtract graphs. */
static void blocks_are_near_those_of_older_versions(void **state)
{
    near(*state, older, sizeof older / sizeof *older, 0.025);
}

/* 2 layers of 8 heads of 16 and 4 KV heads over a hidden size of 128, MLP 256, vocabulary 1,000:
 * a layer has 128 x 16 x (8 + 8) + 8 x 16 x 128 + 3 x 128 x 256 weights and two norms. */
static const struct model small = {.name = "small",
                                   .act = ACT_SILU_GATED,
                                   .layers = 2,
                                   .hidden = 128,
                                   .heads = 8,
                                   .kv_heads = 4,
                                   .head_dim = 16,
                                   .intermediate = 256,
                                   .vocab = 1000,
                                   .max_positions = 4096};
enum { LAYER = 128 * 16 * 16 + 8 * 16 * 128 + 3 * 128 * 256 + 2 * 128 };
enum { TABLE = 1024 * 128, ROTARY = 4096 * 16, NORM = 128 };

static struct memory_facts small_facts(const struct model *m)
{
    return (struct memory_facts){.rule = MEMORY_VLLM,
                                 .memory_gb = 1,
                                 .utilization = 0.5,
                                 .model = m,
                                 .tp = 1,
                                 .pp = 1,
                                 .block_size = 16,
                                 .request_tokens = 1000,
                                 .batch_cap = 4,
                                 .batch_tokens = 64};
}

static void weights_and_keys_have_their_formats(void **state)
{
    struct test *t = *state;
    struct model m = small;
    m.weights = m.multiply = m.kv = PRECISION_FP8;
    struct memory_facts f = small_facts(&m), half = small_facts(&small);
    struct memory_plan p, q;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_ok(memory_plan(&half, &q, &t->e), t);
    assert_true(p.weight_bytes ==
                2 * (LAYER - 2 * 128) + 2 * (2 * 2 * 128 + 2 * TABLE + ROTARY + NORM));
    assert_true(p.request_bytes == q.request_bytes / 2);
    assert_true(p.activation_bytes == q.activation_bytes);
    f.rule = half.rule = MEMORY_VIDUR;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_ok(memory_plan(&half, &q, &t->e), t);
    assert_true(p.weight_bytes == q.weight_bytes / 2 && p.request_bytes == q.request_bytes / 2);
}

static void one_device_by_hand(void **state)
{
    struct test *t = *state;
    struct memory_facts f = small_facts(&small);
    struct memory_plan p;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.usable_bytes == GIB / 2);
    assert_true(p.weight_bytes == 2 * (2 * LAYER + 2 * TABLE + ROTARY + NORM));
    /* 64 tokens through the MLP, and 4 rows of logits: 14 x 4 x 1024 is less */
    assert_true(p.activation_bytes == 64 * 2 * (2 * 128 + 3 * 256));
    /* 1, 2, 4, 8 in pieces, 1, 2, 4 whole; 2 layers of 384 KiB */
    assert_true(p.graph_bytes == 7 * 2 * 384 * 1024);
    assert_true(fabs(p.other_bytes - (0.13 * GIB + 4.125 * 4 * 1024)) < 1);
    assert_true(p.request_bytes == 2 * 2 * 4 * 16 * 2 * 1008); /* 63 blocks */
    assert_true(p.cache_bytes == p.usable_bytes - p.weight_bytes - p.activation_bytes -
                                     p.graph_bytes - p.other_bytes);
    assert_int_equal(p.num_blocks, (int64_t)(p.cache_bytes / (2 * 2 * 4 * 16 * 2 * 16)));
    assert_int_equal(p.max_batch, p.num_blocks / 63);
    const double cache = p.cache_bytes;
    f.reserved_gb = 0.25;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.cache_bytes == cache - GIB / 8);
    f.reserved_gb = 0;
    f.batch_cap = 64; /* 14 x 64 rows of logits; 1 to 64, twice */
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.activation_bytes == 14 * 64 * 1024);
    assert_true(p.graph_bytes == 2 * (3 + 8) * 2 * 384 * 1024);
    struct model tied = small;
    tied.tied = true;
    f = small_facts(&tied);
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.weight_bytes == 2 * (2 * LAYER + TABLE + ROTARY + NORM));
}

/* The first stage has the embedding, the last the LM head, its logits and the last norm: it has the
 * least room. */
static void shards_by_hand(void **state)
{
    struct test *t = *state;
    struct memory_facts f = small_facts(&small);
    struct memory_plan one, p;
    assert_ok(memory_plan(&f, &one, &t->e), t);
    f.pp = 2;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.weight_bytes == 2 * (LAYER + TABLE + ROTARY + NORM));
    assert_true(p.graph_bytes == one.graph_bytes / 2);
    assert_true(p.request_bytes == one.request_bytes / 2);
    assert_int_equal(p.num_blocks, (int64_t)(p.cache_bytes / (2 * 2 * 4 * 16 * 16)));
    struct model four = small; /* 1, 2 and 1 layers: the middle stage has neither table nor head */
    four.layers = 4;
    f.model = &four;
    f.pp = 3;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.weight_bytes == 2 * (2 * LAYER + ROTARY));
    assert_true(p.request_bytes == one.request_bytes);
    assert_int_equal(p.num_blocks, (int64_t)(p.cache_bytes / (2 * 2 * 2 * 4 * 16 * 16)));
    f.model = &small;
    f.pp = 1;
    f.tp = 2;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.weight_bytes ==
                2 * (2 * ((LAYER - 2 * 128) / 2 + 2 * 128) + TABLE + ROTARY + NORM));
    assert_true(fabs(p.other_bytes - (one.other_bytes + 0.1 * GIB)) < 1);
    assert_true(p.request_bytes == one.request_bytes / 2);
    f.nvlink = true;
    f.memory_gb = 8;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(fabs(p.other_bytes - (one.other_bytes + 1.3 * GIB)) < 1);
}

/* ep > tp: groups share the experts, whole, and have keys and values of their own. */
static void experts_by_hand(void **state)
{
    struct test *t = *state;
    struct model m = small;
    m.experts = 8;
    m.experts_per_token = 2;
    struct memory_facts f = small_facts(&m);
    struct memory_plan one, p;
    assert_ok(memory_plan(&f, &one, &t->e), t);
    f.ep = 4;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(one.weight_bytes - p.weight_bytes == 2.0 * 2 * 6 * 3 * 128 * 256);
    assert_int_equal(p.num_blocks % 4, 0);
    assert_int_equal(p.num_blocks / 4, (int64_t)(p.cache_bytes / (2 * 2 * 4 * 16 * 2 * 16)));
}

static void no_room_is_said_with_what_takes_it(void **state)
{
    struct test *t = *state;
    const struct memory_facts f = facts_of(&(struct published){
        "H100", "0.33.0", &llama31_70b, 79.18, 0.92, 1, 8192, 1024, 4096, 0, false});
    struct memory_plan p;
    assert_err(
        memory_plan(&f, &p, &t->e), ST_USAGE, t,
        "model Llama-3.1-70B: of 72.8 GiB that vLLM may use of a device, weights take 131.4, "
        "activations 1.7, CUDA graphs 3.0 and the rest 0.6 GiB: no room is left for keys and "
        "values of 1.2 GiB for a request of 4096 tokens\n"
        "hint: raise parallel.tp or parallel.pp, lower scheduler.max_model_len, or set "
        "scheduler.num_blocks");
}

/* Qwen3-235B-A22B in NVFP4 as ModelOpt exports it: a scheme beside config.json, everything but LM
 * head, embedding and routers in 4.5 bits. By hand, of 8 devices: of 94 layers experts 128 x 3 x
 * 192 x 4096 and attention 4096 x 128 x (8 + 8 + 1 + 1) elements in 0.5625 bytes, routers 128 x
 * 4096 in 2, two tables of 18,992 x 4096 in 2: 16.9 GB. */
/* A window and a full layer, of one KV head of 32 each: pages of 16 tokens are 2,048 bytes, and a
 * block has that of one layer. With pipeline stages a block has the layers of a stage. */
static void blocks_of_groups(void **state)
{
    struct test *t = *state;
    static const char json[] =
        "{\"model_type\": \"gpt_oss\", \"num_hidden_layers\": 4, \"hidden_size\": 64,"
        " \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 32,"
        " \"intermediate_size\": 64, \"vocab_size\": 256, \"max_position_embeddings\": 4096,"
        " \"rms_norm_eps\": 1e-5, \"rope_theta\": 1e4, \"num_local_experts\": 2,"
        " \"num_experts_per_tok\": 1, \"sliding_window\": 33,"
        " \"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\","
        " \"full_attention\"]}";
    struct node *config;
    struct model m;
    struct kv_groups groups;
    assert_ok(json_parse(t->a, "config.json", sv_of(json), NULL, &config, &t->e), t);
    assert_ok(model_from_config(t->a, "small", config, &m, &t->e), t);
    const struct kv_settings set = {
        .block_size = 16, .element_bytes = 2, .state_bytes = 2, .hybrid = true};
    assert_ok(kv_groups_make(t->a, "small", m.structure, &set, &groups, &t->e), t);
    struct memory_facts f = {.memory_gb = 1,
                             .utilization = 0.9,
                             .model = &m,
                             .tp = 1,
                             .pp = 1,
                             .block_size = 16,
                             .request_tokens = 1024,
                             .batch_cap = 8,
                             .batch_tokens = 64,
                             .groups = &groups,
                             .in_flight = 64};
    struct memory_plan p;
    assert_ok(memory_plan_vllm(&f, &p, &t->e), t);
    assert_int_equal(groups.block_bytes, 4096); /* two layers a group */
    assert_int_equal(p.num_blocks, (int64_t)(p.cache_bytes / 4096));
    /* 64 blocks of the full layers, and of windows 32 + 64 tokens, one block cut */
    assert_int_equal(p.request_bytes, (64 + 7) * 4096);
    f.pp = 2;
    assert_ok(memory_plan_vllm(&f, &p, &t->e), t);
    assert_int_equal(p.num_blocks, (int64_t)(p.cache_bytes / 2048));
    /* the longest request and the null block must find room */
    f.pp = 1;
    assert_ok(memory_plan_vllm(&f, &p, &t->e), t);
    const double taken = p.usable_bytes - p.cache_bytes;
    f.memory_gb = (taken + 72.5 * 4096) / 0.9 / GIB;
    assert_ok(memory_plan_vllm(&f, &p, &t->e), t);
    assert_int_equal(p.num_blocks, 72);
    f.memory_gb = (taken + 71.5 * 4096) / 0.9 / GIB;
    assert_int_equal(memory_plan_vllm(&f, &p, &t->e), ST_USAGE);
}

static void formats_beside_the_configuration(void **state)
{
    struct test *t = *state;
    static const char config[] =
        "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 94, \"hidden_size\": 4096, "
        "\"num_attention_heads\": 64, \"num_key_value_heads\": 4, \"head_dim\": 128, "
        "\"intermediate_size\": 12288, \"moe_intermediate_size\": 1536, \"num_experts\": 128, "
        "\"num_experts_per_tok\": 8, \"vocab_size\": 151936, \"tie_word_embeddings\": false, "
        "\"max_position_embeddings\": 40960}";
    static const char side[] =
        "{\"quantization\": {\"quant_algo\": \"NVFP4\", \"kv_cache_quant_algo\": \"FP8\", "
        "\"group_size\": 16, \"exclude_modules\": [\"model.layers.*.mlp.gate\", \"lm_head\"]}}";
    struct node *c, *s;
    struct model m;
    struct memory_plan p;
    assert_ok(json_parse(t->a, "config.json", sv_of(config), NULL, &c, &t->e), t);
    assert_ok(json_parse(t->a, "hf_quant_config.json", sv_of(side), NULL, &s, &t->e), t);
    assert_ok(model_from_files(t->a, "m", c, s, &m, &t->e), t);
    const struct memory_facts f = facts_of(
        &(struct published){"B200", "0.33.0", &m, 178, 0.92, 8, 8192, 256, 4096, 0, false});
    assert_ok(memory_plan(&f, &p, &t->e), t);
    const double experts = 128.0 * 3 * 192 * 4096, attention = 4096.0 * 128 * (8 + 8 + 1 + 1);
    const double all =
        94 * ((experts + attention) * 0.5625 + 2 * 128.0 * 4096) + 2 * 2 * 18992.0 * 4096;
    /* norms, scales of tensors and the rotary table are the rest */
    assert_near(p.weight_bytes, all, 0.002 * all);
    assert_near(p.weight_bytes / 1e9, 16.9, 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(blocks_are_those_of_recent_versions),
                                       TEST(blocks_are_near_those_of_older_versions),
                                       TEST(weights_and_keys_have_their_formats),
                                       TEST(one_device_by_hand),
                                       TEST(shards_by_hand),
                                       TEST(experts_by_hand),
                                       TEST(blocks_of_groups),
                                       TEST(formats_beside_the_configuration),
                                       TEST(no_room_is_said_with_what_takes_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
