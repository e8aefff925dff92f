#include "unit/config/fixture.h"

#include <math.h>
#include <stdlib.h>

/* One file, so that each error names bench.yaml:line:column. */
static void file_err(struct test *t, const char *yaml, const char *text)
{
    assert_load_err(ARGS(BENCH, FILES({"bench.yaml", yaml})),
                    arena_printf(t->a, "(built in)/bench.yaml:%s", text));
}

static void line_err(struct test *t, const char *override, const char *text)
{
    assert_load_err(ARGS(COMPARE, FILES({"compare.yaml", ""}), override),
                    arena_printf(t->a, "command line: %s", text));
}

static void every_type_lands_in_the_plan(void **state)
{
    struct test *t = *state;
    struct config c = fixture_good(
        t, ARGS(BENCH, FILES({"bench.yaml", "json: true\n"
                                            "seed: 9223372036854775807\n"
                                            "workload:\n"
                                            "  num_requests: 1e6\n"
                                            "  arrival: {kind: gamma, rate: 2, burstiness: 0.5}\n"
                                            "model:\n  name: 'm'\n  config: {x: [1]}\n"
                                            "spread: [a, 'b,c']\n"
                                            "report: {inputs: 'd , e'}\n"
                                            "compare: {token0: include}\n"})));
    assert_true(c.plan->json);
    assert_true(c.plan->seed == INT64_MAX);
    assert_int_equal(c.plan->workload.make.num_requests, 1000000);
    assert_int_equal(c.plan->workload.make.arrival_kind, ARRIVAL_GAMMA);
    assert_near(c.plan->workload.make.rate, 2, 0);
    assert_near(c.plan->workload.make.burstiness, 0.5, 0);
    assert_string_equal(c.plan->model.name, "m");
    assert_int_equal(node_find(c.plan->model.config, "x")->items[0]->i, 1);
    assert_int_equal(c.plan->compare.spread.n, 2);
    assert_string_equal(c.plan->compare.spread.items[1], "b,c");
    assert_int_equal(c.plan->report.inputs.n, 1);
    assert_string_equal(c.plan->report.inputs.items[0], "d , e");
    assert_int_equal(c.plan->compare.token0, 1);
    assert_int_equal(c.plan->output.tokens, OUTPUT_FULL);
}

static void a_list_takes_commas(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *override;
        size_t n;
        const char *second;
    } rows[] = {
        {"spread=a,b", 2, "b"},    {"spread=a , 7", 2, "7"}, {"spread=[a,'b,c']", 2, "b,c"},
        {"spread='a,b'", 1, NULL}, {"spread=[]", 0, NULL},   {"spread=null", 0, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config c =
            fixture_good(t, ARGS(COMPARE, FILES({"compare.yaml", ""}), rows[i].override));
        assert_int_equal(c.plan->compare.spread.n, rows[i].n);
        if (rows[i].second)
            assert_string_equal(c.plan->compare.spread.items[1], rows[i].second);
    }
    struct config c = fixture_good(t, ARGS(COMPARE, FILES({"compare.yaml", "spread: a,b\n"})));
    assert_int_equal(c.plan->compare.spread.n, 2);
}

/* What the environment says is text; a number is wanted. */
static void interpolated_text_is_read_as_what_is_wanted(void **state)
{
    struct test *t = *state;
    setenv("TWINFER_TEST_VALUE", "12", 1);
    struct config c = fixture_good(
        t, ARGS(BENCH, FILES({"bench.yaml", "seed: ${oc.env:TWINFER_TEST_VALUE}\n"
                                            "repeat: 1${seed}\n"
                                            "json: ${oc.env:TWINFER_TEST_NONE,true}\n"
                                            "hardware: {id: '${oc.env:TWINFER_TEST_VALUE}'}\n"})));
    assert_int_equal(c.plan->seed, 12);
    assert_int_equal(c.plan->repeat, 112);
    assert_true(c.plan->json);
    assert_string_equal(c.plan->hardware.id, "12");
    assert_string_equal(fixture_yaml(t, &c, "seed"), "12\n");
}

