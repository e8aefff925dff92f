#include "model/tokenizer/added.h"

#include "support/support.h"

static const struct added_token tokens[] = {
    {.content = "<s>", .id = 1},
    {.content = "<s>x", .id = 2},
    {.content = "[M]", .id = 3, .lstrip = true},
    {.content = "[E]", .id = 4, .rstrip = true},
    {.content = "word", .id = 5, .single_word = true},
};

/* Stretches as "text|<id:text>|text". */
static void check(const char *text, const char *want)
{
    struct added_trie trie = {0};
    struct added_span s;
    struct buf got = {0};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        added_put(&trie, sv_of(tokens[i].content), &tokens[i]);
    struct added_scan scan = {.trie = &trie, .text = sv_of(text)};
    while (added_next(&scan, &s)) {
        if (got.n)
            buf_putc(&got, '|');
        if (s.token)
            buf_printf(&got, "<%d:%.*s>", s.token->id, (int)(s.end - s.begin), text + s.begin);
        else
            buf_add(&got, text + s.begin, s.end - s.begin);
    }
    assert_string_equal(buf_str(&got), want);
    buf_free(&got);
    added_free(&trie);
}

static void stretches(void **state)
{
    (void)state;
    check("", "");
    check("abc", "abc");
    check("<s>", "<1:<s>>");
    check("a<s><s>b", "a|<1:<s>>|<1:<s>>|b");
    check("<s>xy<s", "<2:<s>x>|y<s"); /* the longest; a beginning alone is text */
    check("<<s>", "<|<1:<s>>");
}

static void white_space(void **state)
{
    (void)state;
    check("a \t\xe3\x80\x80[M] b", "a|<3: \t\xe3\x80\x80[M]>| b");
    check("a [E]  \nb", "a |<4:[E]  \n>|b");
    check("[E]  [M]x", "<4:[E]  >|<3:[M]>|x"); /* swallowed once */
    check("  [M]", "<3:  [M]>");
}

static void single_words(void **state)
{
    (void)state;
    check("word", "<5:word>");
    check("a word.", "a |<5:word>|.");
    check("sword words word_", "sword words word_");
    check("\xc3\xa9word word\xcc\x81 -word-", "\xc3\xa9word word\xcc\x81 -|<5:word>|-");
}

static void no_tokens(void **state)
{
    (void)state;
    struct added_trie none = {0};
    struct added_span s;
    struct added_scan scan = {.trie = &none, .text = SV("ab")};
    assert_true(added_next(&scan, &s));
    assert_true(s.begin == 0 && s.end == 2 && !s.token);
    assert_false(added_next(&scan, &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(stretches), TEST(white_space), TEST(single_words),
                                       TEST(no_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
