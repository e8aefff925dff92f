#include "profile/read/table.h"

#include <math.h>

#include "support/support.h"

static void build_tokens(struct arena *a, const double *y, int n, struct op_table *t)
{
    struct surface_point *p = arena_array(a, struct surface_point, n);
    for (int i = 0; i < n; i++)
        p[i] = (struct surface_point){.x = i + 1, .y = y[i]};
    struct grid_set known = {0};
    op_table_build(a, AXIS_TOKENS, &known, p, n, t);
}

static void leave_one_out_of_a_line_is_exact(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct op_table t;
    build_tokens(a, (const double[]){1, 2, 3, 4, 5, 6}, 6, &t);
    struct holdout h = op_table_holdout(&t, 0);
    assert_int_equal(h.tested, 4); /* the ends have no neighbours on both sides */
    assert_true(h.mean < 1e-12 && h.max < 1e-12);
    arena_free(&a);
}

/* 1, 2, 5, 4, 5: without its point, 2 -> 3, 5 -> 3, 4 -> 5. Errors 1/2, 2/5, 1/4. */
static void leave_one_out_error_by_hand(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct op_table t;
    build_tokens(a, (const double[]){1, 2, 5, 4, 5}, 5, &t);
    struct holdout h = op_table_holdout(&t, 0);
    assert_int_equal(h.tested, 3);
    assert_true(fabs(h.mean - (0.5 + 0.4 + 0.25) / 3) < 1e-12);
    assert_true(fabs(h.max - 0.5) < 1e-12);
    assert_true(fabs(h.p90 - 0.4) < 1e-12); /* order statistic floor(0.9 (n - 1)) */
    arena_free(&a);
}

static void attention_is_held_out_by_point(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct surface_point p[48];
    int n = 0;
    for (int x = 1; x <= 8; x++)
        for (int k = 0; k < 6; k++)
            p[n++] = (struct surface_point){x, k * 64, 1e-6 + 1e-8 * x * k};
    struct grid_set known = {0};
    struct op_table t;
    op_table_build(a, AXIS_DECODE, &known, p, n, &t);
    struct holdout loo = op_table_holdout(&t, 0), five = op_table_holdout(&t, 5);
    assert_true(loo.tested >= 6 * 4 && loo.tested < n);
    assert_true(loo.max < 1e-9);
    assert_true(five.tested > 0 && five.max < 1e-9);
    struct holdout again = op_table_holdout(&t, 5);
    assert_true(again.mean == five.mean && again.tested == five.tested);
    arena_free(&a);
}

/* A GEMM in tiles of 64 rows, measured every 24: the step is where the tile ends, and a sum of such
 * curves over other knots stays exact at whole numbers. */
static void steps_at_tiles_of_tokens_are_followed(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct surface_point p[41];
    for (int i = 0; i < 41; i++)
        p[i] = (struct surface_point){.x = 1 + 24 * i, .y = 5 + ceil((1 + 24 * i) / 64.0)};
    struct grid_set known = {0};
    struct op_table t;
    op_table_build(a, AXIS_TOKENS, &known, p, 41, &t);
    assert_true(t.tile == 64);
    bool outside = false;
    for (int x = 1; x <= 961; x++)
        assert_near(op_table_at(&t, x, 0, &outside), 5 + ceil(x / 64.0), 1e-12);
    assert_false(outside);
    struct holdout h = op_table_holdout(&t, 5);
    assert_int_equal(h.tested, 41);
    assert_true(h.median < 1e-9);
    arena_free(&a);
}

/* Every row is held out once, equal rows count once, and the edges are extrapolated. */
static void folds_test_every_row(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct surface_point p[12];
    for (int i = 0; i < 12; i++)
        p[i] = (struct surface_point){.x = 1 + i / 2, .y = 1 + i / 2 + (i == 5 ? 1 : 0)};
    struct grid_set known = {0};
    struct op_table t;
    op_table_build(a, AXIS_TOKENS, &known, p, 12, &t);
    assert_int_equal(t.n, 7);
    bool outside = false;
    assert_near(op_table_at(&t, 3, 0, &outside), 3.5, 1e-12); /* the mean of its two rows */
    struct holdout h = op_table_holdout(&t, 7);
    assert_int_equal(h.tested, 7);
    assert_int_equal(h.extrapolated, 2);
    arena_free(&a);
}

/* Few tokens hit few experts: weights are read per expert hit, work is done per token. Measured at
 * powers of two, right at every number of tokens. */
static void experts_are_interpolated_by_what_they_do(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const struct model m = {.experts = 128, .experts_per_token = 8};
    struct surface_point p[13];
    int n = 0;
    for (int x = 1; x <= 4096; x *= 2)
        p[n++] =
            (struct surface_point){.x = x, .y = 1 + 0.25 * model_experts_hit(&m, x) + 1e-3 * x};
    struct grid_set known = {0};
    struct op_table t;
    op_table_build_experts(a, &m, &known, p, n, &t);
    bool outside = false;
    for (int x = 1; x <= 4096; x += x < 300 ? 1 : 17) {
        double want = 1 + 0.25 * model_experts_hit(&m, x) + 1e-3 * x;
        assert_near(op_table_at(&t, x, 0, &outside) / want, 1, 1e-6);
    }
    assert_false(outside);
    assert_true(op_table_holdout(&t, 0).max < 1e-6);
    arena_free(&a);
}

static void too_few_points_have_no_error(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct op_table t;
    build_tokens(a, (const double[]){1, 2}, 2, &t);
    assert_int_equal(op_table_holdout(&t, 0).tested, 0);
    build_tokens(a, (const double[]){1}, 0, &t);
    assert_int_equal(op_table_holdout(&t, 0).tested, 0);
    bool outside = false;
    assert_true(op_table_at(&t, 3, 0, &outside) == 0);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leave_one_out_of_a_line_is_exact),
        cmocka_unit_test(leave_one_out_error_by_hand),
        cmocka_unit_test(attention_is_held_out_by_point),
        cmocka_unit_test(steps_at_tiles_of_tokens_are_followed),
        cmocka_unit_test(folds_test_every_row),
        cmocka_unit_test(experts_are_interpolated_by_what_they_do),
        cmocka_unit_test(too_few_points_have_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
