#include "trace/trace.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "support/support.h"
#include "text/gz.h"
#include "text/json.h"

static const char small[] =
    "{\"schemaVersion\": 1,\n"
    " \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H200\", \"numSms\": 132,\n"
    "   \"computeMajor\": 9, \"totalGlobalMem\": 150109880320}],\n"
    " \"distributedInfo\": {\"rank\": 3},\n"
    " \"traceEvents\": [\n"
    "  {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 7, \"tid\": 8,\n"
    "   \"ts\": 1790857026000001.5, \"dur\": 20, \"args\": {\"Input Dims\": [[4, 8], [8, 2]],\n"
    "   \"Input type\": [\"float\", \"float\"], \"Concrete Inputs\": [\"]}\\\"\"]}},\n"
    "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 7,\n"
    "   \"tid\": 8, \"ts\": 1790857026000005.25, \"dur\": 3.0005, \"args\": {\"correlation\": "
    "9}},\n"
    "  {\"args\": {\"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": 9,\n"
    "   \"registers per thread\": 40, \"shared memory\": 1024, \"grid\": [4, 2, 1],\n"
    "   \"block\": [128, 1, 1]}, \"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
    "\"k\\u003cint\\u003e(a\\\"b)\",\n"
    "   \"pid\": 0, \"tid\": 7, \"ts\": 1790857026000010.832, \"dur\": 2.016},\n"
    "  {\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD (Pageable -> Device)\",\n"
    "   \"pid\": 0, \"tid\": 7, \"ts\": 1.79e15, \"dur\": 1, \"args\": {\"device\": 0, \"stream\": "
    "7,\n"
    "   \"bytes\": 8}},\n"
    "  {\"ph\": \"s\", \"id\": 9, \"pid\": 7, \"tid\": 8, \"ts\": 1, \"cat\": \"ac2g\", \"name\": "
    "\"ac2g\"},\n"
    "  {\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"f\", \"pid\": 7, \"tid\": 8, "
    "\"ts\": 1,\n"
    "   \"dur\": 1},\n"
    "  {\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 7, \"tid\": 0, \"ts\": 0,\n"
    "   \"args\": {\"name\": \"python3\"}}\n"
    " ], \"traceName\": \"t\"}\n";

static void check_small(const struct trace *t)
{
    const struct trace_dict *d = &t->dict;
    assert_string_equal(t->format, "kineto");
    assert_int_equal(t->ops.n, 2);
    assert_int_equal(t->calls.n, 1);
    assert_int_equal(t->n_ranges, 1);
    assert_int_equal(d->skipped, 1);
    /* by time: the copy first; its ts has an exponent */
    assert_int_equal(t->ops.start_ns[0], INT64_C(1790000000000000000));
    const struct trace_sig *copy = &d->sigs[t->ops.sig[0]], *kernel = &d->sigs[t->ops.sig[1]];
    assert_int_equal(copy->kind, TRACE_COPY);
    assert_int_equal(copy->copy_kind, 1);
    assert_int_equal(copy->source_kind, 1);
    assert_int_equal(copy->target_kind, 3);
    assert_int_equal(copy->bytes, 8);
    assert_int_equal(t->ops.call[0], TRACE_NONE);
    /* beyond what a double holds */
    assert_int_equal(t->ops.start_ns[1], INT64_C(1790857026000010832));
    assert_int_equal(t->ops.end_ns[1], INT64_C(1790857026000012848));
    assert_string_equal(trace_text(d, kernel->name), "k<int>(a\"b)");
    assert_int_equal(kernel->grid[0], 4);
    assert_int_equal(kernel->grid[1], 2);
    assert_int_equal(kernel->block[0], 128);
    assert_int_equal(kernel->registers, 40);
    assert_int_equal(kernel->dynamic_shared, 1024);
    assert_int_equal(t->ops.call[1], 0);
    assert_int_equal(t->calls.start_ns[0], INT64_C(1790857026000005250));
    assert_int_equal(t->calls.end_ns[0] - t->calls.start_ns[0], 3001); /* 3.0005 us, rounded */
    assert_string_equal(trace_text(d, t->calls.name[0]), "cudaLaunchKernel");
    const struct trace_range *r = &t->ranges[0];
    assert_int_equal(r->style, TRACE_OPERATOR);
    assert_string_equal(trace_text(d, r->text), "aten::mm");
    assert_string_equal(trace_text(d, r->shapes), "[[4, 8], [8, 2]]");
    assert_string_equal(trace_text(d, r->types), "[\"float\", \"float\"]");
    assert_int_equal(d->threads[r->thread].tid, 8);
    const struct trace_process *p = &d->processes[d->threads[r->thread].process];
    assert_int_equal(p->pid, 7);
    assert_int_equal(p->rank, 3);
    assert_string_equal(trace_text(d, p->name), "python3");
    assert_int_equal(kernel->process, d->threads[r->thread].process);
    assert_int_equal(d->n_devices, 1);
    assert_int_equal(d->devices[0].sms, 132);
    assert_string_equal(trace_text(d, d->devices[0].name), "NVIDIA H200");
}

