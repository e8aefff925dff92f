#include "model/tokenizer/utf8.h"

#include "support/support.h"

/* The examples of Unicode 15, tables 3-8 to 3-11, and the ends of the ranges. */
static void lossy(void **state)
{
    (void)state;
#define R "\xef\xbf\xbd"
    static const struct {
        struct sv in;
        const char *out;
    } cases[] = {
        {{"", 0}, ""},
        {{"abc\xc3\xa9", 5}, "abc\xc3\xa9"},
        {{"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", 9}, R R R R R R R R "A"},
        {{"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", 9}, R R R R R R R R "A"},
        {{"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 9}, R R R R R "A" R R "B"},
        {{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9}, R R R R "A"},
        {{"x\xf0\x9f\x98", 4}, "x" R},
        {{"\xf4\x8f\xbf\xbf", 4}, "\xf4\x8f\xbf\xbf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {0};
        utf8_put_lossy(&b, cases[i].in);
        assert_string_equal(buf_str(&b), cases[i].out);
        buf_free(&b);
    }
}

static void round_trip(void **state)
{
    (void)state;
    for (uint32_t c = 1; c < 0x110000; c++) {
        struct buf b = {0};
        size_t n;
        if (c == 0xd800)
            c = 0xe000;
        utf8_put(&b, c);
        if (utf8_get(b.p, &n) != c || n != b.n || utf8_back(b.p, b.n) != 0)
            fail_msg("U+%04X", c);
        buf_free(&b);
    }
}

static void classes(void **state)
{
    (void)state;
    int spaces = 0;
    for (uint32_t c = 0; c < 0x110000; c++)
        spaces += utf8_is_space(c);
    assert_int_equal(spaces, 25); /* White_Space in every Unicode since 6.3 */
    assert_false(utf8_is_space(0x180e) || utf8_is_space(0x200b));
    static const uint32_t words[] = {'a',    'Z',    '0',    '_',    0xe9, 0x301,
                                     0x4e00, 0x2160, 0x24b6, 0x200d, 0x660};
    static const uint32_t others[] = {' ', '-', '.', 0x2581, 0xbd, 0x2460, 0x1f600};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_true(utf8_is_word(words[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(utf8_is_word(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(lossy), TEST(round_trip), TEST(classes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
