#include "compare/ab.h"

#include <math.h>

#include "support/fake_run.h"
#include "text/json.h"

static struct ab_params params_of(const char *const *dirs, size_t n)
{
    return (struct ab_params){
        .dirs = dirs, .n = n, .core_only = true, .pass_percent = 5, .warn_percent = 9};
}

static const char *const *two(struct test *t, const struct fake_run *a, const struct fake_run *b)
{
    const char **dirs = arena_array(t->a, const char *, 2);
    dirs[0] = fake_run_write(t, "base", a);
    dirs[1] = fake_run_write(t, "other", b);
    return dirs;
}

static bool has_note(const struct ab *x, const char *text)
{
    for (size_t i = 0; i < x->n_notes; i++)
        if (strcmp(x->notes[i], text) == 0)
            return true;
    for (size_t i = 0; i < x->n_notes; i++)
        print_message("note: %s\n", x->notes[i]);
    return false;
}

static void a_slower_run_is_called_slower(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct fake_run a = fake_run_default("real"), b = fake_run_default("real");
    b.jitter_seed++;
    b.base_s *= 1.2;
    const struct ab_params p = params_of(two(t, &a, &b), 2);
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    const struct ab_cell *c = &x.runs[1].cells[METRIC_TPOT][0];
    assert_true(x.runs[1].paired);
    assert_int_equal(c->call, AB_SLOWER);
    assert_true(c->low_percent > 0 && c->low_percent < c->change_percent &&
                c->change_percent < c->high_percent);
    assert_int_equal(x.verdict, VERDICT_NONE); /* nobody asked for one */
    assert_non_null(strstr(x.outcome, " slower than A in "));
    const struct node *tree = ab_node(t->a, &x);
    assert_string_equal(node_find(tree, "kind")->s.p, "runs");
    assert_string_equal(node_find(tree, "verdict")->s.p, "not judged");
    assert_int_equal(node_find(tree, "cause")->kind, NODE_NULL);
}

/* The percentiles are those of the definitions, request by request. */
static void values_are_the_metrics(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct fake_run a = fake_run_default("vidur"), b = fake_run_default("vidur");
    a.stop_every = 9;
    b.n_warmup = 3;
    b.n_failed = 2;
    struct ab_params p = params_of(two(t, &a, &b), 2);
    p.include_token0 = true;
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    assert_int_equal(x.runs[0].n_requests, x.runs[1].n_requests);
    assert_int_equal(x.runs[0].n_requests, 155);
    for (int i = 0; i < 2; i++) {
        for (enum metric m = 0; m < METRICS; m++) {
            const struct boot_series *s = &x.runs[i].series[m];
            assert_int_equal(s->n, x.runs[i].metrics.of[m].n);
            for (size_t k = 0; k < s->n; k++)
                assert_near(s->values[k].ns, x.runs[i].metrics.of[m].ns[k], 0);
        }
    }
    assert_true(has_note(&x, "B: 155 of 160 requests count; warm-up, failed ones and those that "
                             "another run lacks are left out."));
}

static void like_runs_show_no_clear_difference(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct fake_run a = fake_run_default("real"), b = fake_run_default("real");
    b.jitter_seed++;
    const struct ab_params p = params_of(two(t, &a, &b), 2);
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    const struct ab_cell *c = &x.runs[1].cells[METRIC_TPOT][0];
    assert_true(fabs(c->change_percent) < 5);
    assert_true(c->high_percent - c->low_percent < 10);
}

static void a_copy_is_called_one(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct fake_run a = fake_run_default("real");
    const struct ab_params p = params_of(two(t, &a, &a), 2);
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    assert_int_equal(x.runs[1].cells[METRIC_E2E][0].call, AB_NO_DIFFERENCE);
    assert_true(has_note(&x, "B has A's times to the nanosecond: it is a copy, or the same "
                             "simulation."));
    assert_string_equal(x.outcome, "no clear difference between B and A in P50 and P90 of TTFT, "
                                   "TPOT and E2E");
}

static void another_workload_is_a_sample_of_its_own(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct fake_run a = fake_run_default("real"), b = fake_run_default("real");
    b.workload_seed++;
    b.n = 120;
    struct ab_params p = params_of(two(t, &a, &b), 2);
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    assert_false(x.runs[1].paired);
    assert_int_equal(x.runs[1].n_requests, 120);
    assert_true(has_note(&x, "B did not serve the requests of A (other ids, arrivals or lengths): "
                             "the two are compared as samples, not request by request."));
    p.gate = AB_GATE_SLOWER;
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    assert_int_equal(x.verdict, VERDICT_INCONCLUSIVE);
    assert_string_equal(x.outcome, "inconclusive: the runs are not of one workload: B has other "
                                   "requests, arrivals or lengths than A");
}

