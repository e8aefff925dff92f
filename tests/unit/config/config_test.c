#include "unit/config/fixture.h"

static void the_last_layer_wins_and_the_rest_is_default(void **state)
{
    struct test *t = *state;
    const struct embed_file *files =
        FILES({"bench.yaml", "defaults: [{hardware: big}, _self_]\nseed: 7\n"},
              {"hardware/big.yaml", "id: big\n"}, {"hardware/small.yaml", "id: small\n"});
    struct config c = fixture_good(t, ARGS(BENCH, files));
    assert_int_equal(c.plan->seed, 7);
    assert_string_equal(c.plan->hardware.id, "big");
    assert_int_equal(c.plan->serve.batch_cap, 128);
    assert_null(c.plan->out);
    assert_string_equal(c.config_path, "(built in)");
    assert_string_equal(c.config_name, "bench");

    c = fixture_good(t, ARGS(BENCH, files, "hardware=small", "seed=8", "seed=9"));
    assert_int_equal(c.plan->seed, 9);
    assert_string_equal(c.plan->hardware.id, "small");
}

static void an_origin_tells_set_from_unset(void **state)
{
    struct test *t = *state;
    const struct embed_file *files = FILES({"bench.yaml", "seed: 7\nworkload: {dir: w}\n"});
    struct config c = fixture_good(t, ARGS(BENCH, files, "repeat=1", "workload.dir=null"));
    assert_int_equal(config_origin(&c, "seed"), ORIGIN_FILE);
    assert_int_equal(config_origin(&c, "repeat"), ORIGIN_COMMAND_LINE);
    assert_int_equal(config_origin(&c, "device"), ORIGIN_DEFAULT);
    assert_int_equal(config_origin(&c, "out"), ORIGIN_UNSET);
    assert_int_equal(config_origin(&c, "workload.dir"), ORIGIN_UNSET);
    c = fixture_good(t, ARGS(BENCH, files, "~seed"));
    assert_int_equal(config_origin(&c, "seed"), ORIGIN_DEFAULT);
    assert_int_equal(c.plan->seed, 0);
}

static void every_group_file_is_good(void **state)
{
    struct test *t = *state;
    int n = 0;
    for (const struct embed_file *f = embed_cmd; f->path; f++) {
        const char *slash = strchr(f->path, '/');
        if (!slash)
            continue;
        const char *group = arena_strn(t->a, f->path, (size_t)(slash - f->path));
        const char *name = arena_strn(t->a, slash + 1, strlen(slash + 1) - strlen(".yaml"));
        bool predicts = strcmp(group, "predictor") == 0;
        bool profiles =
            strcmp(group, "deep") == 0 || strcmp(group, "nsys") == 0 || strcmp(group, "ncu") == 0;
        struct config_args args = ARGS(BENCH, embed_cmd, arena_printf(t->a, "%s=%s", group, name));
        args.command = predicts ? COMMAND_SIMULATE : profiles ? COMMAND_DEEP : COMMAND_BENCH;
        struct config c = fixture_good(t, args);
        if (strcmp(group, "model") == 0)
            assert_string_equal(c.plan->model.name, name);
        n++;
    }
    assert_true(n >= 14);
}

