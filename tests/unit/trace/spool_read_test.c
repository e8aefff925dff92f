/* The spool reader on files made block by block: what each record becomes, and what is refused. */
#include "trace/spool.h"

#include "base/log.h"
#include "gpu/abi/cupti.h"
#include "support/support.h"
#include "trace/formats.h"

enum { AT = 1000000 }; /* ns: where the times of the records below begin */

/* ---- a file, block by block ---- */

struct file {
    struct buf bytes;
    uint32_t sequence;
};

static struct spool_header header(void)
{
    struct spool_header h = {.version = SPOOL_VERSION,
                             .header_bytes = sizeof h,
                             .pid = 77,
                             .start_ns = 1000,
                             .start_wall_ns = 5000,
                             .host_id = 0xabc};
    memcpy(h.magic, SPOOL_MAGIC, sizeof h.magic);
    return h;
}

static struct file file_of(struct spool_header h)
{
    struct file f = {0};
    buf_add(&f.bytes, (const char *)&h, sizeof h);
    return f;
}

/* `count` records of `record_bytes` as the block claims; the payload may hold fewer. */
static void add_block(struct file *f, uint16_t kind, uint16_t record_bytes, uint32_t count,
                      const void *payload, size_t bytes)
{
    static const char zeros[8];
    char padded[4096] = {0};
    assert_true(bytes + sizeof zeros <= sizeof padded);
    memcpy(padded, payload, bytes);
    struct spool_block b = {.magic = SPOOL_BLOCK_MAGIC,
                            .kind = kind,
                            .record_bytes = record_bytes,
                            .count = count,
                            .bytes = (uint32_t)((bytes + 7) / 8 * 8),
                            .sequence = f->sequence++};
    b.checksum = trace_spool_checksum(0, &b, offsetof(struct spool_block, checksum));
    b.checksum = trace_spool_checksum(b.checksum, padded, b.bytes);
    buf_add(&f->bytes, (const char *)&b, sizeof b);
    buf_add(&f->bytes, padded, b.bytes);
}

#define ADD(f, kind, ...) \
    add_block(f, kind, sizeof(__VA_ARGS__), 1, &(__VA_ARGS__), sizeof(__VA_ARGS__))

static void add_string(struct file *f, uint32_t id, const char *text)
{
    char payload[256];
    struct spool_string s = {id, (uint32_t)strlen(text)};
    memcpy(payload, &s, sizeof s);
    memcpy(payload + sizeof s, text, s.bytes);
    add_block(f, SPOOL_STRINGS, 0, 1, payload, sizeof s + s.bytes);
}

static const char *finish(struct test *t, const char *name, struct file *f)
{
    const char *path = test_write_bytes(t, name, (struct sv){f->bytes.p, f->bytes.n});
    buf_free(&f->bytes);
    return path;
}

/* ---- reading ---- */

static enum st load(struct test *t, struct trace *x, struct file *f)
{
    return trace_load(x, finish(t, "a.spool", f), NULL, &t->e);
}

static const char *note(const struct trace *x, uint32_t level)
{
    for (uint32_t i = 0; i < x->dict.n_notes; i++)
        if (x->dict.notes[i].level == level)
            return x->dict.notes[i].text;
    return "";
}

static const char *op_name(const struct trace *x, size_t i)
{
    return trace_text(&x->dict, x->dict.sigs[x->ops.sig[i]].name);
}

