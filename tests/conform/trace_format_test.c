/* Every format of the table: what is written is read back, and says the same in every report. */
#include "trace/trace.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "support/fake_spool.h"
#include "support/support.h"

static const char *spool(struct test *t, const struct fake_spool *f)
{
    const char *path = test_path(t, "trace.spool");
    unlink(path);
    fake_spool_write(path, f);
    return path;
}

/* All that the reports say of a trace; JSON has one word for all NVTX ranges, so the styles' names
 * are taken out where it took part. */
static char *reports_of(struct test *t, const char *path, bool styles)
{
    struct trace x;
    struct kernels k;
    struct buf text = {0};
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    kernels_open(&k, &x, NULL);
    for (const struct kernels_report *r = kernels_reports; r->name; r++) {
        bool nvtx = strncmp(r->name, "nvtx", 4) == 0;
        if (nvtx && !styles)
            continue; /* domains and styles differ */
        buf_printf(&text, "== %s\n", r->name);
        table_text(&text, kernels_report_table(t->a, &k, r));
    }
    kernels_markdown(&text, &k);
    kernels_unique_jsonl(&text, &k);
    char *out = arena_strn(t->a, buf_str(&text), text.n);
    buf_free(&text);
    kernels_close(&k);
    trace_free(&x);
    return out;
}

