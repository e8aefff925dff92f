/* The serving loop with a closed loop and with sessions (workload/release.h). Batches take 1 s; two
 * prompts of 4 tokens fit in one. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/serve_harness.h"
#include "support/support.h"

static struct harness with(const struct workload_request *w, size_t n)
{
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = n;
    return h;
}

static struct workload_request request(int64_t id, int64_t tokens)
{
    return (struct workload_request){
        .request_id = id, .arrival_s = 99, .num_prefill_tokens = 4, .num_decode_tokens = tokens};
}

static struct workload_request turn(int64_t id, int64_t session, int64_t number, double think_s)
{
    struct workload_request q = request(id, 2);
    q.arrival_s = 0;
    q.session_id = session;
    q.turn = number;
    q.think_ns = ns_from_s(think_s);
    return q;
}

static void assert_times(const struct harness *h, int64_t id, double arrival_s, double end_s)
{
    const struct run_request *r = harness_row(h, id);
    if (llabs(r->arrival_ns - ns_from_s(arrival_s)) > 1 ||
        llabs(r->completion_ns - ns_from_s(end_s)) > 1)
        fail_msg("request %lld: %lld to %lld ns, not %g to %g s", (long long)id,
                 (long long)r->arrival_ns, (long long)r->completion_ns, arrival_s, end_s);
}

/* What an end releases is in the very next batch. */
static void an_end_releases_the_next(void **state)
{
    struct test *t = *state;
    struct workload_request w[5];
    for (int i = 0; i < 5; i++)
        w[i] = request(i, i == 1 ? 4 : 2);
    struct harness h = with(w, 5);
    h.p.concurrency = concurrency_of(t->a, 2, 0);
    harness_run(&h);
    harness_check(&h);
    assert_times(&h, 0, 0, 2);
    assert_times(&h, 1, 0, 4);
    assert_times(&h, 2, 2, 4);
    assert_times(&h, 3, 4, 6);
    assert_times(&h, 4, 4, 6);
    EXPECT_BATCHES(&h, "0: 0:4@0! 1:4@0! | 0", "1: +0 +1 | 2", "2: 0:4@0! -0 | 1", "3: +0 | 2",
                   "4: 0:4@0! 1:4@0! -1 -0 | 0", "5: +0 +1 | 2");
    assert_int_equal(h.n.concurrency_peak, 2);
    assert_near(h.n.concurrency_mean, 2, 1e-9);
    assert_true(h.n.follows);
    harness_free(&h);
}

static void a_session_goes_on_after_its_think_time(void **state)
{
    (void)state;
    const struct workload_request w[] = {turn(0, 0, 1, 0), turn(1, 0, 2, 0.5), turn(2, 0, 3, 0),
                                         turn(3, 1, 1, 0)};
    struct harness h = with(w, 4);
    harness_run(&h);
    harness_check(&h);
    assert_times(&h, 0, 0, 2);
    assert_times(&h, 3, 0, 2);
    assert_times(&h, 1, 2.5, 4.5);
    assert_times(&h, 2, 4.5, 6.5);
    assert_int_equal(harness_row(&h, 1)->turn, 2);
    assert_int_equal(harness_row(&h, 3)->session_id, 1);
    assert_int_equal(h.n.sessions, 2);
    harness_free(&h);
}

/* A request that can never run has ended at once, and what follows it comes. */
static void what_is_rejected_has_ended(void **state)
{
    struct test *t = *state;
    struct workload_request w[4] = {request(0, 2), request(1, 2), request(2, 2), request(3, 2)};
    struct harness h = with(w, 4);
    w[1].num_prefill_tokens = w[2].num_prefill_tokens = 100;
    h.p.max_model_len = 50;
    h.p.concurrency = concurrency_of(t->a, 1, 0);
    harness_run(&h);
    harness_check(&h);
    assert_int_equal(h.n.rejected, 2);
    assert_int_equal(harness_row(&h, 2)->arrival_ns, 2 * NS_PER_S);
    assert_times(&h, 3, 2, 4);
    harness_free(&h);
}

