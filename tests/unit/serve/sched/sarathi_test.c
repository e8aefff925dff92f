/* Hand-worked schedules; Vidur's own runs are replayed in tests/conform/vidur_test.c. */
#include "support/serve_harness.h"
#include "support/support.h"

static struct harness sarathi(const struct workload_request *w, size_t n, int64_t chunk_size)
{
    struct harness h = harness_default();
    h.p.policy = "sarathi";
    h.p.token_budget = 0;
    h.p.chunk_size = chunk_size;
    h.requests = w;
    h.n_requests = n;
    return h;
}

/* Decodes first, then the prefill begun, then new requests: a batch may hold several chunks. */
static void fills_chunks_in_order(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 3, .num_decode_tokens = 3},
        {.request_id = 1, .num_prefill_tokens = 7, .num_decode_tokens = 1},
        {.request_id = 2, .num_prefill_tokens = 2, .num_decode_tokens = 2},
    };
    struct harness h = sarathi(w, 3, 6);
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0! 1:3@0 | 0", "1: 1:4@3! 2:1@0 +0 | 1", "2: 2:1@1! | 1",
                   "3: -0 +2 | 1");
    harness_free(&h);
}

/* The prompt's blocks are reserved at admission: 1 needs 3 of the 5 blocks, 2 of which are there.
 */
static void reserves_the_whole_prompt(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 9, .num_decode_tokens = 2},
        {.request_id = 1, .num_prefill_tokens = 9, .num_decode_tokens = 1},
    };
    struct harness h = sarathi(w, 2, 16);
    h.p.num_blocks = 5;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:9@0! | 0", "1: +0 | 1", "2: 0:9@0! -0 | 0");
    assert_int_equal(h.batches.p[0].kv_blocks, 3);
    harness_free(&h);
}

static const struct workload_request tight[] = {
    {.request_id = 0, .num_prefill_tokens = 5, .num_decode_tokens = 3},
    {.request_id = 1, .num_prefill_tokens = 5, .num_decode_tokens = 3},
};

/* A decode wants a free block whether it needs one or not. 0 and 1 hold two blocks each, all there
 * are; no decode needs one, yet 1 has to go, and is admitted in the same step with the blocks it
 * gave: so it gets its tokens by one prefill after the other (and never enters the set). */
static void wants_a_free_block_in_any_case(void **state)
{
    (void)state;
    struct harness h = sarathi(tight, 2, 16);
    h.p.num_blocks = 4;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:5@0! 1:5@0! | 0", "1: 1:6@0! +0 | 1", "2: 1:7@0! | 1");
    assert_int_equal(harness_row(&h, 1)->preemptions, 2);
    harness_free(&h);
}

/* With a watermark of one block 1 waits until the replica is empty. */
static void watermark_holds_back(void **state)
{
    (void)state;
    struct harness h = sarathi(tight, 2, 16);
    h.p.num_blocks = 4;
    h.p.watermark = 0.25;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:5@0! | 0", "1: +0 | 1", "2: | 1", "3: 0:5@0! -0 | 0", "4: +0 | 1",
                   "5: | 1");
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_chunks_in_order),
        cmocka_unit_test(reserves_the_whole_prompt),
        cmocka_unit_test(wants_a_free_block_in_any_case),
        cmocka_unit_test(watermark_holds_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
