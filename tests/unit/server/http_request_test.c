#include "server/http_request.h"

#include "support/support.h"

static const struct http_request_rules rules = {
    .model = "m", .vocab = 100, .max_model_len = 20, .ignore_eos = true};

static struct http_request good(struct test *t, bool chat, const char *body)
{
    struct http_request a;
    struct http_refusal refusal;
    assert_ok(http_request_parse(t->a, &rules, chat, sv_of(body), &a, &refusal, &t->e), t);
    return a;
}

static void bad(struct test *t, const char *body, int want, const char *text)
{
    struct http_request a;
    struct http_refusal refusal;
    err_clear(&t->e);
    assert_err(http_request_parse(t->a, &rules, false, sv_of(body), &a, &refusal, &t->e), ST_INPUT,
               t, text);
    assert_int_equal(refusal.status, want);
}

static void ids_are_taken_as_they_are(void **state)
{
    struct test *t = *state;
    struct http_request a =
        good(t, false,
             "{\"model\":\"m\",\"prompt\":[1,2,99],\"max_tokens\":5,\"stream\":true,"
             "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true},"
             "\"return_token_ids\":true,\"ignore_eos\":false,\"temperature\":0,"
             "\"top_p\":0.9,\"n\":1,\"stop\":null,\"logprobs\":null,\"user\":\"u\","
             "\"tool_choice\":\"none\",\"parallel_tool_calls\":false,\"service_tier\":\"auto\"}");
    assert_int_equal(a.n_ids, 3);
    assert_int_equal(a.ids[2], 99);
    assert_int_equal(a.max_tokens, 5);
    assert_true(a.stream && a.include_usage && a.each_usage && a.return_ids && !a.ignore_eos);
    a = good(t, false, "{\"model\":\"m\",\"prompt\":[[1,2]]}");
    assert_int_equal(a.n_ids, 2);
    assert_int_equal(a.max_tokens, 16);
    assert_true(!a.stream && a.ignore_eos);
    a = good(t, false, "{\"model\":\"m\",\"prompt\":[1,1,1,1,1,1],\"max_tokens\":null}");
    assert_int_equal(a.max_tokens, 14); /* no more room */
    a = good(t, false, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":3,\"min_tokens\":3}");
    assert_int_equal(a.max_tokens, 3);
}

