#include "client/response.h"

#include "support/support.h"

struct made {
    struct response s;
    struct client_result r;
};

static void begin(struct made *m)
{
    *m = (struct made){0};
    response_begin(&m->s, &m->r, 4096);
}

static void end(struct made *m)
{
    client_result_free(&m->r);
    response_free(&m->s);
}

/* Each text comes at 10, 20, ... ns; then the response ends. */
static void feed(struct made *m, const char *const *texts)
{
    int64_t at = 0;
    begin(m);
    for (; *texts; texts++)
        response_bytes(&m->s, at += 10, *texts, strlen(*texts));
    response_close(&m->s, at + 10);
}

#define FEED(m, ...) feed(m, (const char *const[]){__VA_ARGS__, NULL})

static void assert_end(struct made *m, enum run_status status, const char *type, const char *msg)
{
    assert_string_equal(m->r.error_msg, msg);
    assert_string_equal(m->r.error_type, type);
    assert_int_equal(m->r.status, status);
    end(m);
}

static void chunks_with_text_carry_tokens(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, "data: {\"choices\":[{\"text\":\"He\",\"finish_reason\":null}]}\n\n",
         "data: {\"choices\":[{\"text\":\"\"}]}\n\ndata: {\"choices\":[{\"text\":\"llo\"}]}\n\n",
         "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n",
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n",
         "data: [DONE]\n\n");
    assert_int_equal(m.r.chunks.n, 2);
    assert_int_equal(m.r.chunks.p[0].time_ns, 10);
    assert_int_equal(m.r.chunks.p[1].time_ns, 21); /* behind the empty one */
    assert_int_equal(m.r.chunks.p[1].tokens, 0);   /* unknown */
    assert_int_equal(m.r.first_byte_ns, 10);
    assert_int_equal(m.r.end_ns, 21);
    assert_int_equal(m.r.prompt_tokens, 5);
    assert_int_equal(m.r.completion_tokens, 2);
    assert_string_equal(m.r.finish, "length");
    assert_string_equal(buf_str(&m.r.text), "Hello");
    assert_end(&m, RUN_OK, "", "");
}

/* A busy client reads late: messages stay messages, each a time of its own. */
static void messages_that_one_read_brings_are_told_apart(void **state)
{
    struct made m;
    (void)state;
    FEED(&m,
         "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"b\"}]}\n\n"
         "data: {\"choices\":[{\"text\":\"c\"}]}\n\n",
         "data: {\"choices\":[{\"text\":\"d\"}]}\n\n", "data: [DONE]\n\n");
    assert_int_equal(m.r.chunks.n, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(m.r.chunks.p[i].time_ns, 10 + i);
    assert_int_equal(m.r.chunks.p[3].time_ns, 20);
    assert_int_equal(m.r.end_ns, 20);
    end(&m);
}

static void a_chat_speaks_in_deltas(void **state)
{
    struct made m;
    (void)state;
    FEED(
        &m, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"so\",\"reasoning_content\":\"so\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning\":null,\"reasoning_content\":\"!\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"}}]}\n\n", "data: [DONE]\n\n");
    assert_int_equal(m.r.chunks.n, 4);
    assert_int_equal(m.r.chunks.p[0].time_ns, 20);
    assert_string_equal(buf_str(&m.r.text),
                        "hmso!yes"); /* what comes under two names counts once */
    assert_end(&m, RUN_OK, "", "");
}

#define EMPTY  "data: {\"choices\":[{\"text\":\"\"}]}\n\n"
#define LETTER "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"
#define FINISH "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n"
#define TOTAL(n) \
    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":" n "}}\n\ndata: [DONE]\n\n"
#define BEGINS  "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
#define DELTA   "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
#define NOTHING "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n"
#define ENDS    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"