static void load_small(struct test *t, struct sv bytes)
{
    struct trace x;
    assert_ok(trace_load(&x, test_write_bytes(t, "t.json", bytes), NULL, &t->e), t);
    check_small(&x);
    trace_free(&x);
}

static void a_small_trace_plain_and_packed(void **state)
{
    struct test *t = *state;
    char packed[8192];
    load_small(t, (struct sv){small, sizeof small - 1});
    load_small(
        t, (struct sv){packed, ZSTD_compress(packed, sizeof packed, small, sizeof small - 1, 3)});
    const char *path = test_path(t, "t.gz");
    gzFile f = gzopen(test_write(t, "t.gz", ""), "wb");
    assert_int_equal(gzwrite(f, small, sizeof small - 1), sizeof small - 1);
    assert_int_equal(gzclose(f), Z_OK);
    struct trace x;
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    check_small(&x);
    trace_free(&x);
}

static void bad(struct test *t, const char *text, const char *why)
{
    struct trace x;
    const char *path = test_write(t, "bad.json", text);
    err_clear(&t->e);
    assert_err(trace_load(&x, path, NULL, &t->e), ST_INPUT, t,
               arena_printf(t->a, "cannot read the trace DIR/bad.json\n%s", why));
}

static void faults_name_their_place(void **state)
{
    struct test *t = *state;
    bad(t, "{\"a\": 1}", "DIR/bad.json: has no traceEvents");
    bad(t, "{\"traceEvents\": []} x", "DIR/bad.json:1:21: expected nothing more");
    bad(t, "{\"traceEvents\": [], \"traceEvents\": []}",
        "DIR/bad.json:1:21: traceEvents stands here twice");
    bad(t, "{\"schemaVersion\": 1, ", "DIR/bad.json:1:22: the text ends inside the trace");
    bad(t, "PK",
        "DIR/bad.json: is no trace of a known format\n"
        "hint: read are our spool, Nsight Systems' SQLite export (nsys export --type "
        "sqlite) and PyTorch's JSON");
}

/* One odd event of a file of gigabytes is no reason to refuse the others. */
static void odd_events_cost_themselves(void **state)
{
    static const struct {
        const char *event;
        size_t operations, impossible, skipped;
    } rows[] = {
        {"\"ts\": 1, \"dur\": null", 1, 1, 0},
        {"\"ts\": 1", 1, 1, 0},
        {"\"ts\": 1, \"dur\": 1, \"args\": {\"correlation\": 5.0}", 2, 0, 0},
        {"\"ts\": null, \"dur\": 1", 1, 0, 1},
        {"\"ts\": NaN, \"dur\": 1", 1, 0, 1},
        {"\"ts\": 1, \"dur\": -Infinity", 1, 1, 0},
        {"\"ts\": 1, \"dur\": -0.001", 1, 1, 0},
        {"\"ts\": 1, \"dur\": 1, \"args\": null", 2, 0, 0},
        {"\"ts\": 1, \"dur\": 1, \"tid\": null, \"id\": null", 2, 0, 0},
        {"\"ts\": 1, \"dur\": 1, \"args\": {\"grid\": [ ], \"block\": null}", 2, 0, 0},
        {"\"ts\": 1, \"dur\": 1, \"args\": {\"device\": null, \"bytes\": NaN}", 2, 0, 0},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trace x;
        const char *text = arena_printf(
            t->a,
            "[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", %s},\n{\"ph\": \"B\", \"ts\": "
            "2, "
            "\"name\": \"x\"},{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 3, "
            "\"dur\": 2}]",
            rows[i].event);
        assert_ok(trace_load(&x, test_write(t, "odd.json", text), NULL, &t->e), t);
        assert_int_equal(x.ops.n, rows[i].operations);
        assert_int_equal(x.dict.impossible[TRACE_OP], rows[i].impossible);
        assert_int_equal(x.dict.skipped, rows[i].skipped + 1); /* the begin too */
        trace_free(&x);
    }
    struct trace x; /* names of processes need no time */
    const char *text =
        "[{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"f\", \"pid\": 4, "
        "\"ts\": 3, \"dur\": 2},{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": "
        "4, \"args\": {\"name\": \"serve\"}}]";
    assert_ok(trace_load(&x, test_write(t, "odd.json", text), NULL, &t->e), t);
    assert_int_equal(x.dict.skipped, 0);
    assert_string_equal(trace_text(&x.dict, x.dict.processes[0].name), "serve");
    trace_free(&x);
}

