#include "serve/memory.h"

#include "support/support.h"
#include "text/json.h"

static const struct model codellama_34b = {.name = "codellama_34b",
                                           .act = ACT_SILU_GATED,
                                           .layers = 48,
                                           .hidden = 8192,
                                           .heads = 64,
                                           .kv_heads = 8,
                                           .head_dim = 128,
                                           .intermediate = 22016};

static struct memory_facts a100(int64_t tp, int64_t pp)
{
    return (struct memory_facts){.memory_gb = 80,
                                 .margin = 0.1,
                                 .model = &codellama_34b,
                                 .tp = tp,
                                 .pp = pp,
                                 .block_size = 16,
                                 .request_tokens = 4096};
}

/* Figures of a run of Vidur's. */
static void as_vidur_plans(void **state)
{
    struct test *t = *state;
    struct memory_facts f = a100(2, 1);
    struct memory_plan p;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_int_equal(p.max_batch, 109);
    assert_int_equal(p.num_blocks, 27904);
}

static struct model model_of(struct test *t, const char *json)
{
    struct node *config;
    struct model m;
    assert_ok(json_parse(t->a, "config.json", sv_of(json), NULL, &config, &t->e), t);
    assert_ok(model_from_config(t->a, "m", config, &m, &t->e), t);
    return m;
}

/* Four layers, one of them with all keys, and a stage of two layers whose MLPs are of experts. */
static void layers_that_differ(void **state)
{
    struct test *t = *state;
    const struct model m = model_of(
        t, "{\"model_type\": \"gpt_oss\", \"vocab_size\": 1000, \"hidden_size\": 64,"
           " \"intermediate_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
           " \"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 8,"
           " \"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"layer_types\":"
           " [\"sliding_attention\", \"sliding_attention\", \"full_attention\","
           "  \"sliding_attention\"]}");
    struct memory_plan p;
    struct memory_facts f = {
        .memory_gb = 0.5, .model = &m, .tp = 2, .pp = 2, .block_size = 16, .request_tokens = 1000};
    assert_ok(memory_plan(&f, &p, &t->e), t);
    /* keys and values of one head of 16 on a shard, windows whole: many short requests fill all */
    assert_true(p.request_bytes == 2 * 2 * 16 * 4 * 1000.0);
    assert_int_equal(p.most_requests, 0);
    /* two layers: q and o of 2 heads, k and v of one; 4 experts of three matrices of 64 x 16 */
    assert_true(p.weight_bytes == 2 * 2 * (64 * 16 * (2 + 2 + 1 + 1) + 4 * 3 * 64 * 16.0));
}

/* Three layers of states and one of keys and values: blocks count the latter alone, so a sequence
 * more would have no room for its states. */
static void states_bound_the_requests(void **state)
{
    struct test *t = *state;
    const struct model m = model_of(
        t, "{\"model_type\": \"qwen3_next\", \"vocab_size\": 1000, \"hidden_size\": 64,"
           " \"intermediate_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
           " \"num_key_value_heads\": 2, \"head_dim\": 16, \"num_experts\": 0,"
           " \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 16,"
           " \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 2,"
           " \"linear_value_head_dim\": 16, \"full_attention_interval\": 4}");
    struct memory_plan p;
    struct memory_facts f = {
        .memory_gb = 0.5, .model = &m, .tp = 1, .pp = 1, .block_size = 16, .request_tokens = 1600};
    const double keys = 2 * 2 * 2 * 16 * 1600.0;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.request_bytes > keys);
    assert_int_equal(p.most_requests, p.max_batch);
    assert_int_equal(p.num_blocks, 100 * p.max_batch);
    const double states = p.request_bytes - keys;
    const double taken = p.weight_bytes + (double)p.most_requests * states +
                         (double)p.num_blocks * 16 * 2 * 2 * 2 * 16;
    assert_true(taken <= 0.5 * (1 << 30));
    f.pp = 2; /* the first stage has two layers of states, the second one of each */
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.request_bytes == 2 * (keys + states / 3));
    assert_int_equal(p.most_requests, 2 * p.max_batch);
}

