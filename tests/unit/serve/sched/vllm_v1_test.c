/* Hand-worked schedules: each expected line is one batch (support/fake_executor.h says how it is
 * written); blocks hold 4 tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/serve_harness.h"

/* Two prompts share the budget of 8; the second goes on in chunks beside the first one's decodes.
 */
static void mixes_chunks_with_decodes(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 5, .num_decode_tokens = 4},
        {.request_id = 1, .num_prefill_tokens = 12, .num_decode_tokens = 2},
    };
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 2;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:5@0! 1:3@0 | 0", "1: 1:7@3 +0 | 1", "2: 1:2@10! | 1", "3: +1 | 2");
    assert_int_equal(harness_row(&h, 0)->first_token_ns, 1000000000);
    assert_int_equal(harness_row(&h, 0)->completion_ns, 4000000000);
    assert_int_equal(harness_row(&h, 1)->first_token_ns, 3000000000);
    harness_free(&h);
}

/* A request that asks for one token is over with its prefill. */
static void one_token_never_decodes(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 8, .num_decode_tokens = 1},
        {.request_id = 1, .num_prefill_tokens = 1, .num_decode_tokens = 1},
    };
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 2;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:8@0! | 0", "1: 0:1@0! | 0");
    harness_free(&h);
}

/* Four blocks. Both fill two after their prompts; request 0 needs a third at its 9th token, request
 * 1 a third too: none is left, so 1, the last of running, goes back with 4 tokens generated and is
 * admitted again, as a prompt of 9, when 0 is over. No admission in the step that preempted. */
static void preempts_the_last(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 5, .num_decode_tokens = 6},
        {.request_id = 1, .num_prefill_tokens = 5, .num_decode_tokens = 6},
    };
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 2;
    h.p.num_blocks = 4;
    h.p.token_budget = 16;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:5@0! 1:5@0! | 0", "1: +0 +1 | 2", "2: | 2", "3: | 2", "4: -1 | 1",
                   "5: | 1", "6: 1:9@0! -0 | 0", "7: +1 | 1");
    assert_int_equal(h.n.preemptions, 1);
    assert_int_equal(harness_row(&h, 1)->preemptions, 1);
    assert_int_equal(h.n.prefill_tokens, 5 + 5 + 9);
    assert_int_equal(h.n.kv_blocks_peak, 4);
    harness_free(&h);
}

/* In batch 4 request 0 needs a third block and 1 goes back. A block is left and would do for a
 * chunk of 4, but a step that preempted admits nobody; batch 5 does. In batch 6 the prefill finds
 * no block for its next chunk and is itself the last of running; in batch 8 it gives way to a
 * decode. */
static void admits_nobody_after_a_preemption(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 5, .num_decode_tokens = 9},
        {.request_id = 1, .num_prefill_tokens = 5, .num_decode_tokens = 4},
    };
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 2;
    h.p.num_blocks = 4;
    h.p.batch_cap = 2;
    h.p.token_budget = 5;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:5@0! | 0", "1: 1:4@0 +0 | 1", "2: 1:1@4! | 1", "3: +1 | 2",
                   "4: -1 | 1", "5: 1:4@0 | 1", "6: | 1", "7: 1:4@0 | 1", "8: | 1",
                   "9: 1:5@0 -0 | 0", "10: 1:2@5! | 0", "11: +1 | 1");
    assert_int_equal(harness_row(&h, 1)->preemptions, 3);
    harness_free(&h);
}

/* The batch cap holds the third request back until a place is free. */
static void batch_cap_holds_back(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 1, .num_decode_tokens = 2},
        {.request_id = 1, .num_prefill_tokens = 1, .num_decode_tokens = 3},
        {.request_id = 2, .num_prefill_tokens = 1, .num_decode_tokens = 1},
    };
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 3;
    h.p.batch_cap = 2;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:1@0! 1:1@0! | 0", "1: +0 +1 | 2", "2: 0:1@0! -0 | 1");
    harness_free(&h);
}

static void watermark_holds_back_unless_alone(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 4, .num_decode_tokens = 2},
        {.request_id = 1, .num_prefill_tokens = 8, .num_decode_tokens = 1},
    };
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 2;
    h.p.num_blocks = 4;
    h.p.token_budget = 16;
    h.p.watermark = 0.5; /* 2 blocks */
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:4@0! | 0", "1: +0 | 1", "2: 0:8@0! -0 | 0");
    harness_free(&h);
}

static void budget_below_cap_is_refused(void **state)
{
    (void)state;
    struct harness h = harness_default();
    struct err e = {0};
    h.p.token_budget = 7;
    assert_int_equal(serve_check_params(&h.p, &e), ST_USAGE);
    assert_string_equal(err_cause(&e, 0),
                        "scheduler.token_budget: 7 is below scheduler.batch_cap 8");
    h.p.token_budget = 0;
    assert_int_equal(serve_max_batch_tokens(&h.p, 0), 2048);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixes_chunks_with_decodes),
        cmocka_unit_test(one_token_never_decodes),
        cmocka_unit_test(preempts_the_last),
        cmocka_unit_test(admits_nobody_after_a_preemption),
        cmocka_unit_test(batch_cap_holds_back),
        cmocka_unit_test(watermark_holds_back_unless_alone),
        cmocka_unit_test(budget_below_cap_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