static void explain_names_every_layer(void **state)
{
    struct test *t = *state;
    const struct embed_file *files = FILES(
        {"bench.yaml", "defaults:\n  - workload: w\n  - _self_\nworkload:\n  arrival: {rate: 2}\n"},
        {"workload/w.yaml", "arrival:\n  kind: gamma\n  rate: ${vars.r}\n  burstiness: 2\n"});
    struct config_args args =
        ARGS(BENCH, files, "+vars.r=1", "~workload.arrival.burstiness", "workload.arrival.rate=4");
    struct buf b = {0};
    assert_ok(config_explain(t->a, &args, "workload.arrival.rate", &b, &t->e), t);
    assert_string_equal(b.p, "workload.arrival.rate = 4\n"
                             "  4  <- command line: workload.arrival.rate=4\n"
                             "  2  <- (built in)/bench.yaml:5:19\n"
                             "  ${vars.r}  <- (built in)/workload/w.yaml:3:9\n");
    buf_clear(&b);
    assert_ok(config_explain(t->a, &args, "workload.arrival", &b, &t->e), t);
    assert_non_null(strstr(b.p, "workload.arrival.kind = gamma\n"
                                "  gamma  <- (built in)/workload/w.yaml:2:9\n"
                                "  poisson  <- default\n"));
    buf_clear(&b);
    assert_ok(config_explain(t->a, &args, "workload.arrival.burstiness", &b, &t->e), t);
    assert_string_equal(b.p, "workload.arrival.burstiness is not set\n"
                             "  removed  <- command line: ~workload.arrival.burstiness\n"
                             "  2  <- (built in)/workload/w.yaml:4:15\n");
    buf_clear(&b);
    assert_err(config_explain(t->a, &args, "workload.rate", &b, &t->e), ST_USAGE, t,
               "--explain: unknown key 'workload.rate'\n"
               "hint: did you mean workload.arrival.rate? also near: workload.trace, "
               "workload.dir");
    buf_free(&b);
}

/* A value that does not bind can still be explained. */
static void explain_works_on_a_bad_value(void **state)
{
    struct test *t = *state;
    struct config_args args = ARGS(BENCH, FILES({"bench.yaml", "seed: x\n"}));
    struct buf b = {0};
    assert_ok(config_explain(t->a, &args, "seed", &b, &t->e), t);
    assert_string_equal(b.p, "seed = x\n  x  <- (built in)/bench.yaml:1:7\n  0  <- default\n");
    buf_free(&b);
}

static void sweep_text(struct test *t, struct config_args args, const char *want)
{
    const char *const **jobs;
    size_t n;
    assert_ok(config_sweep(t->a, &args, &jobs, &n, &t->e), t);
    struct buf b = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < args.n_overrides; k++)
            buf_printf(&b, "%s%s", jobs[i][k], k + 1 < args.n_overrides ? " " : "\n");
    assert_string_equal(buf_str(&b), want);
    buf_free(&b);
}

static void a_sweep_runs_its_rightmost_axis_fastest(void **state)
{
    struct test *t = *state;
    sweep_text(t, ARGS(BENCH, NULL, "model=a,b", "x=1", "seed=range(1,4)"),
               "model=a x=1 seed=1\nmodel=a x=1 seed=2\nmodel=a x=1 seed=3\n"
               "model=b x=1 seed=1\nmodel=b x=1 seed=2\nmodel=b x=1 seed=3\n");
    sweep_text(t, ARGS(BENCH, NULL, "a=choice([1,2], {a: 1,b: 2},'x,y')", "~z", "++q=r\\,s"),
               "a=[1,2] ~z ++q=r\\,s\na={a: 1,b: 2} ~z ++q=r\\,s\na='x,y' ~z ++q=r\\,s\n");
    sweep_text(t, ARGS(BENCH, NULL, "a=[1,2]", "b='c,d'", "c=${oc.env:X,1}"),
               "a=[1,2] b='c,d' c=${oc.env:X,1}\n");
    sweep_text(t, ARGS(BENCH, NULL, "spread=a,b"), "spread=a,b\n");
    sweep_text(t, ARGS(BENCH, NULL, "spread=choice(a,b)"), "spread=a\nspread=b\n");
    sweep_text(t, ARGS(BENCH, NULL, "a=range(3)"), "a=0\na=1\na=2\n");
    sweep_text(t, ARGS(BENCH, NULL, "a=range(3,0,-2)"), "a=3\na=1\n");
    sweep_text(t, ARGS(BENCH, NULL, "a=range(start=0,stop=0.3,step=0.1)"), "a=0.0\na=0.1\na=0.2\n");
    sweep_text(t, ARGS(BENCH, NULL, "a=choice(1)"), "a=1\n");
}

static void sweep_err(struct test *t, const char *override, const char *text)
{
    struct config_args args = ARGS(BENCH, NULL, "seed=range(0,100)", override);
    const char *const **jobs;
    size_t n;
    assert_err(config_sweep(t->a, &args, &jobs, &n, &t->e), ST_USAGE, t, text);
}