static void a_cut_file_is_told(void **state)
{
    struct test *t = *state;
    char packed[8192];
    struct trace x;
    size_t n = ZSTD_compress(packed, sizeof packed, small, sizeof small - 1, 3);
    const char *path = test_write_bytes(t, "cut", (struct sv){packed, n - 9});
    assert_err(trace_load(&x, path, NULL, &t->e), ST_INPUT, t,
               "cannot read the trace DIR/cut\nDIR/cut: the zstd stream is cut short");
}

/* Longer than a piece, so that events are cut: names count them. */
static void pieces_join(void **state)
{
    struct test *t = *state;
    enum { N = 20000 };
    struct buf text = {0};
    struct trace x;
    buf_puts(&text, "[");
    for (int i = 0; i < N; i++)
        buf_printf(&text,
                   "%s{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%0*d\",\"ts\":%d,\"dur\":1,"
                   "\"args\":{\"stream\":7,\"grid\":[1,1,1]}}\n",
                   i ? "," : "", 1 + i % 150, i % 7, i);
    buf_puts(&text, "]");
    const char *path = test_write_bytes(t, "long.json", (struct sv){text.p, text.n});
    assert_true(text.n > 3 << 20);
    buf_free(&text);
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    assert_int_equal(x.ops.n, N);
    for (int i = 0; i < N; i++) {
        const struct trace_sig *s = &x.dict.sigs[x.ops.sig[i]];
        assert_int_equal(x.ops.start_ns[i], 1000 * i);
        assert_int_equal(strlen(trace_text(&x.dict, s->name)), 1 + i % 150);
    }
    trace_free(&x);
    assert_ok(trace_load(&x, path, &(struct trace_window){5000, 9000}, &t->e), t);
    assert_int_equal(x.ops.n, 4);
    assert_int_equal(x.ops.start_ns[0], 5000);
    trace_free(&x);
}

/* The trace of BLOOM-560M on an H200, against a count over the JSON tree. */
static void the_bloom_trace(void **state)
{
    struct test *t = *state;
    const char *path = test_data(t, "kineto/bloom_kineto.json.gz");
    struct sv text;
    struct node *root;
    struct trace x;
    assert_ok(gz_read(t->a, path, 64 << 20, &text, &t->e), t);
    assert_ok(json_parse(t->a, path, text, NULL, &root, &t->e), t);
    const struct node *events = node_find(root, "traceEvents");
    int64_t kernels = 0, memory = 0, calls = 0, operators = 0;
    double total_us = 0;
    for (uint32_t i = 0; i < events->n; i++) {
        const struct node *cat = node_find(events->items[i], "cat");
        const struct node *ph = node_find(events->items[i], "ph");
        if (!cat || !sv_eq(ph->s, "X"))
            continue;
        if (sv_eq(cat->s, "kernel")) {
            double us;
            assert_ok(node_get_double(events->items[i], "dur", 0, 1e9, &us, &t->e), t);
            total_us += us;
            kernels++;
        }
        memory += sv_eq(cat->s, "gpu_memcpy") || sv_eq(cat->s, "gpu_memset");
        calls += sv_eq(cat->s, "cuda_runtime") || sv_eq(cat->s, "cuda_driver");
        operators += sv_eq(cat->s, "cpu_op");
    }
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    assert_int_equal(x.ops.n, kernels + memory);
    assert_int_equal(x.calls.n, calls);
    assert_int_equal(x.n_ranges, operators);
    int64_t total_ns = 0, joined = 0;
    for (size_t i = 0; i < x.ops.n; i++) {
        joined += x.ops.call[i] != TRACE_NONE;
        if (x.dict.sigs[x.ops.sig[i]].kind == TRACE_KERNEL)
            total_ns += x.ops.end_ns[i] - x.ops.start_ns[i];
    }
    assert_int_equal(joined, x.ops.n);
    assert_near((double)total_ns, total_us * 1000, 0.5);
    trace_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_small_trace_plain_and_packed),
        TEST(faults_name_their_place),
        TEST(odd_events_cost_themselves),
        TEST(a_cut_file_is_told),
        TEST(pieces_join),
        TEST(the_bloom_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
