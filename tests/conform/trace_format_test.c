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
        assert_ok(trace_convert(from, *f, to, NULL, &t->e), t);
        assert_int_equal(stat(to, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
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
               "cannot read the trace DIR/d\nDIR/d: no trace in this folder");
    fake_spool_write(test_path(t, "d/h-1.spool"), &(struct fake_spool){.steps = 2});
    fake_spool_write(test_path(t, "d/h-2.spool"), &(struct fake_spool){.steps = 3});
    err_clear(&t->e);
    assert_ok(trace_load(&x, dir, NULL, &t->e), t);
    assert_int_equal(x.ops.n, 25);
    trace_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(formats_agree),
        TEST(writers_can_be_stopped),
        TEST(windows_cut),
        TEST(a_killed_process_leaves_a_trace),
        TEST(folders_of_spools_are_one_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
