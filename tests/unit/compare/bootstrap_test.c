#include "compare/bootstrap.h"

#include <math.h>

#include "base/rng.h"
#include "support/support.h"

static const double percentiles[] = {50, 90, 99};
enum { PERCENTILES = 3, REQUESTS = 200 };

/* Two runs of the same requests: each takes a time of its own, the same in both, and noise. */
struct two {
    struct boot_value a[REQUESTS], b[REQUESTS];
    struct boot_series of_a, of_b;
};

static void make(struct two *t, uint64_t seed, double factor, double noise)
{
    struct rng r = rng_stream(seed, "test");
    t->of_a = (struct boot_series){t->a, REQUESTS};
    t->of_b = (struct boot_series){t->b, REQUESTS};
    for (uint32_t i = 0; i < REQUESTS; i++) {
        double own = 1e6 * (1 + rng_exponential(&r));
        t->a[i] = (struct boot_value){own * (1 + noise * rng_normal(&r)), i};
        t->b[i] = (struct boot_value){own * factor * (1 + noise * rng_normal(&r)), i};
    }
    boot_sort(&t->of_a);
    boot_sort(&t->of_b);
}

static int intervals(const struct two *t, bool paired, double *low, double *high)
{
    const struct boot_params p = {.a_requests = REQUESTS,
                                  .b_requests = REQUESTS,
                                  .paired = paired,
                                  .percentiles = percentiles,
                                  .n_percentiles = PERCENTILES};
    return boot_intervals(&p, &t->of_a, &t->of_b, 1, low, high);
}

/* Of 40 pairs that differ by 5 %, the intervals must miss that in a few at most. */
static void intervals_hold_the_difference(void **state)
{
    (void)state;
    int missed = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct two t;
        double low[PERCENTILES], high[PERCENTILES];
        make(&t, seed, 1.05, 0.03);
        assert_int_equal(intervals(&t, true, low, high), 2000);
        missed += low[0] > 5 || high[0] < 5;
        assert_true(low[0] < high[0]);
    }
    assert_in_range(missed, 0, 6);
}

static void pairing_narrows_them(void **state)
{
    (void)state;
    struct two t;
    double low[PERCENTILES], high[PERCENTILES], low1[PERCENTILES], high1[PERCENTILES];
    make(&t, 1, 1.05, 0.01);
    intervals(&t, true, low, high);
    intervals(&t, false, low1, high1);
    assert_true(high[0] - low[0] < 0.5 * (high1[0] - low1[0]));
    assert_true(low[0] > 0);
}

static void the_same_input_gives_the_same_bytes(void **state)
{
    (void)state;
    struct two t;
    double low[PERCENTILES], high[PERCENTILES], again[PERCENTILES], high1[PERCENTILES];
    make(&t, 7, 1.1, 0.1);
    intervals(&t, true, low, high);
    intervals(&t, true, again, high1);
    for (int i = 0; i < 2; i++) {
        assert_near(low[i], again[i], 0);
        assert_near(high[i], high1[i], 0);
    }
}

static void too_few_values_bound_nothing(void **state)
{
    (void)state;
    struct two t;
    double low[PERCENTILES], high[PERCENTILES];
    make(&t, 3, 1, 0.1);
    intervals(&t, true, low, high);
    assert_false(isnan(low[0]) || isnan(low[1]));
    assert_true(isnan(low[2]) && isnan(high[2])); /* two of 200 lie beyond P99 */
    assert_true(boot_bounds(500, 500, 99));
    assert_false(boot_bounds(499, 499, 99));
    assert_false(boot_bounds(19, 100000, 50)); /* many tokens of few requests */
}

static void blocks_and_draws_follow_the_size(void **state)
{
    (void)state;
    assert_int_equal(boot_block(1), 1);
    assert_int_equal(boot_block(27), 3);
    assert_int_equal(boot_block(28), 4);
    assert_int_equal(boot_draws(100), 2000);
    assert_int_equal(boot_draws(400000), 500);
    assert_int_equal(boot_draws(100000000), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_hold_the_difference),
        cmocka_unit_test(pairing_narrows_them),
        cmocka_unit_test(the_same_input_gives_the_same_bytes),
        cmocka_unit_test(too_few_values_bound_nothing),
        cmocka_unit_test(blocks_and_draws_follow_the_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