/* Ends of sequence that are ignored have no text, and take their time all the same. */
static void tokens_without_text_are_found_by_the_total(void **state)
{
    (void)state;
    static const struct {
        const char *texts[7];
        size_t n;
        int64_t first_ns, end_ns;
    } rows[] = {
        {{EMPTY, LETTER, EMPTY, EMPTY, TOTAL("4")}, 4, 10, 40},
        {{EMPTY, LETTER, EMPTY, FINISH, TOTAL("4")}, 4, 10, 40},
        {{EMPTY, LETTER, EMPTY, FINISH, TOTAL("3")}, 3, 10, 30},
        {{EMPTY, EMPTY, TOTAL("2")}, 2, 10, 20},
        {{BEGINS, DELTA, DELTA, ENDS, TOTAL("2")}, 2, 20, 30}, /* nothing is missing */
        {{BEGINS, DELTA, DELTA, ENDS, TOTAL("3")}, 3, 20, 40}, /* the end of sequence */
        {{BEGINS, DELTA, DELTA, ENDS, TOTAL("4")}, 2, 20, 30}, /* two in a chunk, rather */
        {{BEGINS, DELTA, DELTA, TOTAL("3")}, 2, 20, 30},
        {{BEGINS, DELTA, NOTHING, DELTA, TOTAL("4")}, 4, 10, 40},
        {{LETTER, EMPTY, LETTER, TOTAL("9")}, 2, 10, 30}, /* several a chunk: nobody can say */
        {{LETTER, EMPTY, LETTER, "data: [DONE]\n\n"}, 2, 10, 30},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct made m;
        feed(&m, rows[i].texts);
        assert_int_equal(m.r.chunks.n, rows[i].n);
        assert_int_equal(m.r.chunks.p[0].time_ns, rows[i].first_ns);
        assert_int_equal(vec_last(&m.r.chunks).time_ns, rows[i].end_ns);
        assert_int_equal(m.r.end_ns, rows[i].end_ns);
        assert_end(&m, RUN_OK, "", "");
    }
}

static void ids_count_tokens_exactly(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, "data: {\"choices\":[{\"text\":\"\",\"token_ids\":[7]}]}\n\n",
         "data: {\"choices\":[{\"text\":\"ab\",\"token_ids\":[8,9,10]}]}\n\n", "data: [DONE]\n\n");
    assert_int_equal(m.r.chunks.n, 2);
    assert_int_equal(m.r.chunks.p[0].tokens, 1);
    assert_int_equal(m.r.chunks.p[1].tokens, 3);
    assert_int_equal(m.r.ids.p[3], 10);
    assert_end(&m, RUN_OK, "", "");
}

static void usage_in_every_chunk_counts_tokens_exactly(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":1}}\n\n",
         "data: {\"choices\":[{\"text\":\"bc\"}],\"usage\":{\"completion_tokens\":4}}\n\n",
         "data: {\"choices\":[],\"usage\":{\"completion_tokens\":4}}\n\n", "data: [DONE]\n\n");
    assert_int_equal(m.r.chunks.n, 2);
    assert_int_equal(m.r.chunks.p[0].tokens, 1);
    assert_int_equal(m.r.chunks.p[1].tokens, 3);
    assert_end(&m, RUN_OK, "", "");
}

static void usage_in_the_last_chunk_alone_is_no_count_of_that_chunk(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n",
         "data: {\"choices\":[{\"text\":\"b\"}],\"usage\":{\"completion_tokens\":2}}\n\n",
         "data: [DONE]\n\n");
    assert_int_equal(m.r.chunks.p[1].tokens, 0);
    assert_int_equal(m.r.completion_tokens, 2);
    assert_end(&m, RUN_OK, "", "");
}

static void a_finish_reason_and_a_clean_end_are_enough(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\n");
    assert_end(&m, RUN_OK, "", "");
}

static void what_comes_after_done_is_counted_and_ignored(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", "data: [DONE]\n\ndata: [DONE]\n\n",
         "data: garbage\n\n");
    assert_int_equal(m.r.after_done, 2);
    assert_int_equal(m.r.chunks.n, 1);
    assert_end(&m, RUN_OK, "", "");
}

