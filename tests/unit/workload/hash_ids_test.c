#include "support/support.h"
#include "workload/make.h"
#include "workload/stream.h"

enum { N = 3 };

static const int64_t first[] = {4, 0, 9}, last[] = {4};

static const char *write_workload(struct test *t)
{
    const struct workload_request requests[N] = {
        {.request_id = 5,
         .num_prefill_tokens = 1025,
         .num_decode_tokens = 1,
         .hash_ids = first,
         .hash_tokens = 512},
        {.request_id = 3, .num_prefill_tokens = 9, .num_decode_tokens = 2, .arrival_ns = 7},
        {.request_id = 8,
         .num_prefill_tokens = 16,
         .num_decode_tokens = 3,
         .arrival_ns = 7,
         .hash_ids = last,
         .hash_tokens = 16},
    };
    struct workload w = {.n = N};
    w.requests = arena_copy(t->a, requests, sizeof requests);
    struct artifact art;
    const char *dir = test_path(t, "w");
    assert_true(workload_has_hash_ids(&w));
    assert_ok(artifact_begin(t->a, dir, WORKLOAD_META, &art, &t->e), t);
    assert_ok(workload_write(&art, &w, NULL, 0, NULL, &t->e), t);
    const struct workload_meta meta = {.workload_id = "w", .hash_ids = true};
    assert_ok(artifact_commit(&art, workload_meta_node(t->a, &meta), &t->e), t);
    return dir;
}

static void check(const struct workload_request *q, const int64_t *ids, int64_t n, int64_t tokens)
{
    assert_int_equal(q->hash_tokens, tokens);
    assert_memory_equal(q->hash_ids, ids, (size_t)n * sizeof *ids);
}

static void a_workload_keeps_them(void **state)
{
    struct test *t = *state;
    struct workload w;
    const char *dir = write_workload(t);
    assert_string_equal(test_read(t, test_path(t, "w/hash_ids.jsonl")),
                        "{\"request_id\": 5, \"hash_tokens\": 512, \"hash_ids\": [4, 0, 9]}\n"
                        "{\"request_id\": 8, \"hash_tokens\": 16, \"hash_ids\": [4]}\n");
    assert_ok(workload_load(t->a, dir, &w, &t->e), t);
    check(&w.requests[0], first, 3, 512);
    assert_null(w.requests[1].hash_ids);
    check(&w.requests[2], last, 1, 16);
}

static void a_stream_has_them_too(void **state)
{
    struct test *t = *state;
    struct workload_stream *s;
    struct workload_request q;
    assert_ok(workload_stream_dir(write_workload(t), &s, &t->e), t);
    assert_ok(workload_stream_next(s, &q, &t->e), t);
    check(&q, first, 3, 512);
    workload_stream_close(&s);
}

static const struct bad {
    const char *text, *error;
} bads[] = {
    {"{}", "DIR/w/hash_ids.jsonl:1:1: request_id: missing"},
    {"{\"request_id\": 4, \"hash_tokens\": 1, \"hash_ids\": []}",
     "DIR/w/hash_ids.jsonl:1:16: request_id: 4 is not in the workload"},
    {"{\"request_id\": 3, \"hash_tokens\": 9, \"hash_ids\": [1]}\n"
     "{\"request_id\": 3, \"hash_tokens\": 9, \"hash_ids\": [1]}",
     "DIR/w/hash_ids.jsonl:2:16: request_id: 3 comes twice"},
    {"{\"request_id\": 3, \"hash_tokens\": 8, \"hash_ids\": [1]}",
     "DIR/w/hash_ids.jsonl:1:49: hash_ids: 1 ids for a prompt of 9 tokens, expected 2"},
    {"{\"request_id\": 3, \"hash_tokens\": 8, \"hash_ids\": [1, -1]}",
     "DIR/w/hash_ids.jsonl:1:53: hash_ids: expected an integer, 0 or more"},
    {"{\"request_id\": 3, \"hash_tokens\": 0, \"hash_ids\": [1]}",
     "DIR/w/hash_ids.jsonl:1:34: hash_tokens: 0 is below the minimum 1"},
};

static void every_fault_is_told(void **state)
{
    struct test *t = *state;
    const char *dir = write_workload(t);
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct workload w;
        test_write(t, "w/hash_ids.jsonl", bads[i].text);
        assert_err(workload_load(t->a, dir, &w, &t->e), ST_INPUT, t, bads[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_workload_keeps_them),
        TEST(a_stream_has_them_too),
        TEST(every_fault_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
