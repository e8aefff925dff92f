#include "kernels/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "support/support.h"

static int by_value(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

static void figures_equal_those_of_the_sorted_values(void **state)
{
    (void)state;
    enum { MOST = 300 };
    struct rng r = rng_stream(1, "stats");
    int64_t v[MOST], sorted[MOST];
    for (size_t n = 1; n <= MOST; n++) {
        uint64_t distinct = 1 + rng_below(&r, n);
        double squares = 0;
        int64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            v[i] = sorted[i] = (int64_t)rng_below(&r, distinct) - 3;
            sum += v[i];
        }
        qsort(sorted, n, sizeof *sorted, by_value);
        for (size_t i = 0; i < n; i++)
            squares += pow((double)v[i] - (double)sum / (double)n, 2);
        struct kernels_stats s = kernels_stats_of(v, n);
        assert_int_equal(s.n, n);
        assert_int_equal(s.sum, sum);
        assert_int_equal(s.min, sorted[0]);
        assert_int_equal(s.max, sorted[n - 1]);
        assert_near(s.median, (double)(sorted[n / 2] + sorted[(n - 1) / 2]) / 2, 0);
        if (n > 1)
            assert_near(s.stddev, sqrt(squares / (double)(n - 1)), 1e-9);
        else
            assert_true(isnan(s.stddev));
    }
    assert_int_equal(kernels_stats_of(NULL, 0).n, 0);
}

static int64_t tenfold(const void *self, size_t i)
{
    return ((const int64_t *)self)[i] * 10;
}

static void groups_keep_their_order(void **state)
{
    (void)state;
    uint32_t group[] = {2, 0, UINT32_MAX, 2, 0, 2};
    int64_t value[] = {1, 2, 3, 4, 5, 6};
    struct kernels_groups g = kernels_group(group, 6, 4, tenfold, value);
    static const size_t first[] = {0, 2, 2, 5, 5};
    static const int64_t values[] = {20, 50, 10, 40, 60};
    assert_memory_equal(g.first, first, sizeof first);
    assert_memory_equal(g.values, values, sizeof values);
    kernels_groups_free(&g);
}

static void keys_are_dense(void **state)
{
    (void)state;
    struct kernels_keys k = {0};
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 5000; i++)
            assert_int_equal(kernels_key(&k, kernels_pair(i * 7, i)), i);
    assert_int_equal(k.n, 5000);
    kernels_keys_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(figures_equal_those_of_the_sorted_values),
                                       TEST(groups_keep_their_order), TEST(keys_are_dense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
