#include <math.h>

#include "compare/compare.h"
#include "support/fake_run.h"
#include "text/document.h"

static struct compare_params params_of(const char *real, const char *sim)
{
    return (struct compare_params){
        .real_dir = real, .sim_dir = sim, .pass_percent = 5, .warn_percent = 9};
}

/* ---- runs by hand ------------------------------------------------------------------------- */

#define REQUESTS                                                                 \
    "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns," \
    "num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status\n"
#define TOKENS "request_id,token_index,token_time_ns,token_latency_ns\n"

static const char *put_run(struct test *t, const char *name, const char *type, const char *requests,
                           const char *tokens)
{
    test_write(t, arena_printf(t->a, "%s/request_metrics.csv", name), requests);
    if (tokens)
        test_write(t, arena_printf(t->a, "%s/token_metrics.csv", name), tokens);
    test_write(t, arena_printf(t->a, "%s/run_meta.json", name),
               arena_printf(t->a, "{\"schema_version\": 1, \"run_type\": \"%s\"}", type));
    return test_path(t, name);
}

/* n requests of one token at 0, TTFT 1000 + step * i ns times factor. */
static const char *put_ladder(struct test *t, const char *name, int n, double step, double factor)
{
    struct buf b = {0};
    buf_puts(&b, REQUESTS);
    for (int i = 0; i < n; i++) {
        long ns = lround((100000 + step * i) * factor);
        buf_printf(&b, "%d,0,%ld,%ld,%ld,4,1,1,ok\n", i, ns, ns, ns);
    }
    const char *dir = put_run(t, name, "real", buf_str(&b), NULL);
    buf_free(&b);
    return dir;
}

static bool has_note(const struct comparison *c, const char *text)
{
    for (size_t i = 0; i < c->n_notes; i++)
        if (strcmp(c->notes[i], text) == 0)
            return true;
    for (size_t i = 0; i < c->n_notes; i++)
        print_message("note: %s\n", c->notes[i]);
    return false;
}

/* ---- alignment ---------------------------------------------------------------------------- */

static void requests_are_matched_and_the_rest_is_counted(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *real = put_run(t, "real", "real",
                               REQUESTS "0,0,10,10,30,4,3,3,ok\n"
                                        "1,5,25,20,45,4,3,3,timeout\n"
                                        "2,5,25,20,45,4,3,3,ok\n"
                                        "3,9,29,20,49,4,3,3,ok\n",
                               NULL);
    const char *sim = put_run(t, "sim", "vidur",
                              REQUESTS "0,0,10,10,30,4,3,3,ok\n"
                                       "1,5,25,20,45,4,3,3,ok\n"
                                       "3,9,29,20,49,4,3,3,ok\n"
                                       "7,9,29,20,49,4,3,3,ok\n",
                              NULL);
    struct compare_params p = params_of(real, sim);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.n_aligned, 2);
    assert_int_equal(c.n_not_ok, 1);
    assert_int_equal(c.n_only_real, 1);
    assert_int_equal(c.n_only_sim, 1);
    assert_int_equal(c.real_metrics.of[METRIC_TTFT].n, 2);
    assert_true(has_note(&c, "1 request left out: did not end well on both sides."));
    assert_true(has_note(&c, "1 request left out: only in the real run."));
    assert_true(has_note(&c, "1 request left out: only in the simulated run."));
}

/* The real run stopped request 0 after two of four tokens: E2E, TPOT and the gaps of both sides end
 * there. */
static void an_early_stop_cuts_both_sides(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *real = put_run(t, "real", "real", REQUESTS "0,0,100,100,200,4,4,2,ok\n",
                               TOKENS "0,0,100,0\n0,1,200,100\n");
    const char *sim = put_run(t, "sim", "vidur", REQUESTS "0,0,110,110,800,4,4,4,ok\n",
                              TOKENS "0,0,110,0\n0,1,215,105\n0,2,500,285\n0,3,800,300\n");
    struct compare_params p = params_of(real, sim);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.n_early_stop, 1);
    assert_near(c.cells[METRIC_E2E][0].sim_ns, 215, 0);
    assert_near(c.cells[METRIC_TPOT][0].sim_ns, 105, 0);
    assert_int_equal(c.sim_metrics.of[METRIC_TOKEN_LATENCY].n, 1);
    assert_true(has_note(&c, "1 request ended earlier on one side (end of sequence): both were "
                             "compared up to the last token they have in common, E2E and TPOT at "
                             "that token."));
}

