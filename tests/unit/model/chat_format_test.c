#include "model/chat_format.h"

#include "support/support.h"
#include "text/json.h"

#define JINJA \
    "{% for m in messages %}{{ bos_token }}{{ m.role }}:{{ m.content }}{{ more }};{% endfor %}"

static struct node *messages_of(struct test *t, const char *json)
{
    struct node *list;
    assert_ok(json_parse(t->a, "messages", sv_of(json), NULL, &list, &t->e), t);
    return list;
}

static const char *apply(struct test *t, const struct chat_format *f, const struct node *messages,
                         const struct node *kwargs)
{
    struct buf out = {0};
    assert_ok(chat_format_apply(t->a, f, messages, kwargs, &out, &t->e), t);
    const char *s = arena_str(t->a, buf_str(&out));
    buf_free(&out);
    return s;
}

static void the_models_template_is_found(void **state)
{
    struct test *t = *state;
    struct chat_format f;
    bool found;
    const struct node *hi = messages_of(t, "[{\"role\":\"user\",\"content\":\"Hi\"}]");
    assert_ok(chat_format_load(t->a, test_dir(t), &f, &found, &t->e), t);
    assert_false(found);
    test_write(t, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    assert_ok(chat_format_load(t->a, test_dir(t), &f, &found, &t->e), t);
    assert_false(found);
    test_write(
        t, "tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": null, \"chat_template\": \"" JINJA
        "\"}");
    assert_ok(chat_format_load(t->a, test_dir(t), &f, &found, &t->e), t);
    assert_true(found);
    assert_string_equal(apply(t, &f, hi, NULL), "<s>user:Hi;");
    assert_string_equal(apply(t, &f, hi, messages_of(t, "{\"more\": \"!\", \"messages\": []}")),
                        "<s>user:Hi!;"); /* what is ours is not theirs to set */
    test_write(t, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"{% macro %}\"},"
               " {\"name\": \"default\", \"template\": \"{{ messages[0].content }}.\"}]}");
    assert_ok(chat_format_load(t->a, test_dir(t), &f, &found, &t->e), t);
    assert_string_equal(apply(t, &f, hi, NULL), "Hi.");
    test_write(t, "chat_template.jinja", "{{ messages|length }}\n");
    assert_ok(chat_format_load(t->a, test_dir(t), &f, &found, &t->e), t);
    assert_string_equal(apply(t, &f, hi, NULL), "1");
}

static void the_shipped_model_speaks_chatml(void **state)
{
    struct test *t = *state;
    struct chat_format f, named = {.kind = CHAT_CHATML};
    bool found;
    const struct node *talk = messages_of(t, "[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                                             "{\"role\":\"user\",\"content\":\"Hi\"}]");
    assert_ok(chat_format_load(t->a, TW_SOURCE_DIR "/data/models/tiny_qwen3", &f, &found, &t->e),
              t);
    assert_true(found);
    assert_string_equal(apply(t, &f, talk, NULL), apply(t, &named, talk, NULL));
}

static void a_template_of_no_use_is_refused(void **state)
{
    struct test *t = *state;
    struct chat_format f;
    bool found;
    test_write(t, "chat_template.jinja", "{% macro x() %}{% endmacro %}");
    assert_err(chat_format_load(t->a, test_dir(t), &f, &found, &t->e), ST_INPUT, t,
               "DIR/chat_template.jinja:1:4: tag macro: not done here");
    err_clear(&t->e);
    test_write(t, "chat_template.jinja", "{{ messages + 1 }}");
    assert_err(chat_format_load(t->a, test_dir(t), &f, &found, &t->e), ST_INPUT, t,
               "DIR/chat_template.jinja:1:14: a list + an integer has no meaning");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(the_models_template_is_found),
                                       TEST(the_shipped_model_speaks_chatml),
                                       TEST(a_template_of_no_use_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
