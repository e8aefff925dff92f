/* orca and faster_transformer by hand; Vidur's own runs are replayed in
 * tests/conform/vidur_test.c. */
#include "serve/sched/reserve.h"

#include "support/serve_harness.h"
#include "support/support.h"

static const struct workload_request three[] = {
    {.request_id = 0, .num_prefill_tokens = 3, .num_decode_tokens = 3},
    {.request_id = 1, .num_prefill_tokens = 4, .num_decode_tokens = 2},
    {.request_id = 2, .num_prefill_tokens = 2, .num_decode_tokens = 2},
};

/* Two of the five blocks are reserved for each, so two run at once. */
static struct harness reserving(const char *policy)
{
    struct harness h = harness_default();
    h.p.policy = policy;
    h.p.token_budget = 0;
    h.p.num_blocks = 5;
    h.p.max_model_len = 8;
    h.requests = three;
    h.n_requests = 3;
    return h;
}

static void orca_fills_up_at_once(void **state)
{
    (void)state;
    struct harness h = reserving("orca");
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! 1:4@0! | 0", "1: +0 +1 | 2", "2: 1:2@0! -1 | 1", "3: -0 +1 | 1");
    assert_int_equal(h.batches.p[0].kv_blocks, 4);
    assert_int_equal(h.batches.p[3].kv_blocks, 2);
    harness_free(&h);
}

static void faster_transformer_waits_for_the_last(void **state)
{
    (void)state;
    struct harness h = reserving("faster_transformer");
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! 1:4@0! | 0", "1: +0 +1 | 2", "2: -1 | 1", "3: 0:2@0! -0 | 0",
                   "4: +0 | 1");
    harness_free(&h);
}

/* Without a longest sequence each reserves what it will need: 2, 2 and 1 blocks. */
static void without_a_limit_needs_are_reserved(void **state)
{
    (void)state;
    struct harness h = reserving("orca");
    h.p.max_model_len = 0;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! 1:4@0! 2:2@0! | 0", "1: +0 +1 +2 | 3", "2: -1 -2 | 1");
    assert_int_equal(h.batches.p[1].kv_blocks, 5);
    harness_free(&h);
}

static void batches_hold_every_prompt_or_the_cache(void **state)
{
    (void)state;
    struct serve_params p = {.batch_cap = 8, .block_size = 16, .num_blocks = 100};
    assert_int_equal(reserve_max_batch_tokens(&p, 100), 800);
    assert_int_equal(reserve_max_batch_tokens(&p, 1000), 1600);
    p.max_model_len = 50;
    assert_int_equal(reserve_max_batch_tokens(&p, 1000), 400);
    assert_int_equal(reserve_blocks_needed(&p, 10), 4);
    p.max_model_len = 0;
    assert_int_equal(reserve_blocks_needed(&p, 17), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(orca_fills_up_at_once),
        TEST(faster_transformer_waits_for_the_last),
        TEST(without_a_limit_needs_are_reserved),
        TEST(batches_hold_every_prompt_or_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