static void what_cannot_be_cut_is_left_out(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *real = put_run(
        t, "real", "real", REQUESTS "0,0,100,100,200,4,4,2,ok\n1,0,100,100,200,4,2,2,ok\n", NULL);
    const char *sim = put_run(
        t, "sim", "vidur", REQUESTS "0,0,110,110,800,4,4,4,ok\n1,0,100,100,200,4,2,2,ok\n", NULL);
    struct compare_params p = params_of(real, sim);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.n_aligned, 1);
    assert_true(has_note(&c, "1 request left out: the sides produced different numbers of tokens, "
                             "and the longer one has no token_metrics.csv to cut it by."));
}

static void other_workloads_are_told(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *real = put_run(
        t, "real", "real", REQUESTS "0,0,100,100,200,4,2,2,ok\n1,0,100,100,200,4,2,2,ok\n", NULL);
    const char *sim = put_run(t, "sim", "vidur",
                              REQUESTS "0,0,100,100,200,9,2,2,ok\n"
                                       "1,5000,6000,1000,7000,4,2,2,ok\n",
                              NULL);
    struct compare_params p = params_of(real, sim);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_true(has_note(&c, "1 of 2 requests arrive at other times on the two sides (first: "
                             "request 1, 0.000000 s real, 0.000005 s simulated). The runs are not "
                             "of one workload."));
    assert_true(
        has_note(&c, "1 of 2 requests have other prompt lengths on the two sides (first: "
                     "request 0, 4 tokens real, 9 simulated). The runs are not of one workload."));
}

static void nothing_in_common_is_an_error(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *real = put_run(t, "real", "real", REQUESTS "0,0,10,10,30,4,3,3,ok\n", NULL);
    const char *sim = put_run(t, "sim", "vidur", REQUESTS "1,0,10,10,30,4,3,3,ok\n", NULL);
    struct compare_params p = params_of(real, sim);
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_INPUT, t,
               "no request to compare: DIR/real has 1, DIR/sim has 1, and none ended well on both "
               "sides\n"
               "hint: both runs must come from one workload: requests are matched by request_id");
}

static void bad_parameters_are_named(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct compare_params p = params_of("a", "b");
    p.pass_percent = 10;
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_USAGE, t,
               "compare.pass_percent (10) must not be above compare.warn_percent (9)");
    err_clear(&t->e);
    p = params_of("a", "b");
    p.n_spread = 33;
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_USAGE, t,
               "spread: 33 runs given, at most 32 are taken");
    err_clear(&t->e);
    p = params_of(NULL, "b");
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_USAGE, t, "real_run_dir is not set");
}

/* ---- verdicts ----------------------------------------------------------------------------- */

static void the_limits_belong_to_the_better_verdict(void **state)
{
    static const struct {
        double factor;
        enum verdict want;
        int exit_code;
    } cases[] = {{1.0, VERDICT_PASS, 0},
                 {1.05, VERDICT_PASS, 0},
                 {0.949, VERDICT_WARN, 0},
                 {1.09, VERDICT_WARN, 0},
                 {1.091, VERDICT_FAIL, 1}};
    struct test *t = *state;
    const char *real = put_ladder(t, "real", 101, 0, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comparison c;
        const char *sim = put_ladder(t, arena_printf(t->a, "sim%zu", i), 101, 0, cases[i].factor);
        struct compare_params p = params_of(real, sim);
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        assert_int_equal(c.cells[METRIC_TTFT][0].verdict, cases[i].want);
        assert_int_equal(c.verdict, cases[i].want);
        assert_int_equal(verdict_exit_code(c.verdict), cases[i].exit_code);
        assert_near(c.cells[METRIC_TTFT][0].error_percent, 100 * (cases[i].factor - 1), 1e-9);
        assert_int_equal(c.diagnosed, cases[i].want != VERDICT_PASS);
    }
}

