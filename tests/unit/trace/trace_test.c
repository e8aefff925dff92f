/* The trace in memory: order, calls joined to what they launched, and records far from all others.
 */
#include "trace/trace.h"

#include "support/support.h"

struct fixture {
    struct trace x;
    struct trace_sink sink;
    uint32_t process[2], thread[2], sig[2]; /* [1]: of another process */
};

static void begin(struct fixture *f)
{
    trace_begin(&f->x);
    f->sink = trace_sink_of(&f->x);
    struct trace_dict *d = &f->x.dict;
    for (uint32_t i = 0; i < 2; i++) {
        f->process[i] = trace_process_of(d, 100 + i, 0);
        f->thread[i] = trace_thread_of(d, f->process[i], 7);
        f->sig[i] = trace_sig_id(d, &(struct trace_sig){.process = f->process[i]});
    }
}

static void add_op(struct test *t, struct fixture *f, int64_t start_ns, int64_t end_ns,
                   uint32_t which, uint32_t correlation)
{
    struct trace_op op = {start_ns, end_ns, f->sig[which], correlation, 0, 0};
    assert_ok(f->sink.op(f->sink.self, &op, &t->e), t);
}

static void add_call(struct test *t, struct fixture *f, int64_t start_ns, uint32_t which,
                     uint32_t correlation)
{
    struct trace_call call = {.start_ns = start_ns,
                              .end_ns = start_ns + 2,
                              .correlation = correlation,
                              .thread = f->thread[which]};
    assert_ok(f->sink.call(f->sink.self, &call, &t->e), t);
}

static void add_range(struct test *t, struct fixture *f, struct trace_range range)
{
    assert_ok(f->sink.range(f->sink.self, &range, &t->e), t);
}

static void add_sync(struct test *t, struct fixture *f, int64_t start_ns, int64_t end_ns)
{
    struct trace_sync sync = {.start_ns = start_ns, .end_ns = end_ns};
    assert_ok(f->sink.sync(f->sink.self, &sync, &t->e), t);
}

static void an_empty_trace_has_no_extent(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    trace_finish(&f.x);
    assert_int_equal(f.x.ops.n + f.x.calls.n + f.x.n_ranges + f.x.n_syncs, 0);
    assert_int_equal(f.x.start_ns, 0);
    assert_int_equal(f.x.end_ns, 0);
    trace_free(&f.x);
    trace_free(&f.x); /* a freed trace is a zeroed one */
}

static void records_are_put_in_order(void **state)
{
    enum { N = 3000 }; /* more than one growth of the columns */
    struct test *t = *state;
    struct fixture f;
    begin(&f);
    for (uint32_t i = 0; i < N; i++) {
        int64_t at = (int64_t)(i * 7919 % N) * 10; /* each time once */
        add_op(t, &f, at, at + 5, i % 2, i + 1);
        add_call(t, &f, at, i % 2, i + 1);
        add_range(
            t, &f,
            (struct trace_range){.start_ns = at, .end_ns = at + 9, .thread = f.thread[i % 2]});
        add_sync(t, &f, at, at + 1);
    }
    trace_finish(&f.x);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(f.x.ops.start_ns[i], i * 10);
        assert_int_equal(f.x.ops.end_ns[i], i * 10 + 5);
        assert_int_equal(f.x.syncs[i].start_ns, i * 10);
        uint32_t call = f.x.ops.call[i]; /* columns moved together: each finds its own launch */
        assert_int_equal(f.x.calls.correlation[call], f.x.ops.correlation[i]);
        assert_int_equal(f.x.calls.start_ns[call], f.x.ops.start_ns[i]);
        if (i == 0)
            continue;
        const struct trace_range *a = &f.x.ranges[i - 1], *b = &f.x.ranges[i];
        assert_true(a->thread < b->thread || (a->thread == b->thread && a->start_ns < b->start_ns));
        const struct trace_calls *c = &f.x.calls;
        assert_true(c->thread[i - 1] < c->thread[i] ||
                    (c->thread[i - 1] == c->thread[i] && c->start_ns[i - 1] < c->start_ns[i]));
    }
    assert_int_equal(f.x.start_ns, 0);
    assert_int_equal(f.x.end_ns, N * 10 - 1);
    trace_free(&f.x);
}

static void of_ranges_that_start_together_the_longest_is_outside(void **state)
{
    struct test *t = *state;
    struct fixture f;
    begin(&f);
    const struct trace_range ranges[] = {
        {.start_ns = 5, .end_ns = 8, .style = TRACE_OPERATOR},
        {.start_ns = 5, .end_ns = 8, .style = TRACE_ANNOTATION},
        {.start_ns = 5, .end_ns = 20, .style = TRACE_OPERATOR},
        {.start_ns = 1, .end_ns = 2, .style = TRACE_PUSH_POP},
    };
    for (size_t i = 0; i < 4; i++)
        add_range(t, &f, ranges[i]);
    trace_finish(&f.x);
    const size_t order[] = {3, 2, 1, 0};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(f.x.ranges[i].end_ns, ranges[order[i]].end_ns);
        assert_int_equal(f.x.ranges[i].style, ranges[order[i]].style);
    }
    trace_free(&f.x);
}