static void a_bad_sweep_is_named(void **state)
{
    struct test *t = *state;
    static const char hint[] = "\nhint: range(stop), range(start, stop) or "
                               "range(start, stop, step); the stop is left out";
    sweep_err(t, "a=range(0,101)", "command line: the sweep has more than 10000 jobs");
    sweep_err(t, "a=1,,2", "command line: a: value 2 of '1,,2' is empty");
    sweep_err(t, "a=1,", "command line: a: value 2 of '1,' is empty");
    sweep_err(t, "a=choice()", "command line: a: choice() is empty");
    sweep_err(t, "a=range(1,1)",
              arena_printf(t->a, "command line: a: range(1,1): it is empty%s", hint));
    sweep_err(t, "a=range(0,1,0)",
              arena_printf(t->a, "command line: a: range(0,1,0): the step is 0%s", hint));
    sweep_err(
        t, "a=range(0,1e9)",
        arena_printf(t->a, "command line: a: range(0,1e9): it has more than 10000 values%s", hint));
    sweep_err(t, "a=range(x)",
              arena_printf(t->a,
                           "command line: a: range(x): the arguments are one to three numbers%s",
                           hint));
    sweep_err(t, "a=range(start=1)",
              arena_printf(t->a, "command line: a: range(start=1): there is no stop%s", hint));
    sweep_err(t, "a=glob(*)",
              "command line: a: glob() is not supported\n"
              "hint: choice(a, b) and range(start, stop, step) are");
}

static void a_job_of_a_sweep_loads(void **state)
{
    struct test *t = *state;
    struct config_args args = ARGS(SIMULATE, embed_cmd, "hardware=a100,h200", "seed=1,2");
    const char *const **jobs;
    size_t n;
    assert_ok(config_sweep(t->a, &args, &jobs, &n, &t->e), t);
    assert_int_equal(n, 4);
    args.overrides = jobs[2];
    struct config c = fixture_good(t, args);
    assert_string_equal(c.plan->hardware.id, "h200");
    assert_int_equal(c.plan->seed, 1);
    args.overrides = jobs[1];
    c = fixture_good(t, args);
    assert_string_equal(c.plan->hardware.network_device, "a100_pairwise_nvlink");
}

static void what_print_writes_reads_back_as_the_same(void **state)
{
    struct test *t = *state;
    struct config a = fixture_good(t, ARGS(BENCH, embed_cmd, "model=llama3_8b",
                                           "workload=synthetic", "hardware.id=007",
                                           "+vars={x: [1, 2.0, 'y'], s: '\\${z}'}", "engine=null"));
    struct buf one = {0}, two = {0};
    config_print(&one, &a);
    struct config b = fixture_good(t, ARGS(BENCH, FILES({"bench.yaml", buf_str(&one)})));
    config_print(&two, &b);
    assert_string_equal(b.plan->hardware.id, "007");
    assert_string_equal(b.plan->engine.kind, "null");
    assert_int_equal(b.plan->workload.make.max_tokens, 1024);
    /* the literal ${ must be written so that it stays one */
    assert_string_equal(buf_str(&one), buf_str(&two));
    buf_free(&one);
    buf_free(&two);
}

static void the_composed_simulation_is_as_recorded(void **state)
{
    struct test *t = *state;
    struct config c = fixture_good(t, ARGS(SIMULATE, embed_cmd, "model=qwen3_0_6b", "hardware=h200",
                                           "scheduler=sarathi", "workload=synthetic",
                                           "workload.arrival.rate=2.5"));
    struct buf b = {0};
    config_print(&b, &c);
    assert_golden(t, "config/simulate.yaml", ((struct sv){b.p, b.n}));
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_layer_wins_and_the_rest_is_default),
        TEST(an_origin_tells_set_from_unset),
        TEST(every_group_file_is_good),
        TEST(explain_names_every_layer),
        TEST(explain_works_on_a_bad_value),
        TEST(a_sweep_runs_its_rightmost_axis_fastest),
        TEST(a_bad_sweep_is_named),
        TEST(a_job_of_a_sweep_loads),
        TEST(what_print_writes_reads_back_as_the_same),
        TEST(the_composed_simulation_is_as_recorded),
    };
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
