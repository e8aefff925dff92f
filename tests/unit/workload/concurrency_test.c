#include "workload/concurrency.h"

#include <math.h>

#include "support/support.h"

static const struct concurrency *parse(struct test *t, const char *a, const char *b)
{
    const char *const items[] = {a, b};
    const struct concurrency *c = NULL;
    assert_ok(concurrency_parse(t->a, items, b ? 2 : 1, &c, &t->e), t);
    return c;
}

static void stages_are_read_and_written(void **state)
{
    struct test *t = *state;
    const struct concurrency *c = parse(t, " 10 : 1-8 ", "60:8");
    assert_int_equal(c->n, 2);
    assert_near(c->stages[0].s, 10, 0);
    assert_int_equal(c->stages[0].from, 1);
    assert_int_equal(c->stages[0].to, 8);
    assert_int_equal(c->stages[1].from, 8);
    assert_string_equal(concurrency_text(t->a, c), "10:1-8,60:8");
    assert_string_equal(concurrency_text(t->a, concurrency_of(t->a, 5, 0)), "5");
    assert_string_equal(concurrency_text(t->a, concurrency_of(t->a, 5, 2)), "2:1-5");
    assert_int_equal(concurrency_peak(c), 8);

    const struct concurrency *back;
    struct node *map = node_new(t->a, NODE_MAP);
    assert_ok(concurrency_read(t->a, map, &back, &t->e), t);
    assert_null(back);
    node_put(t->a, map, "concurrency", concurrency_node(t->a, c));
    assert_ok(concurrency_read(t->a, map, &back, &t->e), t);
    assert_string_equal(concurrency_text(t->a, back), "10:1-8,60:8");
}

static void what_is_no_stage_is_named(void **state)
{
    struct test *t = *state;
    static const char *const bad[] = {"10",   "0:4",  "10:",   "10:0",       "10:4-",
                                      "-1:4", "10:a", "10:-4", "10:1000001", "10:1.5"};
    const struct concurrency *c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&t->e);
        assert_err(concurrency_parse(t->a, &bad[i], 1, &c, &t->e), ST_USAGE, t,
                   arena_printf(t->a,
                                "workload.concurrency_stages: '%s' is no stage\nhint: "
                                "SECONDS:REQUESTS or SECONDS:REQUESTS-REQUESTS, as in "
                                "[10:1-8,60:8]",
                                bad[i]));
    }
    err_clear(&t->e);
    assert_err(concurrency_parse(t->a, (const char *const[]){"9:4-0"}, 1, &c, &t->e), ST_USAGE, t,
               "workload.concurrency_stages: the last limit goes on for ever and must be 1 or "
               "more");
}

static void files_are_checked(void **state)
{
    struct test *t = *state;
    static const struct {
        double s;
        int64_t from, to;
        const char *error;
    } bads[] = {
        {0, 1, 1, "concurrency: a stage of no time or of no requests"},
        {1, -1, 1, "from: -1 is below the minimum 0"},
        {1, 1, 0, "to: 0 is below the minimum 1"},
        {1, 1, 1000001, "to: 1000001 is above the maximum 1000000"},
    };
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        const struct concurrency_stage stage = {bads[i].s, bads[i].from, bads[i].to};
        const struct concurrency c = {&stage, 1}, *back;
        struct node *map = node_new(t->a, NODE_MAP);
        node_put(t->a, map, "concurrency", concurrency_node(t->a, &c));
        err_clear(&t->e);
        assert_err(concurrency_read(t->a, map, &back, &t->e), ST_INPUT, t, bads[i].error);
    }
}

/* Held against the definition, step by step: the limit at any time, and the first time it is above
 * n. */
static int64_t limit_at(const struct concurrency *c, double t)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct concurrency_stage *x = &c->stages[i];
        if (t < x->s || i + 1 == c->n) {
            double part = t < x->s ? t / x->s : 1;
            double moved = floor(fabs((double)(x->to - x->from)) * part + 1e-9);
            return x->from + (x->to > x->from ? (int64_t)moved : -(int64_t)moved);
        }
        t -= x->s;
    }
    return 0;
}

static void the_first_moment_above_a_limit(void **state)
{
    (void)state;
    static const struct concurrency_stage stages[][3] = {
        {{8, 0, 4}, {4, 4, 4}, {4, 4, 1}},
        {{4, 8, 2}, {4, 5, 5}, {8, 0, 8}},
        {{2, 3, 3}, {2, 1, 1}, {2, 6, 6}},
        {{8, 4, 0}, {8, 0, 4}, {4, 2, 6}},
    };
    enum { STEPS = 16 }; /* a second */
    for (size_t k = 0; k < sizeof stages / sizeof *stages; k++) {
        const struct concurrency c = {stages[k], 3};
        for (int from = 0; from < 26 * STEPS; from++)
            for (int64_t n = 0; n < 9; n++) {
                int i = from;
                while (i < 40 * STEPS && limit_at(&c, (double)i / STEPS) <= n)
                    i++;
                double want = i < 40 * STEPS ? (double)i / STEPS : (double)INFINITY;
                double got = concurrency_when(&c, (double)from / STEPS, n);
                /* between two of these steps at most */
                if (isfinite(want) != isfinite(got) ||
                    (isfinite(want) && !(got <= want + 1e-9 && got > want - 1.0 / STEPS)) ||
                    got < (double)from / STEPS)
                    fail_msg("case %zu: from %g above %lld: %g, not %g", k, (double)from / STEPS,
                             (long long)n, got, want);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stages_are_read_and_written),
        TEST(what_is_no_stage_is_named),
        TEST(files_are_checked),
        TEST(the_first_moment_above_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
