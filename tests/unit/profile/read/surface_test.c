#include "profile/read/surface.h"

#include <math.h>

#include "profile/read/tiles.h"
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
    surface_build(a, SURFACE_DECODE, p, n, NULL, &s);
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
    surface_build(a, SURFACE_PREFILL, p, n, NULL, &s);
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
    surface_build(a, SURFACE_DECODE, p, n, NULL, &s);
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
    surface_build(a, SURFACE_DECODE, one, 1, NULL, &s);
    near(surface_at(&s, 4, 100, &outside), 2e-6);
    assert_false(outside);
    assert_true(surface_at(&s, 8, 100, &outside) > 0);
    assert_true(outside);

    outside = false;
    struct surface_point zero[] = {{1, 0, 0}, {1, 8, 0}, {2, 0, 0}, {2, 8, 0}};
    surface_build(a, SURFACE_PREFILL, zero, 4, NULL, &s);
    assert_true(surface_at(&s, 1.5, 4, &outside) == 0);

    struct surface_point some[] = {{1, 0, 0}, {1, 8, 1e-6}, {2, 0, 0}, {2, 8, 3e-6}};
    surface_build(a, SURFACE_DECODE, some, 4, NULL, &s);
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

/* Rows, scores or keys alone; scores of whole prompts. */
static double part_of(int part, double x, double kv)
{
    switch (part) {
    case 0:
        return x * kv;
    case 1:
        return kv;
    case 2:
        return x;
    case 3:
        return x * kv + x * (x + 1) / 2;
    case 4:
        return kv + x;
    default: /* scores again */
        return part_of(3, x, kv);
    }
}

/* Times in proportion to one part of the work, without a constant: of a kernel that has no launch
 * to speak of, and of prompts that are never cut (no row after a cache). On knots of powers of two,
 * at every number of tokens between. Coefficients that no binary fraction holds: a fit that needs
 * them to be above 0 by rounding would fail for half of these. */
static void times_in_proportion_to_one_part_are_reproduced(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    static const double units[] = {1e-9, 3e-8, 7e-7, 1.1e-6, 1.0 / 3, 0.1};
    for (int part = 0; part < 6; part++)
        for (int u = 0; u < LEN(units); u++) {
            const bool decode = part < 2, whole = part == 5; /* prompts */
            struct surface_point p[200];
            int n = 0;
            for (double x = 1; x <= 1024; x *= 2)
                for (double kv = decode ? 16 : 0; kv <= (whole ? 0 : 2048);
                     kv = kv > 0 ? 2 * kv : 16)
                    p[n++] = (struct surface_point){x, kv, units[u] * part_of(part, x, kv)};
            n = (int)surface_points_merge(p, n);
            struct surface s;
            surface_build(a, decode ? SURFACE_DECODE : SURFACE_PREFILL, p, n, NULL, &s);
            assert_true(s.tiles.k == 0);
            bool outside = false;
            for (double x = 1; x <= 1024; x += x < 260 ? 1 : 37)
                for (double kv = decode ? 16 : 0; kv <= (whole ? 0 : 2048);
                     kv += kv < 260 ? 43 : 389)
                    near(surface_at(&s, x, kv, &outside), units[u] * part_of(part, x, kv));
            assert_false(outside);
            near(surface_at(&s, 3000, 5000, &outside), units[u] * part_of(part, 3000, 5000));
            arena_reset(a);
        }
    arena_free(&a);
}

/* A kernel in tiles of 128 keys, measured every 32: the step stands at the tile's edge, also where
 * no point was measured. */
static double tiled_decode(double b, double kv)
{
    return 3e-6 + 2e-7 * b + 1e-9 * b * 128 * ceil((kv + 1) / 128);
}

