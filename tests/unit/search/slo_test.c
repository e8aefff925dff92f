#include "search/slo.h"

#include <math.h>

#include "support/support.h"

static void limits_are_read_as_vllm_writes_them(void **state)
{
    struct test *t = *state;
    const char *items[] = {"ttft:200", "tpot:50", "e2el: 1000"};
    struct slo s;
    assert_ok(slo_parse(items, 3, 0.9, &s, &t->e), t);
    assert_near(s.limit_s[SLO_TTFT], 0.2, 1e-15);
    assert_near(s.limit_s[SLO_TPOT], 0.05, 1e-15);
    assert_near(s.limit_s[SLO_E2EL], 1, 1e-15);
    assert_true(isinf(s.limit_s[SLO_DELAY]));
    assert_string_equal(slo_words(t->a, &s), "90 % of requests: ttft <= 200.0 ms, tpot <= 50.00 "
                                             "ms, e2el <= 1000 ms");
}

static void what_is_no_limit_is_refused(void **state)
{
    static const struct {
        const char *items[2];
        size_t n;
        double fraction;
        const char *text;
    } rows[] = {
        {{NULL}, 0, 0.9, "slo: no limit is given"},
        {{"itl:5"},
         1,
         0.9,
         "slo: 'itl:5' is not a limit\nhint: limits are name:milliseconds with ttft, tpot, e2el or "
         "delay, as slo=ttft:500,tpot:50"},
        {{"ttft"},
         1,
         0.9,
         "slo: 'ttft' is not a limit\nhint: limits are name:milliseconds with ttft, tpot, e2el or "
         "delay, as slo=ttft:500,tpot:50"},
        {{"ttft:0"}, 1, 0.9, "slo: 'ttft:0': expected milliseconds above 0 after the colon"},
        {{"ttft:x"}, 1, 0.9, "slo: 'ttft:x': expected milliseconds above 0 after the colon"},
        {{"tpot:1", "tpot:2"}, 2, 0.9, "slo: tpot is given twice"},
        {{"tpot:1"}, 1, 1.5, "slo_fraction: 1.5 is not above 0 and at most 1"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct slo s;
        err_clear(&t->e);
        assert_err(slo_parse(rows[i].items, rows[i].n, rows[i].fraction, &s, &t->e), ST_USAGE, t,
                   rows[i].text);
    }
}

static void a_request_meets_what_it_has(void **state)
{
    struct test *t = *state;
    const char *items[] = {"ttft:100", "tpot:10"};
    struct slo s;
    assert_ok(slo_parse(items, 2, 1, &s, &t->e), t);
    const double good[SLO_METRICS] = {9, 0.1, 0.01, 9}, one_token[SLO_METRICS] = {9, 0.1, NAN, 9};
    const double late[SLO_METRICS] = {0, 0.101, 0.001, 1}, slow[SLO_METRICS] = {0, 0, 0.0101, 1};
    assert_true(slo_meets(&s, good));
    assert_true(slo_meets(&s, one_token));
    assert_false(slo_meets(&s, late));
    assert_false(slo_meets(&s, slow));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(limits_are_read_as_vllm_writes_them),
        TEST(what_is_no_limit_is_refused),
        TEST(a_request_meets_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
