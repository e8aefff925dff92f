#include "server/stops.h"

#include "support/support.h"

static struct tokenizer *tokenizer;

static int load(void **state)
{
    struct err e = {0};
    (void)state;
    return tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &e);
}

static int unload(void **state)
{
    (void)state;
    tokenizer_free(&tokenizer);
    return 0;
}

/* The pieces that go out, token by token, with | between them; "#" where a stop string ended it. */
static const char *pieces(struct test *t, const char *text, const char *const *stops)
{
    struct stops s = {.detok = {.t = tokenizer}};
    struct sv strings[STOPS_MOST];
    struct buf out = {0};
    size_t n = 0, at = 0, n_ids;
    int32_t *ids;
    bool hit = false;
    for (; stops[n]; n++)
        strings[n] = sv_of(stops[n]);
    assert_ok(tokenizer_encode(t->a, tokenizer, sv_of(text), false, &ids, &n_ids, &t->e), t);
    for (size_t i = 0; i < n_ids && !hit; i++) {
        hit = stops_add(&s, strings, n, ids[i], i + 1 == n_ids);
        size_t upto = vec_last(&s.upto);
        assert_true(upto >= at && upto <= s.text.n);
        assert_int_equal(str_utf8_valid(buf_str(&s.text) + at, upto - at), upto - at);
        buf_printf(&out, "%s%.*s", i ? "|" : "", (int)(upto - at), buf_str(&s.text) + at);
        at = upto;
    }
    assert_int_equal(at, s.text.n); /* nothing is left behind at the end */
    if (hit)
        buf_putc(&out, '#');
    stops_free(&s);
    const char *all = arena_str(t->a, buf_str(&out));
    buf_free(&out);
    return all;
}

/* Without the |. */
static const char *whole(struct test *t, const char *text, const char *const *stops)
{
    const char *from = pieces(t, text, stops);
    struct buf b = {0};
    for (; *from; from++)
        if (*from != '|')
            buf_putc(&b, *from);
    const char *all = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    return all;
}

#define STOPS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void an_answer_ends_before_the_first_stop_string(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text, *stops[4], *want;
    } rows[] = {
        {"one two three", {"two"}, "one #"},
        {"one two three", {"three", "two"}, "one #"},
        {"one two three", {"four"}, "one two three"},
        {"one two three", {"o"}, "#"},
        {"aab aaab", {"aaab"}, "aab #"},
        {"no end: ##", {"###"}, "no end: ##"}, /* what waited goes out with the last token */
        {"a\n\nb", {"\n\n"}, "a#"},
        {"größer 日本語", {"本"}, "größer 日#"},
        {"größer 日本語", {"日本人"}, "größer 日本語"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(whole(t, rows[i].text, rows[i].stops), rows[i].want);
}

/* A token a letter, so that it shows when each goes out. */
static void what_could_begin_a_stop_string_waits(void **state)
{
    struct test *t = *state;
    assert_string_equal(pieces(t, "x 7 8 9", STOPS("zzz")), pieces(t, "x 7 8 9", STOPS("yyy")));
    assert_string_equal(pieces(t, "1212134", STOPS("12134")), "|||12|||#");
    assert_string_equal(pieces(t, "1212135", STOPS("12134")), "|||12|||12135");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_ends_before_the_first_stop_string),
        TEST(what_could_begin_a_stop_string_waits),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
