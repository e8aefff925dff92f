/* What is read of a text of metrics, and what is refused, by place. */
#include <math.h>

#include "metrics/prometheus.h"
#include "support/support.h"

static enum st parse(struct test *t, const char *text, struct prom_snapshot *s)
{
    return prom_parse(t->a, "metrics", sv_of(text), s, &t->e);
}

static void samples_are_read_with_labels(void **state)
{
    struct test *t = *state;
    struct prom_snapshot s;
    assert_ok(parse(t,
                    "# HELP vllm:x What \"it\" is {of}.\n"
                    "# TYPE vllm:x gauge\r\n"
                    "\n"
                    "vllm:x{model_name=\"a\\\\b\\\"c\\nd\",engine=\"0\",} 1.5 1520879607789\r\n"
                    "  y  8.128902e+06\n"
                    "z{ a = \"}\" , b=\"\" } -Inf\n"
                    "#just a comment\n"
                    "w NaN",
                    &s),
              t);
    assert_int_equal(s.n, 4);
    assert_sv(s.of[0].name, "vllm:x");
    assert_int_equal(s.of[0].n_labels, 2);
    assert_sv(s.of[0].labels[0].name, "engine"); /* by name */
    assert_sv(s.of[0].labels[0].value, "0");
    assert_sv(s.of[0].labels[1].value, "a\\b\"c\nd");
    assert_near(s.of[0].value, 1.5, 0);
    assert_int_equal(s.of[0].line, 4);
    assert_near(s.of[1].value, 8128902, 0);
    assert_int_equal(s.of[1].n_labels, 0);
    assert_sv(s.of[2].labels[0].value, "}");
    assert_true(isinf(s.of[2].value) && s.of[2].value < 0);
    assert_true(isnan(s.of[3].value));
    assert_true(prom_has(&s, "w") && !prom_has(&s, "vllm"));
}

static void openmetrics_is_read(void **state)
{
    struct test *t = *state;
    struct prom_snapshot s;
    assert_ok(
        parse(t,
              "# TYPE a histogram\n"
              "a_bucket{le=\"+Inf\"} 17 1520879607.789 # {trace_id=\"K#O\"} 0.67 1520879607.7\n"
              "a_count 17 # {} 0.5\n"
              "# EOF\n",
              &s),
        t);
    assert_int_equal(s.n, 2);
    assert_near(s.of[0].value, 17, 0);
    assert_int_equal(s.of[0].n_labels, 1);
    assert_sv(s.of[0].labels[0].value, "+Inf");
}

static void an_empty_text_has_no_samples(void **state)
{
    struct test *t = *state;
    struct prom_snapshot s;
    assert_ok(parse(t, "", &s), t);
    assert_int_equal(s.n, 0);
    assert_false(prom_has(&s, ""));
}

static void malformed_lines_are_named(void **state)
{
    struct test *t = *state;
    struct prom_snapshot s;
    static const struct {
        const char *text, *cause;
    } cases[] = {
        {"a 1\nb\n", "metrics:2:2: Prometheus text: expected a value"},
        {"a 1.2.3\n", "metrics:1:3: Prometheus text: expected a value"},
        {"a +-Inf\n", "metrics:1:3: Prometheus text: expected a value"},
        {"a 0x10\n", "metrics:1:3: Prometheus text: expected a value"},
        {"a 1 2 3\n", "metrics:1:7: Prometheus text: expected the end of the line"},
        {"1a 1\n", "metrics:1:1: Prometheus text: expected the name of a metric"},
        {"{\"a\"} 1\n", "metrics:1:1: Prometheus text: expected the name of a metric"},
        {"a{b=\"c\n\"} 1\n", "metrics:1:7: Prometheus text: expected \""},
        {"a{b=\"\\q\"} 1\n", "metrics:1:7: Prometheus text: expected \\\\, \\\" or \\n"},
        {"a{b=c} 1\n", "metrics:1:5: Prometheus text: expected \""},
        {"a{b} 1\n", "metrics:1:4: Prometheus text: expected ="},
        {"a{:b=\"\"} 1\n", "metrics:1:3: Prometheus text: expected the name of a label, or }"},
        {"a{b=\"\" c=\"\"} 1\n", "metrics:1:8: Prometheus text: expected , or }"},
        {"a{b=\"1\",b=\"2\"} 1\n", "metrics:1:15: Prometheus text: a label is there twice"},
        {"a{b=\"1\",c=\"2\"} 1\n\na{c=\"2\",b=\"1\"} 1\n",
         "metrics:3:1: Prometheus text: the same series is in line 1"},
        {"# TYPE a gauge\n# TYPE a gauge\n# TYPE a counter\n",
         "metrics:3:10: Prometheus text: TYPE of a was gauge before"},
        {"# TYPE a\n", "metrics:1:9: Prometheus text: expected the kind of a metric"},
        {"# TYPE\n", "metrics:1:7: Prometheus text: expected the name of a metric"},
        {"# EOF\na 1\n", "metrics:2:1: Prometheus text: a sample after # EOF"},
        {"a 1 # 2\n", "metrics:1:7: Prometheus text: expected { of an exemplar"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err_clear(&t->e);
        assert_int_equal(parse(t, cases[i].text, &s), ST_INPUT);
        assert_cause(&t->e, cases[i].cause);
    }
}

static void labels_that_read_alike_are_told_apart(void **state)
{
    struct test *t = *state;
    struct prom_snapshot s;
    assert_ok(parse(t, "a{b=\"1\",c=\"2\"} 1\na{b=\"1,c=2\"} 2\na{b=\"1\"} 3\na 4\n", &s), t);
    assert_int_equal(s.n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(samples_are_read_with_labels),          TEST(openmetrics_is_read),
        TEST(an_empty_text_has_no_samples),          TEST(malformed_lines_are_named),
        TEST(labels_that_read_alike_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
