/* How time is charged to ranges, on the decode loop of support/fake_spool.h and on ranges that
 * overlap in every way. */
#include "kernels/ranges.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "support/fake_spool.h"
#include "support/support.h"

struct loaded {
    struct trace t;
    struct kernels k;
};

static struct loaded *load(struct test *t, int64_t steps, const struct kernels_params *p)
{
    struct loaded *x = arena_one(t->a, struct loaded);
    const char *path = test_path(t, "t.spool");
    fake_spool_write(path, &(struct fake_spool){.steps = steps});
    assert_ok(trace_load(&x->t, path, NULL, &t->e), t);
    kernels_open(&x->k, &x->t, p);
    return x;
}

static void unload(struct loaded *x)
{
    kernels_close(&x->k);
    trace_free(&x->t);
}

/* The report as lines of cells joined by '|'. */
static const char *report(struct test *t, const struct kernels *k, const char *name)
{
    const struct kernels_report *r = kernels_reports;
    while (strcmp(r->name, name) != 0)
        r++;
    struct table *table = kernels_report_table(t->a, k, r);
    struct buf text = {0};
    for (int row = 1; row < table_rows(table); row++)
        for (int i = 0; i < table_columns(table); i++)
            buf_printf(&text, "%s%s", table_at(table, row, i),
                       i + 1 < table_columns(table) ? "|" : "\n");
    const char *out = arena_str(t->a, buf_str(&text));
    buf_free(&text);
    return out;
}

static void a_launch_counts_for_the_ranges_open_around_it(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, 10, NULL);
    /* 5 us: step, prefill; 15: the same; 35: step, prefill and overlap; 55: step and overlap; 80:
     * step alone */
    static const char *const flash = "void flash::fwd_kernel<128>(float*)";
    static const char *const add = "void at::native::elementwise_add<float>(float*, int)";
    static const char *const gemm = "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT";
    const struct {
        const char *range, *style, *kernel;
        int ns;
    } want[] = {
        {":overlap", "StartEnd", flash, 6000},     {":prefill", "PushPop", flash, 6000},
        {":prefill", "PushPop", gemm, 4000},       {":prefill", "PushPop", add, 2000},
        {"LLM:step bs=4", "PushPop", flash, 6000}, {"LLM:step bs=4", "PushPop", gemm, 4000},
        {"LLM:step bs=4", "PushPop", add, 2000},
    };
    struct buf text = {0};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        buf_printf(&text, "%s|%s|%d|101|10|10|%d|%d.0|%d.0|%d|%d|0.0|%s\n", want[i].range,
                   want[i].style, (int)getpid(), 10 * want[i].ns, want[i].ns, want[i].ns,
                   want[i].ns, want[i].ns, want[i].kernel);
    assert_string_equal(report(t, &x->k, "nvtx_kern_sum"), buf_str(&text));
    buf_free(&text);
    unload(x);
}

static void projections(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, 10, NULL);
    assert_string_equal(
        report(t, &x->k, "nvtx_gpu_proj_sum"),
        "LLM:step bs=4|PushPop|760000|900000|10|76000.0|76000.0|76000|76000|0.0|50|5.0|0.0|2.0\n"
        ":prefill|PushPop|360000|390000|10|36000.0|36000.0|36000|36000|0.0|30|3.0|1.0|0.0\n"
        ":overlap|StartEnd|210000|400000|10|21000.0|21000.0|21000|21000|0.0|20|2.0|1.0|0.0\n");
    assert_string_equal(report(t, &x->k, "cuda_gpu_mem_size_sum"),
                        "0.041|10|0.004|0.004|0.004|0.004|0.000|[CUDA memcpy Host-to-Device]\n"
                        "0.001|10|0.000|0.000|0.000|0.000|0.000|[CUDA memset]\n");
    unload(x);
}

/* A thread: what lies in [from, to) is range `name`; to < 0 = never closed. Launches of 1 ns at the
 * given times, a kernel of 1 ns each. */
struct span {
    const char *name;
    int64_t from_ns, to_ns;
};