static void formats_agree(void **state)
{
    struct test *t = *state;
    const char *from = spool(t, &(struct fake_spool){.steps = 7});
    for (const struct trace_format *const *f = trace_formats; *f; f++) {
        assert_non_null((*f)->name);
        assert_non_null((*f)->help);
        assert_non_null((*f)->file);
        assert_true((*f)->read || (*f)->create);
        assert_ptr_equal(trace_format_named((*f)->name), *f);
        if (!(*f)->create)
            continue;
        assert_non_null((*f)->finish);
        assert_non_null((*f)->discard);
        const char *to = test_path(t, (*f)->name);
        struct stat info;
        mode_t before = umask(027);
        assert_ok(trace_convert(from, *f, to, NULL, &t->e), t);
        umask(before);
        assert_int_equal(stat(to, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0640);
        bool styles = strcmp((*f)->name, "sqlite") == 0;
        assert_string_equal(reports_of(t, to, styles), reports_of(t, from, styles));
        /* an existing file is never written into */
        assert_int_equal(trace_convert(from, *f, to, NULL, &t->e), ST_USAGE);
        err_clear(&t->e);
    }
    assert_null(trace_format_named("nsight"));
}

static void writers_can_be_stopped(void **state)
{
    struct test *t = *state;
    for (const struct trace_format *const *f = trace_formats; *f; f++) {
        if (!(*f)->create)
            continue;
        struct trace_dict d;
        struct trace_writer *w;
        struct trace_sink sink;
        const char *to = test_path(t, (*f)->name);
        trace_dict_init(&d);
        assert_ok((*f)->create(to, &d, &w, &sink, &t->e), t);
        (*f)->discard(&w);
        assert_null(w);
        (*f)->discard(&w);
        assert_int_not_equal(access(to, F_OK), 0);
        trace_dict_free(&d);
    }
}

static void windows_cut(void **state)
{
    struct test *t = *state;
    const char *from = spool(t, &(struct fake_spool){.steps = 5});
    struct trace_window w = {2 * FAKE_STEP_NS, 3 * FAKE_STEP_NS};
    for (const struct trace_format *const *f = trace_formats; *f; f++) {
        struct trace x;
        if (!(*f)->create || !(*f)->read)
            continue;
        const char *to = test_path(t, (*f)->name);
        assert_ok(trace_convert(from, *f, to, &w, &t->e), t);
        assert_ok(trace_load(&x, to, NULL, &t->e), t);
        assert_int_equal(x.ops.n, 5);
        assert_int_equal(x.calls.n, 5);
        assert_int_equal(x.n_ranges, 3);
        assert_int_equal(x.start_ns, FAKE_START_NS + 2 * FAKE_STEP_NS);
        trace_free(&x);
    }
}

static void a_killed_process_leaves_a_trace(void **state)
{
    struct test *t = *state;
    struct trace x;
    const char *path = spool(t, &(struct fake_spool){.steps = 4, .killed = true});
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    assert_true(x.dict.incomplete);
    assert_int_equal(x.ops.n, 20);
    assert_int_equal(x.n_ranges, 12);
    /* the last step was open: it ends with the last record */
    const struct trace_range *last = NULL;
    for (size_t i = 0; i < x.n_ranges; i++)
        if (strcmp(trace_text(&x.dict, x.ranges[i].text), "step bs=4") == 0)
            last = &x.ranges[i];
    assert_int_equal(last->start_ns, FAKE_START_NS + 3 * FAKE_STEP_NS);
    assert_int_equal(last->end_ns, last->start_ns + 86000);
    assert_true(last->open);
    trace_free(&x);
    const char *copy = test_path(t, "copy.sqlite");
    assert_ok(trace_convert(path, trace_format_named("sqlite"), copy, NULL, &t->e), t);
    assert_ok(trace_load(&x, copy, NULL, &t->e), t);
    size_t open = 0;
    for (size_t i = 0; i < x.n_ranges; i++)
        open += x.ranges[i].open;
    assert_int_equal(open, 1);
    trace_free(&x);
    /* cut anywhere: what stands before counts */
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    for (off_t cut = info.st_size - 1; cut >= 64; cut -= 97) {
        assert_int_equal(truncate(path, cut), 0);
        assert_ok(trace_load(&x, path, NULL, &t->e), t);
        assert_true(x.ops.n <= 20 && x.dict.incomplete);
        trace_free(&x);
    }
}

static void folders_of_spools_are_one_trace(void **state)
{
    struct test *t = *state;
    struct trace x;
    char dir[300];
    snprintf(dir, sizeof dir, "%s/d", test_dir(t));
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_err(trace_load(&x, dir, NULL, &t->e), ST_INPUT, t,
               "cannot read the trace DIR/d\nDIR/d: no trace in this folder\n"
               "hint: one of twinfer trace has *.spool files");
    fake_spool_write(test_path(t, "d/h-1.spool"), &(struct fake_spool){.steps = 2});
    fake_spool_write(test_path(t, "d/h-2.spool"), &(struct fake_spool){.steps = 3});
    err_clear(&t->e);
    assert_ok(trace_load(&x, dir, NULL, &t->e), t);
    assert_int_equal(x.ops.n, 25);
    trace_free(&x);
}

/* Two processes of one pid (after an exec, or in two containers) whose ids say different things. */
static void equal_pids_stay_apart(void **state)
{
    struct test *t = *state;
    struct trace one, x;
    char dir[300];
    snprintf(dir, sizeof dir, "%s/d", test_dir(t));
    assert_int_equal(mkdir(dir, 0700), 0);
    fake_spool_write(test_path(t, "d/h-1.spool"), &(struct fake_spool){.steps = 2});
    assert_ok(trace_load(&one, dir, NULL, &t->e), t);
    fake_spool_write(test_path(t, "d/h-1-1.spool"),
                     &(struct fake_spool){.steps = 2, .shift_ns = 50 * FAKE_STEP_NS});
    for (const struct trace_format *const *f = trace_formats;; f++) {
        const char *path = dir; /* the spools themselves last */
        if (*f && (!(*f)->create || !(*f)->read))
            continue;
        if (*f) {
            path = test_path(t, (*f)->name);
            assert_ok(trace_convert(dir, *f, path, NULL, &t->e), t);
        }
        assert_ok(trace_load(&x, path, NULL, &t->e), t);
        assert_int_equal(x.ops.n, 2 * one.ops.n);
        assert_int_equal(x.dict.n_processes, 2);
        for (size_t i = 0; i < x.ops.n; i++) { /* launched 5 us before it began, not 5 ms */
            assert_int_not_equal(x.ops.call[i], TRACE_NONE);
            assert_int_equal(x.ops.start_ns[i] - x.calls.start_ns[x.ops.call[i]], 5000);
        }
        trace_free(&x);
        if (!*f)
            break;
    }
    trace_free(&one);
}

static uint64_t all_impossible(const struct trace *x)
{
    uint64_t n = 0;
    for (int i = 0; i < TRACE_RECORDS; i++)
        n += x->dict.impossible[i];
    return n;
}

/* A writer takes what it is given, so a damaged file of any format can be made. */
static void impossible_times_are_left_out_and_counted(void **state)
{
    static const struct {
        int64_t start_ns, end_ns;
    } bad[] = {
        {FAKE_START_NS + 10, FAKE_START_NS + 9},                  /* ends before it starts */
        {FAKE_START_NS, FAKE_START_NS + TRACE_SPAN_MAX_NS + 1},   /* lasts 104 days */
        {INT64_MAX / 4 + 5, INT64_MAX / 4 + 6},                   /* in 2043 */
        {FAKE_START_NS + (INT64_C(1) << 60), (INT64_C(3) << 59)}, /* possible alone */
    };
    struct test *t = *state;
    const char *from = spool(t, &(struct fake_spool){.steps = 3});
    const char *reports = reports_of(t, from, false);
    for (const struct trace_format *const *f = trace_formats; *f; f++) {
        struct trace good, x;
        struct trace_writer *w;
        struct trace_sink sink;
        const char *to = test_path(t, (*f)->name);
        if (!(*f)->create || !(*f)->read)
            continue;
        assert_ok(trace_load(&good, from, NULL, &t->e), t);
        assert_ok((*f)->create(to, &good.dict, &w, &sink, &t->e), t);
        for (size_t i = 0; i < good.ops.n; i++)
            assert_ok(sink.op(sink.self,
                              &(struct trace_op){good.ops.start_ns[i], good.ops.end_ns[i],
                                                 good.ops.sig[i], good.ops.correlation[i], 0, 0},
                              &t->e),
                      t);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            assert_ok(sink.op(sink.self,
                              &(struct trace_op){bad[i].start_ns, bad[i].end_ns, good.ops.sig[0],
                                                 good.ops.correlation[0], 0, 0},
                              &t->e),
                      t);
        for (size_t i = 0; i < good.calls.n; i++)
            assert_ok(
                sink.call(sink.self,
                          &(struct trace_call){good.calls.start_ns[i], good.calls.end_ns[i],
                                               good.calls.correlation[i], good.calls.thread[i],
                                               good.calls.name[i], 0, true},
                          &t->e),
                t);
        for (size_t i = 0; i < good.n_ranges; i++)
            assert_ok(sink.range(sink.self, &good.ranges[i], &t->e), t);
        struct trace_range backwards = good.ranges[0];
        backwards.end_ns = backwards.start_ns - 1;
        assert_ok(sink.range(sink.self, &backwards, &t->e), t);
        assert_ok((*f)->finish(&w, &t->e), t);
        trace_free(&good);

        assert_ok(trace_load(&x, to, NULL, &t->e), t);
        assert_int_equal(x.ops.n, 15);
        assert_int_equal(x.dict.impossible[TRACE_OP], 4);
        assert_int_equal(x.dict.impossible[TRACE_RANGE], 1);
        assert_int_equal(all_impossible(&x), 5);
        assert_string_equal(trace_impossible(t->a, &x.dict), "4 operations, 1 range");
        trace_free(&x);
        assert_string_equal(reports_of(t, to, false), reports);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(formats_agree),
        TEST(writers_can_be_stopped),
        TEST(windows_cut),
        TEST(a_killed_process_leaves_a_trace),
        TEST(folders_of_spools_are_one_trace),
        TEST(equal_pids_stay_apart),
        TEST(impossible_times_are_left_out_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