static void what_is_not_done_is_refused_by_name(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *member, *text;
    } rows[] = {
        {"\"temperature\":-0.5", "body:1:41: temperature: -0.5 is below the minimum 0"},
        {"\"temperature\":\"hot\"", "body:1:41: temperature: expected a number, got a string"},
        {"\"top_p\":1.5", "body:1:35: top_p: 1.5 is above the maximum 1"},
        {"\"top_k\":-2", "body:1:35: top_k: -2 is below the minimum -1"},
        {"\"presence_penalty\":0.5", "presence_penalty: not done here: leave it out"},
        {"\"logprobs\":true", "logprobs: not done here: leave it out"},
        {"\"response_format\":{\"type\":\"json_object\"}",
         "response_format: only {\"type\": \"text\"} is done here"},
        {"\"response_format\":\"text\"", "response_format: only {\"type\": \"text\"} is done here"},
        {"\"n\":2", "n: not done here: leave it out"},
        {"\"stop\":[\"a\"]", "stop: this model has no tokenizer, so answers have no text"},
        {"\"tool_choice\":\"required\"", "tool_choice: not done here: leave it out"},
        {"\"min_tokens\":-1", "body:1:40: min_tokens: -1 is below the minimum 0"},
        {"\"min_tokens\":9,\"max_tokens\":8", "min_tokens: 9, and at most 8 are asked for"},
        {"\"skip_special_tokens\":false", "skip_special_tokens: not done here: leave it out"},
        {"\"tools\":[{}]", "tools: not done here: leave it out"},
        {"\"logprobs\":0", "logprobs: not done here: leave it out"},
        {"\"echo\":true", "echo: not done here: leave it out"},
        {"\"beam_width\":2", "beam_width: unknown here"},
        {"\"max_tokens\":0", "body:1:40: max_tokens: 0 is below the minimum 1"},
        {"\"stream\":1", "body:1:36: stream: expected true or false, got an integer"},
        {"\"stream_options\":1", "stream_options: expected a map"},
        {"\"max_tokens\":20", "the prompt has 1 tokens, and 20 of output are asked for: the model "
                              "takes 20 in all"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bad(t, arena_printf(t->a, "{\"model\":\"m\",\"prompt\":[1],%s}", rows[i].member), 400,
            rows[i].text);
}

/* What clients send without meaning anything by it is taken. */
static void what_changes_nothing_is_taken(void **state)
{
    struct test *t = *state;
    static const char *const members[] = {
        "\"n\":1",
        "\"n\":null",
        "\"best_of\":1",
        "\"logprobs\":false",
        "\"logprobs\":null",
        "\"top_logprobs\":0",
        "\"response_format\":{\"type\":\"text\"}",
        "\"response_format\":null",
        "\"presence_penalty\":0,\"frequency_penalty\":0.0,\"repetition_penalty\":1.0",
        "\"temperature\":1,\"top_p\":1,\"top_k\":-1,\"min_p\":0,\"seed\":null",
        "\"logit_bias\":{},\"tools\":[],\"functions\":null,\"echo\":false,\"suffix\":null",
        "\"beam_width\":null,\"min_tokens\":null,\"return_token_ids\":null,\"ignore_eos\":null",
        "\"min_tokens\":0,\"tool_choice\":\"auto\",\"parallel_tool_calls\":true",
        "\"min_tokens\":3,\"ignore_eos\":false",
        "\"stream_options\":{\"include_usage\":null}",
        "\"stream_options\":null,\"stop\":null,\"max_tokens\":null,\"user\":\"u\",\"store\":false",
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        good(t, false, arena_printf(t->a, "{\"model\":\"m\",\"prompt\":[1],%s}", members[i]));
}

static void sampling_is_read(void **state)
{
    struct test *t = *state;
    struct http_request a = good(t, false, "{\"model\":\"m\",\"prompt\":[1]}");
    assert_true(!a.sampled && !a.seeded); /* greedy unless the rules say otherwise */
    a = good(t, false,
             "{\"model\":\"m\",\"prompt\":[1],\"temperature\":0.5,\"top_p\":0.75,\"top_k\":40,"
             "\"min_p\":0.125,\"seed\":-7}");
    assert_true(a.sampled && a.seeded);
    assert_near(a.sampling.temperature, 0.5, 0);
    assert_near(a.sampling.top_p, 0.75, 0);
    assert_near(a.sampling.min_p, 0.125, 0);
    assert_int_equal(a.sampling.top_k, 40);
    assert_int_equal((int64_t)a.sampling.seed, -7);
    a = good(t, false, "{\"model\":\"m\",\"prompt\":[1],\"temperature\":1,\"top_k\":-1}");
    assert_true(a.sampled && !a.seeded);
    assert_int_equal(a.sampling.top_k, 0);
    assert_near(a.sampling.top_p, 1, 0);
    a = good(t, false, "{\"model\":\"m\",\"prompt\":[1],\"temperature\":1,\"top_k\":1}");
    assert_false(a.sampled);
    a = good(t, false, "{\"model\":\"m\",\"prompt\":[1],\"temperature\":0,\"top_p\":0.5}");
    assert_false(a.sampled);

    struct http_request_rules r = rules;
    struct http_refusal refusal;
    r.temperature = 1;
    assert_ok(http_request_parse(t->a, &r, false, SV("{\"model\":\"m\",\"prompt\":[1]}"), &a,
                                 &refusal, &t->e),
              t);
    assert_true(a.sampled);
    r.predicted = true; /* there is nothing to draw from */
    assert_ok(http_request_parse(t->a, &r, false,
                                 SV("{\"model\":\"m\",\"prompt\":[1],\"presence_penalty\":1}"), &a,
                                 &refusal, &t->e),
              t);
    assert_false(a.sampled);
}

/* A tree takes many times the memory of its text: bodies of many small values are not made into
 * one. */
static void bodies_of_many_values_are_refused(void **state)
{
    struct test *t = *state;
    struct buf body = {0};
    buf_puts(&body, "{\"model\":\"m\",\"prompt\":[1");
    for (int i = 0; i < 70000; i++)
        buf_puts(&body, ",1");
    buf_puts(&body, "]}");
    bad(t, buf_str(&body), 400, "body: 70002 values, of which 65556 are read at most");
    buf_clear(&body);
    buf_puts(&body, "{\"model\":\"m\",\"prompt\":\"");
    for (int i = 0; i < 70000; i++)
        buf_puts(&body, "\\\",");
    buf_puts(&body, "\"}"); /* a text with many commas is one value */
    bad(t, buf_str(&body), 400, "this model has no tokenizer: send the prompt as token ids");
    buf_free(&body);
}

static void refusals_name_the_member(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *body, *param, *code;
    } rows[] = {
        {"{\"model\":\"m\",\"prompt\":[1],\"n\":2}", "n", NULL},
        {"{\"model\":\"m\",\"prompt\":[1],\"beam_width\":2}", NULL, NULL},
        {"{\"model\":\"m\",\"prompt\":[]}", "prompt", NULL},
        {"{\"model\":\"m\",\"prompt\":[1],\"stop\":7}", "stop", NULL},
        {"{\"model\":\"x\",\"prompt\":[1]}", "model", "model_not_found"},
        {"{\"prompt\":[1]}", "model", NULL},
        {"{\"model\":\"m\",\"prompt\":[1],\"temperature\":-1}", "temperature", NULL},
        {"{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":20}", "max_tokens",
         "context_length_exceeded"},
        {"{\"model\":\"m\",\"prompt\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}", "prompt",
         "context_length_exceeded"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_request a;
        struct http_refusal r;
        err_clear(&t->e);
        assert_int_equal(
            http_request_parse(t->a, &rules, false, sv_of(rows[i].body), &a, &r, &t->e), ST_INPUT);
        assert_true(!r.param == !rows[i].param && !r.code == !rows[i].code);
        if (r.param)
            assert_string_equal(r.param, rows[i].param);
        if (r.code)
            assert_string_equal(r.code, rows[i].code);
    }
}

static void prompts_are_checked(void **state)
{
    struct test *t = *state;
    bad(t, "{\"model\":\"m\"}", 400, "prompt: expected one text or one list of token ids");
    bad(t, "{\"model\":\"m\",\"prompt\":[]}", 400,
        "prompt: expected one text or one list of token ids");
    bad(t, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"]}", 400,
        "prompt: 2 prompts: send one with each request");
    bad(t, "{\"model\":\"m\",\"prompt\":[[1],[2]]}", 400,
        "prompt: 2 prompts: send one with each request");
    bad(t, "{\"model\":\"m\",\"prompt\":[1,\"b\"]}", 400,
        "body:1:26: prompt: expected token ids from 0 to 99");
    bad(t, "{\"model\":\"m\",\"prompt\":[1,100]}", 400,
        "body:1:26: prompt: expected token ids from 0 to 99");
    bad(t, "{\"model\":\"m\",\"prompt\":\"hi\"}", 400,
        "this model has no tokenizer: send the prompt as token ids");
    bad(t, "[1]", 400, "body: expected a JSON object");
    bad(t, "{\"model\":", 400, "body:1:10: the text ends where a value was expected");
    bad(t, "{\"prompt\":[1]}", 400, "body:1:1: model: missing");
    bad(t, "{\"model\":\"x\",\"prompt\":[1]}", 404, "the model 'x' does not exist; this is m");
}

static void a_chat_goes_through_the_template(void **state)
{
    struct test *t = *state;
    struct http_request_rules r = rules;
    struct tokenizer *tokenizer;
    const char *body = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
                       "[{\"type\":\"text\",\"text\":\"Hello\"},{\"text\":\" there\"}]}],"
                       "\"max_completion_tokens\":2}";
    struct http_request a;
    struct http_refusal refusal;
    assert_ok(
        tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &t->e),
        t);
    r.tokenizer = tokenizer;
    r.vocab = 2496;
    assert_ok(http_request_parse(t->a, &r, true, sv_of(body), &a, &refusal, &t->e), t);
    int32_t *ids;
    size_t n;
    assert_ok(tokenizer_encode(t->a, tokenizer, SV("Hello there"), true, &ids, &n, &t->e), t);
    assert_int_equal(a.n_ids, n);
    assert_memory_equal(a.ids, ids, n * sizeof *ids);
    assert_int_equal(a.max_tokens, 2);
    tokenizer_free(&tokenizer);
}

