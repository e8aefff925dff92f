#include "support/support.h"

#include <math.h>

#include "base/rng.h"
#include "text/svg_scale.h"

static const char *labels(struct test *t, const struct scale *s)
{
    char *text = arena_str(t->a, "");
    for (int i = 0; i < s->n_ticks; i++)
        text = arena_printf(t->a, "%s%s%s", text, i ? " " : "", s->labels[i]);
    return text;
}

static void linear_ticks_are_round(void **state)
{
    static const struct {
        double min, max;
        bool whole;
        const char *labels;
    } cases[] = {
        {0, 1, true, "0 0.2 0.4 0.6 0.8 1.0"},
        {0, 0.5, true, "0 0.1 0.2 0.3 0.4 0.5"},
        {13, 87, true, "0 20 40 60 80 100"},
        {13, 87, false, "20 40 60 80"},
        {0, 199.99, false, "0 50 100 150 200"},
        {0, 14000, true, "0 5k 10k 15k"},
        {-1, 1, true, "-1.0 -0.5 0 0.5 1.0"},
        {0, 2.5e9, true, "0 0.5G 1.0G 1.5G 2.0G 2.5G"},
        {5, 5, true, "4.4 4.6 4.8 5.0 5.2 5.4 5.6"},
        {0, 0, true, "0 0.2 0.4 0.6 0.8 1.0"},
        {0, 0, false, "0 0.2 0.4 0.6 0.8 1.0"},
        {-5, -5, true, "-5.6 -5.4 -5.2 -5.0 -4.8 -4.6 -4.4"},
        {0, 3e-7, true, "0 5e-08 1e-07 1.5e-07 2e-07 2.5e-07 3e-07"},
        {1e16, 2e16, true, "1e+16 1.2e+16 1.4e+16 1.6e+16 1.8e+16 2e+16"},
        {1000.001, 1000.003, true, "1000.0010 1000.0015 1000.0020 1000.0025 1000.0030"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scale s = svg_scale_linear(cases[i].min, cases[i].max, cases[i].whole);
        assert_string_equal(labels(t, &s), cases[i].labels);
    }
}

static void log_ticks_are_powers(void **state)
{
    static const struct {
        double min, max;
        const char *labels;
    } cases[] = {
        {1, 1000, "1 2 5 10 20 50 100 200 500 1000"},
        {1, 1e6, "1 10 100 1000 10k 100k 1M"},
        {0.001, 1e5, "0.001 0.1 10 1000 100k"},
        {20, 90, "20 40 60 80"},
        {7, 7, "4 6 8 10 12 14"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scale s = svg_scale_log(cases[i].min, cases[i].max);
        assert_string_equal(labels(t, &s), cases[i].labels);
    }
}

static void positions(void **state)
{
    (void)state;
    struct scale s = svg_scale_linear(0, 10, true), l = svg_scale_log(1, 100);
    assert_near(svg_scale_at(&s, 0), 0, 0);
    assert_near(svg_scale_at(&s, 5), 0.5, 1e-12);
    assert_near(svg_scale_at(&s, 20), 2, 1e-12);
    assert_near(svg_scale_at(&l, 10), 0.5, 1e-12);
}

static void every_range_has_ticks_inside_it(void **state)
{
    (void)state;
    struct rng r = rng_stream(1, "svg_scale_test");
    for (int i = 0; i < 20000; i++) {
        double a = (rng_unit(&r) - 0.3) * pow(10, (int)rng_below(&r, 40) - 20);
        double b = a + rng_unit(&r) * pow(10, (int)rng_below(&r, 40) - 20);
        struct scale s[] = {svg_scale_linear(a, b, true), svg_scale_linear(a, b, false),
                            svg_scale_log(fabs(a) + 1e-30, fabs(a) + 1e-30 + (b - a))};
        for (int k = 0; k < 3; k++) {
            assert_true(s[k].min < s[k].max);
            assert_true(s[k].n_ticks >= 1 || k == 2);
            for (int j = 0; j < s[k].n_ticks; j++) {
                double at = svg_scale_at(&s[k], s[k].ticks[j]);
                assert_true(at > -1e-6 && at < 1 + 1e-6);
                assert_true(j == 0 || s[k].ticks[j] > s[k].ticks[j - 1]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(linear_ticks_are_round),
        TEST(log_ticks_are_powers),
        TEST(positions),
        TEST(every_range_has_ticks_inside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