static void percentiles_interpolate_between_order_statistics(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *real = put_ladder(t, "real", 4, 1000, 1), *sim = put_ladder(t, "sim", 4, 1000, 1);
    struct compare_params p = params_of(real, sim);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_near(c.cells[METRIC_TTFT][0].real_ns, 101500, 1e-9);
    assert_near(c.cells[METRIC_TTFT][1].real_ns, 102700, 1e-9);
    assert_true(has_note(&c, "Only 4 requests: P90 rests on one or two of them."));
}

static void p99_needs_a_thousand_requests(void **state)
{
    struct test *t = *state;
    struct comparison c;
    for (int n = 999; n <= 1000; n++) {
        const char *real = put_ladder(t, arena_printf(t->a, "real%d", n), n, 1, 1);
        const char *sim = put_ladder(t, arena_printf(t->a, "sim%d", n), n, 1, 1.2);
        struct compare_params p = params_of(real, sim);
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        const struct compare_cell *cell = &c.cells[METRIC_TTFT][3];
        if (n == 1000) {
            assert_int_equal(cell->verdict, VERDICT_FAIL);
            assert_null(cell->why);
        } else {
            assert_int_equal(cell->verdict, VERDICT_NONE);
            assert_string_equal(cell->why, "999 requests, 1,000 needed");
        }
    }
}

/* P95 of 80 values that grow by a factor of nine: the run does not pin it down; P90 is judged. */
static void a_wide_interval_is_not_judged_beyond_p90(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *real = put_ladder(t, "real", 80, 10000, 1);
    const char *sim = put_ladder(t, "sim", 80, 10000, 1.3);
    struct compare_params p = params_of(real, sim);
    p.pass_percent = p.warn_percent = 4;
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.cells[METRIC_TTFT][1].verdict, VERDICT_FAIL);
    assert_int_equal(c.cells[METRIC_TTFT][2].verdict, VERDICT_NONE);
    assert_string_equal(c.cells[METRIC_TTFT][2].why,
                        "its 95 % interval is 9.4 % wide, 8.0 % allowed");
}

static void missing_values_are_not_zero(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *real = put_ladder(t, "real", 10, 1, 1), *sim = put_ladder(t, "sim", 10, 1, 1);
    struct compare_params p = params_of(real, sim);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    const struct compare_cell *cell = &c.cells[METRIC_TPOT][0];
    assert_true(isnan(cell->real_ns) && isnan(cell->error_percent));
    assert_int_equal(cell->verdict, VERDICT_NONE);
    assert_string_equal(cell->why, "no values on the real side");
}

/* ---- spread ------------------------------------------------------------------------------- */

static void a_miss_inside_a_small_spread_is_excused(void **state)
{
    static const struct {
        double sim, other;
        enum verdict want;
        bool excused;
        const char *why;
    } cases[] = {
        {1.20, 1.14, VERDICT_WARN, true, "excused: the real runs themselves spread by 13 %"},
        {1.18, 1.11, VERDICT_FAIL, false, NULL}, /* outside: (1.11 - 1) / 1.055 = 10.4 % */
        {1.30, 1.30, VERDICT_INCONCLUSIVE, false,
         "the real runs themselves spread by 26 %, too much to tell"},
        {1.60, 1.30, VERDICT_FAIL, false, NULL},
        {1.23, 1.30, VERDICT_WARN, false, NULL},
        {1.17, 1.30, VERDICT_PASS, false, NULL},
    };
    struct test *t = *state;
    const char *real = put_ladder(t, "real", 101, 0, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comparison c;
        const char *sim = put_ladder(t, arena_printf(t->a, "s%zu", i), 101, 0, cases[i].sim);
        const char *other = put_ladder(t, arena_printf(t->a, "o%zu", i), 101, 0, cases[i].other);
        struct compare_params p = params_of(real, sim);
        p.spread_dirs = &other;
        p.n_spread = 1;
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        const struct compare_cell *cell = &c.cells[METRIC_TTFT][0];
        const double first_ns = c.real_metrics.of[METRIC_TTFT].ns[50],
                     mean = (1 + cases[i].other) / 2;
        assert_near(cell->real_ns / first_ns, mean, 1e-3);
        assert_near(cell->real_high_ns / first_ns, mean + 12.7062 * (cases[i].other - 1) / 2, 1e-2);
        assert_int_equal(cell->verdict, cases[i].want);
        assert_int_equal(cell->excused, cases[i].excused);
        if (cases[i].why)
            assert_string_equal(cell->why, cases[i].why);
        else
            assert_null(cell->why);
        assert_int_equal(c.verdict, cases[i].want);
    }
    assert_int_equal(verdict_exit_code(VERDICT_INCONCLUSIVE), 5);
}