static void bad_ends_have_names(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", "data: {\"choices\":[{\"te");
    assert_end(&m, RUN_ERROR, "truncated", "the stream ended after 1 chunks without [DONE]");
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\"]}\n\n");
    assert_end(&m, RUN_ERROR, "malformed", "chunk:1:24: expected ',' or '}', got ']'");
    FEED(&m, "data: [1]\n\n");
    assert_end(&m, RUN_ERROR, "malformed", "chunk: expected a JSON object");
    FEED(&m, "data: {\"choices\":[{\"text\":7}]}\n\n");
    assert_end(&m, RUN_ERROR, "malformed", "chunk:1:21: text: expected a text");
    FEED(&m, "data: {\"usage\":{\"completion_tokens\":-1}}\n\n");
    assert_end(&m, RUN_ERROR, "malformed", "chunk:1:31: completion_tokens: expected a count");
    FEED(&m, "data: {\"error\":{\"message\":\"out of\\nmemory\",\"code\":500}}\n\n");
    assert_end(&m, RUN_ERROR, "server", "out of memory");
    FEED(&m, "data: {\"error\":\"gone\"}\n\n");
    assert_end(&m, RUN_ERROR, "server", "gone");
    FEED(&m, "data: {\"object\":\"error\",\"message\":\"no\"}\n\n");
    assert_end(&m, RUN_ERROR, "server", "no");
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"abort\"}]}\n\n",
         "data: [DONE]\n\n");
    assert_int_equal(m.r.chunks.n, 1);
    assert_end(&m, RUN_ERROR, "server", "the server gave up: finish_reason abort");
    FEED(&m, "data: [DONE]\n\n");
    assert_end(&m, RUN_ERROR, "no_tokens", "the stream ended without a token");
    char line[5000];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = 0;
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", line);
    assert_int_equal(m.r.chunks.n, 1); /* what came before counts */
    assert_end(&m, RUN_ERROR, "too_large", "an event of more than 4096 bytes");
}

#define TOKEN "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"

/* Each after a token and before [DONE], as gateways and frameworks send them. */
static void errors_of_any_shape_fail_the_request(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"event: error\ndata: {\"code\":500,\"message\":\"engine died\"}\n\n", "engine died"},
        {"event: error\ndata: no JSON at all\n\n", "no JSON at all"},
        {"event: error\n: worker died\n\n", "worker died"},
        {"event: error\n\n", "the server reports an error without a text"},
        {"event: InternalServerError\ndata: {\"x\":1}\n\n", "{\"x\":1}"},
        {"error: {\"code\":500,\"message\":\"context size exceeded\"}\n\n",
         "context size exceeded"},
        {"error: out of memory\n\n", "out of memory"},
        {"{\"error\":{\"message\":\"raw\"}}\n\n", "raw"},
        {"data: {\"error\":{\"message\":\"engine died\"}}\n\n", "engine died"},
        {"data: {\"error\":{\"error\":{\"message\":\"deep\"}}}\n\n", "deep"},
        {"data: {\"error\":{\"code\":7}}\n\n", "{\"error\":{\"code\":7}}"},
        {"data: {\"detail\":\"Internal error\",\"status\":500}\n\n", "Internal error"},
        {"data: {\"detail\":[{\"loc\":[\"body\"],\"msg\":\"bad\"}]}\n\n",
         "{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"bad\"}]}"},
        {"data: {\"code\":1302,\"message\":\"rate limit\",\"success\":false}\n\n", "rate limit"},
        {"data: {\"choices\":[],\"code\":1302,\"msg\":\"rate limit\"}\n\n", "rate limit"},
        {"data: {\"object\":\"error\",\"message\":\"no\"}\n\n", "no"},
        {"data: {\"success\":false}\n\n", "{\"success\":false}"},
        {"data: {\"status\":\"error\"}\n\n", "{\"status\":\"error\"}"},
        {"data: {\"fault\":{\"faultstring\":\"quota\"}}\n\n",
         "{\"fault\":{\"faultstring\":\"quota\"}}"},
        {"data: {\"data\":{\"error\":{\"message\":\"wrapped\"}}}\n\n", "wrapped"},
        {"data: {\"choices\":[{\"text\":\"\"}],\"x_groq\":{\"error\":\"over capacity\"}}\n\n",
         "over capacity"},
        {"data: {\"choices\":[{\"delta\":{},\"error\":{\"message\":\"provider\"},"
         "\"finish_reason\":\"error\"}]}\n\n",
         "provider"},
        {"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}]}\n\n",
         "the server gave up: finish_reason error"},
        {"data: "
         "{\"choices\":[{\"delta\":{},\"finish_reason\":\"insufficient_system_resource\"}]}\n\n",
         "the server gave up: finish_reason insufficient_system_resource"},
        {"data: {\"type\":\"error\",\"message\":\"overloaded\"}\n\n", "overloaded"},
        {"data: {\"event\":\"error\",\"data\":{\"x\":1}}\n\n",
         "{\"event\":\"error\",\"data\":{\"x\":1}}"},
        {"data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"bad\"}}}\n\n",
         "bad"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct made m;
        FEED(&m, TOKEN, rows[i][0], "data: [DONE]\n\n");
        assert_int_equal(m.r.chunks.n, 1);
        assert_end(&m, RUN_ERROR, "server", rows[i][1]);
    }
}

