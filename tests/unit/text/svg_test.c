#include "support/support.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "text/svg.h"

static struct sv draw(struct test *t, const struct svg_chart *c)
{
    struct buf b = {0};
    svg_chart(&b, c);
    struct sv s = {arena_strn(t->a, b.p, b.n), b.n};
    buf_free(&b);
    return s;
}

static void two_cdfs(void **state)
{
    struct test *t = *state;
    static const double real[] = {10, 12, 12, 15, 22, 40}, sim[] = {11, 12, 14, 15, 20, 35};
    static const double y[] = {1 / 6.0, 2 / 6.0, 3 / 6.0, 4 / 6.0, 5 / 6.0, 1};
    const struct svg_series series[] = {
        {.name = "real <cpu>", .x = real, .y = y, .n = 6, .step = true},
        {.name = "simulated", .x = sim, .y = y, .n = 6, .step = true, .dashed = true}};
    assert_golden(t, "svg/two_cdfs.svg",
                  draw(t, &(struct svg_chart){.title = "Time to first token & more",
                                              .x_label = "TTFT (ms)",
                                              .y_label = "Fraction of requests",
                                              .y_max = 1,
                                              .series = series,
                                              .n_series = 2}));
}

static void logarithmic_line(void **state)
{
    struct test *t = *state;
    static const double x[] = {0, 1, 10, 100, -3, 1000, NAN, 4000},
                        y[] = {9, 20, 35, 80, 5, 700, 1, 2500};
    const struct svg_series series = {.name = "s", .x = x, .y = y, .n = 8};
    assert_golden(t, "svg/log_line.svg",
                  draw(t, &(struct svg_chart){.title = "Matmul",
                                              .x_label = "Tokens",
                                              .y_label = "Time (us)",
                                              .log_x = true,
                                              .width = 480,
                                              .height = 260,
                                              .series = &series,
                                              .n_series = 1}));
}

static void many_series_and_single_points(void **state)
{
    struct test *t = *state;
    static const double x[] = {1, 2}, y[] = {3, 4};
    struct svg_series series[10];
    for (size_t k = 0; k < 10; k++)
        series[k] = (struct svg_series){
            .name = arena_printf(t->a, "replica %zu", k), .x = x, .y = y, .n = 1 + k % 2};
    assert_golden(t, "svg/many_series.svg",
                  draw(t, &(struct svg_chart){.series = series, .n_series = 10}));
}

/* The text of the labels left of the plot. */
static const char *y_labels(struct test *t, struct sv s)
{
    char *out = arena_str(t->a, "");
    for (const char *p = s.p; (p = strstr(p, "text-anchor=\"end\">")); p++) {
        p += strlen("text-anchor=\"end\">");
        out = arena_printf(t->a, "%s%s%.*s", out, out[0] ? " " : "", (int)strcspn(p, "<"), p);
    }
    return out;
}

/* Counts have nothing below 0, and a level one is judged against 0. */
static void axes_begin_at_zero(void **state)
{
    static const double x[] = {0, 1, 2}, zero[3] = {0}, level[] = {5, 5, 5}, below[] = {-5, -5, -5};
    static const struct {
        const double *y;
        const char *labels;
    } cases[] = {{zero, "0 0.2 0.4 0.6 0.8 1.0"},
                 {level, "0 1 2 3 4 5"},
                 {below, "-5.6 -5.4 -5.2 -5.0 -4.8 -4.6 -4.4"}};
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct svg_series series = {.x = x, .y = cases[i].y, .n = 3};
        struct sv s = draw(t, &(struct svg_chart){.series = &series, .n_series = 1});
        assert_string_equal(y_labels(t, s), cases[i].labels);
    }
}

static void a_chart_of_dots_marks_a_place(void **state)
{
    struct test *t = *state;
    static const double x[] = {10, 20, 30}, y[] = {100, 50, 10};
    const struct svg_series series[] = {
        {.name = "front", .x = x, .y = y, .n = 3, .step = true, .points = true},
        {.name = "sarathi, chunk_size 512, max_num_seqs 256, tp 8, pp 2, replicas 4",
         .x = x,
         .y = y,
         .n = 3,
         .no_line = true}};
    const struct svg_chart c = {
        .width = 400, .x_mark_name = "capacity 40", .x_mark = 40, .series = series, .n_series = 2};
    struct sv s = draw(t, &c);
    assert_golden(t, "svg/dots.svg", s);
    assert_non_null(strstr(s.p,
                           "<title>sarathi, chunk_size 512, max_num_seqs 256, tp 8, pp 2, "
                           "replicas 4</title>sarathi, chunk_size 512, max_num_seqs 256, tp 8…"));
    assert_non_null(strstr(s.p, ">capacity 40</text>"));
    assert_non_null(strstr(s.p, ">40</text>")); /* the axis reaches to the mark */
}