/* By hand: 16 layers of 2 x (2 x 32 + 2 x 8) heads' worth of 64 x 8 and two GEMMs of 64 x 100. */
static void one_shard_of_a_small_model(void **state)
{
    struct test *t = *state;
    const struct model m = {.name = "m",
                            .act = ACT_GELU_TANH,
                            .layers = 16,
                            .hidden = 64,
                            .heads = 32,
                            .kv_heads = 3,
                            .head_dim = 8,
                            .intermediate = 100};
    struct memory_facts f = {.memory_gb = 0.5,
                             .margin = 0,
                             .model = &m,
                             .tp = 2,
                             .pp = 4,
                             .block_size = 16,
                             .request_tokens = 1000};
    struct memory_plan p;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.weight_bytes == 2 * 4 * (64.0 * 8 * (16 + 2 * 2) + 64 * 8 * 16 + 2 * 64 * 50));
    assert_true(p.request_bytes == 2 * 2 * 8 * 2 * 1000.0 * 16);
    assert_int_equal(p.max_batch, 524); /* (2^29 - 198,656) / 1,024,000 = 524.09 */
    assert_int_equal(p.num_blocks, 62 * 524 * 4);
    f.pp = 3; /* 5, 6 and 5 layers: weights of 6, and a request is charged three times as many */
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.weight_bytes == 2 * 6 * (64.0 * 8 * (16 + 2 * 2) + 64 * 8 * 16 + 2 * 64 * 50));
    assert_true(p.request_bytes == 2 * 2 * 8 * 2 * 1000.0 * 18);
    assert_int_equal(p.max_batch, 465); /* (2^29 - 297,984) / 1,152,000 = 465.78 */
    assert_int_equal(p.num_blocks, 62 * 465 * 3);
}

static void what_does_not_fit_is_said(void **state)
{
    struct test *t = *state;
    struct memory_facts f = a100(1, 1);
    struct memory_plan p;
    f.memory_gb = 64;
    assert_err(memory_plan(&f, &p, &t->e), ST_USAGE, t,
               "model codellama_34b: a device of 64 GiB has 57.6 GiB for weights of 61.9 GiB and "
               "keys and values of 0.8 GiB for a request of 4096 tokens\n"
               "hint: raise parallel.tp or parallel.pp, lower scheduler.max_model_len, or set "
               "scheduler.num_blocks");
}

/* 16 experts on 2 shards, then on 8 devices: a quarter of the experts each, four times the keys. */
static void experts_are_spread_and_keys_are_not(void **state)
{
    struct test *t = *state;
    struct model m = {.name = "moe",
                      .act = ACT_SILU_GATED,
                      .layers = 4,
                      .hidden = 64,
                      .heads = 32,
                      .kv_heads = 4,
                      .head_dim = 8,
                      .intermediate = 100,
                      .experts = 16,
                      .experts_per_token = 2};
    struct memory_facts f = {.memory_gb = 0.5,
                             .margin = 0,
                             .model = &m,
                             .tp = 2,
                             .pp = 1,
                             .block_size = 16,
                             .request_tokens = 1000};
    struct memory_plan p;
    const double attention = 64.0 * 8 * (2 * 16 + 2 * 2), expert = 3.0 * 64 * 50;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.weight_bytes == 2 * 4 * (attention + 16 * expert));
    int64_t one = p.num_blocks / p.max_batch;
    f.ep = 8;
    assert_ok(memory_plan(&f, &p, &t->e), t);
    assert_true(p.weight_bytes == 2 * 4 * (attention + 4 * expert));
    assert_int_equal(p.num_blocks, 4 * one * p.max_batch);
}

/* 256 tokens of 2 layers, 2 KV heads of 8 each, 4 bytes: a block of 16 tokens is 4 KiB. */
static void the_same_on_every_machine(void **state)
{
    (void)state;
    const struct model m = {.name = "m", .layers = 2, .kv_heads = 2, .head_dim = 8};
    struct memory_facts f = {.model = &m, .block_size = 16, .request_tokens = 250, .batch_cap = 5};
    struct memory_plan p;
    memory_plan_host(&f, 4, &p);
    assert_int_equal(p.num_blocks, 5 * 16);
    assert_true(p.max_batch == INT64_MAX);
    f.cache_bytes = 100 * 4096;
    f.batch_cap = 1000;
    memory_plan_host(&f, 4, &p);
    assert_int_equal(p.num_blocks, 100);
    memory_plan_host(&f, 2, &p);
    assert_int_equal(p.num_blocks, 200);
    f.cache_bytes = 4096; /* one request at least */
    memory_plan_host(&f, 4, &p);
    assert_int_equal(p.num_blocks, 16);
    f.cache_bytes = 0;
    f.batch_cap = INT64_C(1) << 30;
    memory_plan_host(&f, 4, &p);
    assert_int_equal(p.num_blocks, (INT64_C(2) << 30) / 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(as_vidur_plans),
                                       TEST(layers_that_differ),
                                       TEST(states_bound_the_requests),
                                       TEST(one_shard_of_a_small_model),
                                       TEST(the_same_on_every_machine),
                                       TEST(experts_are_spread_and_keys_are_not),
                                       TEST(what_does_not_fit_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
