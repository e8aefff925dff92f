#include "client/body.h"

#include <math.h>

#include "support/support.h"
#include "text/json.h"

static const char *body(struct test *t, const struct body_params *p, const struct body_prompt *q)
{
    struct body_maker *m;
    struct sv out;
    assert_ok(body_maker_new(t->a, p, &m, &t->e), t);
    assert_ok(body_make(t->a, m, q, 32, &out, &t->e), t);
    struct node *tree; /* it is JSON */
    assert_ok(json_parse(t->a, "body", out, NULL, &tree, &t->e), t);
    return out.p;
}

static void completions_take_a_text_or_ids(void **state)
{
    struct test *t = *state;
    struct body_params p = {.model = "m", .ignore_eos = true};
    struct body_prompt text = {.text = SV("say \"hi\"\n\xff")};
    assert_string_equal(body(t, &p, &text),
                        "{\"ignore_eos\":true,\"model\":\"m\",\"stream\":true,"
                        "\"stream_options\":{\"include_usage\":true},\"temperature\":0,"
                        "\"max_tokens\":32,\"prompt\":\"say \\\"hi\\\"\\n\xef\xbf\xbd\"}");
    const int32_t ids[] = {5, 600, 7};
    struct body_prompt as_ids = {.ids = ids, .n_ids = 3};
    p = (struct body_params){.model = "m", .count = BODY_COUNT_TOKENIZER, .temperature = 0.5};
    assert_string_equal(body(t, &p, &as_ids),
                        "{\"model\":\"m\",\"stream\":true,\"temperature\":0.5,"
                        "\"max_tokens\":32,\"prompt\":[5,600,7]}");
}

static void a_chat_is_one_message(void **state)
{
    struct test *t = *state;
    struct body_params p = {
        .endpoint = BODY_CHAT, .model = "m", .count = BODY_COUNT_EACH, .chat = CHAT_NONE};
    struct body_prompt text = {.text = SV("hi")};
    assert_string_equal(body(t, &p, &text),
                        "{\"model\":\"m\",\"stream\":true,\"stream_options\":"
                        "{\"continuous_usage_stats\":true,\"include_usage\":true},"
                        "\"temperature\":0,\"max_tokens\":32,\"messages\":"
                        "[{\"role\":\"user\",\"content\":\"hi\"}]}");
}

/* The turns before stand as messages of a chat, or one after the other. */
static void earlier_turns_stand_before_it(void **state)
{
    struct test *t = *state;
    const struct sv earlier[] = {SV("hi"), SV("say \"what\"?")};
    struct body_params p = {.endpoint = BODY_CHAT,
                            .model = "m",
                            .count = BODY_COUNT_TOKENIZER,
                            .temperature = (double)NAN,
                            .chat = CHAT_NONE};
    struct body_prompt prompt = {.text = SV("ho"), .earlier = earlier, .n_earlier = 2};
    assert_string_equal(body(t, &p, &prompt),
                        "{\"model\":\"m\",\"stream\":true,\"max_tokens\":32,\"messages\":["
                        "{\"role\":\"user\",\"content\":\"hi\"},"
                        "{\"role\":\"assistant\",\"content\":\"say \\\"what\\\"?\"},"
                        "{\"role\":\"user\",\"content\":\"ho\"}]}");
    p.endpoint = BODY_COMPLETIONS;
    assert_string_equal(body(t, &p, &prompt), "{\"model\":\"m\",\"stream\":true,\"max_tokens\":32,"
                                              "\"prompt\":\"hisay \\\"what\\\"?ho\"}");
    p.chat = CHAT_CHATML;
    assert_string_equal(body(t, &p, &prompt),
                        "{\"model\":\"m\",\"stream\":true,\"max_tokens\":32,"
                        "\"prompt\":\"<|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n"
                        "say \\\"what\\\"?<|im_end|>\\n<|im_start|>user\\nho<|im_end|>\\n"
                        "<|im_start|>assistant\\n\"}");
}