static void no_data(void **state)
{
    struct test *t = *state;
    static const double nan_x[] = {NAN}, inf_y[] = {INFINITY};
    const struct svg_series series = {.name = "s", .x = nan_x, .y = inf_y, .n = 1};
    struct sv one = draw(t, &(struct svg_chart){.title = "t", .series = &series, .n_series = 1});
    struct sv none = draw(t, &(struct svg_chart){.title = "t"});
    assert_non_null(strstr(one.p, ">no data</text>"));
    assert_non_null(strstr(none.p, ">no data</text>"));
}

static void names_are_escaped(void **state)
{
    struct test *t = *state;
    static const double v[] = {1, 2};
    const struct svg_series series[] = {{.name = "</svg><script>", .x = v, .y = v, .n = 2},
                                        {.name = "\xff\x01", .x = v, .y = v, .n = 2}};
    struct sv s = draw(t, &(struct svg_chart){.title = "<script>",
                                              .x_label = "<script>",
                                              .y_label = "<script>",
                                              .series = series,
                                              .n_series = 2});
    assert_null(strstr(s.p, "<script"));
    assert_int_equal(str_utf8_valid(s.p, s.n), s.n);
    assert_null(memchr(s.p, 1, s.n));
}

static size_t count(const char *s, const char *of)
{
    size_t n = 0;
    for (; *s; s++)
        n += strchr(of, *s) != NULL;
    return n;
}

static const char *path_of(struct test *t, struct sv s)
{
    const char *d = strstr(strstr(s.p, "class=\"line s0"), " d=\"");
    assert_non_null(d);
    return arena_strn(t->a, d + 4, strcspn(d + 4, "\""));
}

static void long_series_are_thinned(void **state)
{
    struct test *t = *state;
    enum { N = 100000, SPIKE = 43210 };
    double *x = arena_array(t->a, double, N), *y = arena_array(t->a, double, N);
    struct rng r = rng_stream(1, "svg_test");
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = rng_unit(&r);
    }
    y[SPIKE] = 5; /* must still reach the top of its axis */
    struct svg_series series = {.x = x, .y = y, .n = N};
    const struct svg_chart c = {.y_max = 5, .series = &series, .n_series = 1};
    const char *path = path_of(t, draw(t, &c));
    assert_true(count(path, "ML") <= 1010);
    assert_true(count(path, "ML") >= 500);
    assert_non_null(strstr(path, " 14L"));
    for (int i = 0; i < N; i++)
        x[i] = rng_unit(&r); /* to and fro */
    assert_true(count(path_of(t, draw(t, &c)), "ML") <= 1010);
    series.step = true;
    assert_true(draw(t, &c).n < 40000);
}

static void what_lies_far_outside_stays_short(void **state)
{
    struct test *t = *state;
    static const double x[] = {0, 1, 2}, y[] = {0, 1e299, 1};
    const struct svg_series series = {.x = x, .y = y, .n = 3};
    struct sv s = draw(t, &(struct svg_chart){.y_max = 1, .series = &series, .n_series = 1});
    assert_string_equal(path_of(t, s), "M39 294L331.5 -10000L624 14");
}

static void tiny_charts_do_not_collapse(void **state)
{
    struct test *t = *state;
    static const double v[] = {1, 2};
    const struct svg_series series = {.x = v, .y = v, .n = 2};
    struct sv s =
        draw(t, &(struct svg_chart){.width = 1, .height = 1, .series = &series, .n_series = 1});
    assert_null(strstr(s.p, "nan"));
    assert_null(strstr(s.p, "inf"));
    assert_null(strstr(s.p, "=\"-"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_cdfs),
        TEST(logarithmic_line),
        TEST(many_series_and_single_points),
        TEST(axes_begin_at_zero),
        TEST(a_chart_of_dots_marks_a_place),
        TEST(no_data),
        TEST(names_are_escaped),
        TEST(long_series_are_thinned),
        TEST(what_lies_far_outside_stays_short),
        TEST(tiny_charts_do_not_collapse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