static void spread_runs_of_other_workloads_are_refused(void **state)
{
    static const struct {
        const char *row, *text;
    } cases[] = {
        {"0,0,10,10,30,4,3,3,ok\n",
         "DIR/other: not a run of the same workload: request 1 is missing"},
        {"0,0,10,10,30,4,3,3,ok\n1,9000,9010,10,9030,4,3,3,ok\n",
         "DIR/other: not a run of the same workload: arrival_time_ns of request 1 is 9000, in "
         "DIR/real 5"},
        {"0,0,10,10,30,8,3,3,ok\n1,5,15,10,35,4,3,3,ok\n",
         "DIR/other: not a run of the same workload: num_prefill_tokens of request 0 is 8, in "
         "DIR/real 4"},
        {"0,0,10,10,30,4,3,3,ok\n1,5,15,10,35,4,6,3,ok\n",
         "DIR/other: not a run of the same workload: num_decode_tokens of request 1 is 6, in "
         "DIR/real 3"},
    };
    struct test *t = *state;
    const char *real =
        put_run(t, "real", "real", REQUESTS "0,0,10,10,30,4,3,3,ok\n1,5,15,10,35,4,3,3,ok\n", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comparison c;
        const char *other =
            put_run(t, "other", "real", arena_printf(t->a, REQUESTS "%s", cases[i].row), NULL);
        struct compare_params p = params_of(real, real);
        p.spread_dirs = &other;
        p.n_spread = 1;
        err_clear(&t->e);
        assert_err(compare_runs(t->a, &p, &c, &t->e), ST_INPUT, t,
                   arena_printf(t->a,
                                "%s\nhint: spread= takes more real runs of the very same "
                                "workload",
                                cases[i].text));
    }
}

static void a_run_counts_once_in_the_spread(void **state)
{
    struct test *t = *state;
    const char *real = put_run(t, "real", "real", REQUESTS "0,0,10,10,30,4,3,3,ok\n", NULL);
    const char *other = put_run(t, "other", "real", REQUESTS "0,0,10,10,30,4,3,3,ok\n", NULL);
    const char *again[] = {other, arena_printf(t->a, "%s/.", other)};
    const char *itself = arena_printf(t->a, "%s/", real);
    static const char hint[] = "hint: spread= takes further real runs: repeat=1, repeat=2 of the "
                               "first";
    struct comparison c;
    struct compare_params p = params_of(real, real);
    p.spread_dirs = &itself;
    p.n_spread = 1;
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_USAGE, t,
               arena_printf(t->a, "spread: DIR/real/ is the real run itself\n%s", hint));
    p.spread_dirs = again;
    p.n_spread = 2;
    err_clear(&t->e);
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_USAGE, t,
               arena_printf(t->a, "spread: DIR/other/. is given twice\n%s", hint));
}

/* ---- diagnosis ---------------------------------------------------------------------------- */

static bool finds(const struct comparison *c, const char *start)
{
    for (size_t i = 0; i < c->n_findings; i++)
        if (strncmp(c->findings[i], start, strlen(start)) == 0)
            return true;
    for (size_t i = 0; i < c->n_findings; i++)
        print_message("finding: %s\n", c->findings[i]);
    return false;
}

static void compare_fakes(struct test *t, const struct fake_run *real, const struct fake_run *sim,
                          struct comparison *c)
{
    struct compare_params *p = arena_one(t->a, struct compare_params);
    *p = params_of(fake_run_write(t, "real", real), fake_run_write(t, "sim", sim));
    assert_ok(compare_runs(t->a, p, c, &t->e), t);
}

