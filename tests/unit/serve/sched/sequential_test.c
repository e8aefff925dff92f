#include "support/serve_harness.h"
#include "support/support.h"

static void one_at_a_time(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 20, .num_decode_tokens = 3},
        {.request_id = 1, .num_prefill_tokens = 4, .num_decode_tokens = 1},
    };
    struct harness h = harness_default();
    h.p.policy = "sequential";
    h.p.token_budget = 0;
    h.requests = w;
    h.n_requests = 2;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:20@0! | 0", "1: +0 | 1", "2: | 1", "3: 0:4@0! -0 | 0");
    harness_free(&h);
}

static void a_budget_cuts_prompts(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 20, .num_decode_tokens = 2},
    };
    struct harness h = harness_default();
    h.p.policy = "sequential";
    h.requests = w;
    h.n_requests = 1;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:8@0 | 0", "1: 0:8@8 | 0", "2: 0:4@16! | 0", "3: +0 | 1");
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_at_a_time),
                                       cmocka_unit_test(a_budget_cuts_prompts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