static void make(struct test *t, struct loaded *x, const struct span *spans,
                 const int64_t *launches)
{
    trace_begin(&x->t);
    struct trace_sink sink = trace_sink_of(&x->t);
    uint32_t process = trace_process_of(&x->t.dict, 7, 0);
    uint32_t thread = trace_thread_of(&x->t.dict, process, 8);
    struct trace_sig sig = {.process = process, .name = trace_string(&x->t.dict, SV("k"))};
    for (const struct span *s = spans; s->name; s++)
        assert_ok(sink.range(sink.self,
                             &(struct trace_range){.start_ns = s->from_ns,
                                                   .end_ns = s->to_ns < 0 ? 1000 : s->to_ns,
                                                   .open = s->to_ns < 0,
                                                   .text = trace_string(&x->t.dict, sv_of(s->name)),
                                                   .thread = thread,
                                                   .end_thread = thread,
                                                   .style = TRACE_PUSH_POP},
                             &t->e),
                  t);
    for (uint32_t i = 0; launches[i]; i++) {
        struct trace_call c = {.start_ns = launches[i],
                               .end_ns = launches[i] + 1,
                               .correlation = i + 1,
                               .thread = thread,
                               .name = trace_string(&x->t.dict, SV("cudaLaunchKernel"))};
        struct trace_op o = {
            launches[i] + 2, launches[i] + 3, trace_sig_id(&x->t.dict, &sig), i + 1, 0, 0};
        assert_ok(sink.call(sink.self, &c, &t->e), t);
        assert_ok(sink.op(sink.self, &o, &t->e), t);
    }
    trace_finish(&x->t);
    kernels_open(&x->k, &x->t, NULL);
}

static const char *regions(struct test *t, const struct kernels *k) /* name|instances|ops */
{
    struct table *table = kernels_region_table(t->a, k);
    struct buf text = {0};
    for (int row = 1; row < table_rows(table); row++)
        buf_printf(&text, "%s|%s|%s\n", table_at(table, row, 0), table_at(table, row, 1),
                   table_at(table, row, 5));
    const char *out = arena_str(t->a, buf_str(&text));
    buf_free(&text);
    return out;
}

/* As NCCL's ncclCommInitRankConfig, which a recorder without the payload extension sees open for
 * ever: everything after it would be inside. */
static void a_range_that_was_never_closed_swallows_nothing(void **state)
{
    struct test *t = *state;
    struct loaded x;
    make(t, &x,
         (const struct span[]){{"run", 5, 900},
                               {"init", 10, -1},
                               {"step", 20, 40},
                               {"layer", 25, 30},
                               {"step", 50, 70},
                               {"other", 80, -1},
                               {0}},
         (const int64_t[]){12, 22, 26, 45, 52, 85, 950, 0});
    assert_string_equal(regions(t, &x.k), ":run|1|6\n"
                                          "· :init (never closed)|1|4\n"
                                          "· · :other (never closed)|1|2\n"
                                          "· :step|2|3\n"
                                          "· · :layer|1|1\n");
    struct buf text = {0};
    kernels_operators_markdown(&text, &x.k);
    assert_non_null(strstr(buf_str(&text), ":init (never closed)"));
    assert_null(strstr(buf_str(&text), ":step (never closed)"));
    buf_free(&text);
    kernels_regions_markdown(&text, &x.k, (const char *const[]){"init"}, 1);
    assert_non_null(strstr(buf_str(&text), "## :init (never closed)"));
    buf_free(&text);
    unload(&x);
}

/* What real `nsys stats` says of these (tests/nsys compares more of it): work outside of all ranges
 * comes first, without a thread where its call is not known; a range around itself counts a
 * kernel's time twice and the kernel once; a call longer than its range is outside. */
static void as_nsys_has_it(void **state)
{
    struct test *t = *state;
    struct loaded x;
    trace_begin(&x.t);
    struct trace_sink sink = trace_sink_of(&x.t);
    uint32_t process = trace_process_of(&x.t.dict, 7, 0);
    uint32_t thread = trace_thread_of(&x.t.dict, process, 8);
    struct trace_sig sig = {.process = process, .name = trace_string(&x.t.dict, SV("k"))};
    static const int64_t ranges[][2] = {{10, 110}, {20, 70}};
    static const int64_t work[][4] = {/* call, kernel */
                                      {30, 35, 40, 48},
                                      {105, 115, 120, 124},
                                      {200, 205, 202, 204},
                                      {0, 0, 300, 301}};
    for (size_t i = 0; i < 2; i++) {
        struct trace_range r = {.start_ns = ranges[i][0],
                                .end_ns = ranges[i][1],
                                .text = trace_string(&x.t.dict, SV("A")),
                                .thread = thread,
                                .end_thread = thread,
                                .style = TRACE_PUSH_POP};
        assert_ok(sink.range(sink.self, &r, &t->e), t);
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct trace_call c = {.start_ns = work[i][0],
                               .end_ns = work[i][1],
                               .correlation = i + 1,
                               .thread = thread,
                               .name = trace_string(&x.t.dict, SV("cudaLaunchKernel"))};
        struct trace_op o = {work[i][2], work[i][3], trace_sig_id(&x.t.dict, &sig), i + 1, 0, 0};
        if (c.end_ns)
            assert_ok(sink.call(sink.self, &c, &t->e), t);
        assert_ok(sink.op(sink.self, &o, &t->e), t);
    }
    trace_finish(&x.t);
    kernels_open(&x.k, &x.t, NULL);
    assert_string_equal(report(t, &x.k, "nvtx_kern_sum"),
                        "||||0|1|1|1.0|1.0|1|1|0.0|k\n"
                        "||7|8|0|2|6|3.0|3.0|2|4|1.4|k\n"
                        ":A|PushPop|7|8|2|1|16|8.0|8.0|8|8|0.0|k\n");
    assert_string_equal(report(t, &x.k, "cuda_kern_exec_sum"),
                        "7|8|0|3|2|14.0|18.0|5|19|7.8|6.7|5.0|5|10|2.9|5.0|5.0|5|5|0.0|4.7|4.0|2|8|"
                        "3.1|cudaLaunchKernel|k\n");
    unload(&x);
}

