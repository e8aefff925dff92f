#include "model/tokenizer/regex.h"

#include "support/support.h"

#define SPACE "\\t-\\r\\x{85}\\p{Z}"

static void rewrites(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a+b*?", "a+b*?"},
        {"\\s+(?!\\S)", "[" SPACE "]+(?![^" SPACE "])"},
        {"[^\\s\\p{L}]", "[^" SPACE "\\p{L}]"},
        {" ?[^(\\s|[.,!?])]+", " ?[^(" SPACE "|.,!?)]+"},
        {"[a[b[c]d]e]", "[abcde]"},
        {"(?i:'s|'t)|(?<!x)\\.", "(?i:'s|'t)|(?<!x)\\."},
        {"\\p{N}{1,3}|\\P{L}{2}", "\\p{N}{1,3}|\\P{L}{2}"},
        {"\\v\\x41\\x{1F600}\\u00e9", "\\x0b\\x{41}\\x{1F600}\\x{00e9}"},
        {"[\\]\\[\\-\\\\]", "[\\]\\[\\-\\\\]"},
        {"(a)\\A\\z", "(a)\\A\\z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = {0};
        assert_ok(regex_rewrite(sv_of(cases[i].in), &out, &t->e), t);
        assert_string_equal(buf_str(&out), cases[i].out);
        buf_free(&out);
    }
}

static void refuses(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *in, *error;
    } cases[] = {
        {"a^b", "the anchor ^ at byte 1 of the pattern is not supported"},
        {"ab$", "the anchor $ at byte 2 of the pattern is not supported"},
        {"\\w+", "the escape \\w at byte 0 of the pattern is not supported"},
        {"\\1", "the escape \\1 at byte 0 of the pattern is not supported"},
        {"a\\", "the escape \\? at byte 1 of the pattern is not supported"},
        {"[\\S]", "the escape \\S at byte 1 of the pattern is not supported"},
        {"\\pL", "an escape without {..} at byte 0 of the pattern is not supported"},
        {"\\x4", "a malformed hexadecimal escape at byte 0 of the pattern is not supported"},
        {"[a[^b]]", "this class inside a class at byte 2 of the pattern is not supported"},
        {"[[:alpha:]]", "this class inside a class at byte 1 of the pattern is not supported"},
        {"[a&&b]", "&& at byte 2 of the pattern is not supported"},
        {"[]a]", "an empty class at byte 1 of the pattern is not supported"},
        {"[ab", "a class without its ] at byte 3 of the pattern is not supported"},
        {"(?<n>a)", "this kind of group at byte 0 of the pattern is not supported"},
        {"(?m:a)", "this kind of group at byte 0 of the pattern is not supported"},
        {"a{,3}", "this use of { at byte 1 of the pattern is not supported"},
        {"a{1,3}+", "this use of { at byte 1 of the pattern is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct regex *r;
        assert_err(regex_compile(sv_of(cases[i].in), &r, &t->e), ST_INPUT, t, cases[i].error);
        assert_null(r);
        err_clear(&t->e);
    }
    struct regex *r;
    assert_err(regex_compile(SV("(a"), &r, &t->e), ST_INPUT, t, "missing closing parenthesis");
}

static void finds(void **state)
{
    struct test *t = *state;
    struct regex *r;
    size_t begin, end;
    struct regex_match *m = regex_match_new();
    assert_ok(regex_compile(SV("\\s+|b*"), &r, &t->e), t);
    const struct sv text = SV("xx\xe1\xa0\x8e bb"); /* U+180E is no white space */
    assert_ok(regex_find(r, m, text, 0, &begin, &end, &t->e), t);
    assert_int_equal(begin, 5);
    assert_int_equal(end, 6);
    assert_ok(regex_find(r, m, text, end, &begin, &end, &t->e), t);
    assert_int_equal(begin, 6);
    assert_int_equal(end, 8);
    assert_ok(regex_find(r, m, text, end, &begin, &end, &t->e), t);
    assert_true(begin == 8 && end == 8);
    assert_ok(regex_find(r, m, SV("xyz"), 0, &begin, &end, &t->e), t);
    assert_true(begin == 3 && end == 3);
    regex_free(&r);
    regex_match_free(&m);
}

/* (a+)+[bd] on a text of a's is exponential; it ends with an error instead of never. */
static void runs_away(void **state)
{
    struct test *t = *state;
    struct regex *r;
    size_t begin, end;
    struct regex_match *m = regex_match_new();
    const struct sv text = SV("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac");
    assert_ok(regex_compile(SV("(?:a+)+[bd]"), &r, &t->e), t);
    assert_err(regex_find(r, m, text, 0, &begin, &end, &t->e), ST_INPUT, t,
               "the tokenizer's pattern fails at byte 0 of the text: match limit exceeded");
    regex_free(&r);
    regex_match_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(rewrites), TEST(refuses), TEST(finds), TEST(runs_away)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
