/* Hand-worked schedules; Vidur's own run is replayed in tests/conform/vidur_test.c. */
#include "support/serve_harness.h"
#include "support/support.h"

static struct harness vllm(const struct workload_request *w, size_t n, int64_t max_tokens)
{
    struct harness h = harness_default();
    h.p.policy = "vllm";
    h.p.token_budget = 0;
    h.p.max_tokens_in_batch = max_tokens;
    h.requests = w;
    h.n_requests = n;
    return h;
}

static const struct workload_request three[] = {
    {.request_id = 0, .num_prefill_tokens = 3, .num_decode_tokens = 3},
    {.request_id = 1, .num_prefill_tokens = 5, .num_decode_tokens = 2},
    {.request_id = 2, .arrival_s = 1.5, .num_prefill_tokens = 2, .num_decode_tokens = 1},
};

/* 0 and 1 make two prompts padded to 5; 2 comes while they decode and goes before them. */
static void prompts_go_first_and_alone(void **state)
{
    (void)state;
    struct harness h = vllm(three, 3, 10);
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! 1:5@0! | 0", "1: +0 +1 | 2", "2: 1:2@0! -1 | 0", "3: | 1");
    harness_free(&h);
}

static void padding_counts(void **state)
{
    (void)state;
    struct harness h = vllm(three, 3, 9);
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! | 0", "1: 1:5@0! +0 | 0", "2: 2:2@0! +1 | 0", "3: | 2",
                   "4: -1 | 1");
    harness_free(&h);
}

/* Vidur would wait for ever. */
static void a_prompt_over_the_limit_goes_alone(void **state)
{
    (void)state;
    struct harness h = vllm(three, 2, 2);
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! | 0", "1: 1:5@0! +0 | 0", "2: +1 | 2", "3: -1 | 1");
    harness_free(&h);
}

/* Two blocks each are all there are: the later arrival gives way although no decode needs one. */
static void the_last_arrival_is_preempted(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 5, .num_decode_tokens = 3},
        {.request_id = 1, .num_prefill_tokens = 5, .num_decode_tokens = 3},
    };
    struct harness h = vllm(w, 2, 100);
    h.p.num_blocks = 4;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:5@0! 1:5@0! | 0", "1: +0 | 1", "2: 1:6@0! | 0", "3: | 1",
                   "4: 1:7@0! -0 | 0");
    assert_int_equal(harness_row(&h, 1)->preemptions, 2);
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(prompts_go_first_and_alone),
        TEST(padding_counts),
        TEST(a_prompt_over_the_limit_goes_alone),
        TEST(the_last_arrival_is_preempted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
