#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "support/support.h"

/* python3 -c "import numpy as np
 * for q in (0, 10, 25, 33.3, 50, 90, 95, 99, 99.9, 100):
 *     print(q, repr(float(np.percentile([3.0, 1e9, 7.25, 0.1, 2.0, 1e-3, 55.5], q))))"
 * NumPy 2.4.6. Equal to the last bit. */
static void equals_numpy(void **state)
{
    (void)state;
    static const double sorted[] = {1e-3, 0.1, 2.0, 3.0, 7.25, 55.5, 1e9};
    static const double want[][2] = {
        {0, 0.001},
        {10, 0.06040000000000001},
        {25, 1.05},
        {33.3, 1.9961999999999995},
        {50, 3.0},
        {90, 400000033.30000037},
        {95, 700000016.6499993},
        {99, 940000003.3299994},
        {99.9, 994000000.3330007},
        {100, 1000000000.0},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_true(stats_percentile(sorted, 7, want[i][0]) == want[i][1]);
    assert_true(stats_percentile(sorted + 4, 1, 99) == 7.25);
}

/* Exact ranks by Python's fractions: the largest l with P(Bin(n, p) < l) <= 1/40 and the smallest u
 * with P(Bin(n, p) >= u) <= 1/40. The sample is 1, 2, ... n, so values are ranks. */
static void intervals_are_order_statistics(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        double q, low, high; /* low 0 = none */
    } want[] = {
        {5, 50, 0, 0},        {6, 50, 1, 6},        {10, 50, 2, 9},      {100, 50, 40, 61},
        {100, 90, 84, 96},    {100, 99, 0, 0},      {368, 99, 360, 368}, {400, 99, 392, 400},
        {1000, 99, 983, 997}, {1000, 50, 469, 532},
    };
    static double sample[1000000];
    for (size_t i = 0; i < 1000000; i++)
        sample[i] = (double)i + 1;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        double low = 0, high = 0;
        bool found = stats_percentile_interval(sample, want[i].n, want[i].q, 0.95, &low, &high);
        assert_int_equal(found, want[i].low > 0);
        assert_true(low == want[i].low && high == want[i].high);
    }
    double low, high; /* 1e6 * 0.9 -+ 1.959964 * sqrt(1e6 * 0.9 * 0.1) = 587.99 */
    assert_true(stats_percentile_interval(sample, 1000000, 90, 0.95, &low, &high));
    assert_true(low == 899412 && high == 900589);
}

/* The bound the header promises: of many samples at least the confidence's share have the
 * population's percentile inside. Exponential, so not symmetric. */
static void intervals_cover(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        double q;
    } cases[] = {{50, 50}, {200, 90}, {2000, 99}};
    for (size_t c = 0; c < 3; c++) {
        struct rng rng = rng_stream(1, "percentile_test.cover");
        double truth = -log(1 - cases[c].q / 100), low, high;
        static double sample[2000], scratch[2000];
        int inside = 0, trials = 1000;
        for (int t = 0; t < trials; t++) {
            for (size_t i = 0; i < cases[c].n; i++)
                sample[i] = rng_exponential(&rng);
            stats_sort(sample, scratch, cases[c].n);
            assert_true(
                stats_percentile_interval(sample, cases[c].n, cases[c].q, 0.9, &low, &high));
            inside += low <= truth && truth <= high;
        }
        double deviation = sqrt(0.9 * 0.1 / trials);
        assert_true(inside / (double)trials > 0.9 - 3 * deviation);
    }
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return a < b ? -1 : a > b;
}

static void sorts_like_qsort(void **state)
{
    (void)state;
    static double v[5000], want[5000], scratch[5000];
    struct rng rng = rng_stream(1, "percentile_test.sort");
    for (size_t n = 0; n <= 5000; n = n * 2 + 1) {
        for (size_t i = 0; i < n; i++)
            v[i] = want[i] = (double)(rng_u64(&rng) % 3) * exp(40 * rng_normal(&rng)) *
                             (rng_u64(&rng) % 4 ? 1 : -1);
        stats_sort(v, scratch, n);
        qsort(want, n, sizeof *want, by_value);
        for (size_t i = 0; i < n; i++)
            assert_true(v[i] == want[i]);
    }
}

static void students_t_is_right(void **state)
{
    (void)state;
    assert_near(stats_student_95(1), 12.7062, 1e-4);
    assert_near(stats_student_95(30), 2.0423, 1e-4);
    assert_near(stats_student_95(40), 2.0211, 2e-3);
    assert_near(stats_student_95(120), 1.9799, 2e-4);
    assert_near(stats_student_95(1000000), 1.95997, 1e-5);
}

static void medians_are_of_the_middle(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
    int64_t times[] = {40, 10, 30, 25};
    assert_near(stats_median(odd, 3), 2, 0);
    assert_near(odd[0], 1, 0); /* sorted */
    assert_near(stats_median(even, 4), 2.5, 0);
    assert_near(stats_median(one, 1), 7, 0);
    assert_true(isnan(stats_median(NULL, 0)));
    assert_near(stats_median_int64(times, 4), 27.5, 0);
    assert_true(isnan(stats_median_int64(NULL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_are_of_the_middle),
        cmocka_unit_test(equals_numpy),
        cmocka_unit_test(intervals_are_order_statistics),
        cmocka_unit_test(intervals_cover),
        cmocka_unit_test(students_t_is_right),
        cmocka_unit_test(sorts_like_qsort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