/* The engine of that name, not the default one. */
static void null_is_an_engine(void **state)
{
    struct test *t = *state;
    static const char *const words[] = {"engine.kind=null", "engine.kind='null'"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct config c = fixture_good(t, ARGS(BENCH, FILES({"bench.yaml", ""}), words[i]));
        assert_string_equal(c.plan->engine.kind, "null");
    }
    struct config c =
        fixture_good(t, ARGS(BENCH, FILES({"bench.yaml", "engine: {kind: null, threads: 3}\n"})));
    assert_string_equal(c.plan->engine.kind, "null");
}

static void null_is_not_set(void **state)
{
    struct test *t = *state;
    struct config c = fixture_good(
        t, ARGS(BENCH, FILES({"bench.yaml", "seed: null\nout:\nworkload:\nmodel: {name: ~}\n"}),
                "device=null"));
    assert_int_equal(c.plan->seed, 0);
    assert_null(c.plan->out);
    assert_null(c.plan->model.name);
    assert_string_equal(c.plan->engine.device, "cpu");
}

static void a_wrong_value_is_named_with_its_place(void **state)
{
    struct test *t = *state;
    file_err(t, "seed: x\n", "1:7: seed: expected an integer, got 'x'");
    file_err(t, "seed: '4'\n", "1:7: seed: expected an integer, got '4'");
    file_err(t, "seed: 1.5\n", "1:7: seed: expected an integer, got 1.5");
    file_err(t, "seed: [1]\n", "1:7: seed: expected an integer, got a list");
    file_err(t, "a: &x 1\nseed: -1\n",
             "1:1: unknown key 'a'\n"
             "hint: the nearest keys are out, vars, url");
    file_err(t, "\nseed: -1\n", "2:7: seed: -1 is below the minimum 0");
    file_err(t, "json: 1\n", "1:7: json: expected true or false, got 1");
    file_err(t, "json: yes\n", "1:7: json: expected true or false, got 'yes'");
    file_err(t, "workload:\n  arrival:\n    rate: 0\n",
             "3:11: workload.arrival.rate: 0 is below the minimum 1e-09 1/s");
    file_err(t, "workload: {arrival: {rate: .inf}}\n",
             "1:28: workload.arrival.rate: expected a number, got '.inf'");
    file_err(t, "workload: {arrival: {rate: fast}}\n",
             "1:28: workload.arrival.rate: expected a number, got 'fast'");
    file_err(t, "workload: {arrival: {kind: uniform}}\n",
             "1:28: workload.arrival.kind: 'uniform' is not one of static, fixed_interval, "
             "poisson, gamma, trace");
    file_err(t, "workload: {num_requests: 2e9}\n",
             "1:26: workload.num_requests: 2000000000 is above the maximum 100000000 requests");
    file_err(t, "scheduler: {watermark: 1.01}\n",
             "1:24: scheduler.watermark: 1.01 is above the maximum 0.999");
    file_err(t, "hardware: {id: 100}\n",
             "1:16: hardware.id: expected text, got 100\nhint: put it in quotes");
    file_err(t, "hardware: {id: [a]}\n", "1:16: hardware.id: expected text, got a list");
    file_err(t, "out: ''\n", "1:6: out: the text is empty\nhint: null leaves a key unset");
    file_err(t, "out: \"a\\0b\"\n", "1:6: out: a NUL character in the text");
    file_err(t, "spread: {a: 1}\n", "1:9: spread: expected a list, got a map");
    file_err(t, "spread: [a, 1]\n", "1:13: spread: expected text, got 1\nhint: put it in quotes");
    file_err(t, "spread: a,,b\n", "1:9: spread: the text is empty\nhint: null leaves a key unset");
    file_err(t, "vars: 3\n", "1:7: vars: expected a map, got 3");
    file_err(t, "workload: 3\n", "1:11: workload: expected a map of keys, got 3");
    file_err(t, "workload: {arrival: [1]}\n",
             "1:21: workload.arrival: expected a map of keys, got a list");
}

static void an_unknown_key_is_named_with_its_neighbours(void **state)
{
    struct test *t = *state;
    file_err(t, "workload:\n  arival:\n    rate: 1\n",
             "2:3: unknown key 'workload.arival'\n"
             "hint: did you mean workload.arrival.kind? also near: workload.arrival.rate, "
             "workload.arrival.ramp_s");
    file_err(t, "workload.arrival.rate: 1\n",
             "1:1: 'workload.arrival.rate': keys in files are nested, not dotted\n"
             "hint: write a: {b: value} for a.b");
    file_err(t, "completely_different: 1\n",
             "1:1: unknown key 'completely_different'\n"
             "hint: the nearest keys are model.tokenizer, log.level, model.ref");
}

