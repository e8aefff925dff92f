#include <math.h>

#include "metrics/metrics.h"
#include "support/support.h"

/* A run worked by hand: times in ns. Request 3 stopped early, 4 is warm-up, 5 failed, 6 was given
 * two tokens at once, 7 has no times at all. */
static const struct run_request requests[] = {
    {.request_id = 1,
     .arrival_ns = 1000,
     .first_token_ns = 1100,
     .completion_ns = 1160,
     .num_prefill_tokens = 5,
     .num_decode_tokens = 3,
     .num_decode_tokens_actual = 3},
    {.request_id = 2,
     .arrival_ns = 2000,
     .first_token_ns = 2050,
     .completion_ns = 2050,
     .num_prefill_tokens = 5,
     .num_decode_tokens = 1,
     .num_decode_tokens_actual = 1},
    {.request_id = 3,
     .arrival_ns = 2500,
     .first_token_ns = 2700,
     .completion_ns = 2770,
     .num_prefill_tokens = 5,
     .num_decode_tokens = 9,
     .num_decode_tokens_actual = 2},
    {.request_id = 4,
     .arrival_ns = 0,
     .first_token_ns = 10,
     .completion_ns = 10,
     .num_decode_tokens = 1,
     .num_decode_tokens_actual = 1,
     .warmup = true},
    {.request_id = 5,
     .arrival_ns = 0,
     .first_token_ns = 20,
     .completion_ns = 9000,
     .num_decode_tokens = 4,
     .num_decode_tokens_actual = 1,
     .status = RUN_TIMEOUT},
    {.request_id = 6,
     .arrival_ns = 3000,
     .first_token_ns = 3010,
     .completion_ns = 3110,
     .num_decode_tokens = 3,
     .num_decode_tokens_actual = 3},
    {.request_id = 7,
     .arrival_ns = 3000,
     .first_token_ns = RUN_NONE,
     .completion_ns = RUN_NONE,
     .num_decode_tokens = 3,
     .num_decode_tokens_actual = 3},
};
static const struct run_token tokens[] = {
    {1, 0, 1100, 0, 0},  {1, 1, 1120, 20, 0},  {1, 2, 1160, 40, 0}, {2, 0, 2050, 0, 0},
    {3, 0, 2700, 0, 0},  {3, 1, 2770, 70, 0},  {4, 0, 10, 0, 0},    {5, 0, 20, 0, 0},
    {6, 0, 3010, 10, 0}, {6, 1, 3110, 100, 0},
};
static const size_t first_token[] = {0, 3, 4, 6, 7, 8, 10, 10};

static struct run hand_run(struct test *t)
{
    return (struct run){.requests = arena_copy(t->a, requests, sizeof requests),
                        .n_requests = 7,
                        .tokens = arena_copy(t->a, tokens, sizeof tokens),
                        .n_tokens = 10,
                        .first_token = arena_copy(t->a, first_token, sizeof first_token)};
}

static struct run_metrics measure(struct test *t, const struct run *r,
                                  const struct metrics_params *p)
{
    struct run_metrics m;
    assert_ok(metrics_from_run(t->a, r, p, &m, &t->e), t);
    return m;
}

#define check_series(m, which, ...)                                      \
    do {                                                                 \
        const double want_[] = {__VA_ARGS__};                            \
        assert_int_equal((m).of[which].n, sizeof want_ / sizeof *want_); \
        for (size_t i_ = 0; i_ < (m).of[which].n; i_++)                  \
            assert_true((m).of[which].ns[i_] == want_[i_]);              \
    } while (0)