static void steps_at_tiles_are_followed(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct surface_point p[8 * 32];
    int n = 0;
    for (int b = 1; b <= 128; b *= 2)
        for (int k = 0; k < 32; k++)
            p[n++] = (struct surface_point){b, 32 * k, tiled_decode(b, 32 * k)};
    struct surface s;
    surface_build(a, SURFACE_DECODE, p, n, NULL, &s);
    assert_true(s.tiles.k == 128);
    bool outside = false;
    for (double b = 1; b <= 128; b += 3)
        for (double kv = 0; kv <= 992; kv++)
            near(surface_at(&s, b, kv, &outside), tiled_decode(b, kv));
    assert_false(outside);
    near(surface_at(&s, 256, 5000, &outside), tiled_decode(256, 5000));
    arena_free(&a);
}

/* Tiles of 64 queries and 128 keys. */
static double tiled_prefill(double c, double kv)
{
    return 5e-6 + 3e-10 * tile_pairs(kv, c, 64, 128);
}

static void causal_attention_is_counted_in_tiles(void **state)
{
    (void)state;
    for (int q = 16; q <= 256; q *= 2)
        for (int k = 16; k <= 256; k *= 2)
            for (int c = 1; c < 700; c += 37)
                for (int kv = 0; kv < 900; kv += 61) {
                    double want = 0;
                    for (int i = 0; i * q < c; i++) { /* tile by tile */
                        double last = kv + ((i + 1) * q < c ? (i + 1) * q : c);
                        want += ceil(last / k) * k * q;
                    }
                    near(tile_pairs(kv, c, q, k), want);
                }
    assert_true(tile_pairs(10, 4, 0, 0) == 11 + 12 + 13 + 14);
    struct arena *a = arena_new();
    struct surface_point p[2000];
    int n = 0;
    for (int c = 32; c <= 1024; c += 32)
        for (int kv = 0; kv + c <= 2048; kv += 96)
            p[n++] = (struct surface_point){c, kv, tiled_prefill(c, kv)};
    struct surface s;
    surface_build(a, SURFACE_PREFILL, p, n, NULL, &s);
    assert_true(s.tiles.q == 64 && s.tiles.k == 128);
    bool outside = false;
    for (double c = 32; c <= 1024; c += 7)
        for (double kv = 0; kv + c <= 1900; kv += 31)
            near(surface_at(&s, c, kv, &outside), tiled_prefill(c, kv));
    assert_false(outside);
    arena_free(&a);
}

/* Rows whose shape is a product f(x) g(kv), g as ragged as can be: a knot that one row lacks is
 * filled in to 1 %, inside and at the edge, where the line between its neighbours is five times
 * off. */
static void a_lacking_knot_is_filled_from_the_rows_around(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    const double g[] = {3, 1, 4, 1.5, 9, 2, 6, 5};
    struct surface_point p[64];
    int n = 0;
    for (int x = 1; x <= 8; x++)
        for (int k = 0; k < 8; k++)
            if (!(x == 3 && k == 4) && !(x == 6 && k == 0))
                p[n++] = (struct surface_point){x, 10 * k, 1e-6 * (2 + x) * g[k]};
    struct surface s;
    surface_build(a, SURFACE_DECODE, p, n, NULL, &s);
    bool outside = false;
    assert_near(surface_at(&s, 3, 40, &outside) / (1e-6 * 5 * g[4]), 1, 0.01);
    assert_near(surface_at(&s, 6, 0, &outside) / (1e-6 * 8 * g[0]), 1, 0.01);
    assert_false(outside);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_work_is_reproduced_everywhere),
        cmocka_unit_test(prefill_work_is_reproduced_on_a_triangle),
        cmocka_unit_test(times_in_proportion_to_one_part_are_reproduced),
        cmocka_unit_test(steps_at_tiles_are_followed),
        cmocka_unit_test(causal_attention_is_counted_in_tiles),
        cmocka_unit_test(a_lacking_knot_is_filled_from_the_rows_around),
        cmocka_unit_test(measured_points_are_hit_whatever_their_shape),
        cmocka_unit_test(few_points_and_zero_times_are_fine),
        cmocka_unit_test(equal_places_are_merged_to_their_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
