#include "artifact/batch_trace.h"

#include "support/support.h"
#include "text/json.h"

static const struct node *write_and_load(struct test *t, const struct run_batch *b, size_t n)
{
    struct artifact art;
    struct batch_trace *trace;
    struct node *tree, *events;
    const char *dir = test_path(t, "run");
    assert_ok(artifact_begin(t->a, dir, "run_meta.json", &art, &t->e), t);
    assert_ok(batch_trace_open(&art, &trace, &t->e), t);
    for (size_t i = 0; i < n; i++)
        batch_trace_write(trace, &b[i]);
    assert_ok(batch_trace_close(&trace, &t->e), t);
    assert_null(trace);
    assert_ok(batch_trace_close(&trace, &t->e), t);
    assert_ok(artifact_commit(&art, NULL, &t->e), t);
    assert_ok(json_load(t->a, fs_join(t->a, dir, BATCH_TRACE), NULL, &tree, &t->e), t);
    assert_ok(node_get(tree, "traceEvents", NODE_LIST, &events, &t->e), t);
    return events;
}

static void slices_tracks_and_counters(void **state)
{
    struct test *t = *state;
    const struct run_batch batches[] = {
        {.start_ns = 1234567,
         .duration_ns = 1000,
         .host_ns = RUN_NONE,
         .device_ns = 900,
         .num_prefill_tokens = 5,
         .batch_size = 1,
         .kv_blocks = 3},
        {.stage = 1,
         .start_ns = 1235567,
         .duration_ns = 7,
         .num_prefill_tokens = 5,
         .kv_blocks = 3},
        {.replica = 2,
         .iteration = 9,
         .start_ns = 1,
         .num_decode_tokens = 1,
         .kv_blocks = RUN_NONE},
        {.start_ns = 2000000,
         .num_prefill_tokens = 5,
         .num_decode_tokens = 1,
         .batch_size = 1,
         .kv_blocks = 4},
    };
    const struct node *events = write_and_load(t, batches, 4);
    struct buf text = {0};
    for (uint32_t i = 0; i < events->n; i++) {
        json_write(&text, events->items[i], 0, true);
        buf_putc(&text, '\n');
    }
    assert_golden(t, "batch_trace.txt", ((struct sv){text.p, text.n}));
    buf_free(&text);
}

/* More than one block of the file. */
static void long_traces_are_whole_json(void **state)
{
    struct test *t = *state;
    enum { N = 20000 };
    struct run_batch *b = arena_array(t->a, struct run_batch, N);
    for (int i = 0; i < N; i++)
        b[i] = (struct run_batch){.iteration = i, .start_ns = i, .num_decode_tokens = 1};
    assert_int_equal(write_and_load(t, b, N)->n, N + 4); /* 2 names, 2 counters once */
}

static void an_empty_trace_is_json_too(void **state)
{
    assert_int_equal(write_and_load(*state, NULL, 0)->n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slices_tracks_and_counters),
        TEST(long_traces_are_whole_json),
        TEST(an_empty_trace_is_json_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