static void every_kind_of_record_is_read(void **state)
{
    struct test *t = *state;
    struct file f = file_of(header());
    struct trace x;
    add_string(&f, 1, "python3 a.py");
    add_string(&f, 2, "worker");
    add_string(&f, 3, "gemm");
    add_string(&f, 4, "node7");
    add_string(&f, 5, "step");
    add_string(&f, 6, "cudaMalloc");
    ADD(&f, SPOOL_PROCESS,
        (struct spool_process){
            .command = 1, .host = 4, .rank = 3, .driver_version = 13000, .cupti_version = 130001});
    ADD(&f, SPOOL_THREADS, (struct spool_thread){.id = 1, .tid = 900, .name = 2});
    ADD(&f, SPOOL_DEVICES, (struct spool_device){.device = 0, .uuid = {9}, .sms = 132});
    ADD(&f, SPOOL_SHAPES,
        (struct spool_shape){.id = 1, .name = 3, .stream = 7, .grid = {8, 2, 1}, .registers = 40});
    ADD(&f, SPOOL_KERNELS, (struct spool_kernel){AT, AT + 10, 1, 21, 5});
    ADD(&f, SPOOL_COPIES,
        (struct spool_copy){.start_ns = AT + 20,
                            .end_ns = AT + 30,
                            .bytes = 4096,
                            .correlation = 22,
                            .copy_kind = 2,
                            .source_kind = 3,
                            .target_kind = 2});
    ADD(&f, SPOOL_SETS,
        (struct spool_set){.start_ns = AT + 40, .end_ns = AT + 45, .bytes = 64, .memory_kind = 3});
    ADD(&f, SPOOL_GRAPHS, (struct spool_graph){.start_ns = AT + 50, .end_ns = AT + 90, .graph = 4});
    ADD(&f, SPOOL_SYNCS,
        (struct spool_sync){.start_ns = AT + 60, .end_ns = AT + 95, .stream = 7, .kind = 3});
    ADD(&f, SPOOL_RANGES,
        (struct spool_range){.start_ns = AT,
                             .end_ns = AT + 99,
                             .id = 1,
                             .text = 5,
                             .thread = 1,
                             .end_thread = 1,
                             .kind = SPOOL_PUSH_POP});
    ADD(&f, SPOOL_RANGES,
        (struct spool_range){.start_ns = AT, .end_ns = AT, .id = 2, .text = 5, .kind = SPOOL_MARK});
    ADD(&f, SPOOL_APIS,
        (struct spool_api){.start_ns = AT - 5,
                           .end_ns = AT - 1,
                           .correlation = 21,
                           .thread = 1,
                           .domain = 2,
                           .name = 6});
    ADD(&f, SPOOL_DROPS, (struct spool_drop){.count = 12, .source = SPOOL_FROM_CUPTI});
    ADD(&f, SPOOL_END, (struct spool_end){0});
    assert_ok(load(t, &x, &f), t);

    assert_false(x.dict.incomplete);
    assert_false(x.dict.launches_only);
    assert_int_equal(x.dict.dropped, 12);
    assert_int_equal(x.dict.n_notes, 0);
    assert_int_equal(x.dict.processes[0].pid, 77);
    assert_int_equal(x.dict.processes[0].rank, 3);
    assert_string_equal(trace_text(&x.dict, x.dict.processes[0].name), "python3 a.py");
    assert_string_equal(trace_fact_words(t->a, &x.dict, TRACE_HOST), "node7");
    assert_string_equal(trace_fact_words(t->a, &x.dict, TRACE_CUDA_DRIVER), "13.0");
    assert_int_equal(x.dict.devices[0].sms, 132);

    assert_int_equal(x.ops.n, 4);
    assert_string_equal(op_name(&x, 0), "gemm");
    assert_int_equal(x.dict.sigs[x.ops.sig[0]].grid[0], 8);
    assert_int_equal(x.ops.graph_node[0], 5);
    assert_string_equal(op_name(&x, 1), "Memcpy DtoH (Device -> Pinned)");
    assert_int_equal(x.dict.sigs[x.ops.sig[1]].bytes, 4096);
    assert_string_equal(op_name(&x, 2), "Memset (Device)");
    assert_int_equal(x.dict.sigs[x.ops.sig[3]].kind, TRACE_GRAPH);
    assert_int_equal(x.calls.n, 1);
    assert_int_equal(x.ops.call[0], 0);
    assert_int_equal(x.ops.call[1], TRACE_NONE);
    assert_string_equal(trace_text(&x.dict, x.calls.name[0]), "cudaMalloc");
    assert_int_equal(x.dict.threads[x.calls.thread[0]].tid, 900);
    assert_int_equal(x.n_syncs, 1);
    assert_int_equal(x.syncs[0].kind, 3);
    assert_int_equal(x.n_ranges, 1); /* a mark is no range */
    assert_string_equal(trace_text(&x.dict, x.ranges[0].text), "step");
    assert_int_equal(x.start_ns, AT - 5);
    assert_int_equal(x.end_ns, AT + 99);
    trace_free(&x);
}