static void like_runs_pass_without_a_diagnosis(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_PASS);
    assert_false(c.diagnosed);
    assert_int_equal(c.n_parts, 0);
}

static void missing_host_time_is_named(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.host_s = 2e-3;
    sim.host_s = 0.1e-3;
    real.jitter = sim.jitter = 0;
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_FAIL);
    assert_true(finds(&c, "Decode batches take "));
    assert_non_null(strstr(c.findings[0], "Most of that is host time: 2.000 ms real, 100.0 µs "
                                          "simulated."));
}

/* A miss proves nothing where the machine was busy. */
static void a_busy_machine_makes_a_fail_inconclusive(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.waiting = 0.25;
    sim.base_s *= 1.5;
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_INCONCLUSIVE);
    assert_string_equal(c.cells[METRIC_TPOT][0].why,
                        "the machine was busy: the real run waited for cores 25 % of the time");
}

static void extrapolation_is_noted(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.extrapolated = 125;
    compare_fakes(*state, &real, &sim, &c);
    assert_true(has_note(&c, "12.5 % of the simulation's look-ups (125 of 1000) fell outside the "
                             "profiled grid and were extrapolated."));
}

static void a_busy_profile_does_too(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.waiting = 0.05;
    sim.waiting = 0.3;
    sim.base_s *= 1.5;
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_INCONCLUSIVE);
    assert_string_equal(
        c.cells[METRIC_TPOT][0].why,
        "the machine was busy: the profile behind the simulated run waited for cores "
        "30 % of the time");
}

static void a_machine_that_changed_is_not_held_against_the_prediction(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.reference = 1.12e-3;
    sim.reference = 1e-3;
    real.base_s *= 1.12, real.sequence_s *= 1.12, real.prefill_token_s *= 1.12;
    compare_fakes(t, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_INCONCLUSIVE);
    assert_near(c.drift, 0.12, 1e-9);
    assert_string_equal(c.cells[METRIC_E2E][0].why, "the machine itself had become 12 % slower");
    assert_true(has_note(&c, "The machine itself was 12 % slower in the real run than while it was "
                             "profiled (the same passes, timed both times)."));
}

/* The other way round, or more than queues amplify, it explains nothing. */
static void a_change_that_does_not_explain_the_miss_is_no_excuse(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.reference = 1.12e-3;
    sim.reference = 1e-3;
    sim.base_s *= 1.5;
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_FAIL);
}

/* A hit stays one. */
static void a_busy_machine_does_not_undo_a_pass(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.waiting = sim.waiting = 0.25;
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_PASS);
}

static void runs_of_two_workloads_are_not_judged(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.workload_seed++;
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_INCONCLUSIVE);
    assert_string_equal(c.cells[METRIC_TTFT][0].why, "the runs are not of one workload");
}

static void slow_decode_batches_are_named(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.base_s *= 1.3;
    sim.prefill_token_s *= 0.8; /* mixed and prefill batches stay about alike */
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_FAIL);
    assert_true(finds(&c, "Decode batches take "));
    assert_non_null(strstr(c.findings[0], "Most of that is device time"));
    assert_true(c.parts[0].real_n > 0 && strcmp(c.parts[0].name, "prefill batches") == 0);
}

/* Batches cost the same; the real side admits one prompt at a time and starves a little. */
static void a_queue_that_differs_is_named(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.jitter = sim.jitter = 0;
    real.batch_cap = 4;
    sim.batch_cap = 5;
    compare_fakes(*state, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_FAIL);
    assert_int_equal(c.worst_metric, METRIC_TTFT);
    assert_true(finds(&c, "Batch times agree within "));
    assert_true(finds(&c, "Requests wait "));
}

static void without_batches_it_says_so(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.no_batches = true;
    sim.base_s *= 1.5;
    compare_fakes(t, &real, &sim, &c);
    assert_true(c.diagnosed);
    assert_int_equal(c.n_findings, 1);
    assert_string_equal(c.findings[0],
                        arena_printf(t->a,
                                     "No batch times to look into: %s/sim has no batches.csv "
                                     "(output.batches=full writes it).",
                                     test_dir(t)));
    assert_false(c.curves->of[1].has_running);
}

