/* What counters and histograms grew between two snapshots, and brackets of quantiles. */
#include <math.h>

#include "metrics/metrics.h"
#include "metrics/prometheus.h"
#include "support/support.h"

#define ANY ((struct prom_where){0})

static struct prom_snapshot snapshot(struct test *t, const char *source, const char *text)
{
    struct prom_snapshot s;
    assert_ok(prom_parse(t->a, source, sv_of(text), &s, &t->e), t);
    return s;
}

#define TWO_ENGINES(a, b, c, d)                                                   \
    "# TYPE x histogram\n"                                                        \
    "x_bucket{engine=\"0\",le=\"0.5\"} " a "\nx_bucket{engine=\"0\",le=\"1\"} " b \
    "\nx_bucket{engine=\"0\",le=\"+Inf\"} " b "\nx_count{engine=\"0\"} " b        \
    "\nx_sum{engine=\"0\"} 2\n"                                                   \
    "x_bucket{engine=\"1\",le=\"0.5\"} " c "\nx_bucket{engine=\"1\",le=\"1\"} " c \
    "\nx_bucket{engine=\"1\",le=\"+Inf\"} " d "\nx_count{engine=\"1\"} " d        \
    "\nx_sum{engine=\"1\"} 3\n"

static void series_are_summed(void **state)
{
    struct test *t = *state;
    const struct prom_snapshot s = snapshot(t, "m", TWO_ENGINES("1", "3", "2", "4"));
    struct prom_histogram h;
    assert_ok(prom_histogram(t->a, NULL, &s, "x", ANY, &h, &t->e), t);
    assert_int_equal(h.n, 3);
    assert_near(h.count, 7, 0);
    assert_near(h.sum, 5, 0);
    assert_near(h.at_most[0], 3, 0);
    assert_near(h.at_most[1], 5, 0);
    assert_near(prom_mean(&h), 5.0 / 7, 1e-15);
    struct prom_label engine[] = {{SV("engine"), SV("1")}};
    assert_ok(prom_histogram(t->a, NULL, &s, "x", (struct prom_where){engine, 1}, &h, &t->e), t);
    assert_near(h.count, 4, 0);
    engine[0].value = SV("2");
    assert_ok(prom_histogram(t->a, NULL, &s, "x", (struct prom_where){engine, 1}, &h, &t->e), t);
    assert_int_equal(h.n, 0);
}

static void a_difference_is_what_grew(void **state)
{
    struct test *t = *state;
    const struct prom_snapshot one = snapshot(t, "m1",
                                              "c_total{e=\"0\"} 5\n"
                                              "x_bucket{le=\"1\"} 2\nx_bucket{le=\"+Inf\"} 3\n"
                                              "x_count 3\nx_sum 4.5\n");
    const struct prom_snapshot two = snapshot(t, "m2",
                                              "c_total{e=\"0\"} 7\nc_total{e=\"1\"} 10\n"
                                              "x_bucket{le=\"1\"} 2\nx_bucket{le=\"+Inf\"} 5\n"
                                              "x_count 5\nx_sum 10.5\n");
    struct prom_histogram h;
    double grew;
    assert_ok(prom_counter(t->a, &one, &two, "c_total", ANY, &grew, &t->e), t);
    assert_near(grew, 12, 0);
    assert_ok(prom_counter(t->a, &one, &two, "d_total", ANY, &grew, &t->e), t);
    assert_true(isnan(grew));
    assert_ok(prom_histogram(t->a, &one, &two, "x", ANY, &h, &t->e), t);
    assert_near(h.count, 2, 0);
    assert_near(h.at_most[0], 0, 0);
    assert_near(prom_mean(&h), 3, 0);
    assert_ok(prom_histogram(t->a, &two, &two, "x", ANY, &h, &t->e), t);
    assert_near(h.count, 0, 0);
    assert_true(isnan(prom_mean(&h)));
    struct prom_bracket b;
    assert_false(prom_quantile(&h, 0.5, &b));
}

static void restarts_are_refused_by_name(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *before, *after, *cause;
    } cases[] = {
        {"c_total 5\n", "c_total 4\n", "c_total: it fell from 5 to 4"},
        {"c_total{e=\"0\"} 5\n", "c_total{e=\"1\"} 9\n",
         "c_total: a series of it is not there any more"},
        {"c_total 5\n", "", "c_total: a series of it is not there any more"},
        {"c_total 5\nprocess_start_time_seconds 1.79586364307e+09\n",
         "c_total 9\nprocess_start_time_seconds 1.79586364407e+09\n",
         "process_start_time_seconds: it changed"},
        {"c_total 5\nc_created 1\n", "c_total 9\nc_created 2\n", "c_created: it changed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct prom_snapshot one = snapshot(t, "m1", cases[i].before);
        const struct prom_snapshot two = snapshot(t, "m2", cases[i].after);
        double grew;
        err_clear(&t->e);
        assert_int_equal(prom_counter(t->a, &one, &two, "c_total", ANY, &grew, &t->e), ST_REJECTED);
        assert_cause(&t->e, cases[i].cause);
        assert_string_equal(err_hint_text(&t->e), "the server was restarted in between: its "
                                                  "metrics do not cover the run");
    }
    const struct prom_snapshot one =
        snapshot(t, "m1", "x_bucket{le=\"1\"} 5\nx_bucket{le=\"+Inf\"} 5\nx_count 5\nx_sum 1\n");
    const struct prom_snapshot two =
        snapshot(t, "m2", "x_bucket{le=\"1\"} 4\nx_bucket{le=\"+Inf\"} 6\nx_count 6\nx_sum 1\n");
    struct prom_histogram h;
    err_clear(&t->e);
    assert_int_equal(prom_histogram(t->a, &one, &two, "x", ANY, &h, &t->e), ST_REJECTED);
    assert_cause(&t->e, "x_bucket: it fell from 5 to 4");
}