static void what_only_looks_like_an_error_is_none(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "data: {\"choices\":[{\"text\":\"\"}],\"error\":null}\n\n",
        "data: {\"choices\":[{\"text\":\"\",\"error\":{}}],\"error\":\"\",\"code\":0}\n\n",
        "data: {\"choices\":[{\"text\":\"\"}],\"code\":500,\"message\":\"fine\"}\n\n",
        "data: "
        "{\"choices\":[],\"prompt_filter_results\":[{\"content_filter_results\":{\"jailbreak\":"
        "{\"error\":{\"code\":\"x\"}}}}]}\n\n",
        "data: {\"code\":0,\"message\":\"\",\"success\":true}\n\n",
        "data: {\"type\":\"ping\"}\n\n",
        "data:\n\n",
        ": error\n\n",
        "event: message\n\n",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct made m;
        FEED(&m, TOKEN, rows[i], "data: [DONE]\n\n");
        assert_int_equal(m.r.chunks.n, 1);
        assert_end(&m, RUN_OK, "", "");
    }
}

static void what_the_server_sends_is_missed(void **state)
{
    (void)state;
    static const struct {
        struct client_sends sends;
        const char *last, *type, *msg;
    } rows[] = {
        {{true, true, true},
         "data: [DONE]\n\n",
         "incomplete",
         "[DONE] after 1 chunks without a finish_reason, which this server sends"},
        {{true, false, true},
         "data: [DONE]\n\n",
         "incomplete",
         "the stream ended after 1 chunks without usage, which this server sends"},
        {{true, true, false},
         FINISH,
         "truncated",
         "the stream ended after 1 chunks without [DONE]"},
        {{true, true, false}, FINISH "data: [DONE]", "", ""}, /* no blank line */
        {{true, true, true}, FINISH TOTAL("1"), "", ""},
        {{false, true, true}, FINISH TOTAL("1"), "", ""},
        {{false, false, false}, "data: [DONE]\n\n", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct made m;
        begin(&m);
        m.s.sends = rows[i].sends;
        response_bytes(&m.s, 10, TOKEN, strlen(TOKEN));
        response_bytes(&m.s, 20, rows[i].last, strlen(rows[i].last));
        response_close(&m.s, 30);
        assert_end(&m, *rows[i].type ? RUN_ERROR : RUN_OK, rows[i].type, rows[i].msg);
    }
}

/* Python writes NaN, servers in Java or JavaScript cut an emoji in two, gateways count in floats.
 */
static void loose_json_is_taken(void **state)
{
    struct made m;
    (void)state;
    FEED(&m,
         "data: {\"choices\":[{\"text\":\"\\ud83d\",\"logprobs\":{\"l\":[-Infinity,NaN]}}]}\n\n",
         "data: {\"choices\":[{\"text\":\"\\ude00\",\"finish_reason\":\"\"}],"
         "\"seed\":18446744073709551615}\n\n",
         "data: {\"usage\":{\"prompt_tokens\":5.0,\"completion_tokens\":2.0}}\n\n",
         "data: [DONE]\n\n");
    assert_int_equal(m.r.chunks.n, 2);
    assert_string_equal(buf_str(&m.r.text), "\xef\xbf\xbd\xef\xbf\xbd");
    assert_int_equal(m.r.prompt_tokens, 5);
    assert_int_equal(m.r.completion_tokens, 2);
    assert_string_equal(m.r.finish, "");
    assert_end(&m, RUN_OK, "", "");
    FEED(&m, "data: {\"usage\":{\"completion_tokens\":2.5}}\n\n");
    assert_end(&m, RUN_ERROR, "malformed", "chunk:1:31: completion_tokens: expected a count");
}

static void calls_of_tools_and_parts_are_text(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, BEGINS,
         "data: "
         "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":"
         "\"function\","
         "\"function\":{\"name\":\"get\",\"arguments\":\"\"}}]}}]}\n\n",
         "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
         "\"(1)\"}}]}}]}\n\n",
         "data: "
         "{\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":"
         "\"text\",\"text\":\"hm\"}]}]}}]}\n\n",
         ENDS, TOTAL("3"));
    assert_int_equal(m.r.chunks.n, 3);
    assert_string_equal(buf_str(&m.r.text), "get(1)hm");
    assert_end(&m, RUN_OK, "", "");
}

