#include "metrics/summary.h"

#include <math.h>

#include "base/rng.h"
#include "support/support.h"

static struct run_request request(int64_t id, int64_t arrival_ns, int64_t ttft_ns, int64_t gap_ns,
                                  int64_t tokens)
{
    return (struct run_request){.request_id = id,
                                .arrival_ns = arrival_ns,
                                .first_token_ns = arrival_ns + ttft_ns,
                                .completion_ns = arrival_ns + ttft_ns + gap_ns * (tokens - 1),
                                .num_prefill_tokens = 10,
                                .num_decode_tokens = tokens,
                                .num_decode_tokens_actual = tokens,
                                .status = RUN_OK};
}

/* Both sides of the change from values to buckets, against the figures of the run as a whole. */
static void agrees_with_the_whole_run(void **state)
{
    struct test *t = *state;
    static const size_t sizes[] = {1, 2, 1000, SUMMARY_EXACT, SUMMARY_EXACT + 1, 150000};
    static const double quantiles[] = {0, 1, 50, 90, 99, 99.9, 100};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = sizes[k];
        struct rng rng = rng_stream(k, "test");
        struct run run = {.requests = arena_array(t->a, struct run_request, n), .n_requests = n};
        struct summary *s = summary_new();
        for (size_t i = 0; i < n; i++) {
            int64_t ttft = (int64_t)(exp(4 + 20 * rng_unit(&rng)));
            int64_t gap = (int64_t)(1e6 * rng_exponential(&rng));
            run.requests[i] =
                request((int64_t)i, (int64_t)i * 1000, ttft, gap, 1 + (int64_t)rng_below(&rng, 5));
            summary_add(s, &run.requests[i]);
        }
        const struct metrics_params all = {0};
        struct run_metrics m;
        assert_ok(metrics_from_run(t->a, &run, &all, &m, &t->e), t);
        struct summary_facts f = summary_facts(s);
        assert_true(f.exact == (n <= SUMMARY_EXACT));
        assert_int_equal(f.n_requests, n);
        assert_int_equal(f.output_tokens, m.output_tokens);
        assert_true(f.duration_s == m.duration_s);
        assert_true(f.requests_per_s == m.requests_per_s);
        static const enum metric kept[] = {METRIC_TTFT, METRIC_TPOT, METRIC_E2E};
        for (size_t i = 0; i < 3; i++)
            for (size_t q = 0; q < sizeof quantiles / sizeof *quantiles; q++) {
                const struct series *v = &m.of[kept[i]];
                if (v->n == 0) {
                    assert_true(isnan(summary_percentile(s, kept[i], quantiles[q])));
                    continue;
                }
                double want = stats_percentile(v->ns, v->n, quantiles[q]);
                double got = summary_percentile(s, kept[i], quantiles[q]);
                if (f.exact)
                    assert_true(got == want);
                else
                    assert_near(got, want, want * SUMMARY_ERROR + 1);
            }
        summary_free(&s);
        assert_null(s);
        arena_reset(t->a);
    }
}

static void counts_what_it_leaves_out(void **state)
{
    (void)state;
    struct summary *s = summary_new();
    struct run_request r = request(8, 0, 5, 5, 2);
    r.status = RUN_REJECTED;
    r.error_msg = "too long";
    summary_add(s, &r);
    r.request_id = 3;
    r.error_msg = NULL;
    summary_add(s, &r);
    r.request_id = 1;
    r.warmup = true;
    summary_add(s, &r);
    r = request(9, 100, 50, 5, 1);
    summary_add(s, &r);
    struct summary_facts f = summary_facts(s);
    assert_int_equal(f.n_all, 4);
    assert_int_equal(f.n_requests, 1);
    assert_int_equal(f.n_not_ok, 2);
    assert_int_equal(f.n_warmup, 1);
    assert_int_equal(f.bad_id, 3);
    assert_string_equal(f.bad_text, "");
    assert_true(summary_percentile(s, METRIC_TTFT, 50) == 50);
    assert_true(isnan(summary_percentile(s, METRIC_TPOT, 50))); /* one token has no gap */
    summary_free(&s);
}

/* Two requests of three are good; the one of a single token has no TPOT to miss a limit by. */
static void good_requests_meet_every_limit(void **state)
{
    (void)state;
    struct summary *s = summary_new();
    struct run_request r = request(0, 0, 50, 5, 1);
    assert_true(isnan(summary_facts(s).goodput_per_s));
    summary_limit(s, &(struct summary_limits){60, 6, (double)INFINITY});
    summary_add(s, &r);
    r = request(1, 0, 60, 6, 3);
    summary_add(s, &r);
    r = request(2, 0, 40, 7, 3);
    summary_add(s, &r);
    r.status = RUN_REJECTED;
    summary_add(s, &r);
    struct summary_facts f = summary_facts(s);
    assert_int_equal(f.n_good, 2);
    assert_int_equal(f.n_status[RUN_OK], 3);
    assert_int_equal(f.n_status[RUN_REJECTED], 1);
    assert_true(f.goodput_per_s == 2 / f.duration_s);
    assert_true(summary_mean(s, METRIC_TTFT) == 50);
    assert_true(summary_mean(s, METRIC_TPOT) == 6.5);
    assert_true(isnan(summary_mean(s, METRIC_TOKEN_LATENCY)));
    summary_free(&s);
}

static void of_nothing_nothing_is_known(void **state)
{
    (void)state;
    struct summary *s = summary_new();
    struct summary_facts f = summary_facts(s);
    assert_int_equal(f.n_all, 0);
    assert_int_equal(f.bad_id, RUN_NONE);
    assert_true(f.exact && isnan(f.duration_s) && isnan(f.requests_per_s));
    assert_true(isnan(summary_percentile(s, METRIC_E2E, 50)));
    summary_free(&s);
    summary_free(&s);
}

static void gaps_between_tokens_leave_the_first_out(void **state)
{
    (void)state;
    struct summary *s = summary_new();
    assert_true(isnan(summary_percentile(s, METRIC_TOKEN_LATENCY, 50)));
    for (int64_t i = 0; i < 5; i++)
        summary_add_token(s, &(struct run_token){.token_index = i, .token_latency_ns = 100 * i});
    assert_near(summary_percentile(s, METRIC_TOKEN_LATENCY, 0), 100, 0);
    assert_near(summary_percentile(s, METRIC_TOKEN_LATENCY, 50), 250, 0);
    assert_int_equal(summary_facts(s).n_all, 0); /* tokens are no requests */
    summary_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gaps_between_tokens_leave_the_first_out),
        TEST(agrees_with_the_whole_run),
        TEST(counts_what_it_leaves_out),
        TEST(good_requests_meet_every_limit),
        TEST(of_nothing_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