/* What a request pays outside the engine passes before its client sends the next. */
static void clients_wait_for_overheads(void **state)
{
    struct test *t = *state;
    const struct workload_request w[] = {request(0, 2), request(1, 2), request(2, 2)};
    struct harness h = with(w, 3);
    h.p.concurrency = concurrency_of(t->a, 1, 0);
    h.p.overheads = (struct serve_overheads){.first_token_s = 0.25, .completion_s = 0.5};
    harness_run(&h);
    for (int64_t id = 1; id < 3; id++) {
        assert_int_equal(harness_row(&h, id)->arrival_ns, harness_row(&h, id - 1)->completion_ns);
        assert_int_equal(harness_row(&h, id)->arrival_ns, id * (2750 * NS_PER_MS));
    }
    harness_free(&h);
}

static void warm_up_goes_by_the_place_in_the_workload(void **state)
{
    (void)state;
    const struct workload_request w[] = {turn(0, 0, 1, 0), turn(1, 0, 2, 9), turn(2, 1, 1, 0)};
    struct harness h = with(w, 3);
    h.p.warmup_requests = 2;
    harness_run(&h);
    harness_check(&h);
    assert_true(harness_row(&h, 1)->warmup); /* it arrived last */
    assert_false(harness_row(&h, 2)->warmup);
    harness_free(&h);
}

static void a_stopped_loop_releases_nothing_more(void **state)
{
    struct test *t = *state;
    struct workload_request w[9];
    for (int i = 0; i < 9; i++)
        w[i] = request(i, 2);
    struct harness h = with(w, 9);
    h.p.concurrency = concurrency_of(t->a, 2, 0);
    h.stop_at_batch = 3;
    harness_run(&h);
    assert_int_equal(h.st, ST_INTERRUPTED);
    assert_int_equal(h.rows.n, 4);
    assert_int_equal(h.n.requests, 4);
    harness_free(&h);
}

/* A replica's batches overlap, replicas are several: everything runs once, in the limit. */
static void any_engine_keeps_the_limit(void **state)
{
    struct test *t = *state;
    struct workload_request w[60];
    for (int i = 0; i < 60; i++) {
        w[i] = i % 4 ? turn(i, i / 4, i % 4 + 1, 0.25 * (i % 3)) : turn(i, i / 4, 1, 0);
        w[i].num_decode_tokens = 1 + i % 7;
    }
    for (int kind = 0; kind < 4; kind++) {
        struct harness h = with(w, 60);
        h.p.concurrency = concurrency_of(t->a, 5, 3);
        h.p.replicas = kind == 1 ? 3 : 1;
        h.fake.max_in_flight = kind == 2 ? 2 : kind == 3 ? 4 : 0;
        h.fake.lanes = kind == 3 ? 4 : 0;
        h.fake.batch_s = 0.3;
        harness_run(&h);
        harness_check(&h);
        assert_true(h.n.concurrency_peak <= 5 && h.n.concurrency_mean <= 5);
        for (size_t i = 0; i < 60; i++) {
            const struct run_request *r = harness_row(&h, (int64_t)i);
            if (i % 4)
                assert_int_equal(r->arrival_ns,
                                 harness_row(&h, (int64_t)i - 1)->completion_ns + w[i].think_ns);
        }
        harness_free(&h);
    }
}

/* ---- what a prompt holds of the turns before ---- */

static struct harness two_turns(struct workload_request w[2])
{
    w[0] = turn(0, 0, 1, 0);
    w[1] = turn(1, 0, 2, 0);
    w[0].num_prefill_tokens = 8;
    w[0].num_decode_tokens = 5;
    w[1].num_prefill_tokens = 16;
    struct harness h = with(w, 2);
    h.p.token_budget = 32;
    h.p.prefix_caching = true;
    return h;
}

/* Of turn 1 prompt and answer but its last token are in the cache: 12 tokens, 3 blocks. The second
 * turn's prompt is not that of the source, which knows no answers. */
static void a_prompt_holds_the_answers_that_came(void **state)
{
    (void)state;
    struct workload_request w[2];
    struct harness h = two_turns(w);
    h.fake.computes = true;
    harness_run(&h);
    assert_ok(h.st, &h.e);
    assert_int_equal(h.n.prefix_hit_tokens, 12);
    harness_free(&h);
}