/* Counted, and nothing of it sent: it came at once, when the server said that it was over. */
static void usage_without_content_is_an_answer(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, BEGINS, ENDS, TOTAL("7"));
    assert_int_equal(m.r.chunks.n, 1);
    assert_int_equal(m.r.chunks.p[0].tokens, 7);
    assert_int_equal(m.r.chunks.p[0].time_ns, 20);
    assert_end(&m, RUN_OK, "", "");
    FEED(&m, BEGINS, ENDS, TOTAL("0"));
    assert_end(&m, RUN_ERROR, "no_tokens", "the stream ended without a token");
}

static void reasoning_is_a_part_of_the_completion(void **state)
{
    (void)state;
    static const struct {
        const char *usage;
        int64_t reasoning;
    } rows[] = {
        {"\"prompt_tokens\":5,\"completion_tokens\":9,\"total_tokens\":14", 6},
        {"\"completion_tokens\":9", 6},
        {"\"prompt_tokens\":5,\"completion_tokens\":9,\"total_tokens\":20", 0}, /* beside it: xAI */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct made m;
        char usage[300];
        snprintf(
            usage, sizeof usage,
            "data: {\"usage\":{%s,\"completion_tokens_details\":{\"reasoning_tokens\":6}}}\n\n",
            rows[i].usage);
        FEED(&m, DELTA, usage, "data: [DONE]\n\n");
        assert_int_equal(m.r.reasoning_tokens, rows[i].reasoning);
        assert_false(m.r.reasoned);
        assert_end(&m, RUN_OK, "", "");
    }
}