/* ---- runs with a client ------------------------------------------------------------------- */

/* 40 requests of 3 tokens; of request i TTFT is 1 ms + i us, later tokens 100 us apart, all of it
 * `more_ns` longer, TPOT by `slower_ns`. extra: further members of the meta. */
static const char *put_client_run(struct test *t, const char *name, long more_ns, long slower_ns,
                                  const char *extra)
{
    struct buf b = {0};
    buf_puts(&b, REQUESTS);
    for (int i = 0; i < 40; i++) {
        long at = 1000000L * i, first = at + 1000000 + 1000 * i + more_ns;
        buf_printf(&b, "%d,%ld,%ld,%ld,%ld,4,3,3,ok\n", i, at, first, first - at,
                   first + 2 * (100000 + slower_ns));
    }
    const char *dir = put_run(t, name, "real", buf_str(&b), NULL);
    buf_free(&b);
    test_write(t, arena_printf(t->a, "%s/run_meta.json", name),
               arena_printf(t->a, "{\"schema_version\": 1, \"run_type\": \"real\"%s}", extra));
    return dir;
}

static const char over_http[] =
    ", \"http\": {\"url\": \"x\"}, \"client\": {\"verdict\": \"healthy\"}";
static const char late[] = ", \"http\": {\"url\": \"x\"}, \"client\": {\"verdict\": \"rejected\", "
                           "\"schedule_delay_p99_ms\": 31.5}";

/* Request by request, whichever side is over HTTP; nothing is judged. */
static void what_http_costs_is_told_and_not_judged(void **state)
{
    struct test *t = *state;
    const char *plain = put_client_run(t, "plain", 0, 0, "");
    const char *again = put_client_run(t, "again", 3000, -10, "");
    const char *http = put_client_run(t, "http", 700000, 2000, over_http);
    for (int side = 0; side < 2; side++) {
        struct comparison c;
        struct compare_params p = side ? params_of(http, plain) : params_of(plain, http);
        p.spread_dirs = &again;
        p.n_spread = !side;
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        assert_true(c.path.is);
        assert_int_equal(c.path.real_is, side);
        assert_int_equal(c.verdict, VERDICT_NONE);
        assert_int_equal(verdict_exit_code(c.verdict), 0);
        assert_false(c.diagnosed);
        assert_int_equal(c.path.of[METRIC_TTFT].n, 40);
        assert_near(c.path.of[METRIC_TTFT].median_ns, 700000, 0);
        assert_near(c.path.of[METRIC_TPOT].median_ns, 2000, 0);
        assert_near(c.path.of[METRIC_E2E].median_ns, 704000, 0);
        assert_string_equal(table_at(compare_table(t->a, &c), 0, 3),
                            side ? "without HTTP, ms" : "over HTTP, ms");
        if (side) {
            assert_true(isnan(c.path.of[METRIC_TTFT].repeat_ns));
            continue;
        }
        assert_near(c.path.of[METRIC_TTFT].repeat_ns, 3000, 0);
        assert_near(c.path.of[METRIC_TPOT].repeat_ns, -10, 0);
        assert_string_equal(c.path.lines[0],
                            "TTFT: +700.0 µs a request (median of 40, 95 % interval +700.0 µs .. "
                            "+700.0 µs; P10 +700.0 µs, P90 +700.0 µs). Two runs without a change "
                            "differ by up to 3.000 µs.");
        assert_string_equal(c.cells[METRIC_TTFT][0].why, "the difference is what HTTP costs");
        struct buf text = {0};
        const struct comparison shown = compare_shown(t->a, &c);
        document_markdown(&text, compare_document(t->a, &shown, "Comparison"));
        assert_non_null(strstr(buf_str(&text), "## What HTTP costs\n"));
        buf_free(&text);
    }
    /* A simulated run against one over HTTP is judged as any other. */
    struct comparison c;
    test_write(t, "plain/run_meta.json", "{\"schema_version\": 1, \"run_type\": \"vidur\"}");
    struct compare_params p = params_of(http, plain);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_false(c.path.is);
    assert_int_equal(c.verdict, VERDICT_FAIL);
}

