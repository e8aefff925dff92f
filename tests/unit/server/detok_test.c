#include "server/detok.h"

#include "support/support.h"

/* Token by token it is the text of all, and no piece ends within a character. */
static void pieces_make_the_whole(void **state)
{
    struct test *t = *state;
    static const char *const texts[] = {
        "Hello there, how are you today? Fine.",
        "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
        "日本語のテキストと絵文字 🎉🎉 と \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
        "a\n\n  b\t\tc   ",
    };
    struct tokenizer *tokenizer;
    assert_ok(
        tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &t->e),
        t);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct detok d = {.t = tokenizer};
        struct buf all = {0}, whole = {0};
        int32_t *ids;
        size_t n;
        assert_ok(tokenizer_encode(t->a, tokenizer, sv_of(texts[i]), true, &ids, &n, &t->e), t);
        for (size_t k = 0; k < n; k++) {
            detok_add(&d, ids[k], k + 1 == n, &all);
            assert_int_equal(str_utf8_valid(buf_str(&all), all.n), all.n);
        }
        assert_ok(tokenizer_decode(tokenizer, ids, n, true, &whole, &t->e), t);
        assert_string_equal(buf_str(&all), buf_str(&whole));
        detok_free(&d);
        buf_free(&all);
        buf_free(&whole);
    }
    tokenizer_free(&tokenizer);
}

static void without_a_tokenizer_there_is_no_text(void **state)
{
    struct detok d = {0};
    struct buf out = {0};
    (void)state;
    detok_add(&d, 5, true, &out);
    assert_int_equal(out.n, 0);
    detok_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(pieces_make_the_whole),
                                       TEST(without_a_tokenizer_there_is_no_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