static void a_wrong_override_is_named(void **state)
{
    struct test *t = *state;
    line_err(t, "compare.token0=both", "compare.token0: 'both' is not one of exclude, include");
    line_err(t, "compare.pass_percent=abc", "compare.pass_percent: expected a number, got 'abc'");
    line_err(t, "workload.arrival.rate=4",
             "compare does not use workload.arrival.rate\n"
             "hint: it is a key of: workload, bench, simulate");
    line_err(t, "+model.config.x=4",
             "compare does not use model.config.x\n"
             "hint: it is a key of: workload, bench, serve, profile, "
             "simulate, capacity, search, calibrate, fit, model, logits, deep");
    line_err(t, "~workload.arrival.rate",
             "compare does not use workload.arrival.rate\n"
             "hint: it is a key of: workload, bench, simulate");
    line_err(t, "compare.tokn0=include",
             "unknown key 'compare.tokn0'\n"
             "hint: did you mean compare.token0?");
    line_err(t, "pass_percent=4",
             "unknown key 'pass_percent'\n"
             "hint: did you mean compare.pass_percent?");
    line_err(t, "+compare.new=4",
             "unknown key 'compare.new'\n"
             "hint: the nearest keys are compare.cells, compare.gate, compare.token0");
    line_err(t, "compare=4",
             "compare: is a section, not a value\n"
             "hint: its keys are compare.iteration_log, compare.token0, compare.cells, "
             "compare.pass_percent, "
             "compare.warn_percent, compare.gate");
    line_err(t, "+json=true",
             "json: the key exists, + adds only to free-form maps\n"
             "hint: write json=true");
    line_err(t, "vars.x=1", "vars.x: there is no such key to set\nhint: +vars.x=... adds it");
    line_err(t, "vars=1", "vars: expected a map, got 1");
    line_err(t, "~out", "~out: the key is not set");
    line_err(t, "~compare.pass_percent=4", "~compare.pass_percent=4: the key has another value");
}

static void maps_merge_on_the_command_line(void **state)
{
    struct test *t = *state;
    const struct embed_file *files = FILES({"bench.yaml", "vars: {a: 1, b: {c: 2}}\n"});
    struct config c =
        fixture_good(t, ARGS(BENCH, files, "vars={a: x}", "+vars.b.d=3", "++vars.b={c: 4, e: {}}",
                             "workload.arrival={kind: static}"));
    assert_string_equal(fixture_yaml(t, &c, "vars"), "a: x\nb:\n  c: 4\n  d: 3\n  e: {}\n");
    assert_int_equal(c.plan->workload.make.arrival_kind, ARRIVAL_STATIC);
    c = fixture_good(t, ARGS(BENCH, files, "~vars.b", "workload={arrival: {rate: 3}}"));
    assert_string_equal(fixture_yaml(t, &c, "vars"), "a: 1\n");
    assert_near(c.plan->workload.make.rate, 3, 0);
    assert_load_err(ARGS(BENCH, files, "+vars.a=1"),
                    "command line: vars.a: the key is there already\n"
                    "hint: vars.a=... sets it, ++vars.a=... does either");
    assert_load_err(ARGS(BENCH, files, "+vars.a.b=1"),
                    "(built in)/bench.yaml:1:11: vars.a: expected a map of keys, got an integer");
}

static void a_malformed_file_is_bad_input(void **state)
{
    struct test *t = *state;
    struct config c;
    assert_int_equal(fixture_load(t, ARGS(BENCH, FILES({"bench.yaml", "a: [\n"})), &c), ST_INPUT);
    assert_int_equal(strncmp(err_cause(&t->e, 0), "(built in)/bench.yaml:2:1: ", 27), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_type_lands_in_the_plan),
        TEST(a_list_takes_commas),
        TEST(interpolated_text_is_read_as_what_is_wanted),
        TEST(null_is_not_set),
        TEST(null_is_an_engine),
        TEST(a_wrong_value_is_named_with_its_place),
        TEST(an_unknown_key_is_named_with_its_neighbours),
        TEST(a_wrong_override_is_named),
        TEST(maps_merge_on_the_command_line),
        TEST(a_malformed_file_is_bad_input),
    };
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