/* A run that bench rejected is no ground for a verdict, for or against. */
static void a_late_client_decides_nothing(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const char *same = put_client_run(t, "same", 0, 0, over_http);
    const char *bad = put_client_run(t, "late", 0, 0, late);
    for (int side = 0; side < 2; side++) {
        struct compare_params p = side ? params_of(bad, same) : params_of(same, bad);
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        assert_int_equal(c.verdict, VERDICT_INCONCLUSIVE);
        assert_string_equal(c.cells[METRIC_E2E][0].why,
                            side ? "the client of the real run did not keep its schedule"
                                 : "the client of the simulated run did not keep its schedule");
        assert_true(has_note(
            &c, side
                    ? "The client of the real run did not keep its schedule: p99 of the delay is "
                      "31.5 ms. Its latencies are the client's too, and nothing is concluded from "
                      "them."
                    : "The client of the simulated run did not keep its schedule: p99 of the delay "
                      "is 31.5 ms. Its latencies are the client's too, and nothing is concluded "
                      "from them."));
    }
    struct compare_params p = params_of(same, put_client_run(t, "other", 0, 0, over_http));
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.verdict, VERDICT_PASS);
    p.spread_dirs = &bad;
    p.n_spread = 1;
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_INPUT, t,
               "DIR/late: its client did not keep its schedule (p99 of the delay 31.5 ms)\n"
               "hint: its latencies are the client's too: leave it out of spread=");
}

/* ---- moments that follow from ends ---------------------------------------------------------- */

static const char *put_closed(struct test *t, const char *name, const char *type, const char *limit,
                              const char *head, const char *rows)
{
    test_write(t, arena_printf(t->a, "%s/request_metrics.csv", name),
               arena_printf(t->a, "%s%s", head, rows));
    test_write(t, arena_printf(t->a, "%s/run_meta.json", name),
               arena_printf(t->a, "{\"schema_version\": 1, \"run_type\": \"%s\"%s}", type, limit));
    return test_path(t, name);
}

#define LIMIT(n) ", \"concurrency\": [{\"seconds\": 1, \"from\": " #n ", \"to\": " #n "}]"

/* In a closed loop the same request arrives at other times on the two sides. */
static void closed_loops_are_paired_by_place(void **state)
{
    struct test *t = *state;
    static const char real_rows[] = "0,0,100000,100000,100000,4,1,1,ok\n"
                                    "1,100000,200000,100000,200000,4,1,1,ok\n";
    static const char sim_rows[] = "0,0,102000,102000,102000,4,1,1,ok\n"
                                   "1,102000,204000,102000,204000,4,1,1,ok\n";
    struct comparison c;
    const char *real = put_closed(t, "real", "real", LIMIT(1), REQUESTS, real_rows);
    const char *sim = put_closed(t, "sim", "vidur", LIMIT(1), REQUESTS, sim_rows);
    struct compare_params p = params_of(real, sim);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.verdict, VERDICT_PASS);
    assert_null(c.found[CAUSE_WORKLOADS_DIFFER].text);
    assert_near(c.cells[METRIC_TTFT][0].error_percent, 2, 1e-9);
    assert_true(has_note(&c, "Planned moments of a closed loop follow from ends and differ between "
                             "the sides; requests are paired by their place in the workload, and "
                             "latencies count from each side's own moment."));

    const char *other = put_closed(t, "other", "vidur", LIMIT(2), REQUESTS, sim_rows);
    p = params_of(real, other);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.verdict, VERDICT_INCONCLUSIVE);
    assert_non_null(c.found[CAUSE_WORKLOADS_DIFFER].text);
    assert_true(has_note(&c,
                         "The runs had other limits on what is in the system at once: 1 real, 2 "
                         "simulated."));
    p = params_of(real, put_closed(t, "open", "vidur", "", REQUESTS, sim_rows));
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.verdict, VERDICT_INCONCLUSIVE);
    assert_true(has_note(&c, "The runs had other limits on what is in the system at once: 1 real, "
                             "none, an open loop simulated."));
}