/* The prompt as text of a chat or response, without a template: contents, a line each. */
static const char *text_of(struct test *t, enum http_api api, const char *body)
{
    struct http_request_rules r = rules;
    struct tokenizer *tokenizer;
    struct http_request a;
    struct http_refusal refusal;
    struct buf text = {0};
    assert_ok(
        tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &t->e),
        t);
    r.tokenizer = tokenizer;
    r.vocab = 2496;
    r.max_model_len = 1000;
    assert_ok(http_request_parse(t->a, &r, api, sv_of(body), &a, &refusal, &t->e), t);
    assert_true(a.chat && a.api == api);
    assert_ok(tokenizer_decode(tokenizer, a.ids, (size_t)a.n_ids, false, &text, &t->e), t);
    const char *out = arena_str(t->a, buf_str(&text));
    buf_free(&text);
    tokenizer_free(&tokenizer);
    return out;
}

/* What clients with tools send. */
static void contents_may_be_null_and_tools_are_text(void **state)
{
    struct test *t = *state;
    assert_string_equal(
        text_of(
            t, HTTP_CHAT,
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"},"
            "{\"role\":\"assistant\",\"content\":null},{\"role\":\"user\",\"content\":\"so\"}]}"),
        "Hello\n\nso");
    assert_string_equal(
        text_of(
            t, HTTP_CHAT,
            "{\"model\":\"m\",\"tools\":null,\"messages\":[{\"role\":\"user\",\"content\":\"go\"},"
            "{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]},"
            "{\"role\":\"tool\",\"content\":\"4\"}]}"),
        "go\n[{\"function\":{\"name\":\"f\"}}]\n4");
    assert_string_equal(
        text_of(t, HTTP_CHAT,
                "{\"model\":\"m\",\"tools\":[{\"type\":\"function\"}],\"tool_choice\":"
                "\"auto\",\"messages\":[{\"role\":\"user\",\"content\":\"go\"}]}"),
        "[{\"type\":\"function\"}]\ngo");
    assert_string_equal(
        text_of(t, HTTP_CHAT,
                "{\"model\":\"m\",\"tools\":[{\"type\":\"function\"}],\"messages\":["
                "{\"role\":\"system\",\"content\":\"brief\"},"
                "{\"role\":\"user\",\"content\":\"go\"}]}"),
        "brief\n[{\"type\":\"function\"}]\ngo");
}

