#include "support/serve_harness.h"
#include "support/support.h"

static const struct workload_request two[] = {
    {.request_id = 0, .num_prefill_tokens = 3, .num_decode_tokens = 4},
    {.request_id = 1, .num_prefill_tokens = 3, .num_decode_tokens = 4},
};

static struct harness lightllm(int64_t num_blocks)
{
    struct harness h = harness_default();
    h.p.policy = "lightllm";
    h.p.token_budget = 0;
    h.p.block_size = 1;
    h.p.num_blocks = num_blocks;
    h.p.max_waiting_iters = 2;
    h.requests = two;
    h.n_requests = 2;
    return h;
}

/* Both will hold 4 tokens after their prompts and 2 more later: a peak of 12, which must stay below
 * the number of blocks. */
static void two_fit_if_their_peak_does(void **state)
{
    (void)state;
    struct harness h = lightllm(13);
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! 1:3@0! | 0", "1: +0 +1 | 2", "2: | 2", "3: | 2");
    harness_free(&h);
}

/* With 12 blocks 1 waits; after two batches of decodes 0 holds 6 and has none left to add, and the
 * peak is 10. */
static void looks_again_after_some_batches(void **state)
{
    (void)state;
    struct harness h = lightllm(12);
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! | 0", "1: +0 | 1", "2: | 1", "3: 1:3@0! | 0", "4: +1 | 2",
                   "5: -0 | 1", "6: | 1");
    harness_free(&h);
}

static void prompts_of_a_batch_are_limited(void **state)
{
    (void)state;
    struct harness h = lightllm(100);
    h.p.max_tokens_in_batch = 5;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! | 0", "1: +0 | 1", "2: | 1", "3: 1:3@0! | 0", "4: +1 | 2",
                   "5: -0 | 1", "6: | 1");
    harness_free(&h);
}

static void blocks_hold_one_token(void **state)
{
    (void)state;
    struct harness h = lightllm(100);
    h.p.block_size = 16;
    harness_run(&h);
    assert_int_equal(h.st, ST_USAGE);
    assert_string_equal(err_cause(&h.e, 0),
                        "scheduler.block_size: policy lightllm has blocks of one token, not 16");
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_fit_if_their_peak_does),
        TEST(looks_again_after_some_batches),
        TEST(prompts_of_a_batch_are_limited),
        TEST(blocks_hold_one_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
