#include "serve/serve.h"
#include "support/support.h"

static struct serve_params good(void)
{
    return (struct serve_params){
        .policy = "vllm_v1", .replicas = 1, .batch_cap = 4, .block_size = 16, .num_blocks = 10};
}

static void good_parameters_pass(void **state)
{
    struct test *t = *state;
    struct serve_params p = good();
    assert_ok(serve_check_params(&p, &t->e), t);
    p.router = "round_robin";
    p.watermark = 0.01;
    p.token_budget = 4;
    assert_ok(serve_check_params(&p, &t->e), t);
}

static void unknown_names_list_the_known(void **state)
{
    struct test *t = *state;
    struct serve_params p = good();
    p.policy = "lifo";
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "scheduler.policy: there is none called 'lifo'\n"
               "hint: known: vllm_v1, vllm_0_33, vllm, sarathi, orca, faster_transformer, "
               "lightllm, sequential");
    p = good();
    p.router = "nearest";
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "cluster.router: there is none called 'nearest'\n"
               "hint: known: round_robin, random, lor, least_outstanding, prefix_aware");
    p = good();
    p.policy = NULL;
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "scheduler.policy: there is none called ''\n"
               "hint: known: vllm_v1, vllm_0_33, vllm, sarathi, orca, faster_transformer, "
               "lightllm, sequential");
}

static void ranges(void **state)
{
    struct test *t = *state;
    struct serve_params p = good();
    p.batch_cap = 0;
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "scheduler.batch_cap: 0 is not between 1 and 16777216");
    p = good();
    p.replicas = 0;
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "cluster.replicas: 0 is not between 1 and 1048576");
    p = good();
    p.block_size = 65537;
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "scheduler.block_size: 65537 is not between 1 and 65536");
    p = good();
    p.num_blocks = -1;
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "scheduler.num_blocks: -1 is not between 1 and 2147483647");
    p = good();
    p.watermark = 1;
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "scheduler.watermark: 1 is not a fraction below 1");
}

static void foreign_knob(void **state)
{
    struct test *t = *state;
    struct serve_params p = good();
    p.chunk_size = 512;
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "scheduler.chunk_size: policy vllm_v1 has no such knob\nhint: leave it unset; "
               "scheduler=NAME takes a policy with its own settings");
    p = good();
    p.prefix_tokens = 16;
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "cluster.prefix_tokens: router round_robin has no such knob\nhint: leave it unset");
    p.router = "prefix_aware";
    assert_ok(serve_check_params(&p, &t->e), t);
    p.policy = "lightllm";
    assert_err(serve_check_params(&p, &t->e), ST_USAGE, t,
               "scheduler.block_size: policy lightllm has blocks of one token, not 16\n"
               "hint: scheduler.block_size=1");
}

static void room_that_an_engine_needs(void **state)
{
    (void)state;
    struct serve_params p = good();
    assert_int_equal(serve_max_batch_tokens(&p, 100), 2048);
    p.policy = "sarathi";
    assert_int_equal(serve_max_batch_tokens(&p, 100), 512);
    p.batch_cap = 600; /* decodes are not cut to the chunk */
    assert_int_equal(serve_max_batch_tokens(&p, 100), 600);
    p.policy = "vllm"; /* prompts over the limit go alone */
    assert_int_equal(serve_max_batch_tokens(&p, 100), 4096);
    assert_int_equal(serve_max_batch_tokens(&p, 5000), 5000);
    p.policy = "lightllm";
    assert_int_equal(serve_max_batch_tokens(&p, 5000), 5000);
    p.policy = "sequential";
    assert_int_equal(serve_max_batch_tokens(&p, 100), 100);
    p.max_model_len = 90;
    assert_int_equal(serve_max_batch_tokens(&p, 100), 90);
    p.token_budget = 32;
    assert_int_equal(serve_max_batch_tokens(&p, 100), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(good_parameters_pass), TEST(unknown_names_list_the_known), TEST(ranges),
        TEST(foreign_knob),         TEST(room_that_an_engine_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
