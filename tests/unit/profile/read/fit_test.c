/* Least squares of operator times: exact forms come back, coefficients are never negative. */
#include "profile/read/fit.h"

#include <stdio.h>

#include "base/rng.h"
#include "support/support.h"

enum { N = 40 };

static void sizes(double f[N][2])
{
    for (int i = 0; i < N; i++) {
        f[i][0] = 1;
        f[i][1] = 1 + 7 * i;
    }
}

static void times_of_the_form_are_reproduced(void **state)
{
    static const double cases[][2] = {{2e-5, 3e-7}, {0, 1e-3}, {4, 0}, {1e-9, 5e3}};
    double f[N][2], y[N], theta[2];
    (void)state;
    sizes(f);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int i = 0; i < N; i++)
            y[i] = cases[k][0] + cases[k][1] * f[i][1];
        fit_positive(2, N, &f[0][0], y, 3, theta);
        for (int i = 0; i < N; i++)
            assert_near_rel(theta[0] + theta[1] * f[i][1], y[i], 1e-6);
    }
}

/* Times that fall with size would need a negative slope: then the constant alone. */
static void coefficients_are_never_negative(void **state)
{
    double f[N][2], y[N], theta[2];
    (void)state;
    sizes(f);
    for (int i = 0; i < N; i++)
        y[i] = 1 - 1e-3 * f[i][1];
    fit_positive(2, N, &f[0][0], y, 3, theta);
    assert_true(theta[0] > 0);
    assert_near(theta[1], 0, 0);
}

/* Errors count relatively: a small time is met as well as one a million times as long. */
static void small_times_count_as_much_as_large_ones(void **state)
{
    struct rng r = rng_stream(1, "fit");
    double f[N][2], y[N], theta[2];
    (void)state;
    for (int i = 0; i < N; i++) {
        f[i][0] = 1;
        f[i][1] = i < N / 2 ? 0 : 1e9;
        y[i] = (f[i][1] > 0 ? 1.0 : 1e-6) * (1 + 0.01 * (2 * rng_unit(&r) - 1));
    }
    fit_positive(2, N, &f[0][0], y, 3, theta);
    assert_near_rel(theta[0], 1e-6, 0.02);
    assert_near_rel(theta[0] + theta[1] * 1e9, 1.0, 0.02);
}

static void some_feature_of_the_mask_has_a_coefficient(void **state)
{
    double f[N][2], y[N], theta[2];
    (void)state;
    sizes(f);
    for (int i = 0; i < N; i++)
        y[i] = 1e-3;
    fit_positive(2, N, &f[0][0], y, 2, theta); /* the slope must be there, the constant may */
    assert_true(theta[1] > 0);
}

static void equal_features_do_not_break_it(void **state)
{
    double f[N][3], y[N], theta[3];
    (void)state;
    for (int i = 0; i < N; i++) {
        f[i][0] = 1;
        f[i][1] = f[i][2] = 2 + i;
        y[i] = 5 + 3.0 * (2 + i);
    }
    fit_positive(3, N, &f[0][0], y, 7, theta);
    for (int i = 0; i < N; i++)
        assert_near_rel(theta[0] + (theta[1] + theta[2]) * f[i][1], y[i], 1e-6);
}

static void times_that_are_all_zero_give_the_first_feature(void **state)
{
    double f[N][2], y[N] = {0}, theta[2] = {7, 7};
    (void)state;
    sizes(f);
    fit_positive(2, N, &f[0][0], y, 3, theta);
    assert_near(theta[0], 1, 0);
    assert_near(theta[1], 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(times_of_the_form_are_reproduced),
        TEST(coefficients_are_never_negative),
        TEST(small_times_count_as_much_as_large_ones),
        TEST(some_feature_of_the_mask_has_a_coefficient),
        TEST(equal_features_do_not_break_it),
        TEST(times_that_are_all_zero_give_the_first_feature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