static void a_response_is_asked_like_a_chat(void **state)
{
    struct test *t = *state;
    assert_string_equal(
        text_of(t, HTTP_RESPONSES,
                "{\"model\":\"m\",\"input\":\"Hello\",\"max_output_tokens\":3,"
                "\"store\":true,\"text\":{\"format\":{\"type\":\"text\"}},\"reasoning\":"
                "{\"effort\":\"low\"},\"truncation\":\"disabled\",\"include\":[],"
                "\"previous_response_id\":null,\"background\":false}"),
        "Hello");
    assert_string_equal(
        text_of(
            t, HTTP_RESPONSES,
            "{\"model\":\"m\",\"instructions\":\"brief\",\"input\":[{\"role\":\"developer\","
            "\"content\":\"be\"},{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":"
            "\"input_text\",\"text\":\"Hi\"}]},{\"type\":\"reasoning\",\"summary\":[]},"
            "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"1\"},"
            "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"4\"}]}"),
        "brief\nbe\nHi\n[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"1\"}}]"
        "\n4");
    static const struct {
        const char *members, *text, *param;
    } rows[] = {
        {"\"input\":[]", "input: expected a text or a list of messages", "input"},
        {"\"input\":\"x\",\"previous_response_id\":\"r\"",
         "previous_response_id: not done here: leave it out", "previous_response_id"},
        {"\"input\":\"x\",\"background\":true", "background: not done here: leave it out",
         "background"},
        {"\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]",
         "input: only messages, function calls and their outputs are read", "input"},
        {"\"input\":\"x\",\"what\":1", "what: unknown here", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_request a;
        struct http_refusal refusal;
        const char *body = arena_printf(t->a, "{\"model\":\"m\",%s}", rows[i].members);
        err_clear(&t->e);
        assert_err(
            http_request_parse(t->a, &rules, HTTP_RESPONSES, sv_of(body), &a, &refusal, &t->e),
            ST_INPUT, t, rows[i].text);
        if (rows[i].param)
            assert_string_equal(refusal.param, rows[i].param);
    }
}

/* The model's own template, with the variables of the request; the tokenizer adds nothing to it. */
static void a_chat_goes_through_the_models_template(void **state)
{
    struct test *t = *state;
    struct http_request_rules r = rules;
    struct tokenizer *tokenizer;
    struct http_refusal refusal;
    struct http_request a;
    bool found;
    const char *body = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],"
                       "\"chat_template_kwargs\":{\"mood\":\"now\"},\"max_tokens\":2}";
    test_write(t, "chat_template.jinja",
               "{{ messages[0].content }} {{ mood }}"
               "{% if tools %} {{ tools[0].type }}{% endif %}<|im_end|>");
    assert_ok(chat_format_load(t->a, test_dir(t), &r.chat, &found, &t->e), t);
    assert_ok(
        tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &t->e),
        t);
    r.tokenizer = tokenizer;
    r.vocab = 2496;
    assert_ok(http_request_parse(t->a, &r, true, sv_of(body), &a, &refusal, &t->e), t);
    int32_t *ids;
    size_t n;
    assert_ok(tokenizer_encode(t->a, tokenizer, SV("Hello now<|im_end|>"), false, &ids, &n, &t->e),
              t);
    assert_int_equal(a.n_ids, n);
    assert_memory_equal(a.ids, ids, n * sizeof *ids);
    assert_int_equal(ids[n - 1], 2447); /* a special token */
    const char *tools = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],"
                        "\"tools\":[{\"type\":\"function\"}],\"max_tokens\":2}";
    assert_ok(http_request_parse(t->a, &r, true, sv_of(tools), &a, &refusal, &t->e), t);
    assert_ok(
        tokenizer_encode(t->a, tokenizer, SV("Hello  function<|im_end|>"), false, &ids, &n, &t->e),
        t);
    assert_int_equal(a.n_ids, n);
    assert_memory_equal(a.ids, ids, n * sizeof *ids);
    r.chat = (struct chat_format){.kind = CHAT_NONE};
    assert_err(http_request_parse(t->a, &r, true, sv_of(body), &a, &refusal, &t->e), ST_INPUT, t,
               "chat_template_kwargs: not done here: leave it out");
    tokenizer_free(&tokenizer);
}