static void the_limit_has_two_names(void **state)
{
    struct test *t = *state;
    struct body_params p = {.model = "m",
                            .count = BODY_COUNT_TOKENIZER,
                            .temperature = (double)NAN,
                            .limit = BODY_LIMIT_MAX_COMPLETION_TOKENS};
    struct body_prompt text = {.text = SV("hi")};
    assert_string_equal(body(t, &p, &text), "{\"model\":\"m\",\"stream\":true,"
                                            "\"max_completion_tokens\":32,\"prompt\":\"hi\"}");
}

static void a_template_goes_around_the_text(void **state)
{
    struct test *t = *state;
    struct body_params p = {.model = "m", .count = BODY_COUNT_IDS, .chat = CHAT_CHATML};
    struct body_prompt text = {.text = SV("hi")};
    assert_string_equal(body(t, &p, &text),
                        "{\"model\":\"m\",\"return_token_ids\":true,\"stream\":true,"
                        "\"stream_options\":{\"include_usage\":true},\"temperature\":0,"
                        "\"max_tokens\":32,\"prompt\":"
                        "\"<|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n\"}");
}

static void members_of_the_user_replace_ours_but_not_all(void **state)
{
    struct test *t = *state;
    struct node *extra = node_new(t->a, NODE_MAP), *two = node_new(t->a, NODE_MAP);
    node_set(t->a, extra, SV("temperature"), node_int(t->a, 1));
    node_set(t->a, extra, SV("top_k"), node_int(t->a, 5));
    struct body_params p = {.model = "m", .count = BODY_COUNT_TOKENIZER, .extra = extra};
    struct body_prompt text = {.text = SV("hi")};
    assert_string_equal(body(t, &p, &text),
                        "{\"model\":\"m\",\"stream\":true,\"temperature\":1,\"top_k\":5,"
                        "\"max_tokens\":32,\"prompt\":\"hi\"}");
    struct body_maker *m;
    node_set(t->a, extra, SV("stream"), node_bool(t->a, false));
    assert_err(body_maker_new(t->a, &p, &m, &t->e), ST_USAGE, t,
               "client.body.stream: the benchmark sets it itself");
    err_clear(&t->e);
    node_set(t->a, two, SV("n"), node_int(t->a, 2)); /* two answers would be counted as one */
    p.extra = two;
    assert_err(body_maker_new(t->a, &p, &m, &t->e), ST_USAGE, t,
               "client.body.n: the benchmark sets it itself");
}

static void addresses_are_completed(void **state)
{
    struct test *t = *state;
    const char *url;
    static const char *const same[] = {"http://h:8000", "http://h:8000/", "http://h:8000/v1",
                                       "http://h:8000/v1/"};
    for (size_t i = 0; i < 4; i++) {
        assert_ok(body_url(t->a, same[i], "/models", &url, &t->e), t);
        assert_string_equal(url, "http://h:8000/v1/models");
    }
    assert_ok(body_url(t->a, "https://h/api/v1", "/completions", &url, &t->e), t);
    assert_string_equal(url, "https://h/api/v1/completions");
    assert_err(body_url(t->a, "h:8000", "/x", &url, &t->e), ST_USAGE, t,
               "url: 'h:8000' is no address of a server\nhint: url=http://127.0.0.1:8000");
    err_clear(&t->e);
    assert_err(body_url(t->a, "http://u:secret@h/", "/x", &url, &t->e), ST_USAGE, t,
               "url: a name or password in it would end up in every artifact\nhint: "
               "client.headers=[\"Authorization: $VARIABLE\"] takes it from the environment");
    err_clear(&t->e);
    assert_err(body_url(t->a, "u:secret@h:8000", "/x", &url, &t->e), ST_USAGE, t,
               "url: a name or password in it would end up in every artifact\nhint: "
               "client.headers=[\"Authorization: $VARIABLE\"] takes it from the environment");
    err_clear(&t->e);
    assert_err(body_url(t->a, "http://h/?key=1", "/x", &url, &t->e), ST_USAGE, t,
               "url: 'http://h/?key=1': expected no query, fragment or space");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(completions_take_a_text_or_ids),  TEST(a_chat_is_one_message),
        TEST(a_template_goes_around_the_text), TEST(members_of_the_user_replace_ours_but_not_all),
        TEST(addresses_are_completed),         TEST(earlier_turns_stand_before_it),
        TEST(the_limit_has_two_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