static void malformed_histograms_are_named(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text, *cause;
    } cases[] = {
        {"x_bucket{le=\"1\"} 3\nx_bucket{le=\"+Inf\"} 2\nx_count 2\nx_sum 1\n",
         "m:2:1: x_bucket: its buckets do not rise"},
        {"x_bucket{le=\"1\"} 3\nx_bucket{le=\"1.0\"} 3\nx_bucket{le=\"+Inf\"} 3\n",
         "m:2:1: x_bucket: an edge is there twice"},
        {"x_bucket{le=\"1\"} 3\nx_count 3\nx_sum 1\n", "m:1:1: x_bucket: it has no bucket at +Inf"},
        {"x_bucket 3\n", "m:1:1: x_bucket: it has no label le"},
        {"x_bucket{le=\"?\"} 3\n", "m:1:1: x_bucket: its label le is no number"},
        {"x_bucket{le=\"+Inf\"} -3\n", "m:1:1: x_bucket: expected a value of 0 or more"},
        {"x_bucket{le=\"+Inf\"} NaN\n", "m:1:1: x_bucket: expected a value of 0 or more"},
        {"x_bucket{le=\"+Inf\"} 3\nx_count 4\nx_sum 1\n",
         "m: x_count is 4, and the bucket at +Inf 3"},
        {"x_bucket{le=\"+Inf\"} 3\nx_sum 1\n", "m: x_count is missing"},
        {"x_bucket{le=\"+Inf\"} 3\nx_count 3\n", "m: x_sum is missing"},
        {"# TYPE x gauge\nx 3\n", "m: x is a gauge, expected a histogram"},
        {"x_bucket{e=\"0\",le=\"1\"} 3\nx_bucket{e=\"0\",le=\"+Inf\"} 3\n"
         "x_bucket{e=\"1\",le=\"2\"} 3\nx_bucket{e=\"1\",le=\"+Inf\"} 3\n",
         "m:3:1: x_bucket: its series have different edges"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct prom_snapshot s = snapshot(t, "m", cases[i].text);
        struct prom_histogram h;
        err_clear(&t->e);
        assert_int_equal(prom_histogram(t->a, NULL, &s, "x", ANY, &h, &t->e), ST_INPUT);
        assert_cause(&t->e, cases[i].cause);
    }
}

/* Observations of known values: the bracket must hold the percentile of the sample itself. */
static void brackets_hold_the_percentile(void **state)
{
    struct test *t = *state;
    static const double edges[] = {0.01, 0.03, 0.1, 0.5, INFINITY};
    static const double q[] = {0, 0.1, 0.5, 0.9, 0.99, 1};
    for (size_t n = 1; n <= 40; n++) {
        double seen[40], le[5], at_most[5] = {0};
        struct prom_histogram h = {.name = "x", .n = 5, .le = le, .at_most = at_most};
        memcpy(le, edges, sizeof le);
        for (size_t i = 0; i < n; i++) {
            seen[i] = 0.002 * exp(0.17 * (double)i);
            for (size_t k = 0; k < 5; k++)
                at_most[k] += seen[i] <= le[k];
        }
        h.count = (double)n;
        for (size_t i = 0; i < sizeof q / sizeof *q; i++) {
            struct prom_bracket b;
            const double p = stats_percentile(seen, n, 100 * q[i]);
            assert_true(prom_quantile(&h, q[i], &b));
            assert_true(b.low < p && p <= b.high);
        }
    }
    (void)t;
}

static void edges_of_a_bracket(void **state)
{
    struct test *t = *state;
    struct prom_histogram h;
    struct prom_bracket b;
    struct prom_snapshot s = snapshot(t, "m",
                                      "x_bucket{le=\"1\"} 1\nx_bucket{le=\"2\"} 1\n"
                                      "x_bucket{le=\"4\"} 9\nx_bucket{le=\"+Inf\"} 10\n"
                                      "x_count 10\nx_sum 30\n");
    assert_ok(prom_histogram(t->a, NULL, &s, "x", ANY, &h, &t->e), t);
    assert_true(prom_quantile(&h, 0, &b));
    assert_true(b.low == 0 && b.high == 1);
    assert_true(prom_quantile(&h, 0.5, &b)); /* the fifth and the sixth */
    assert_true(b.low == 2 && b.high == 4);
    assert_true(prom_quantile(&h, 0.9, &b)); /* between the ninth and the last */
    assert_true(b.low == 2 && isinf(b.high));
    s = snapshot(t, "m", "x_bucket{le=\"-1\"} 1\nx_bucket{le=\"+Inf\"} 1\nx_count 1\nx_sum 0\n");
    assert_ok(prom_histogram(t->a, NULL, &s, "x", ANY, &h, &t->e), t);
    assert_true(prom_quantile(&h, 0.5, &b));
    assert_true(isinf(b.low) && b.low < 0 && b.high == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(series_are_summed),
        TEST(a_difference_is_what_grew),
        TEST(restarts_are_refused_by_name),
        TEST(malformed_histograms_are_named),
        TEST(brackets_hold_the_percentile),
        TEST(edges_of_a_bracket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
