#include "profile/read/surface.h"

#include <math.h>

#include "support/support.h"

#define LEN(a) (int)(sizeof(a) / sizeof *(a))

static double decode_time(double b, double kv)
{
    return 3e-6 + 2e-7 * b + 1e-9 * b * kv;
}

static double prefill_time(double c, double kv)
{
    return 5e-6 + 1e-7 * c + 2e-10 * (c * kv + c * (c + 1) / 2) + 3e-9 * (kv + c);
}

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("got %.17g, want %.17g", got, want);
}

static void decode_work_is_reproduced_everywhere(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const double bs[] = {1, 2, 4, 8, 16, 32}, kvs[] = {0, 16, 64, 256, 1024, 4096};
    struct surface_point p[LEN(bs) * LEN(kvs)];
    int n = 0;
    for (int i = 0; i < LEN(bs); i++)
        for (int j = 0; j < LEN(kvs); j++)
            p[n++] = (struct surface_point){bs[i], kvs[j], decode_time(bs[i], kvs[j])};
    n = (int)surface_points_merge(p, n);
    struct surface s;
    surface_build(a, SURFACE_DECODE, p, n, &s);
    bool outside = false;
    for (double b = 1; b <= 32; b += 1)
        for (double kv = 0; kv <= 4096; kv += 37.3)
            near(surface_at(&s, b, kv, &outside), decode_time(b, kv));
    assert_false(outside);
    near(surface_at(&s, 64, 9000, &outside), decode_time(64, 9000));
    assert_true(outside);
    arena_free(&a);
}

/* kv + chunk bounded: rows of longer chunks end earlier. */
static void prefill_work_is_reproduced_on_a_triangle(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct surface_point p[200];
    int n = 0;
    for (double c = 16; c <= 1024; c *= 2)
        for (double kv = 0; kv + c <= 1024; kv += c)
            p[n++] = (struct surface_point){c, kv, prefill_time(c, kv)};
    n = (int)surface_points_merge(p, n);
    struct surface s;
    surface_build(a, SURFACE_PREFILL, p, n, &s);
    bool outside = false;
    for (double c = 16; c <= 1024; c += 9)
        for (double kv = 0; kv + c <= 900; kv += 31)
            near(surface_at(&s, c, kv, &outside), prefill_time(c, kv));
    assert_false(outside);
    near(surface_at(&s, 5, 0, &outside), prefill_time(5, 0));
    assert_true(outside);
    outside = false;
    near(surface_at(&s, 100, 5000, &outside), prefill_time(100, 5000));
    assert_true(outside);
    arena_free(&a);
}

static void measured_points_are_hit_whatever_their_shape(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct surface_point p[64];
    int n = 0;
    for (int x = 1; x <= 8; x++)
        for (int k = 0; k < 8; k++)
            p[n++] = (struct surface_point){x, k * 32, 1e-6 * (1 + (x * 7 + k * 13) % 5)};
    n = (int)surface_points_merge(p, n);
    struct surface s;
    surface_build(a, SURFACE_DECODE, p, n, &s);
    bool outside = false;
    for (int i = 0; i < n; i++)
        near(surface_at(&s, p[i].x, p[i].kv, &outside), p[i].y);
    for (double x = 1; x <= 8; x += 0.5)
        for (double kv = 0; kv <= 224; kv += 5)
            assert_true(surface_at(&s, x, kv, &outside) > 0);
    assert_false(outside);
    arena_free(&a);
}

static void few_points_and_zero_times_are_fine(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct surface s;
    bool outside = false;
    struct surface_point one[] = {{4, 100, 2e-6}};
    surface_build(a, SURFACE_DECODE, one, 1, &s);
    near(surface_at(&s, 4, 100, &outside), 2e-6);
    assert_false(outside);
    assert_true(surface_at(&s, 8, 100, &outside) > 0);
    assert_true(outside);

    outside = false;
    struct surface_point zero[] = {{1, 0, 0}, {1, 8, 0}, {2, 0, 0}, {2, 8, 0}};
    surface_build(a, SURFACE_PREFILL, zero, 4, &s);
    assert_true(surface_at(&s, 1.5, 4, &outside) == 0);

    struct surface_point some[] = {{1, 0, 0}, {1, 8, 1e-6}, {2, 0, 0}, {2, 8, 3e-6}};
    surface_build(a, SURFACE_DECODE, some, 4, &s);
    near(surface_at(&s, 2, 8, &outside), 3e-6);
    assert_true(surface_at(&s, 1, 0, &outside) == 0);
    assert_false(outside);
    arena_free(&a);
}

static void equal_places_are_merged_to_their_mean(void **state)
{
    (void)state;
    struct surface_point p[] = {{2, 0, 5}, {1, 8, 3}, {1, 8, 5}, {1, 0, 1}, {1, 8, 7}};
    assert_int_equal(surface_points_merge(p, 5), 3);
    assert_true(p[0].x == 1 && p[0].kv == 0 && p[0].y == 1);
    assert_true(p[1].x == 1 && p[1].kv == 8 && p[1].y == 5);
    assert_true(p[2].x == 2 && p[2].kv == 0 && p[2].y == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_work_is_reproduced_everywhere),
        cmocka_unit_test(prefill_work_is_reproduced_on_a_triangle),
        cmocka_unit_test(measured_points_are_hit_whatever_their_shape),
        cmocka_unit_test(few_points_and_zero_times_are_fine),
        cmocka_unit_test(equal_places_are_merged_to_their_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
