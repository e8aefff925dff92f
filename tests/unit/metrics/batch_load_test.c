/* What batches of a run in memory held; of run directories: unit.calibrate.read_run. */
#include "metrics/batch_load.h"
#include "support/support.h"

#define MS INT64_C(1000000)

static struct run_batch batch(int64_t start_ms, int64_t end_ms, int64_t prefill, int64_t decodes)
{
    return (struct run_batch){.start_ns = start_ms * MS,
                              .duration_ns = (end_ms - start_ms) * MS,
                              .num_prefill_tokens = prefill,
                              .num_decode_tokens = decodes};
}

static struct run_request request(int64_t id, int64_t prompt, int64_t first_ms, int64_t end_ms,
                                  int64_t tokens)
{
    return (struct run_request){.request_id = id,
                                .first_token_ns = first_ms * MS,
                                .completion_ns = end_ms * MS,
                                .num_prefill_tokens = prompt,
                                .num_decode_tokens = tokens,
                                .num_decode_tokens_actual = tokens};
}

/* One request of three tokens; the second's prompt is computed beside the first one's decode step.
 */
static struct run two_requests(struct test *t)
{
    struct run r = {.n_requests = 2, .n_batches = 3};
    r.requests = arena_array(t->a, struct run_request, 2);
    r.batches = arena_array(t->a, struct run_batch, 3);
    r.requests[0] = request(0, 5, 10, 31, 3);
    r.requests[1] = request(1, 7, 21, 31, 2);
    r.batches[0] = batch(0, 10, 5, 0);
    r.batches[1] = batch(12, 20, 7, 1);
    r.batches[2] = batch(22, 30, 0, 2);
    return r;
}

static void loads_follow_from_requests(void **state)
{
    struct test *t = *state;
    const struct run r = two_requests(t);
    const struct batch_load *b = batch_loads(t->a, &r, NULL);
    assert_true(b[0].known && b[1].known && b[2].known);
    assert_int_equal(b[0].load.tokens, 5);
    assert_int_equal(b[0].load.chunk_sq, 15);
    assert_int_equal(b[1].chunks, 1);
    assert_int_equal(b[1].load.seqs, 1);
    assert_int_equal(b[1].load.kv_tokens, 6); /* the new one included */
    assert_int_equal(b[1].load.rows, 2);
    assert_int_equal(b[2].load.kv_tokens, 7 + 8);
    assert_int_equal(b[2].longest, 8);
    assert_near(b[0].duration_s, 0.010, 1e-12);
    assert_near(b[1].duration_s, 0.010, 1e-12); /* the sequence that decodes waited for 2 ms */
    assert_near(batch_first_token_lag_s(t->a, &r), 0.001, 1e-12);
}

/* What queries saw of a window of 6 tokens. */
static void spans_follow_from_requests(void **state)
{
    struct test *t = *state;
    const struct run r = two_requests(t);
    const struct key_spans spans = {.n = 1, .of = {{.unit = 1, .most = 6}}};
    const struct batch_load *b = batch_loads(t->a, &r, &spans);
    assert_int_equal(b[0].load.n_spans, 1);
    assert_int_equal(b[0].load.spans[0].pairs, 15);
    assert_int_equal(b[1].load.spans[0].pairs, 21 + 6);
    assert_int_equal(b[1].load.spans[0].keys, 7);
    assert_int_equal(b[1].load.spans[0].kv_tokens, 6);
    assert_int_equal(b[2].load.n_spans, 1);
    assert_int_equal(b[2].load.spans[0].kv_tokens, 6 + 6);
}

static void counts_that_disagree_are_not_known(void **state)
{
    struct test *t = *state;
    struct run r = two_requests(t);
    r.batches[1].num_prefill_tokens = 6;
    const struct batch_load *b = batch_loads(t->a, &r, NULL);
    assert_true(b[0].known && !b[1].known && b[2].known);
    assert_near(b[1].duration_s, 0.010, 1e-12);
    r.batches[1].num_prefill_tokens = 7;
    r.batches[1].stage = 1;
    b = batch_loads(t->a, &r, NULL);
    assert_true(b[0].known && !b[1].known && b[2].known);
    r.requests[0].status = RUN_ERROR; /* it says nothing, and the batches had it */
    b = batch_loads(t->a, &r, NULL);
    assert_true(!b[0].known && !b[2].known);
}

static void runs_without_an_order_have_none(void **state)
{
    struct test *t = *state;
    struct run r = two_requests(t);
    r.batches[2].start_ns = 11 * MS;
    assert_null(batch_loads(t->a, &r, NULL));
    r.batches = NULL;
    r.n_batches = 0;
    assert_null(batch_loads(t->a, &r, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(loads_follow_from_requests),
        TEST(spans_follow_from_requests),
        TEST(counts_that_disagree_are_not_known),
        TEST(runs_without_an_order_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
