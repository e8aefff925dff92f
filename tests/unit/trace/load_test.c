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

/* One kernel on the GPU that its process calls 0; `head` stands before the events. */
static void write_rank(struct test *t, const char *name, const char *head, const char *kernel)
{
    test_write(
        t, name,
        arena_printf(t->a,
                     "{%s\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cuda_runtime\", "
                     "\"name\": \"launch\", \"pid\": 7, \"tid\": 7, \"ts\": 1, \"dur\": 1, "
                     "\"args\": {\"correlation\": 5}}, {\"ph\": \"X\", \"cat\": \"kernel\", "
                     "\"name\": \"%s\", \"pid\": 0, \"tid\": 7, \"ts\": 3, \"dur\": 9, \"args\": "
                     "{\"device\": 0, \"correlation\": 5}}]}",
                     head, kernel));
}

/* A file for each rank is one trace: processes with equal pids, and GPUs, are others in each. */
static void ranks_of_pytorch_in_a_folder(void **state)
{
    struct test *t = *state;
    struct trace x;
    const char *dir = test_path(t, "ranks");
    assert_ok(fs_mkdirs(dir, &t->e), t);
    write_rank(t, "ranks/h_7.1.pt.trace.json", "\"distributedInfo\": {\"rank\": 0}, ", "a");
    write_rank(t, "ranks/w_rank1.2.pt.trace.json", "", "b"); /* the name says it */
    write_rank(t, "ranks/merged-x.trace.json", "", "c");
    assert_ok(trace_load(&x, dir, NULL, &t->e), t);
    assert_int_equal(x.ops.n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct trace_sig *s = &x.dict.sigs[x.ops.sig[i]];
        assert_int_equal(s->device, i);
        assert_int_equal(x.dict.processes[s->process].rank, i);
        assert_int_equal(x.dict.processes[s->process].pid, 7);
        assert_int_not_equal(x.ops.call[i], TRACE_NONE);
    }
    assert_int_not_equal(x.ops.call[0], x.ops.call[1]);
    trace_free(&x);
    write_rank(t, "ranks/x_rank1.2.pt.trace.json", "", "d");
    assert_err(
        trace_load(&x, dir, NULL, &t->e), ST_INPUT, t,
        "cannot read the trace DIR/ranks\nDIR/ranks/x_rank1.2.pt.trace.json: rank 1 is in two "
        "files\nhint: a folder is read as one trace with a file for each rank: name one file, "
        "or move the others away");
    err_clear(&t->e);
    write_rank(t, "ranks/x_rank1.2.pt.trace.json",
               "\"distributedInfo\": {\"rank\": 2}, \"baseTimeNanoseconds\": 5, ", "d");
    write_rank(t, "ranks/y_rank3.2.pt.trace.json", "\"baseTimeNanoseconds\": 6, ", "e");
    assert_err(
        trace_load(&x, dir, NULL, &t->e), ST_INPUT, t,
        "cannot read the trace DIR/ranks\nDIR/ranks/y_rank3.2.pt.trace.json: its times count "
        "from another moment (baseTimeNanoseconds) than those of the other files");
}

/* As SGLang calls them. */
static void ranks_of_sglang_in_a_folder(void **state)
{
    struct test *t = *state;
    struct trace x;
    const char *dir = test_path(t, "sglang");
    assert_ok(fs_mkdirs(dir, &t->e), t);
    write_rank(t, "sglang/1728-TP-0.trace.json", "", "a");
    write_rank(t, "sglang/1728-TP-1.trace.json", "", "b");
    assert_ok(trace_load(&x, dir, NULL, &t->e), t);
    assert_int_equal(x.ops.n, 2);
    for (int i = 0; i < 2; i++) {
        const struct trace_sig *s = &x.dict.sigs[x.ops.sig[i]];
        assert_int_equal(s->device, x.dict.processes[s->process].rank);
    }
    assert_int_equal(x.dict.n_processes, 2);
    trace_free(&x);
}

/* Without ranks one number is taken for one GPU, which is said. */
static void files_without_ranks_in_a_folder(void **state)
{
    struct test *t = *state;
    struct trace x;
    const char *dir = test_path(t, "files");
    assert_ok(fs_mkdirs(dir, &t->e), t);
    write_rank(t, "files/a.pt.trace.json", "", "a");
    write_rank(t, "files/b.pt.trace.json", "", "b");
    assert_ok(trace_load(&x, dir, NULL, &t->e), t);
    assert_int_equal(x.dict.sigs[x.ops.sig[0]].device, 0);
    assert_int_equal(x.dict.sigs[x.ops.sig[1]].device, 0);
    assert_int_equal(x.dict.n_notes, 1);
    assert_string_equal(x.dict.notes[0].text, "GPU 0 is in several files, and nothing says their "
                                              "ranks: taken for one GPU");
    trace_free(&x);
}

/* Nsight Systems' own names: report1.sqlite; several are several traces. */
static void an_export_in_a_folder(void **state)
{
    struct test *t = *state;
    struct trace x;
    struct fake_spool f = {.steps = 2};
    const char *dir = test_path(t, "nsys");
    assert_ok(fs_mkdirs(dir, &t->e), t);
    fake_spool_write(test_path(t, "t.spool"), &f);
    assert_ok(trace_convert(test_path(t, "t.spool"), trace_format_named("sqlite"),
                            test_path(t, "nsys/report1.sqlite"), NULL, &t->e),
              t);
    assert_ok(trace_load(&x, dir, NULL, &t->e), t);
    assert_string_equal(x.format, "sqlite");
    assert_true(x.ops.n > 0);
    trace_free(&x);
    test_write(t, "nsys/report2.sqlite", "");
    assert_err(
        trace_load(&x, dir, NULL, &t->e), ST_INPUT, t,
        "cannot read the trace DIR/nsys\nDIR/nsys: 2 files of Nsight Systems\nhint: each is a "
        "trace: name one of them, as DIR/nsys/report1.sqlite");
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
        TEST(ranks_of_pytorch_in_a_folder),
        TEST(ranks_of_sglang_in_a_folder),
        TEST(files_without_ranks_in_a_folder),
        TEST(an_export_in_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