static void stop_strings_are_one_or_up_to_four(void **state)
{
    struct test *t = *state;
    struct http_request_rules r = rules;
    static const struct {
        const char *stop, *error; /* NULL = taken */
        size_t n;
    } rows[] = {
        {"\"\\n\"", NULL, 1},
        {"[\"a\",\"bc\"]", NULL, 2},
        {"[]", NULL, 0},
        {"\"\"", NULL, 0},
        {"7", "stop: expected a text or a list of texts", 0},
        {"[\"a\",7]", "stop: expected a text or a list of texts", 0},
        {"[\"a\",\"\"]", "stop: a text has 1 to 256 bytes", 0},
        {"[\"a\",\"b\",\"c\",\"d\",\"e\"]", "stop: at most 4 texts", 0},
    };
    struct tokenizer *tokenizer;
    assert_ok(
        tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &t->e),
        t);
    r.tokenizer = tokenizer;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *body =
            arena_printf(t->a, "{\"model\":\"m\",\"prompt\":[1],\"stop\":%s}", rows[i].stop);
        struct http_request a;
        struct http_refusal refusal;
        err_clear(&t->e);
        enum st st = http_request_parse(t->a, &r, false, sv_of(body), &a, &refusal, &t->e);
        if (rows[i].error)
            assert_err(st, ST_INPUT, t, rows[i].error);
        else
            assert_int_equal(a.n_stops, rows[i].n);
    }
    tokenizer_free(&tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_are_taken_as_they_are),
        TEST(what_is_not_done_is_refused_by_name),
        TEST(what_changes_nothing_is_taken),
        TEST(sampling_is_read),
        TEST(bodies_of_many_values_are_refused),
        TEST(refusals_name_the_member),
        TEST(prompts_are_checked),
        TEST(contents_may_be_null_and_tools_are_text),
        TEST(a_response_is_asked_like_a_chat),
        TEST(a_chat_goes_through_the_template),
        TEST(a_chat_goes_through_the_models_template),
        TEST(stop_strings_are_one_or_up_to_four),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
