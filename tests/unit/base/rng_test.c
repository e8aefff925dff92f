#include "support/support.h"

#include <math.h>

#include "base/rng.h"

/* xoshiro256++ from state {1, 2, 3, 4}: the first outputs of the authors' reference program. */
static void the_generator_is_the_published_one(void **state)
{
    (void)state;
    struct rng r = {{1, 2, 3, 4}};
    static const uint64_t want[] = {41943041u, 58720359u, 3588806011781223u, 3591011842654386u,
                                    9228616714210784205u};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_true(rng_u64(&r) == want[i]);
}

/* These numbers are in everybody's workloads: they never change. */
static void streams_are_for_ever(void **state)
{
    (void)state;
    struct rng r = rng_stream(7, "workload.arrivals");
    const uint64_t first = rng_u64(&r), second = rng_u64(&r);
    assert_true(first == UINT64_C(17984348510926108914));
    assert_true(second == UINT64_C(14685923072937721952));
}

static void streams_differ_by_seed_and_name(void **state)
{
    (void)state;
    struct rng a = rng_stream(1, "a"), b = rng_stream(1, "b"), c = rng_stream(2, "a"),
               d = rng_stream(1, "a");
    uint64_t va = rng_u64(&a);
    assert_true(va != rng_u64(&b));
    assert_true(va != rng_u64(&c));
    assert_true(va == rng_u64(&d));
}

enum { N = 200000 };

/* Means and variances of n samples stay within 5 standard errors of the closed form. */
static void check_moments(double (*draw)(struct rng *), double mean, double variance,
                          double fourth_central)
{
    struct rng r = rng_stream(11, "rng_test.moments");
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        double d = draw(&r) - mean;
        sum += d;
        squares += d * d;
    }
    assert_near(sum / N, 0, 5 * sqrt(variance / N));
    assert_near(squares / N, variance, 5 * sqrt((fourth_central - variance * variance) / N));
}

static double gamma_small(struct rng *r)
{
    return rng_gamma(r, 0.25);
}

static double gamma_large(struct rng *r)
{
    return rng_gamma(r, 4);
}

static void distributions_have_their_moments(void **state)
{
    (void)state;
    check_moments(rng_unit, 0.5, 1.0 / 12, 1.0 / 80);
    check_moments(rng_exponential, 1, 1, 9);
    check_moments(rng_normal, 0, 1, 3);
    assert_near(rng_normal_at(0.5), 0, 1e-12);
    assert_near(rng_normal_at(0.975), 1.959963984540054, 1e-9);
    assert_near(rng_normal_at(0.025), -1.959963984540054, 1e-9);
    check_moments(gamma_small, 0.25, 0.25, 3 * 0.25 * 0.25 + 6 * 0.25); /* 3k^2 + 6k */
    check_moments(gamma_large, 4, 4, 3 * 16 + 6 * 4);
}

static void ranges_hold(void **state)
{
    (void)state;
    struct rng r = rng_stream(5, "rng_test.ranges");
    unsigned seen[7] = {0};
    for (int i = 0; i < 70000; i++) {
        double u = rng_unit(&r);
        assert_true(u >= 0 && u < 1);
        assert_true(isfinite(rng_exponential(&r)) && isfinite(rng_normal(&r)));
        assert_true(rng_gamma(&r, 0.1) >= 0);
        uint64_t k = rng_below(&r, 7);
        assert_true(k < 7);
        seen[k]++;
    }
    for (int k = 0; k < 7; k++)
        assert_near(seen[k], 10000, 5 * sqrt(10000.0 * 6 / 7));
    assert_int_equal(rng_below(&r, 1), 0);
    assert_true(rng_below(&r, UINT64_MAX) < UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_generator_is_the_published_one),
        TEST(streams_are_for_ever),
        TEST(streams_differ_by_seed_and_name),
        TEST(distributions_have_their_moments),
        TEST(ranges_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
