#include "serve/replica.h"

#include "support/support.h"

/* The router goes by waiting_tokens: who leaves the queue takes his along. */
static void a_queue_counts_the_tokens_it_holds(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const struct serve_params p = {0};
    const struct serve_sink sink = {0};
    struct serve_counters n = {0};
    struct serve_run_state run = {.p = &p, .a = a, .sink = &sink, .counters = &n};
    request_pool_init(&run.pool, a);
    struct replica r = {.run = &run};
    static const int64_t prompts[] = {100, 20, 3};
    for (int64_t i = 0; i < 3; i++) {
        struct request *q = request_take(&run.pool);
        q->w = (struct workload_request){.request_id = i, .num_prefill_tokens = prompts[i]};
        q->prefill = prompts[i];
        replica_enqueue(&r, q, 0);
    }
    assert_int_equal(r.waiting_tokens, 123);
    assert_false(replica_drop_waiting(&r, 7));
    assert_true(replica_drop_waiting(&r, 1));
    assert_int_equal(r.waiting_tokens, 103);
    assert_int_equal(r.waiting.n, 2);
    assert_true(replica_drop_waiting(&r, 0));
    assert_true(replica_drop_waiting(&r, 2));
    assert_int_equal(r.waiting_tokens, 0);
    request_queue_free(&r.waiting);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_queue_counts_the_tokens_it_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