static void inclusive_and_exclusive(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, 1, NULL);
    const struct range_sum *s = kernels_range_sums(&x->k, STYLES_NVTX);
    assert_int_equal(x->t.n_ranges, 3);
    /* by start: step, prefill, overlap */
    static const int64_t want[3][3] = {
        {14000, 1000, 5}, /* inclusive, exclusive, operations */
        {12000, 6000, 3},
        {7000, 7000, 2},
    };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s[i].inclusive_ns, want[i][0]);
        assert_int_equal(s[i].exclusive_ns, want[i][1]);
        assert_int_equal(s[i].n_ops, want[i][2]);
    }
    unload(x);
}

static void patterns_choose(void **state)
{
    struct test *t = *state;
    static const char *const include[] = {"*nvjet*", "fwd_kernel", "[CUDA*"};
    static const char *const exclude[] = {"*memset*"};
    struct kernels_params p = {include, exclude, 3, 1};
    struct loaded *x = load(t, 2, &p);
    assert_int_equal(x->t.ops.n, 6);
    unload(x);
    assert_true(kernels_match("a*b?c", "axxbyc"));
    assert_false(kernels_match("a*b?c", "axxbc"));
    assert_true(kernels_match("*", ""));
    assert_false(kernels_match("", "x"));
    assert_true(kernels_match("**a", "aaa"));
}

static void gaps_are_charged_to_who_was_late(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, 1, NULL);
    struct kernels_timeline l = kernels_timeline_of(t->a, &x->k);
    assert_int_equal(l.n_devices, 1);
    const struct kernels_device *d = &l.devices[0];
    assert_int_equal(d->busy_ns, 14000);
    assert_int_equal(d->last_ns - d->first_ns, 76000);
    assert_int_equal(d->gaps, 4);
    assert_int_equal(d->idle_launch_ns, 4 * 2000);
    assert_int_equal(d->idle_queue_ns, 4 * 3000);
    assert_int_equal(d->idle_host_ns, 76000 - 14000 - 20000);
    assert_int_equal(d->idle_unknown_ns, 0);
    assert_int_equal(l.queue.n, 5);
    assert_near(l.queue.mean, 3000, 0);
    assert_near(l.launch_call.mean, 2000, 0);
    assert_int_equal(l.launch_gap.n, 4);
    assert_int_equal(l.launch_gap.sum, 75000 - 8000);
    unload(x);
}

static void iterations_give_host_time(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, 11, NULL);
    struct kernels_step_params p = {.pattern = "step*", .model = "m", .tensor_parallel = 1};
    struct table *s = kernels_step_table(t->a, &x->k, &p);
    assert_int_equal(table_rows(s), 2); /* one batch size: the 4 of the name */
    static const struct {
        int column;
        const char *name, *value;
    } want[] = {{0, "schedule_mean", "0.010000"},
                {4, "prepare_inputs_e2e_mean", "0.072000"},
                {6, "model_execution_e2e_mean", "0.014000"},
                {9, "process_model_outputs_median", "0.004000"},
                {12, "batch_size", "4"},
                {17, "iteration_host_median", "0.086000"},
                {19, "iteration_host_n", "10"},
                {25, "prefill_iteration_host_n", "0"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_string_equal(table_at(s, 0, want[i].column), want[i].name);
        assert_string_equal(table_at(s, 1, want[i].column), want[i].value);
    }
    unload(x);
}

