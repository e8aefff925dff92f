#include "model/chat_template.h"

#include "support/support.h"

#define MESSAGE(role_, text) \
    {                        \
        SV(role_), SV(text)  \
    }

static const char *apply(struct test *t, enum chat_template c, const struct chat_message *m,
                         size_t n)
{
    struct buf out = {0};
    assert_ok(chat_template_apply(&out, c, m, n, &t->e), t);
    const char *s = arena_str(t->a, buf_str(&out));
    buf_free(&out);
    return s;
}

static const struct chat_message talk[] = {MESSAGE("system", "Be brief."), MESSAGE("user", "Hi"),
                                           MESSAGE("assistant", "Hello."), MESSAGE("user", "Bye")};

static void each_template_has_its_marks(void **state)
{
    struct test *t = *state;
    assert_string_equal(apply(t, CHAT_CHATML, talk, 4),
                        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
                        "<|im_start|>assistant\n");
    assert_string_equal(apply(t, CHAT_LLAMA2, talk, 4),
                        "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>"
                        "[INST] Bye [/INST]");
    assert_string_equal(apply(t, CHAT_LLAMA2, talk + 1, 1), "[INST] Hi [/INST]");
    assert_string_equal(apply(t, CHAT_NONE, talk, 2), "Be brief.\nHi");
}

static void roles_of_llama2_take_turns(void **state)
{
    struct test *t = *state;
    struct buf out = {0};
    assert_err(chat_template_apply(&out, CHAT_LLAMA2, talk, 3, &t->e), ST_INPUT, t,
               "chat_template llama2: the last message must be the user's");
    err_clear(&t->e);
    assert_err(chat_template_apply(&out, CHAT_LLAMA2, talk + 2, 2, &t->e), ST_INPUT, t,
               "chat_template llama2: message 0 is of role assistant, expected user");
    err_clear(&t->e);
    assert_err(chat_template_apply(&out, CHAT_CHATML, talk, 0, &t->e), ST_INPUT, t,
               "a chat needs a message");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(each_template_has_its_marks),
                                       TEST(roles_of_llama2_take_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
