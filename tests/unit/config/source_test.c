#include "config/source.h"

#include "unit/config/fixture.h"

static void a_nearer_folder_hides_a_farther_one(void **state)
{
    struct test *t = *state;
    test_write(t, "mine/model/m.yaml", "name: mine\n");
    test_write(t, "here/configs/model/m.yaml", "name: here\n");
    test_write(t, "here/configs/model/n.yaml", "name: here\n");
    test_write(t, "here/configs/model/readme.txt", "");
    const struct embed_file *files =
        FILES({"bench.yaml", "defaults: [model: m]\n"}, {"model/m.yaml", "name: inside\n"},
              {"model/o.yaml", "name: inside\n"}, {"model/deep/p.yaml", "name: inside\n"});
    assert_int_equal(chdir(test_path(t, "here")), 0);
    struct config_args args = ARGS(BENCH, files);
    args.config_dir = test_path(t, "mine");
    struct config c = fixture_good(t, args);
    assert_string_equal(c.plan->model.name, "mine");
    assert_string_equal(c.config_path, "(built in)");
    args.config_dir = NULL;
    c = fixture_good(t, args);
    assert_string_equal(c.plan->model.name, "here");
    assert_load_err(ARGS(BENCH, files, "model.name=1", "workload.num_requests=x"),
                    "command line: workload.num_requests: expected an integer, got 'x'");

    struct sources s;
    assert_ok(sources_init(t->a, &s, test_path(t, "mine"), files, &t->e), t);
    size_t n;
    const char **names = sources_options(t->a, &s, "model", &n);
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "m");
    assert_string_equal(names[1], "n");
    assert_string_equal(names[2], "o");
    assert_true(sources_has_group(&s, "model/deep"));
    assert_false(sources_has_group(&s, "mod"));

    test_write(t, "here/configs/bench.yaml", "seed: [\n");
    c = (struct config){0};
    assert_int_equal(fixture_load(t, ARGS(BENCH, files), &c), ST_INPUT);
    assert_int_equal(strncmp(err_cause(&t->e, 0), "configs/bench.yaml:2:1: ", 24), 0);
    assert_int_equal(chdir("/proc"), 0);
}

static void a_missing_folder_is_named(void **state)
{
    struct test *t = *state;
    struct config_args args = ARGS(BENCH, NULL);
    args.config_dir = "/nowhere";
    struct config c;
    assert_err(fixture_load(t, args, &c), ST_USAGE, t, "--config-dir: /nowhere is not a directory");
}

static void the_package_header_is_read(void **state)
{
    struct test *t = *state;
    static const char *const rows[][2] = {
        {"# @package _global_\na: 1\n", "_global_"},
        {"\n#\n#  words\n#@package\tx.y  \r\n", "x.y"},
        {"# @package\n", NULL},
        {"# @packages x\n", NULL},
        {"a: 1\n# @package x\n", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sources s;
        struct source_file f;
        assert_ok(sources_init(t->a, &s, NULL, FILES({"f.yaml", rows[i][0]}), &t->e), t);
        assert_ok(sources_load(t->a, &s, "f", &f, &t->e), t);
        if (rows[i][1])
            assert_string_equal(f.package, rows[i][1]);
        else
            assert_null(f.package);
        assert_string_equal(f.name, "(built in)/f.yaml");
        assert_int_equal(sources_load(t->a, &s, "g", &f, &t->e), ST_END);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_nearer_folder_hides_a_farther_one),
        TEST(a_missing_folder_is_named),
        TEST(the_package_header_is_read),
    };
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