static void correlations_belong_to_one_process(void **state)
{
    struct test *t = *state;
    struct fixture f;
    begin(&f);
    add_call(t, &f, 10, 0, 4);
    add_call(t, &f, 20, 1, 4);
    add_op(t, &f, 30, 31, 0, 4);
    add_op(t, &f, 40, 41, 1, 4);
    add_op(t, &f, 50, 51, 1, 5); /* its launch was not recorded */
    add_op(t, &f, 60, 61, 1, 0); /* nor is its id */
    trace_finish(&f.x);
    assert_int_equal(f.x.calls.start_ns[f.x.ops.call[0]], 10);
    assert_int_equal(f.x.calls.start_ns[f.x.ops.call[1]], 20);
    assert_int_equal(f.x.ops.call[2], TRACE_NONE);
    assert_int_equal(f.x.ops.call[3], TRACE_NONE);
    trace_free(&f.x);
}

/* A runtime call and the driver call inside it share an id. */
static void the_outer_call_is_the_launch(void **state)
{
    static const uint32_t far[] = {0, UINT32_MAX}; /* the second makes ids sparse */
    struct test *t = *state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        begin(&f);
        add_call(t, &f, 12, 0, 4);
        add_call(t, &f, 10, 0, 4);
        if (far[i])
            add_call(t, &f, 1, 0, far[i]);
        add_op(t, &f, 30, 31, 0, 4);
        add_op(t, &f, 40, 41, 0, 3);
        add_op(t, &f, 50, 51, 0, UINT32_MAX);
        trace_finish(&f.x);
        assert_int_equal(f.x.calls.start_ns[f.x.ops.call[0]], 10);
        assert_int_equal(f.x.ops.call[1], TRACE_NONE);
        if (far[i])
            assert_int_equal(f.x.calls.start_ns[f.x.ops.call[2]], 1);
        else
            assert_int_equal(f.x.ops.call[2], TRACE_NONE);
        trace_free(&f.x);
    }
}

static void graph_nodes_have_a_column_when_there_are_any(void **state)
{
    struct test *t = *state;
    struct fixture f;
    begin(&f);
    for (uint32_t i = 0; i < 1500; i++)
        add_op(t, &f, 10 + i, 11 + i, 0, 0);
    struct trace_op in_graph = {5, 6, f.sig[0], 0, 99, 0}; /* comes last, starts first */
    assert_null(f.x.ops.graph_node);
    assert_ok(f.sink.op(f.sink.self, &in_graph, &t->e), t);
    trace_finish(&f.x);
    assert_int_equal(f.x.ops.graph_node[0], 99);
    for (size_t i = 1; i < f.x.ops.n; i++)
        assert_int_equal(f.x.ops.graph_node[i], 0);
    trace_free(&f.x);
}

/* Each is possible alone, but not beside the others: all are within 104 days of the middle one. */
static void records_far_from_the_middle_are_left_out(void **state)
{
    struct test *t = *state;
    struct fixture f;
    const int64_t far = TRACE_SPAN_MAX_NS * 2;
    begin(&f);
    add_call(t, &f, 100, 0, 1);
    add_call(t, &f, far, 0, 2);
    add_op(t, &f, 110, 120, 0, 1);
    add_op(t, &f, 130, 140, 0, 2);
    add_op(t, &f, far, far + 1, 0, 2);
    add_range(t, &f, (struct trace_range){.start_ns = -far, .end_ns = -far + 1});
    add_range(t, &f, (struct trace_range){.start_ns = 50, .end_ns = 60});
    add_sync(t, &f, far, far);
    trace_finish(&f.x);
    assert_int_equal(f.x.ops.n, 2);
    assert_int_equal(f.x.calls.n, 1);
    assert_int_equal(f.x.n_ranges, 1);
    assert_int_equal(f.x.n_syncs, 0);
    assert_string_equal(trace_impossible(t->a, &f.x.dict), "1 operation, 1 call, 1 range, 1 wait");
    assert_int_equal(f.x.start_ns, 50);
    assert_int_equal(f.x.end_ns, 140);
    assert_int_equal(f.x.ops.call[0], 0);
    assert_int_equal(f.x.ops.call[1], TRACE_NONE); /* its launch was left out */
    trace_free(&f.x);
}

/* Without operations, the middle is that of the calls, else of ranges, else of waits. */
static void the_middle_needs_no_operations(void **state)
{
    struct test *t = *state;
    const int64_t far = TRACE_SPAN_MAX_NS * 2;
    for (int kind = 0; kind < 3; kind++) {
        struct fixture f;
        begin(&f);
        for (int64_t i = 0; i < 3; i++) {
            int64_t at = i == 2 ? far : 10 * i;
            if (kind == 0)
                add_call(t, &f, at, 0, 0);
            else if (kind == 1)
                add_range(t, &f, (struct trace_range){.start_ns = at, .end_ns = at + 2});
            else
                add_sync(t, &f, at, at + 2);
        }
        trace_finish(&f.x);
        assert_int_equal(f.x.calls.n + f.x.n_ranges + f.x.n_syncs, 2);
        assert_int_equal(f.x.end_ns, 12);
        trace_free(&f.x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_trace_has_no_extent),
        TEST(records_are_put_in_order),
        TEST(of_ranges_that_start_together_the_longest_is_outside),
        TEST(correlations_belong_to_one_process),
        TEST(the_outer_call_is_the_launch),
        TEST(graph_nodes_have_a_column_when_there_are_any),
        TEST(records_far_from_the_middle_are_left_out),
        TEST(the_middle_needs_no_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