static void repeats_stand_beside(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct fake_run a = fake_run_default("real"), b = a, again = a;
    b.base_s *= 1.3;
    again.jitter_seed++;
    const char *repeat = fake_run_write(t, "again", &again);
    struct ab_params p = params_of(two(t, &a, &b), 2);
    p.spread_dirs = &repeat;
    p.n_spread = 1;
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    assert_true(x.runs[1].cells[METRIC_TPOT][0].repeat_percent >= 0);
    assert_non_null(strstr(x.runs[1].lines[0], "; A's repeats differ by up to "));
    repeat = p.dirs[0];
    assert_err(ab_compare(t->a, &p, &x, &t->e), ST_USAGE, t,
               "spread: DIR/base is the real run itself\n"
               "hint: spread= takes further real runs: repeat=1, repeat=2 of the first");
}

/* A row a verdict: what B's time per batch is to A's. */
static void the_gate_judges_what_is_sure(void **state)
{
    static const struct {
        const char *name;
        double factor;
        enum verdict verdict;
    } cases[] = {
        {"faster", 0.8, VERDICT_PASS}, {"same", 1, VERDICT_PASS}, {"slow", 1.6, VERDICT_FAIL}};
    struct test *t = *state;
    struct fake_run a = fake_run_default("real");
    a.jitter = 0;
    const char *dirs[2] = {fake_run_write(t, "base", &a), NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ab x;
        struct fake_run b = a;
        b.base_s *= cases[i].factor;
        b.sequence_s *= cases[i].factor;
        dirs[1] = fake_run_write(t, cases[i].name, &b);
        struct ab_params p = params_of(dirs, 2);
        p.gate = AB_GATE_SLOWER;
        assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
        assert_int_equal(x.verdict, cases[i].verdict);
    }
}

static void few_requests_decide_nothing(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct fake_run a = fake_run_default("real"), b = a;
    a.n = b.n = 12;
    b.base_s *= 2;
    struct ab_params p = params_of(two(t, &a, &b), 2);
    p.gate = AB_GATE_SLOWER;
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    assert_int_equal(x.runs[1].cells[METRIC_TPOT][0].call, AB_UNKNOWN);
    assert_int_equal(x.verdict, VERDICT_INCONCLUSIVE);
    assert_string_equal(cause_id(x.reasons[0].cause), "interval");
    assert_non_null(strstr(x.runs[1].lines[0], "; 12 requests are too few for an interval"));
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    const char *r = fake_run_write(t, "real", &real), *s = fake_run_write(t, "sim", &sim);
    const char *again[] = {r, s, arena_printf(t->a, "%s/../real", s)};
    struct ab_params p = params_of(again, 3);
    assert_err(ab_compare(t->a, &p, &x, &t->e), ST_USAGE, t,
               "runs: DIR/real and DIR/sim/../real are the same run\n"
               "hint: a run does not differ from itself: name another one");
    p.n = 1;
    assert_err(ab_compare(t->a, &p, &x, &t->e), ST_USAGE, t,
               "runs: 1 given, 2 to 8 are compared\n"
               "hint: runs=[runs/real/a,runs/real/b] holds b against a");
    enum compare_pair pair;
    assert_err(compare_sides(t->a, s, r, &pair, &t->e), ST_USAGE, t,
               "the sides are swapped: real_run_dir=DIR/sim is a simulated run, "
               "sim_run_dir=DIR/real a real one\n"
               "hint: real_run_dir=DIR/real sim_run_dir=DIR/sim");
    assert_err(compare_sides(t->a, r, r, &pair, &t->e), ST_USAGE, t,
               "real_run_dir and sim_run_dir are the same run: DIR/real\n"
               "hint: a run always agrees with itself: name the simulation of it, or another run");
    assert_ok(compare_sides(t->a, r, s, &pair, &t->e), t);
    assert_int_equal(pair, PAIR_SIMULATION);
    assert_ok(compare_sides(t->a, r, fake_run_write(t, "real2", &real), &pair, &t->e), t);
    assert_int_equal(pair, PAIR_RUNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_slower_run_is_called_slower),
        TEST(values_are_the_metrics),
        TEST(like_runs_show_no_clear_difference),
        TEST(a_copy_is_called_one),
        TEST(another_workload_is_a_sample_of_its_own),
        TEST(repeats_stand_beside),
        TEST(the_gate_judges_what_is_sure),
        TEST(few_requests_decide_nothing),
        TEST(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