/* Predictions know the same by the hash_ids of the session. */
static void predictions_find_answers_again(void **state)
{
    (void)state;
    static const int64_t ids[] = {5, 6};
    static const struct {
        int64_t covers, hits;
    } cases[] = {{16, 12}, {0, 8}, {12, 12}, {11, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct workload_request w[2];
        struct harness h = two_turns(w);
        for (int k = 0; k < 2; k++) {
            w[k].hash_ids = ids;
            w[k].hash_tokens = 8;
        }
        w[0].hash_covers = cases[i].covers;
        h.no_prompt_ids = true;
        harness_run(&h);
        harness_check(&h);
        assert_int_equal(h.n.prefix_hit_tokens, cases[i].hits);
        harness_free(&h);
    }
}

/* An answer that ended early is followed by the workload's tokens. */
static void an_early_end_is_kept_as_far_as_it_goes(void **state)
{
    (void)state;
    struct workload_request w[2];
    struct harness h = two_turns(w);
    const struct fake_eos eos[] = {{1, 0}};
    h.fake.computes = true;
    h.fake.eos = eos;
    h.fake.n_eos = 1;
    harness_run(&h);
    assert_ok(h.st, &h.e);
    assert_int_equal(h.n.prefix_hit_tokens, 8); /* 8 of the prompt and 1 of the answer computed */
    harness_free(&h);
}

/* ---- both clocks --------------------------------------------------------------------------- */

static int by_arrival(const void *pa, const void *pb)
{
    const struct run_request *a = pa, *b = pb;
    if (a->scheduled_ns != b->scheduled_ns)
        return a->scheduled_ns < b->scheduled_ns ? -1 : 1;
    return a->request_id < b->request_id ? -1 : a->request_id > b->request_id;
}

static void order_of(struct test *t, const struct workload_request *w, size_t n, bool real,
                     const struct concurrency *c, int64_t *order)
{
    struct harness h = with(w, n);
    h.real_clock = real;
    h.fake.batch_s = 0.0002;
    h.p.batch_cap = 1; /* one after the other: the order does not hang on how long each takes */
    h.p.concurrency = c;
    harness_run(&h);
    assert_ok(h.st, &h.e);
    harness_check(&h);
    qsort(h.rows.p, h.rows.n, sizeof *h.rows.p, by_arrival);
    for (size_t i = 0; i < n; i++)
        order[i] = h.rows.p[i].request_id;
    (void)t;
    harness_free(&h);
}

static void both_clocks_give_one_order(void **state)
{
    struct test *t = *state;
    enum { N = 48 };
    struct workload_request w[N];
    int64_t real[N], sim[N];
    for (int sessions = 0; sessions < 2; sessions++)
        for (int64_t limit = 1; limit <= 5; limit += 2) {
            const struct concurrency *c = concurrency_of(t->a, limit, 0);
            for (int i = 0; i < N; i++) {
                w[i] = sessions ? turn(i, i / 3, i % 3 + 1, 0) : request(i, 2);
                w[i].num_decode_tokens = 1 + i % 5;
            }
            order_of(t, w, N, true, c, real);
            order_of(t, w, N, false, c, sim);
            assert_memory_equal(real, sim, sizeof real);
            if (sessions && limit > 1) /* it is not simply the workload's */
                assert_int_equal(sim[1], 3);
        }
}

/* On the real clock, too, a moment is an end plus the think time. */
static void real_moments_follow_from_ends(void **state)
{
    (void)state;
    const struct workload_request w[] = {turn(0, 0, 1, 0), turn(1, 0, 2, 0.003),
                                         turn(2, 0, 3, 0.001)};
    struct harness h = with(w, 3);
    h.real_clock = true;
    h.fake.batch_s = 0.001;
    harness_run(&h);
    harness_check(&h);
    for (int64_t i = 1; i < 3; i++) {
        const struct run_request *r = harness_row(&h, i);
        int64_t end_ns = harness_row(&h, i - 1)->completion_ns;
        assert_int_equal(r->arrival_ns, end_ns + w[i].think_ns);
        assert_true(r->scheduled_ns >= r->arrival_ns);
    }
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_end_releases_the_next),
        TEST(a_session_goes_on_after_its_think_time),
        TEST(what_is_rejected_has_ended),
        TEST(clients_wait_for_overheads),
        TEST(warm_up_goes_by_the_place_in_the_workload),
        TEST(a_stopped_loop_releases_nothing_more),
        TEST(any_engine_keeps_the_limit),
        TEST(a_prompt_holds_the_answers_that_came),
        TEST(predictions_find_answers_again),
        TEST(an_early_end_is_kept_as_far_as_it_goes),
        TEST(both_clocks_give_one_order),
        TEST(real_moments_follow_from_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