/* First turns have planned arrivals, later ones do not. */
static void later_turns_are_paired_by_place(void **state)
{
    struct test *t = *state;
    static const char head[] =
        "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns,"
        "num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status,session_id,turn\n";
    static const char real_rows[] = "0,0,100000,100000,100000,4,1,1,ok,0,1\n"
                                    "1,100000,200000,100000,200000,9,1,1,ok,0,2\n";
    struct comparison c;
    const char *real = put_closed(t, "real", "real", "", head, real_rows);
    const char *sim = put_closed(t, "sim", "vidur", "", head,
                                 "0,0,102000,102000,102000,4,1,1,ok,0,1\n"
                                 "1,102000,204000,102000,204000,9,1,1,ok,0,2\n");
    struct compare_params p = params_of(real, sim);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.verdict, VERDICT_PASS);
    assert_true(
        has_note(&c, "Planned moments of later turns of a session follow from ends and differ "
                     "between the sides; requests are paired by their place in the workload, and "
                     "latencies count from each side's own moment."));
    const char *moved = put_closed(t, "moved", "vidur", "", head,
                                   "0,9000,111000,102000,111000,4,1,1,ok,0,1\n"
                                   "1,111000,213000,102000,213000,9,1,1,ok,0,2\n");
    p = params_of(real, moved);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_non_null(c.found[CAUSE_WORKLOADS_DIFFER].text);
    const char *turns = put_closed(t, "turns", "vidur", "", head,
                                   "0,0,102000,102000,102000,4,1,1,ok,0,1\n"
                                   "1,102000,204000,102000,204000,9,1,1,ok,1,2\n");
    p = params_of(real, turns);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_non_null(c.found[CAUSE_WORKLOADS_DIFFER].text);
}

static void repeats_have_the_same_limit(void **state)
{
    struct test *t = *state;
    static const char rows[] = "0,0,100000,100000,100000,4,1,1,ok\n";
    struct comparison c;
    const char *real = put_closed(t, "real", "real", LIMIT(1), REQUESTS, rows);
    const char *other = put_closed(t, "other", "real", LIMIT(2), REQUESTS, rows);
    const char *sim = put_closed(t, "sim", "vidur", LIMIT(1), REQUESTS, rows);
    struct compare_params p = params_of(real, sim);
    p.spread_dirs = &other;
    p.n_spread = 1;
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_INPUT, t,
               "DIR/other: not a run of the same workload: its concurrency is 2, in DIR/real "
               "1\nhint: spread= takes more real runs of the very same workload");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_http_costs_is_told_and_not_judged),
        TEST(a_late_client_decides_nothing),
        TEST(requests_are_matched_and_the_rest_is_counted),
        TEST(an_early_stop_cuts_both_sides),
        TEST(what_cannot_be_cut_is_left_out),
        TEST(other_workloads_are_told),
        TEST(closed_loops_are_paired_by_place),
        TEST(later_turns_are_paired_by_place),
        TEST(repeats_have_the_same_limit),
        TEST(nothing_in_common_is_an_error),
        TEST(bad_parameters_are_named),
        TEST(the_limits_belong_to_the_better_verdict),
        TEST(percentiles_interpolate_between_order_statistics),
        TEST(p99_needs_a_thousand_requests),
        TEST(a_wide_interval_is_not_judged_beyond_p90),
        TEST(missing_values_are_not_zero),
        TEST(a_miss_inside_a_small_spread_is_excused),
        TEST(spread_runs_of_other_workloads_are_refused),
        TEST(a_run_counts_once_in_the_spread),
        TEST(like_runs_pass_without_a_diagnosis),
        TEST(missing_host_time_is_named),
        TEST(a_busy_machine_makes_a_fail_inconclusive),
        TEST(extrapolation_is_noted),
        TEST(a_busy_profile_does_too),
        TEST(a_machine_that_changed_is_not_held_against_the_prediction),
        TEST(a_change_that_does_not_explain_the_miss_is_no_excuse),
        TEST(a_busy_machine_does_not_undo_a_pass),
        TEST(runs_of_two_workloads_are_not_judged),
        TEST(slow_decode_batches_are_named),
        TEST(a_queue_that_differs_is_named),
        TEST(without_batches_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
