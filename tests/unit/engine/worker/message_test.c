#include "engine/worker/message.h"
#include "support/support.h"
#include "text/json.h"

#define HELLO                                                                                 \
    "{\"type\": \"hello\", \"protocol\": 1, \"name\": \"e\", \"version\": \"2\", "            \
    "\"clock\": {\"kind\": \"CLOCK_MONOTONIC\", \"boot_id\": \"b\"}, \"capabilities\": "      \
    "{\"prompt_ids\": true, \"prompt_text\": false, \"token_ids\": true, \"batches\": true, " \
    "\"cancel\": false, \"max_model_len\": 4096, \"batching\": \"static\"}, \"more\": [1], "  \
    "\"info\": {\"gpu\": \"none\"}}"

static struct worker_event read(struct test *t, const char *text)
{
    struct worker_event ev;
    assert_ok(worker_event_read(t->a, sv_of(text), 3, &ev, &t->e), t);
    assert_int_equal(ev.line, 3);
    return ev;
}

static void reads_hello(void **state)
{
    struct test *t = *state;
    struct worker_event ev = read(t, HELLO);
    assert_int_equal(ev.type, WORKER_HELLO);
    assert_string_equal(ev.hello.name, "e");
    assert_string_equal(ev.hello.boot_id, "b");
    assert_true(ev.hello.prompt_ids && !ev.hello.prompt_text && ev.hello.batches);
    assert_int_equal(ev.hello.max_model_len, 4096);
    assert_non_null(node_find(ev.info, "gpu"));
}

/* What another version means by the rest is its own affair. */
static void reads_the_version_of_any_hello(void **state)
{
    struct test *t = *state;
    struct worker_event ev = read(t, "{\"protocol\": 2, \"type\": \"hello\", \"name\": 7}");
    assert_int_equal(ev.hello.protocol, 2);
}

static void reads_times_exactly(void **state)
{
    struct test *t = *state;
    struct worker_event ev =
        read(t, "{\"type\": \"tokens\", \"t_ns\": 1700000000000123457, \"ids\": [3, 5, 3], "
                "\"tokens\": [9, 0, 2147483648]}");
    assert_int_equal(ev.tokens.t_ns, 1700000000000123457);
    assert_int_equal(ev.tokens.n, 3);
    assert_int_equal(ev.tokens.ids[2], 3);
    assert_int_equal(ev.tokens.tokens[2], 2147483648);
    ev = read(t, "{\"type\": \"clock\", \"seq\": 1, \"recv_ns\": 5, \"send_ns\": 5}");
    assert_int_equal(ev.clock.recv_ns, 5);
    ev = read(t, "{\"type\": \"finished\", \"id\": 1, \"num_tokens\": 2, \"reason\": \"stop\"}");
    assert_int_equal(ev.finished.reason, WORKER_STOP);
    assert_int_equal(ev.finished.scheduled_ns, -1);
    ev = read(t, "{\"type\": \"error\", \"message\": \"m\"}");
    assert_int_equal(ev.error.id, -1);
    assert_null(ev.error.kind);
    ev = read(
        t,
        "{\"type\": \"error\", \"id\": 3, \"kind\": \"a\\nb\", \"message\": \"x\\u001b[2Jy\\n\"}");
    assert_string_equal(ev.error.kind, "a b");
    assert_string_equal(ev.error.message, "x [2Jy ");
    ev = read(t, "{\"type\": \"batch\", \"start_ns\": 1, \"end_ns\": 4, \"num_prefill_tokens\": 0, "
                 "\"num_decode_tokens\": 2, \"batch_size\": 2}");
    assert_int_equal(ev.batch.device_ns, -1);
}