static void latencies_follow_the_definitions(void **state)
{
    struct test *t = *state;
    struct run r = hand_run(t);
    struct run_metrics m = measure(t, &r, &(struct metrics_params){0});
    check_series(m, METRIC_TTFT, 10, 50, 100, 200);
    check_series(m, METRIC_E2E, 50, 110, 160, 270);
    check_series(m, METRIC_TPOT, 30, 50, 70); /* (160-100)/2, (110-10)/2, 70/1 */
    check_series(m, METRIC_TOKEN_LATENCY, 20, 40, 70, 100);
    assert_int_equal(m.n_requests, 5);
    assert_int_equal(m.n_warmup, 1);
    assert_int_equal(m.n_not_ok, 1);
    assert_int_equal(m.n_early_stop, 1);
    assert_int_equal(m.n_missing[METRIC_TTFT], 1);
    assert_int_equal(m.n_missing[METRIC_E2E], 1);
    assert_int_equal(m.n_missing[METRIC_TPOT], 1);
    assert_int_equal(m.n_missing[METRIC_TOKEN_LATENCY], 1);
    assert_int_equal(m.output_tokens, 12);
    assert_true(m.duration_s == 2110e-9); /* 1000 to 3110 */
    assert_near_rel(m.output_tokens_per_s, 12 / 2110e-9, 1e-15);
    assert_near_rel(m.requests_per_s, 5 / 2110e-9, 1e-15);
}

static void token_0_counts_when_asked_for(void **state)
{
    struct test *t = *state;
    struct run r = hand_run(t);
    struct run_metrics m = measure(t, &r, &(struct metrics_params){.include_token0 = true});
    check_series(m, METRIC_TOKEN_LATENCY, 0, 0, 0, 10, 20, 40, 70, 100);
}

static void without_token_rows_latencies_are_missing(void **state)
{
    struct test *t = *state;
    struct run r = hand_run(t);
    r.tokens = NULL;
    r.first_token = NULL;
    r.n_tokens = 0;
    struct run_metrics m = measure(t, &r, &(struct metrics_params){0});
    assert_int_equal(m.of[METRIC_TOKEN_LATENCY].n, 0);
    assert_int_equal(m.n_missing[METRIC_TOKEN_LATENCY], 5);
    check_series(m, METRIC_TPOT, 30, 50, 70);
}

static void selects_and_cuts(void **state)
{
    struct test *t = *state;
    struct run r = hand_run(t);
    static const int64_t ids[] = {0, 1, 2, 6, 9}, cut[] = {1, 2, 0, 2, 1};
    struct metrics_params p = {.request_ids = ids, .n_ids = 5};
    struct run_metrics m = measure(t, &r, &p);
    assert_int_equal(m.n_requests, 3);
    assert_int_equal(m.n_warmup + m.n_not_ok, 0);
    check_series(m, METRIC_TTFT, 10, 50, 100);

    /* Request 1 ends with its second token at 1120; request 2 has none left; request 6 has two rows
     * for three tokens, so nobody knows when its second came. */
    p.max_tokens = cut;
    m = measure(t, &r, &p);
    check_series(m, METRIC_TTFT, 10, 100);
    check_series(m, METRIC_E2E, 120);
    check_series(m, METRIC_TPOT, 20);
    check_series(m, METRIC_TOKEN_LATENCY, 20);
    assert_int_equal(m.n_missing[METRIC_E2E], 2);
    assert_int_equal(m.n_missing[METRIC_TPOT], 1);
    assert_int_equal(m.n_missing[METRIC_TTFT], 1);
    assert_int_equal(m.output_tokens, 4);

    r.tokens = NULL; /* a cut needs token times */
    r.n_tokens = 0;
    m = measure(t, &r, &p);
    assert_int_equal(m.of[METRIC_E2E].n, 0);
    assert_int_equal(m.n_missing[METRIC_E2E], 3);
}

static void nothing_selected_is_nothing_known(void **state)
{
    struct test *t = *state;
    struct run r = hand_run(t);
    static const int64_t ids[] = {100};
    struct run_metrics m = measure(t, &r, &(struct metrics_params){.request_ids = ids, .n_ids = 1});
    assert_int_equal(m.n_requests, 0);
    for (int i = 0; i < METRICS; i++)
        assert_int_equal(m.of[i].n, 0);
    assert_true(isnan(m.duration_s) && isnan(m.output_tokens_per_s) && isnan(m.requests_per_s));
}

static void metrics_have_names(void **state)
{
    (void)state;
    static const char *const want[METRICS] = {"ttft", "token_latency", "tpot", "e2e"};
    for (int i = 0; i < METRICS; i++)
        assert_string_equal(metric_name((enum metric)i), want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(latencies_follow_the_definitions),         TEST(token_0_counts_when_asked_for),
        TEST(without_token_rows_latencies_are_missing), TEST(selects_and_cuts),
        TEST(nothing_selected_is_nothing_known),        cmocka_unit_test(metrics_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