static void changes_are_told(void **state)
{
    struct test *t = *state;
    struct loaded *before = load(t, 2, NULL);
    struct loaded after;
    static const char *const exclude[] = {"*nvjet*"};
    const char *path = test_path(t, "u.spool");
    fake_spool_write(path, &(struct fake_spool){.steps = 3});
    assert_ok(trace_load(&after.t, path, NULL, &t->e), t);
    kernels_open(&after.k, &after.t, &(struct kernels_params){NULL, exclude, 0, 1});
    struct table *d = kernels_diff_table(t->a, &before->k, &after.k);
    assert_int_equal(table_rows(d), 7);
    assert_string_equal(table_at(d, 1, 2), "0.028000");
    assert_string_equal(table_at(d, 1, 3), "0.030000");
    assert_string_equal(table_at(d, 2, 0), "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT");
    assert_string_equal(table_at(d, 2, 1), "gone");
    assert_string_equal(table_at(d, 2, 5), "-100.0");
    assert_string_equal(table_at(d, 3, 0), "void flash::fwd_kernel<128>(float*)");
    assert_string_equal(table_at(d, 3, 5), "50.0");
    kernels_close(&after.k);
    trace_free(&after.t);
    unload(before);
}

/* Ranges of any kind on one thread, against a look at all of them for each launch. */
static void any_overlap_equals_a_plain_search(void **state)
{
    struct test *t = *state;
    enum { RANGES = 60, OPS = 400, SPAN = 300 };
    srandom(7);
    for (int round = 0; round < 40; round++) {
        struct trace x;
        struct kernels k;
        trace_begin(&x);
        struct trace_sink sink = trace_sink_of(&x);
        uint32_t p = trace_process_of(&x.dict, 1, 0), thread[2];
        thread[0] = trace_thread_of(&x.dict, p, 1);
        thread[1] = trace_thread_of(&x.dict, p, 2);
        for (int i = 0; i < RANGES; i++) {
            char name[16];
            snprintf(name, sizeof name, "r%ld", random() % 9);
            int64_t start = random() % SPAN;
            struct trace_range r = {.start_ns = start,
                                    .end_ns = start + random() % 60,
                                    .text = trace_string(&x.dict, sv_of(name)),
                                    .thread = thread[random() % 2],
                                    .style = (uint8_t)(random() % TRACE_STYLES)};
            assert_ok(sink.range(sink.self, &r, &t->e), t);
        }
        struct trace_sig sig = {.process = p};
        for (uint32_t i = 0; i < OPS; i++) {
            int64_t at = random() % SPAN, run = 1 + random() % 9;
            struct trace_call c = {.start_ns = at,
                                   .end_ns = at + 1 + random() % 20,
                                   .correlation = i + 1,
                                   .thread = thread[random() % 2]};
            struct trace_op o = {at + 25, at + 25 + run, trace_sig_id(&x.dict, &sig), i + 1, 0, 0};
            assert_ok(sink.call(sink.self, &c, &t->e), t);
            assert_ok(sink.op(sink.self, &o, &t->e), t);
        }
        trace_finish(&x);
        kernels_open(&k, &x, NULL);
        const struct range_sum *s = kernels_range_sums(&k, STYLES_NVTX);
        int64_t *inclusive = arena_array(t->a, int64_t, RANGES);
        int64_t *exclusive = arena_array(t->a, int64_t, RANGES);
        for (size_t i = 0; i < OPS; i++) {
            uint32_t call = x.ops.call[i];
            int64_t run = x.ops.end_ns[i] - x.ops.start_ns[i];
            int innermost = -1;
            for (int r = 0; r < RANGES; r++) { /* sorted: the last that holds it is innermost */
                const struct trace_range *g = &x.ranges[r];
                if (g->thread != x.calls.thread[call] || g->start_ns > x.calls.start_ns[call] ||
                    g->end_ns < x.calls.end_ns[call] || !kernels_has_style(STYLES_NVTX, g->style))
                    continue;
                inclusive[r] += run;
                innermost = r;
            }
            if (innermost >= 0)
                exclusive[innermost] += run;
        }
        for (int r = 0; r < RANGES; r++) {
            assert_int_equal(s[r].inclusive_ns, inclusive[r]);
            assert_int_equal(s[r].exclusive_ns, exclusive[r]);
        }
        kernels_close(&k);
        trace_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_launch_counts_for_the_ranges_open_around_it),
        TEST(a_range_that_was_never_closed_swallows_nothing),
        TEST(projections),
        TEST(as_nsys_has_it),
        TEST(inclusive_and_exclusive),
        TEST(patterns_choose),
        TEST(gaps_are_charged_to_who_was_late),
        TEST(iterations_give_host_time),
        TEST(changes_are_told),
        TEST(any_overlap_equals_a_plain_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