/* OpenAI's Responses API: its type may come behind the delta. */
static void responses_are_events_with_a_type(void **state)
{
    struct made m;
    (void)state;
    FEED(&m,
         "event: response.created\ndata: "
         "{\"type\":\"response.created\",\"response\":{\"error\":null,"
         "\"usage\":null}}\n\n",
         "event: x\ndata: {\"type\":\"response.reasoning_text.delta\",\"delta\":\"hm\"}\n\n",
         "event: x\ndata: {\"delta\":\"He\",\"type\":\"response.output_text.delta\"}\n\n",
         "event: x\ndata: {\"delta\":\"xx\",\"type\":\"response.something.delta\"}\n\n",
         "event: x\ndata: {\"type\":\"response.output_text.done\",\"text\":\"He\"}\n\n",
         "event: x\ndata: {\"type\":\"response.incomplete\",\"response\":{\"incomplete_details\":{"
         "\"reason\":\"max_output_tokens\"},\"usage\":{\"input_tokens\":5,\"output_tokens\":2,"
         "\"output_tokens_details\":{\"reasoning_tokens\":1},\"total_tokens\":7}}}\n\n");
    assert_int_equal(m.r.chunks.n, 2);
    assert_string_equal(buf_str(&m.r.text), "hmHe");
    assert_string_equal(m.r.finish, "length");
    assert_int_equal(m.r.prompt_tokens, 5);
    assert_int_equal(m.r.completion_tokens, 2);
    assert_int_equal(m.r.reasoning_tokens, 1);
    assert_true(m.r.reasoned && m.r.done);
    assert_end(&m, RUN_OK, "", "");
}

static void a_new_attempt_forgets_the_one_before(void **state)
{
    struct made m;
    (void)state;
    FEED(&m, "data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}\n\n", "data: x\n\n");
    assert_int_equal(m.r.status, RUN_ERROR);
    response_begin(&m.s, &m.r, 4096);
    assert_int_equal(m.r.chunks.n + m.r.ids.n + m.r.text.n, 0);
    assert_int_equal(m.r.end_ns, RUN_NONE);
    assert_end(&m, RUN_OK, "", "");
}

/* Servers like to say which key they refuse. */
static void secrets_stand_in_no_message(void **state)
{
    (void)state;
    static const char *const secrets[] = {"sk-abcdef-123456", "abc"};
    static const struct {
        const char *said, *kept;
    } rows[] = {
        {"Incorrect API key: sk-abcdef-123456. See sk-abcdef-123456",
         "Incorrect API key: redacted. See redacted"},
        {"sk-abcdef-123456sk-abcdef-123456", "redactedredacted"},
        {"cut off: sk-abcdef-1", "cut off: redacted"}, /* its beginning, at the end */
        {"sk-a in the middle, and abc", "sk-a in the middle, and abc"},
        {"the end is sk-", "the end is sk-"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client_result r = {0};
        struct response s = {.secrets = secrets, .n_secrets = 2};
        response_begin(&s, &r, 4096);
        response_fail(&s, 0, RUN_ERROR, "server", "%s", rows[i].said);
        assert_string_equal(r.error_msg, rows[i].kept);
        client_result_free(&r);
        response_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(secrets_stand_in_no_message),
        cmocka_unit_test(chunks_with_text_carry_tokens),
        cmocka_unit_test(messages_that_one_read_brings_are_told_apart),
        cmocka_unit_test(a_chat_speaks_in_deltas),
        cmocka_unit_test(tokens_without_text_are_found_by_the_total),
        cmocka_unit_test(ids_count_tokens_exactly),
        cmocka_unit_test(usage_in_every_chunk_counts_tokens_exactly),
        cmocka_unit_test(usage_in_the_last_chunk_alone_is_no_count_of_that_chunk),
        cmocka_unit_test(a_finish_reason_and_a_clean_end_are_enough),
        cmocka_unit_test(what_comes_after_done_is_counted_and_ignored),
        cmocka_unit_test(bad_ends_have_names),
        cmocka_unit_test(errors_of_any_shape_fail_the_request),
        cmocka_unit_test(what_only_looks_like_an_error_is_none),
        cmocka_unit_test(what_the_server_sends_is_missed),
        cmocka_unit_test(loose_json_is_taken),
        cmocka_unit_test(calls_of_tools_and_parts_are_text),
        cmocka_unit_test(usage_without_content_is_an_answer),
        cmocka_unit_test(reasoning_is_a_part_of_the_completion),
        cmocka_unit_test(responses_are_events_with_a_type),
        cmocka_unit_test(a_new_attempt_forgets_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
