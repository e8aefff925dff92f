#include "support/support.h"
#include "workload/stream.h"

static const char two[] =
    "{\"timestamp\": 27, \"input_length\": 1030, \"output_length\": 52, \"hash_ids\": [46, 0, "
    "48]}\n"
    "\n"
    "{\"timestamp\": 30, \"input_length\": 512, \"output_length\": 1, \"hash_ids\": [46]}\n"
    "{\"timestamp\": 30, \"input_length\": 9, \"output_length\": 2, \"more\": []}\n";

static void check(const struct workload_request *q)
{
    assert_int_equal(q[0].request_id, 0);
    assert_int_equal(q[0].arrival_ns, 27000000);
    assert_near(q[0].arrival_s, 0.027, 0);
    assert_int_equal(q[0].num_prefill_tokens, 1030);
    assert_int_equal(q[0].num_decode_tokens, 52);
    assert_int_equal(q[0].hash_tokens, 512);
    assert_int_equal(q[0].hash_ids[0], 46);
    assert_int_equal(q[0].hash_ids[1], 0);
    assert_int_equal(q[0].hash_ids[2], 48);
    assert_int_equal(q[1].hash_ids[0], 46);
    assert_null(q[2].hash_ids);
}

static void reads_requests_and_hash_ids(void **state)
{
    struct test *t = *state;
    const char *path = test_write(t, "trace.jsonl", two);
    struct workload w;
    assert_ok(workload_load_trace(t->a, path, &w, &t->e), t);
    assert_int_equal(w.n, 3);
    check(w.requests);
    struct workload_stream *s;
    struct workload_request q[3];
    assert_ok(workload_stream_trace(path, &s, &t->e), t);
    assert_int_equal(workload_stream_total(s), 3);
    for (int i = 0; i < 3; i++)
        assert_ok(workload_stream_next(s, &q[i], &t->e), t);
    check(q);
    assert_int_equal(workload_stream_next(s, &q[0], &t->e), ST_END);
    workload_stream_close(&s);
}

static void faults_are_named(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"", "DIR/t.jsonl: has no requests"},
        {"{\"input_length\": 9, \"output_length\": 2}\n", "DIR/t.jsonl:1:1: timestamp: missing"},
        {"\n{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 2}\n",
         "DIR/t.jsonl:2:34: input_length: 0 is below the minimum 1"},
        {"{\"timestamp\": 5, \"input_length\": 9, \"output_length\": 2}\n"
         "{\"timestamp\": 4, \"input_length\": 9, \"output_length\": 2}\n",
         "DIR/t.jsonl:2:15: timestamp: 4 is before the line above it\n"
         "hint: twinfer workload import=mooncake puts the lines in order"},
        {"{\"timestamp\": -0.5, \"input_length\": 9, \"output_length\": 2}\n",
         "DIR/t.jsonl:1:15: timestamp: -0.5 is below the minimum 0"},
        {"{\"timestamp\": 5, \"input_length\": 513, \"output_length\": 2, \"hash_ids\": [1]}\n",
         "DIR/t.jsonl:1:71: hash_ids: 1 ids for a prompt of 513 tokens, expected 2 (one for each "
         "512 tokens)"},
        {"{\"timestamp\": 5, \"input_length\": 51, \"output_length\": 2, \"hash_ids\": [-1]}\n",
         "DIR/t.jsonl:1:71: hash_ids: expected an integer, 0 or more"},
        {"{\"timestamp\": 61.114, \"chat_id\": 1, \"input_length\": 9, \"output_length\": 2}\n",
         "DIR/t.jsonl:1:34: chat_id: this is a Bailian trace, whose times are in s and whose "
         "hash_ids are of 16 tokens\nhint: twinfer workload import=bailian reads it"},
        {"{\"timestamp\": 5, \"session_id\": 1, \"input_length\": 9, \"output_length\": 2}\n",
         "DIR/t.jsonl:1:32: session_id: turns of sessions follow each other's ends\n"
         "hint: twinfer workload import=mooncake makes sessions of them"},
        {"{\"timestamp\": 5,\n",
         "DIR/t.jsonl:1:17: the text ends where a key in quotes was expected"},
        {"[5]\n", "DIR/t.jsonl:1:1: expected an object, got a list"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct workload w;
        t->e = (struct err){0};
        const char *path = test_write(t, "t.jsonl", rows[i].text);
        assert_err(workload_load_mooncake(t->a, path, &w, &t->e), ST_INPUT, t, rows[i].error);
    }
}

static void times_may_have_a_fraction(void **state)
{
    struct test *t = *state;
    struct workload w;
    const char *path =
        test_write(t, "f.jsonl",
                   "{\"timestamp\": 0.25, \"input_length\": 9, \"output_length\": 2}\n"
                   "{\"timestamp\": 27482.000001, \"input_length\": 9, \"output_length\": 2}\n"
                   "{\"timestamp\": 3e4, \"input_length\": 9, \"output_length\": 2}\n");
    assert_ok(workload_load_mooncake(t->a, path, &w, &t->e), t);
    assert_int_equal(w.requests[0].arrival_ns, 250000);
    assert_int_equal(w.requests[1].arrival_ns, INT64_C(27482000001));
    assert_int_equal(w.requests[2].arrival_ns, INT64_C(30000000000));
}

/* An engine is fed the same ids under the same hash id, whatever request it belongs to. */
static void equal_hash_ids_give_equal_tokens(void **state)
{
    struct test *t = *state;
    const int64_t one[] = {3, 4}, two_ids[] = {3, 5};
    struct workload_request a = {
        .request_id = 1, .num_prefill_tokens = 10, .hash_ids = one, .hash_tokens = 8};
    struct workload_request b = {
        .request_id = 2, .num_prefill_tokens = 16, .hash_ids = two_ids, .hash_tokens = 8};
    int32_t x[16], y[16];
    assert_ok(workload_prompt_ids(t->a, &a, NULL, NULL, 1000, 7, x, &t->e), t);
    assert_ok(workload_prompt_ids(t->a, &b, NULL, NULL, 1000, 7, y, &t->e), t);
    assert_memory_equal(x, y, 8 * sizeof *x);
    assert_memory_not_equal(x + 8, y + 8, 2 * sizeof *x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_requests_and_hash_ids),
        TEST(faults_are_named),
        TEST(times_may_have_a_fraction),
        TEST(equal_hash_ids_give_equal_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