static void files_that_are_no_spool_are_refused(void **state)
{
    struct test *t = *state;
    const struct trace_sink none = {0};
    struct trace_dict d;
    trace_dict_init(&d);
    const char *path = test_write(t, "text.spool",
                                  "a text of another kind, longer than a header "
                                  "of a spool, which is 64 bytes");
    assert_err(trace_spool.read(path, &d, &none, &t->e), ST_INPUT, t,
               "DIR/text.spool: is no spool");
    err_clear(&t->e);
    path = test_write(t, "short.spool", SPOOL_MAGIC);
    assert_err(trace_spool.read(path, &d, &none, &t->e), ST_INPUT, t,
               "DIR/short.spool: is no spool");
    err_clear(&t->e);
    assert_err(trace_spool.read(test_path(t, "none.spool"), &d, &none, &t->e), ST_INPUT, t,
               "cannot open DIR/none.spool: No such file or directory");
    trace_dict_free(&d);
}

static void versions_and_headers_that_do_not_fit_are_refused(void **state)
{
    struct test *t = *state;
    struct trace x;
    struct spool_header h = header();
    h.version = 9;
    struct file f = file_of(h);
    assert_err(load(t, &x, &f), ST_INPUT, t,
               "cannot read the trace DIR/a.spool\n"
               "DIR/a.spool: spool of version 9; this program reads version 1");
    const uint32_t bytes[] = {0, sizeof h - 1, 4097};
    for (size_t i = 0; i < 3; i++) {
        h = header();
        h.header_bytes = bytes[i];
        f = file_of(h);
        err_clear(&t->e);
        assert_err(load(t, &x, &f), ST_INPUT, t,
                   "cannot read the trace DIR/a.spool\n"
                   "DIR/a.spool: spool of version 1; this program reads version 1");
    }
}

