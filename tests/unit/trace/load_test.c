/* Which files of a path are read, as what, and which part of them. */
#include "base/fs.h"
#include "base/log.h"
#include "support/fake_spool.h"
#include "support/support.h"
#include "trace/formats.h"

static const char hint[] = "hint: read are our spool, Nsight Systems' SQLite export (nsys export "
                           "--type sqlite) and PyTorch's JSON";

static void unknown_files_are_refused_with_what_is_known(void **state)
{
    struct test *t = *state;
    struct trace x;
    const char *const texts[] = {"", "hello", "TWSPOO", "SQLite format 2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        err_clear(&t->e);
        assert_err(trace_load(&x, test_write(t, "f", texts[i]), NULL, &t->e), ST_INPUT, t,
                   arena_printf(t->a,
                                "cannot read the trace DIR/f\n"
                                "DIR/f: is no trace of a known format\n%s",
                                hint));
    }
    trace_free(&x); /* a failed load leaves nothing */
    err_clear(&t->e);
    assert_err(trace_load(&x, test_path(t, "none"), NULL, &t->e), ST_INPUT, t,
               "cannot read the trace DIR/none\n"
               "cannot open DIR/none: No such file or directory");
}

static void a_folder_may_hold_its_spools_in_another(void **state)
{
    struct test *t = *state;
    struct trace x;
    assert_ok(fs_mkdirs(test_path(t, "out/spool"), &t->e), t);
    fake_spool_write(test_path(t, "out/spool/a.spool"), &(struct fake_spool){.steps = 2});
    test_write(t, "out/readme.txt", "not a trace");
    assert_ok(trace_load(&x, test_path(t, "out"), NULL, &t->e), t);
    assert_int_equal(x.ops.n, 10);
    assert_string_equal(x.format, "spool");
    trace_free(&x);
}

static void spools_are_taken_before_other_formats(void **state)
{
    struct test *t = *state;
    struct trace x;
    assert_ok(fs_mkdirs(test_path(t, "d"), &t->e), t);
    fake_spool_write(test_path(t, "three.spool"), &(struct fake_spool){.steps = 3});
    assert_ok(trace_convert(test_path(t, "three.spool"), &trace_sqlite,
                            test_path(t, "d/trace.sqlite"), NULL, &t->e),
              t);
    assert_ok(trace_load(&x, test_path(t, "d"), NULL, &t->e), t);
    assert_string_equal(x.format, "sqlite");
    assert_int_equal(x.ops.n, 15);
    trace_free(&x);
    fake_spool_write(test_path(t, "d/a.spool"), &(struct fake_spool){.steps = 1});
    assert_ok(trace_load(&x, test_path(t, "d"), NULL, &t->e), t);
    assert_string_equal(x.format, "spool");
    assert_int_equal(x.ops.n, 5);
    trace_free(&x);
}

static void stubs_of_killed_processes_are_left_out(void **state)
{
    struct test *t = *state;
    struct trace x;
    test_write(t, "d/b.spool", "TWSPOOL\n");
    fake_spool_write(test_path(t, "d/a.spool"), &(struct fake_spool){.steps = 1});
    assert_ok(trace_load(&x, test_path(t, "d"), NULL, &t->e), t);
    assert_int_equal(x.ops.n, 5);
    assert_true(x.dict.incomplete);
    assert_int_equal(x.dict.notes[0].level, LOG_WARN);
    assert_string_equal(x.dict.notes[0].text,
                        "b.spool: is left out: its process was killed as it made the file");
    trace_free(&x);
}

static void a_broken_spool_among_others_is_named(void **state)
{
    struct test *t = *state;
    struct trace x;
    fake_spool_write(test_path(t, "a.spool"), &(struct fake_spool){.steps = 1});
    test_write(t, "b.spool",
               "a file of more than sixty-four bytes, which is not what its name says");
    assert_err(trace_load(&x, test_dir(t), NULL, &t->e), ST_INPUT, t,
               arena_printf(t->a,
                            "cannot read the trace DIR\n"
                            "DIR/b.spool: is no trace of a known format\n%s",
                            hint));
}

static void windows_count_from_the_first_record(void **state)
{
    static const struct {
        struct trace_window window;
        size_t ops;
    } rows[] = {
        {{0, 0}, 20},
        {{0, 1}, 0},
        {{FAKE_STEP_NS, 0}, 15},
        {{FAKE_STEP_NS, 2 * FAKE_STEP_NS}, 5},
        {{100 * FAKE_STEP_NS, 0}, 0},
        {{INT64_C(10) * 1000, INT64_C(11) * 1000}, 1}, /* the GEMM starts 10 us after the range */
    };
    struct test *t = *state;
    const char *path = test_path(t, "a.spool");
    fake_spool_write(path, &(struct fake_spool){.steps = 4});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trace x;
        assert_ok(trace_load(&x, path, &rows[i].window, &t->e), t);
        assert_int_equal(x.ops.n, rows[i].ops);
        trace_free(&x);
    }
}

static void a_conversion_that_fails_leaves_no_file(void **state)
{
    struct test *t = *state;
    const char *from = test_write(t, "from", "no trace"), *to = test_path(t, "to.sqlite");
    assert_err(trace_convert(from, &trace_sqlite, to, NULL, &t->e), ST_INPUT, t,
               arena_printf(t->a,
                            "cannot convert DIR/from to sqlite\n"
                            "DIR/from: is no trace of a known format\n%s",
                            hint));
    assert_false(fs_exists(to));
    err_clear(&t->e);
    fake_spool_write(test_path(t, "a.spool"), &(struct fake_spool){.steps = 1});
    test_write(t, "to.sqlite", "mine");
    assert_err(trace_convert(test_path(t, "a.spool"), &trace_sqlite, to, NULL, &t->e), ST_USAGE, t,
               "cannot convert DIR/a.spool to sqlite\n"
               "DIR/to.sqlite already exists");
    assert_string_equal(test_read(t, to), "mine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unknown_files_are_refused_with_what_is_known),
        TEST(a_folder_may_hold_its_spools_in_another),
        TEST(spools_are_taken_before_other_formats),
        TEST(stubs_of_killed_processes_are_left_out),
        TEST(a_broken_spool_among_others_is_named),
        TEST(windows_count_from_the_first_record),
        TEST(a_conversion_that_fails_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
