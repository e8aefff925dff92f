/* Events of a stream in the order and with the members of OpenAI's Responses API. */
#include "server/responses.h"

#include "support/support.h"
#include "text/json.h"

static const struct http_request request = {
    .api = HTTP_RESPONSES, .chat = true, .n_ids = 5, .max_tokens = 2};

/* "type status": of every event, whose number must be its place. */
static const char *events_of(struct test *t, const char *text)
{
    struct buf all = {0};
    int64_t n = 0, number;
    const char *type, *status;
    for (const char *at; (at = strstr(text, "data: ")) != NULL; n++) {
        const size_t size = strcspn(at + 6, "\n");
        struct node *tree;
        assert_ok(json_parse(t->a, "event", (struct sv){at + 6, size}, NULL, &tree, &t->e), t);
        assert_ok(node_get_str(tree, "type", &type, &t->e), t);
        assert_ok(node_get_int(tree, "sequence_number", 0, 100, &number, &t->e), t);
        assert_int_equal(number, n);
        const struct node *response = node_find(tree, "response");
        buf_printf(&all, "%s", type);
        if (response) {
            assert_ok(node_get_str(response, "status", &status, &t->e), t);
            buf_printf(&all, " %s", status);
        }
        buf_putc(&all, '\n');
        text = at + 6 + size;
    }
    const char *out = arena_str(t->a, buf_str(&all));
    buf_free(&all);
    return out;
}

static const char *stream(struct test *t, const char *finish)
{
    struct answer_head h = {.id = 7, .created_s = 1, .model = "m", .request = &request};
    struct buf text = {0};
    answer_event(&text, &h, SV("He"), 1, 1, NULL);
    answer_event(&text, &h, SV("y"), 2, 2, finish);
    h.said = SV("Hey");
    h.finish = finish;
    answer_end(&text, &h, 2);
    const char *out = arena_str(t->a, buf_str(&text));
    buf_free(&text);
    return out;
}

static void events_have_openais_order(void **state)
{
    struct test *t = *state;
    const char *text = stream(t, "stop");
    assert_string_equal(events_of(t, text), "response.created in_progress\n"
                                            "response.in_progress in_progress\n"
                                            "response.output_item.added\n"
                                            "response.content_part.added\n"
                                            "response.output_text.delta\n"
                                            "response.output_text.delta\n"
                                            "response.output_text.done\n"
                                            "response.content_part.done\n"
                                            "response.output_item.done\n"
                                            "response.completed completed\n");
    assert_non_null(strstr(text, "\"delta\":\"He\""));
    assert_non_null(strstr(text, "\"text\":\"Hey\""));
    assert_non_null(strstr(text, "\"input_tokens\":5,\"output_tokens\":2,"));
    assert_non_null(strstr(text, "\"total_tokens\":7"));
    assert_null(strstr(text, "[DONE]"));
}

static void a_cut_answer_is_incomplete(void **state)
{
    struct test *t = *state;
    const char *text = stream(t, "length");
    assert_non_null(strstr(events_of(t, text), "response.incomplete incomplete\n"));
    assert_non_null(strstr(text, "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"));
}

static void a_whole_answer_and_an_error_are_documents(void **state)
{
    struct test *t = *state;
    const struct answer_head h = {.id = 7, .model = "m", .request = &request};
    struct buf text = {0};
    struct node *tree;
    const char *s;
    answer_document(&text, &h, SV("Hey"), NULL, 2, "stop");
    assert_ok(json_parse(t->a, "whole", (struct sv){buf_str(&text), text.n}, NULL, &tree, &t->e),
              t);
    assert_ok(node_get_str(tree, "object", &s, &t->e), t);
    assert_string_equal(s, "response");
    const struct node *item = node_find(tree, "output")->items[0];
    assert_ok(node_get_str(node_find(item, "content")->items[0], "text", &s, &t->e), t);
    assert_string_equal(s, "Hey");
    buf_clear(&text);
    answer_event_error(&text, &h, "gone");
    assert_string_equal(
        buf_str(&text),
        "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":"
        "\"gone\",\"param\":null}\n\n");
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_have_openais_order),
        TEST(a_cut_answer_is_incomplete),
        TEST(a_whole_answer_and_an_error_are_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
