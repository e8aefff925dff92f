#include "profile/read/curve.h"

#include <math.h>

#include "support/support.h"

static void finds_the_segment_of_any_value(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const double x[] = {1, 2, 4, 8, 12, 16, 24, 1000, 1001, 131072};
    const int32_t n = sizeof x / sizeof *x;
    struct grid *g = grid_new(a, x, n);
    for (double v = 0; v < 140000; v += v < 2000 ? 0.25 : 7.5) {
        int32_t want = 0;
        while (want < n - 2 && x[want + 1] <= v)
            want++;
        assert_int_equal(grid_find(g, v), want);
    }
    assert_true(g->buckets <= GRID_MAX_BUCKETS);
    arena_free(&a);
}

static void is_linear_inside_and_flags_the_outside(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const double x[] = {2, 4, 8}, y[] = {10, 20, 80};
    struct curve c = {grid_new(a, x, 3), y};
    bool outside = false;
    assert_true(curve_at(&c, 3, &outside) == 15);
    assert_true(curve_at(&c, 4, &outside) == 20);
    assert_true(curve_at(&c, 5, &outside) == 35);
    assert_true(curve_at(&c, 8, &outside) == 80);
    assert_true(curve_at(&c, 2, &outside) == 10);
    assert_false(outside);
    assert_true(curve_at(&c, 1, &outside) == 10);
    assert_true(outside);
    outside = false;
    assert_true(curve_at(&c, 16, &outside) == 80);
    assert_true(outside);
    outside = false;
    assert_true(curve_scaled_at(&c, 16, &outside) == 160);
    assert_true(outside);
    outside = false;
    assert_true(curve_scaled_at(&c, 5, &outside) == 35);
    assert_false(outside);
    arena_free(&a);
}

static void one_knot_is_a_curve(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const double x[] = {4}, y[] = {3};
    struct curve c = {grid_new(a, x, 1), y};
    bool outside = false;
    assert_true(curve_at(&c, 4, &outside) == 3);
    assert_false(outside);
    assert_true(curve_scaled_at(&c, 8, &outside) == 6);
    assert_true(outside);
    arena_free(&a);
}

static void equal_knots_share_a_grid(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct grid_set known = {0};
    for (int i = 1; i <= 40; i++) { /* past the set's first capacity */
        const double x[] = {0, i};
        struct grid *g = grid_intern(a, &known, x, 2);
        assert_ptr_equal(grid_intern(a, &known, x, 2), g);
    }
    assert_int_equal(known.n, 40);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_segment_of_any_value),
        cmocka_unit_test(is_linear_inside_and_flags_the_outside),
        cmocka_unit_test(one_knot_is_a_curve),
        cmocka_unit_test(equal_knots_share_a_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