static void blocks_whose_records_do_not_fit_are_refused(void **state)
{
    static const struct {
        uint16_t kind, record_bytes;
        uint32_t count;
        const char *cause;
    } bad[] = {
        {SPOOL_KERNELS, 32, 2, "its records do not fit it"},
        {SPOOL_KERNELS, 0, 1, "its records do not fit it"},
        {SPOOL_LAUNCHES, 24, UINT32_MAX, "its records do not fit it"},
        {SPOOL_STRINGS, 0, 2, "its strings do not fit it"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct file f = file_of(header());
        struct trace x;
        char payload[32] = {0};
        uint32_t longer_than_its_block[2] = {1, 100};
        if (bad[i].kind == SPOOL_STRINGS)
            memcpy(payload, longer_than_its_block, sizeof longer_than_its_block);
        ADD(&f, SPOOL_THREADS, (struct spool_thread){.id = 1});
        add_block(&f, bad[i].kind, bad[i].record_bytes, bad[i].count, payload, sizeof payload);
        err_clear(&t->e);
        assert_err(load(t, &x, &f), ST_INPUT, t,
                   arena_printf(t->a, "cannot read the trace DIR/a.spool\nDIR/a.spool: block 1: %s",
                                bad[i].cause));
    }
}

static void more_strings_than_a_block_holds_are_refused(void **state)
{
    struct test *t = *state;
    struct file f = file_of(header());
    struct trace x;
    add_block(&f, SPOOL_STRINGS, 0, 2, &(struct spool_string){1, 0}, sizeof(struct spool_string));
    assert_err(load(t, &x, &f), ST_INPUT, t,
               "cannot read the trace DIR/a.spool\n"
               "DIR/a.spool: block 0: its strings do not fit it");
}

static void records_of_other_sizes_are_read(void **state)
{
    struct test *t = *state;
    struct file f = file_of(header());
    struct trace x;
    struct {
        struct spool_kernel known;
        uint64_t of_a_later_version[2];
    } longer = {{AT, AT + 1, 1, 2, 0}, {UINT64_MAX, UINT64_MAX}};
    struct spool_kernel whole = {AT + 2, AT + 3, 1, 3, 77};
    ADD(&f, SPOOL_SHAPES, (struct spool_shape){.id = 1});
    add_block(&f, SPOOL_KERNELS, sizeof longer, 1, &longer, sizeof longer);
    add_block(&f, SPOOL_KERNELS, 24, 1, &whole, 24); /* of a version without graph_node */
    add_block(&f, SPOOL_KERNELS, 44, 1, &longer, 44);
    add_block(&f, 200, 8, 1, "whatever", 8); /* a kind of a later version */
    ADD(&f, SPOOL_END, (struct spool_end){0});
    assert_ok(load(t, &x, &f), t);
    assert_int_equal(x.ops.n, 3);
    assert_int_equal(x.ops.correlation[2], 3);
    assert_null(x.ops.graph_node);
    assert_int_equal(x.dict.n_notes, 0);
    trace_free(&x);
}

static void records_that_refer_to_nothing_are_counted(void **state)
{
    struct test *t = *state;
    struct file f = file_of(header());
    struct trace x;
    ADD(&f, SPOOL_SHAPES, (struct spool_shape){.id = 1, .name = 5}); /* no string 5 */
    ADD(&f, SPOOL_KERNELS, (struct spool_kernel){AT, AT + 1, 1, 0, 0});
    ADD(&f, SPOOL_KERNELS, (struct spool_kernel){AT, AT + 1, 2, 0, 0}); /* no shape 2 */
    ADD(&f, SPOOL_SHAPES, (struct spool_shape){.id = UINT32_MAX});      /* absurd ids */
    ADD(&f, SPOOL_SHAPES, (struct spool_shape){.id = 1 << 20});         /* far ahead */
    ADD(&f, SPOOL_THREADS, (struct spool_thread){.id = 1 << 16});       /* too many */
    ADD(&f, SPOOL_DEVICES, (struct spool_device){.device = 5000});
    ADD(&f, SPOOL_LAUNCHES,
        (struct spool_launch){.start_ns = AT, .end_ns = AT + 1, .thread = 9, .cbid = 65000});
    ADD(&f, SPOOL_END, (struct spool_end){0});
    assert_ok(load(t, &x, &f), t);
    assert_int_equal(x.ops.n, 1);
    assert_string_equal(op_name(&x, 0), "");
    assert_int_equal(x.calls.n, 1);
    assert_int_equal(x.dict.threads[x.calls.thread[0]].tid, 0);
    assert_string_equal(trace_text(&x.dict, x.calls.name[0]), "driver function 65000");
    assert_string_equal(note(&x, LOG_WARN), "a.spool: 5 records without sense were left out");
    assert_true(x.dict.launches_only);
    trace_free(&x);
}

static void impossible_times_are_counted_by_kind(void **state)
{
    struct test *t = *state;
    struct file f = file_of(header());
    struct trace x;
    ADD(&f, SPOOL_SHAPES, (struct spool_shape){.id = 1});
    ADD(&f, SPOOL_KERNELS, (struct spool_kernel){AT, AT - 1, 1, 0, 0});
    ADD(&f, SPOOL_KERNELS, (struct spool_kernel){-1, AT, 1, 0, 0});
    ADD(&f, SPOOL_KERNELS, (struct spool_kernel){AT, INT64_MAX, 1, 0, 0});
    ADD(&f, SPOOL_SYNCS, (struct spool_sync){.start_ns = INT64_MIN, .end_ns = INT64_MAX});
    ADD(&f, SPOOL_END, (struct spool_end){0});
    assert_ok(load(t, &x, &f), t);
    assert_int_equal(x.ops.n + x.n_syncs, 0);
    assert_string_equal(trace_impossible(t->a, &x.dict), "3 operations, 1 wait");
    trace_free(&x);
}

static void ranges_that_stay_open_end_with_the_recording(void **state)
{
    struct test *t = *state;
    struct spool_header h = header();
    h.flushed_ns = AT;
    h.alive_ns = AT + 1500000000;
    struct file f = file_of(h);
    struct trace x;
    struct spool_range open = {.start_ns = AT, .end_ns = SPOOL_OPEN_NS, .kind = SPOOL_PUSH_POP};
    struct spool_range ends = {
        .start_ns = AT + 5, .end_ns = SPOOL_OPEN_NS, .kind = SPOOL_START_END};
    struct spool_range late = {.start_ns = AT + 900, .end_ns = SPOOL_OPEN_NS};
    open.id = 1;
    ends.id = 2;
    late.id = 3;
    ADD(&f, SPOOL_RANGES, open);
    ADD(&f, SPOOL_RANGES, ends);
    ADD(&f, SPOOL_RANGES, late); /* begins behind all that was recorded */
    ends.end_ns = AT + 50;
    ADD(&f, SPOOL_RANGES, ends); /* counts instead of the first */
    assert_ok(load(t, &x, &f), t);
    assert_int_equal(x.n_ranges, 3);
    assert_true(x.ranges[0].open);
    assert_int_equal(x.ranges[0].end_ns, AT + 50);
    assert_false(x.ranges[1].open);
    assert_int_equal(x.ranges[1].style, TRACE_START_END);
    assert_int_equal(x.ranges[2].end_ns, AT + 900);
    assert_true(x.dict.incomplete);
    assert_string_equal(note(&x, LOG_WARN),
                        "a.spool: the process was killed, or still runs: the trace is valid up to "
                        "its last flush, 1500 ms before its last sign of life");
    trace_free(&x);
}

/* Calls of the driver on request contain the launches: SPOOL_LAUNCHES would list them twice. */
static void launches_are_not_listed_twice(void **state)
{
    struct test *t = *state;
    const struct {
        uint16_t domain;
        size_t calls;
    } cases[] = {{CUPTI_CB_DOMAIN_RUNTIME_API, 2}, {CUPTI_CB_DOMAIN_DRIVER_API, 1}};
    for (size_t i = 0; i < 2; i++) {
        struct file f = file_of(header());
        struct trace x;
        ADD(&f, SPOOL_LAUNCHES,
            (struct spool_launch){.start_ns = AT, .end_ns = AT + 1, .cbid = 307});
        ADD(&f, SPOOL_APIS,
            (struct spool_api){.start_ns = AT, .end_ns = AT + 2, .domain = cases[i].domain});
        ADD(&f, SPOOL_END, (struct spool_end){0});
        assert_ok(load(t, &x, &f), t);
        assert_int_equal(x.calls.n, cases[i].calls);
        assert_false(x.dict.launches_only);
        trace_free(&x);
    }
}

static void notes_keep_their_level(void **state)
{
    struct test *t = *state;
    struct file f = file_of(header());
    struct trace x;
    add_string(&f, 1, "CUPTI is old");
    add_string(&f, 2, "disk\nfull");
    ADD(&f, SPOOL_NOTES, (struct spool_note){AT, SPOOL_WARNING, 1});
    ADD(&f, SPOOL_NOTES, (struct spool_note){AT, SPOOL_ERROR, 2});
    ADD(&f, SPOOL_NOTES, (struct spool_note){AT, 99, 1});
    ADD(&f, SPOOL_END, (struct spool_end){0});
    assert_ok(load(t, &x, &f), t);
    assert_string_equal(note(&x, LOG_WARN), "a.spool: CUPTI is old");
    assert_string_equal(note(&x, LOG_ERROR), "a.spool: disk?full");
    assert_string_equal(note(&x, LOG_INFO), "a.spool: CUPTI is old");
    trace_free(&x);
}

/* The first spool's clock is the trace's; a spool of another host is shifted to it by wall time. */
static void clocks_of_hosts_are_tied_by_wall_time(void **state)
{
    struct test *t = *state;
    struct trace x;
    const struct {
        uint64_t host;
        int64_t start_wall_ns, shift_ns;
    } second[] = {{0xabc, 9000, 0}, {0xdef, 9000, 4000}, {0xdef, -1, 0}, {0xdef, INT64_MAX, 0}};
    for (size_t i = 0; i < 4; i++) {
        struct spool_header h = header();
        struct file one = file_of(h), two;
        h.pid = 78;
        h.host_id = second[i].host;
        h.start_wall_ns = second[i].start_wall_ns;
        two = file_of(h);
        ADD(&one, SPOOL_SETS, (struct spool_set){.start_ns = AT, .end_ns = AT + 1});
        ADD(&two, SPOOL_SETS, (struct spool_set){.start_ns = AT + 10, .end_ns = AT + 11});
        const char *dir = arena_printf(t->a, "d%zu", i);
        finish(t, arena_printf(t->a, "%s/1.spool", dir), &one);
        finish(t, arena_printf(t->a, "%s/2.spool", dir), &two);
        assert_ok(trace_load(&x, test_path(t, dir), NULL, &t->e), t);
        assert_int_equal(x.dict.n_processes, 2);
        assert_int_equal(x.ops.n, 2);
        assert_int_equal(x.ops.start_ns[1], AT + 10 + second[i].shift_ns);
        trace_free(&x);
    }
}

static void files_cut_anywhere_are_read_up_to_there(void **state)
{
    struct test *t = *state;
    struct file f = file_of(header());
    ADD(&f, SPOOL_SHAPES, (struct spool_shape){.id = 1});
    size_t first = f.bytes.n, behind[4];
    for (size_t i = 0; i < 4; i++) {
        int64_t at = AT + (int64_t)i;
        ADD(&f, SPOOL_KERNELS, (struct spool_kernel){at, at + 1, 1, 0, 0});
        behind[i] = f.bytes.n;
    }
    struct sv whole = {f.bytes.p, f.bytes.n};
    for (size_t n = first; n <= whole.n; n++) {
        struct trace x;
        const char *path = test_write_bytes(t, "cut.spool", (struct sv){whole.p, n});
        assert_ok(trace_load(&x, path, NULL, &t->e), t);
        size_t kept = 0;
        while (kept < 4 && behind[kept] <= n)
            kept++;
        size_t from = kept ? behind[kept - 1] : first;
        assert_int_equal(x.ops.n, kept);
        assert_true(x.dict.incomplete);
        if (n > from)
            assert_string_equal(
                note(&x, LOG_WARN),
                arena_printf(t->a,
                             "cut.spool: cut or damaged at byte %zu: the %zu bytes from there hold "
                             "no whole block",
                             from, n - from));
        trace_free(&x);
    }
    buf_free(&f.bytes);
}

/* A sink may ignore kinds of records, and its error ends the reading. */
static enum st refuse(void *self, const struct trace_op *r, struct err *e)
{
    ++*(int *)self;
    return err_set(e, ST_IO, "no room for the operation at %lld", (long long)r->start_ns);
}

static void errors_of_the_sink_end_the_reading(void **state)
{
    struct test *t = *state;
    struct file f = file_of(header());
    int calls = 0;
    ADD(&f, SPOOL_LAUNCHES, (struct spool_launch){.start_ns = 1, .end_ns = 2});
    ADD(&f, SPOOL_RANGES, (struct spool_range){.start_ns = 1, .end_ns = 2, .kind = SPOOL_PUSH_POP});
    ADD(&f, SPOOL_SYNCS, (struct spool_sync){.start_ns = 1, .end_ns = 2});
    ADD(&f, SPOOL_SETS, (struct spool_set){.start_ns = 3, .end_ns = 4});
    ADD(&f, SPOOL_SETS, (struct spool_set){.start_ns = 5, .end_ns = 6});
    const char *path = finish(t, "a.spool", &f);
    struct trace_dict d;
    trace_dict_init(&d);
    assert_err(trace_spool.read(path, &d, &(struct trace_sink){&calls, .op = refuse}, &t->e), ST_IO,
               t, "no room for the operation at 3");
    assert_int_equal(calls, 1);
    trace_dict_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_of_record_is_read),
        TEST(files_that_are_no_spool_are_refused),
        TEST(versions_and_headers_that_do_not_fit_are_refused),
        TEST(blocks_whose_records_do_not_fit_are_refused),
        TEST(more_strings_than_a_block_holds_are_refused),
        TEST(records_of_other_sizes_are_read),
        TEST(records_that_refer_to_nothing_are_counted),
        TEST(impossible_times_are_counted_by_kind),
        TEST(ranges_that_stay_open_end_with_the_recording),
        TEST(launches_are_not_listed_twice),
        TEST(notes_keep_their_level),
        TEST(clocks_of_hosts_are_tied_by_wall_time),
        TEST(files_cut_anywhere_are_read_up_to_there),
        TEST(errors_of_the_sink_end_the_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