static const struct bad {
    const char *text, *error;
} bads[] = {
    {"", "worker:3:1: the text ends where a value was expected"},
    {"[]", "worker:3:1: expected an object, got a list"},
    {"{}", "worker:3:1: type: missing"},
    {"{\"type\": 4}", "worker:3:10: type: expected a string, got an integer"},
    {"{\"type\": \"token\"}", "worker:3:10: type: there is no message 'token'"},
    {"{\"type\": \"clock\", \"type\": \"clock\"}",
     "worker:3:19: the key 'type' appears twice in one map"},
    {"{\"type\": \"clock\", \"seq\": 1, \"recv_ns\": 5, \"send_ns\": 4}",
     "worker:3:54: send_ns: is before recv_ns"},
    {"{\"type\": \"clock\", \"seq\": 1, \"recv_ns\": 9223372036854775807, \"send_ns\": 4}",
     "worker:3:40: recv_ns: 9223372036854775807 is above the maximum 2305843009213693951"},
    {"{\"type\": \"tokens\", \"t_ns\": 1.5, \"ids\": [1]}",
     "worker:3:28: t_ns: expected an integer, got a number"},
    {"{\"type\": \"tokens\", \"t_ns\": 1, \"ids\": []}", "worker:3:38: ids: the list is empty"},
    {"{\"type\": \"tokens\", \"t_ns\": 1, \"ids\": [1, -2]}",
     "worker:3:42: ids: expected integers from 0 on"},
    {"{\"type\": \"tokens\", \"t_ns\": 1, \"ids\": [1, 2], \"tokens\": [1]}",
     "worker:3:56: tokens: 1 of them for 2 requests"},
    {"{\"type\": \"batch\", \"start_ns\": 2, \"end_ns\": 1}",
     "worker:3:44: end_ns: is before start_ns"},
    {"{\"type\": \"finished\", \"id\": 1, \"num_tokens\": 2, \"reason\": \"eos\"}",
     "worker:3:58: reason: expected length, stop or cancelled, got 'eos'"},
    {"{\"type\": \"error\"}", "worker:3:1: message: missing"},
    {"{\"type\": \"ready\", \"info\": 1}", "worker:3:27: info: expected a map, got an integer"},
    {"{\"type\": \"hello\", \"protocol\": 1, \"name\": \"\"}",
     "worker:3:42: name: expected 1 to 64 bytes"},
    {"{\"type\": \"ready\", \"info\": {\"a\": [[[[[[[1]]]]]]]}}",
     "worker:3:39: nested deeper than 8 levels"},
};

static void names_every_fault(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct worker_event ev;
        assert_err(worker_event_read(t->a, sv_of(bads[i].text), 3, &ev, &t->e), ST_INPUT, t,
                   bads[i].error);
    }
}

static struct node *parsed(struct test *t, struct buf *line)
{
    struct node *n;
    assert_int_equal(line->p[line->n - 1], '\n');
    assert_null(memchr(line->p, '\n', line->n - 1));
    assert_ok(json_parse(t->a, "line", (struct sv){line->p, line->n}, NULL, &n, &t->e), t);
    buf_clear(line);
    return n;
}

static void writes_lines_that_read_back(void **state)
{
    struct test *t = *state;
    struct buf line = {0};
    const int32_t ids[] = {0, 7, 2147483647};
    struct worker_submit s = {.id = 5,
                              .planned_ns = INT64_C(9007199254740993),
                              .num_prefill_tokens = 3,
                              .max_tokens = 2,
                              .prompt_ids = ids};
    worker_put_submit(&line, &s);
    assert_string_equal(line.p, "{\"type\":\"submit\",\"id\":5,\"planned_ns\":9007199254740993,"
                                "\"num_prefill_tokens\":3,\"max_tokens\":2,\"ignore_eos\":false,"
                                "\"prompt_ids\":[0,7,2147483647]}\n");
    parsed(t, &line);
    s.prompt = "two\nlines \"quoted\" \xff";
    s.ignore_eos = true;
    worker_put_submit(&line, &s);
    assert_string_equal(node_find(parsed(t, &line), "prompt")->s.p,
                        "two\nlines \"quoted\" \xef\xbf\xbd");
    worker_put_plain(&line, "drain");
    assert_string_equal(line.p, "{\"type\":\"drain\"}\n");
    buf_clear(&line);
    worker_put_cancel(&line, 3);
    assert_string_equal(line.p, "{\"type\":\"cancel\",\"id\":3}\n");
    buf_clear(&line);
    struct worker_greeting g = {.model_name = "m", .device = "cpu", .seed = 4, .max_tokens = 9};
    worker_put_hello(&line, t->a, &g);
    assert_string_equal(line.p, "{\"type\":\"hello\",\"protocol\":1,\"model\":{\"name\":\"m\","
                                "\"config\":{},\"dir\":null,\"weights\":null},\"device\":\"cpu\","
                                "\"seed\":4,\"max_tokens\":9,\"options\":{}}\n");
    buf_free(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_hello),       TEST(reads_the_version_of_any_hello), TEST(reads_times_exactly),
        TEST(names_every_fault), TEST(writes_lines_that_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
