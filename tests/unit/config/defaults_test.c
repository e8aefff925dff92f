/* Faults of defaults lists and of group choices; what a good list gives is in compose_test.c. */
#include "unit/config/fixture.h"

#define ONE(text)                                                                             \
    FILES({"bench.yaml", text}, {"model/m.yaml", "name: m\n"}, {"model/n.yaml", "name: n\n"}, \
          {"hardware/h.yaml", "id: h\n"})

static void a_bad_entry_is_named_with_its_place(void **state)
{
    struct test *t = *state;
    static const char form[] = "an entry of a defaults list is a file name, _self_, or one "
                               "'group: option'";
    static const struct {
        const char *list, *place, *text;
    } rows[] = {
        {"defaults: x\n", "1:11", "defaults: expected a list, got a string"},
        {"defaults: [1]\n", "1:12", NULL},
        {"defaults: [[m]]\n", "1:12", NULL},
        {"defaults: [{model: m, hardware: h}]\n", "1:12", NULL},
        {"defaults: [_self_, model: m, _self_]\n", "1:30", "_self_ stands twice"},
        {"defaults:\n  - model: [m, 3]\n", "2:16",
         "model: expected the name of a file, got an integer"},
        {"defaults:\n  - model: ../m\n", "2:12", "model: '../m' is not the name of a file"},
        {"defaults:\n  - model: ''\n", "2:12", "model: '' is not the name of a file"},
        {"defaults:\n  - ../x: m\n", "2:5",
         "'../x' is not a path below the folder of configurations"},
        {"defaults:\n  - model: ${seed}\n", "2:12",
         "interpolation is not supported in a defaults list"},
        {"defaults:\n  - x/y\n", "2:5", "there is no file x/y.yaml"},
        {"defaults:\n  - model: m\n  - model: n\n", "2:5",
         "model stands twice in the defaults list"},
        {"defaults:\n  - override model: n\n", "2:5",
         "override model: no defaults list before it has this group"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_input_err(ARGS(BENCH, ONE(rows[i].list)),
                         arena_printf(t->a, "(built in)/bench.yaml:%s: %s", rows[i].place,
                                      rows[i].text ? rows[i].text : form));
    }
    assert_input_err(ARGS(BENCH, ONE("defaults:\n  - model: k\n")),
                     "(built in)/bench.yaml:2:12: model: there is no 'k'; there are: m, n\n"
                     "hint: to do without a file of the group, give model.ref=DIRECTORY (with "
                     "config.json)");
    assert_input_err(
        ARGS(BENCH, ONE("- 1\n")),
        "(built in)/bench.yaml:1:1: a configuration file is a map of keys, not a list");
}

static void a_group_can_be_left_to_the_command_line(void **state)
{
    struct test *t = *state;
    const struct embed_file *files = ONE("defaults:\n  - model: ???\n");
    assert_load_err(ARGS(BENCH, files),
                    "model: none is chosen; there are: m, n\nhint: choose with model=NAME");
    struct config c = fixture_good(t, ARGS(BENCH, files, "model=n"));
    assert_string_equal(c.plan->model.name, "n");
}

/* model.ref=DIR with the name and the random weights of the default model would be a lie. */
static void a_key_that_stands_for_a_group_leaves_its_default_out(void **state)
{
    struct test *t = *state;
    const struct embed_file *files =
        FILES({"bench.yaml", "defaults: [model: m, workload: w, _self_]\nseed: 3\n"},
              {"model/m.yaml", "name: m\nweights: random:0\n"},
              {"workload/w.yaml", "arrival: {rate: 7}\n"});
    struct config c = fixture_good(t, ARGS(BENCH, files, "model.ref=d"));
    assert_null(c.plan->model.name);
    assert_null(c.plan->model.weights);
    assert_true(c.plan->workload.make.rate > 6 && c.plan->seed == 3);
    c = fixture_good(t, ARGS(BENCH, files, "workload.dir=d"));
    assert_string_equal(fixture_yaml(t, &c, "workload.arrival.rate"), "(not set)");
    assert_string_equal(c.plan->model.name, "m");
    c = fixture_good(t, ARGS(BENCH, files, "workload.trace=f"));
    assert_string_equal(fixture_yaml(t, &c, "workload.arrival.rate"), "(not set)");
    c = fixture_good(t, ARGS(BENCH, files, "model.ref=d", "model=m"));
    assert_string_equal(c.plan->model.name, "m");
    c = fixture_good(t, ARGS(BENCH, files, "model.ref=null"));
    assert_string_equal(c.plan->model.name, "m");
}

static void a_bad_choice_is_named(void **state)
{
    struct test *t = *state;
    const struct embed_file *files = ONE("defaults: [model: m]\n");
    assert_load_err(ARGS(BENCH, files, "model=k"),
                    "command line: model: there is no 'k'; there are: m, n\n"
                    "hint: to do without a file of the group, give model.ref=DIRECTORY (with "
                    "config.json)");
    assert_load_err(ARGS(BENCH, files, "hardware=h"),
                    "command line: bench does not use the group hardware\n"
                    "hint: +hardware=h adds it to the defaults list all the same");
    assert_load_err(ARGS(BENCH, files, "hardware=k", "+hardware=k"),
                    "command line: hardware: there is no 'k'; there are: h\n"
                    "hint: to do without a file of the group, give hardware.id=NAME");
    assert_load_err(ARGS(BENCH, files, "+model=n"),
                    "command line: model stands twice in the defaults list\n"
                    "hint: without the + it picks the group's file");
    assert_load_err(ARGS(BENCH, files, "++model=n"),
                    "command line: ++model=n: ++ sets values, it picks no group's file\n"
                    "hint: write model=n");
    assert_load_err(ARGS(BENCH, files, "~hardware"),
                    "command line: ~hardware: the defaults list has no such group");
    assert_load_err(ARGS(BENCH, files, "~model=n"),
                    "command line: ~model=n: the group is not set to that");
    assert_load_err(ARGS(BENCH, files, "model="),
                    "model: none is chosen; there are: m, n\nhint: choose with model=NAME");
    assert_load_err(ARGS(BENCH, files, "model=../m"),
                    "command line: model: '../m' is not the name of a file");
    assert_load_err(ARGS(BENCH, files, "model=m,n"),
                    "command line: model: 'm,n' is a sweep over several values\n"
                    "hint: -m runs one job for each; if the comma belongs to the value, quote it: "
                    "model=\"'...'\"");
    assert_load_err(ARGS(BENCH, files, "model/x=m"),
                    "command line: model/x=m: there is no group 'model/x'");
    assert_load_err(ARGS(BENCH, files, "x@y=m"), "command line: x@y=m: there is no group 'x'");
    assert_load_err(ARGS(BENCH, files, "seed@y=m"),
                    "command line: seed@y=m: only groups take an @package");
}

static void a_missing_primary_file_is_named(void **state)
{
    struct test *t = *state;
    assert_load_err(ARGS(PROFILE, ONE("")),
                    "there is no configuration profile.yaml\n"
                    "hint: it is looked for in --config-dir, ./configs and the program itself");
    struct config_args args = ARGS(PROFILE, ONE("seed: 5\n"));
    args.config_name = "bench";
    struct config c = fixture_good(t, args);
    assert_int_equal(c.plan->seed, 5);
    assert_string_equal(c.config_name, "bench");
}

static void endless_lists_are_refused(void **state)
{
    struct test *t = *state;
    assert_input_err(ARGS(BENCH, FILES({"bench.yaml", "defaults: [model: a]\n"},
                                       {"model/a.yaml", "defaults: [b]\n"},
                                       {"model/b.yaml", "defaults: [a]\n"})),
                     "a defaults list leads back to itself: model/a -> model/b -> model/a");
    struct fixture_file deep[22] = {{"bench.yaml", "defaults: [f0]\n"}};
    for (int i = 0; i < 20; i++)
        deep[i + 1] = (struct fixture_file){arena_printf(t->a, "f%d.yaml", i),
                                            arena_printf(t->a, "defaults: [f%d]\n", i + 1)};
    assert_input_err(ARGS(BENCH, fixture_table(t, deep)),
                     "f15: defaults lists are nested deeper than 16");
    /* each file twice as often as the one before it */
    struct fixture_file wide[12] = {{"bench.yaml", "defaults: [f0]\n"}};
    for (int i = 0; i < 10; i++)
        wide[i + 1] = (struct fixture_file){
            arena_printf(t->a, "f%d.yaml", i),
            i < 9 ? arena_printf(t->a, "defaults: [f%d, f%d]\n", i + 1, i + 1) : ""};
    assert_input_err(ARGS(BENCH, fixture_table(t, wide)),
                     "f9: more than 256 files in the defaults list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_bad_entry_is_named_with_its_place),
        TEST(a_group_can_be_left_to_the_command_line),
        TEST(a_key_that_stands_for_a_group_leaves_its_default_out),
        TEST(a_bad_choice_is_named),
        TEST(a_missing_primary_file_is_named),
        TEST(endless_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
