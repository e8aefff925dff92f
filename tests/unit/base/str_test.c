#include "support/support.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

static void slices(void **state)
{
    (void)state;
    assert_true(sv_eq(SV("abc"), "abc"));
    assert_false(sv_eq(SV("abc"), "ab"));
    assert_false(sv_eq(SV("ab"), "abc"));
    assert_sv(sv_trim(SV(" \t a b\r\n")), "a b");
    assert_sv(sv_trim(SV(" \v\f ")), "");
    assert_sv(sv_trim(sv_of("")), "");
}

static void a_buffer_is_always_terminated(void **state)
{
    (void)state;
    struct buf b = {0};
    assert_string_equal(buf_str(&b), "");
    buf_clear(&b);
    for (int i = 0; i < 1000; i++) {
        buf_putc(&b, (char)('a' + i % 26));
        assert_int_equal(strlen(b.p), b.n);
    }
    buf_clear(&b);
    assert_string_equal(b.p, "");
    buf_printf(&b, "%d-%s", 7, "x");
    buf_puts(&b, "");
    buf_add(&b, "\0y", 2);
    assert_int_equal(b.n, 5);
    assert_memory_equal(b.p, "7-x\0y", 6);
    buf_free(&b);
    buf_free(&b);
}

static void a_shell_reads_the_same_word(void **state)
{
    struct buf b = {0};
    (void)state;
    buf_shell(&b, "");
    buf_putc(&b, ' ');
    buf_shell(&b, "it's $HOME \"x\"");
    assert_string_equal(buf_str(&b), "'' 'it'\\''s $HOME \"x\"'");
    buf_free(&b);
}

static void printf_grows_the_buffer(void **state)
{
    (void)state;
    struct buf b = {0};
    for (int i = 1; i < 300; i++)
        buf_printf(&b, "%*d", i, i);
    assert_int_equal(b.n, 299 * 300 / 2);
    assert_string_equal(b.p + b.n - 4, " 299");
    buf_free(&b);
}

static void integers(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t v;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"007", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"18446744073709551616", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1.0", false, 0},
        {"0x1", false, 0},
        {"--1", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t v = 42;
        assert_int_equal(str_int64(sv_of(cases[i].text), &v), cases[i].ok);
        assert_int_equal(v, cases[i].ok ? cases[i].v : 42);
    }
}

static void doubles_are_those_of_strtod(void **state)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "0.1",
                                        "1e22",
                                        "1e23",
                                        "123456789012345678",
                                        "9007199254740993",
                                        "9007199254740992.5",
                                        "0.014000000000000002",
                                        "1.734723475976807e-18",
                                        "18446744073709551615",
                                        "9999999999999999999e19",
                                        "9999999999999999999e-19",
                                        "1234567890123456789e-19",
                                        "4503599627370496.5",
                                        "4503599627370497.5",
                                        "9007199254740993e-1",
                                        "5e-324",
                                        "2e-324",
                                        "2.2250738585072011e-308",
                                        "1.7976931348623157e308",
                                        "1e-400",
                                        "0e400",
                                        "0.000000000000000000000000000001e30",
                                        "1.",
                                        ".5",
                                        "+1",
                                        "00000000000000000000000000000001",
                                        "1.00000000000000000000000000000001",
                                        "8.5e-1",
                                        "1E5",
                                        "1e+5",
                                        "1e0005",
                                        "0.30000000000000004",
                                        "100000000000000000000",
                                        "36028797018963969",
                                        "72057594037927938.5e1"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double v = -1, want = strtod(texts[i], NULL);
        assert_true(str_double(sv_of(texts[i]), &v));
        assert_memory_equal(&v, &want, sizeof v);
    }
}

/* Random digits around every boundary of the fast path, against the C library's exact strtod. */
static void random_doubles_are_those_of_strtod(void **state)
{
    (void)state;
    struct rng r = rng_stream(1, "str_test.doubles");
    for (int i = 0; i < 400000; i++) {
        char text[64];
        int n = 0;
        int digits = 1 + (int)rng_below(&r, 20), point = (int)rng_below(&r, 24);
        if (rng_below(&r, 2))
            text[n++] = '-';
        for (int d = 0; d < digits; d++) {
            if (d == point)
                text[n++] = '.';
            text[n++] = (char)('0' + rng_below(&r, 10));
        }
        if (rng_below(&r, 2))
            n += snprintf(text + n, 16, "e%d", (int)rng_below(&r, 60) - 30);
        text[n] = 0;
        double v = -1, want = strtod(text, NULL);
        if (!str_double((struct sv){text, (size_t)n}, &v) || memcmp(&v, &want, sizeof v) != 0)
            fail_msg("%s: %a, strtod says %a", text, v, want);
    }
}

/* Halfway cases: 54-bit integers ending in 1 scaled by powers of ten that divide them evenly. */
static void ties_go_to_even(void **state)
{
    (void)state;
    struct rng r = rng_stream(2, "str_test.ties");
    for (int i = 0; i < 100000; i++) {
        uint64_t w = (UINT64_C(1) << 53) | (rng_u64(&r) >> 11) | 1;
        char text[64];
        int k = (int)rng_below(&r, 4);
        static const unsigned tens[] = {1, 10, 100, 1000};
        if (__builtin_mul_overflow(w, tens[k], &w))
            continue;
        snprintf(text, sizeof text, "%llue-%d", (unsigned long long)w, k);
        double v, want = strtod(text, NULL);
        assert_true(str_double(sv_of(text), &v));
        if (memcmp(&v, &want, sizeof v) != 0)
            fail_msg("%s: %a, strtod says %a", text, v, want);
    }
}

static void what_is_not_a_number(void **state)
{
    static const char *const texts[] = {
        "",   "-",    ".",    "e5",    "1e",    "1e+",    "nan", "inf", "0x1",   " 1",
        "1 ", "1e5x", "1..2", "1.2.3", "1e999", "-1e999", "1,5", "--1", "1e5.0", "infinity"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double v = 42;
        assert_false(str_double(sv_of(texts[i]), &v));
        assert_near(v, 42, 0);
    }
    double v;
    assert_false(str_double((struct sv){"1\0", 2}, &v));
    assert_false(str_double((struct sv){"1e5\0", 4}, &v));
}

static void shortest_exact_text(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {3, "3"},
                 {5e-324, "5e-324"},
                 {1.5e-323, "1.5e-323"},
                 {2.2250738585072014e-308, "2.2250738585072014e-308"},
                 {-17, "-17"},
                 {0.1, "0.1"},
                 {1e300, "1e+300"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {1.0 / 3, "0.3333333333333333"},
                 {999999999999999, "999999999999999"},
                 {1e15, "1e+15"},
                 {123456.789, "123456.789"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[STR_DOUBLE_MAX];
        assert_int_equal(str_from_double(text, cases[i].v), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void text_of_a_double_reads_back(void **state)
{
    (void)state;
    struct rng r = rng_stream(3, "str_test.back");
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = rng_u64(&r);
        double v, again;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        char text[STR_DOUBLE_MAX];
        int n = str_from_double(text, v);
        assert_true(str_double((struct sv){text, (size_t)n}, &again));
        assert_memory_equal(&v, &again, sizeof v);
    }
}

static void utf8(void **state)
{
    static const struct {
        struct sv text;
        size_t valid;
    } cases[] = {
        {SV(""), 0},
        {SV("plain ascii of more than eight bytes"), 36},
        {SV("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 9},
        {SV("\xf4\x8f\xbf\xbf"), 4},
        {SV("\xf4\x90\x80\x80"), 0},
        {SV("12345678\xff"), 8},
        {SV("1234567\xc3"), 7},
        {SV("1234567\xc3\xa9"), 9},
        {SV("a\x80"), 1},
        {SV("\xc0\xaf"), 0},
        {SV("\xc1\xbf"), 0},
        {SV("\xe0\x9f\xbf"), 0},
        {SV("\xf0\x8f\xbf\xbf"), 0},
        {SV("\xed\xa0\x80"), 0},
        {SV("\xed\x9f\xbf"), 3},
        {SV("\xee\x80\x80"), 3},
        {SV("\xf5\x80\x80\x80"), 0},
        {SV("\xe2\x82"), 0},
        {SV("\xe2(\xa1"), 0},
        {SV("a\0b"), 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(str_utf8_valid(cases[i].text.p, cases[i].text.n), cases[i].valid);
}

static void distance(void **state)
{
    (void)state;
    assert_int_equal(str_distance("", ""), 0);
    assert_int_equal(str_distance("abc", ""), 3);
    assert_int_equal(str_distance("kitten", "sitting"), 3);
    assert_int_equal(str_distance("sched", "scheduler"), 4);
    char big[300];
    memset(big, 'x', sizeof big);
    big[299] = 0;
    assert_int_equal(str_distance(big, "x"), 128);
}

static void what_terminals_obey_is_not_shown(void **state)
{
    static const struct {
        const char *text, *line, *lines;
    } cases[] = {
        {"plain \xc3\xa9 \xe2\x82\xac", "plain \xc3\xa9 \xe2\x82\xac",
         "plain \xc3\xa9 \xe2\x82\xac"},
        {"a\x1b[31m\x7f", "a?[31m?", "a?[31m?"},
        {"a\nb\tc\r", "a?b?c?", "a\nb\tc?"},
        {"\xc2\x9b"
         "31m \xc2\xa0",
         "??31m \xc2\xa0", "??31m \xc2\xa0"}, /* CSI of C1; a space */
        {"\xe2\x80\xae"
         "evil\xe2\x81\xa6",
         "???evil???", "???evil???"}, /* turns the text */
        {"\xe2\x80\x99\xe2\x80\xaf", "\xe2\x80\x99\xe2\x80\xaf", "\xe2\x80\x99\xe2\x80\xaf"},
        {"\xff\xc3", "??", "??"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int lines = 0; lines < 2; lines++) {
            char text[64];
            snprintf(text, sizeof text, "%s", cases[i].text);
            str_make_printable(text, strlen(text), lines);
            assert_string_equal(text, lines ? cases[i].lines : cases[i].line);
        }
}

static void words_for_a_shell(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_word(&b, "runs/a-1.b");
    buf_word(&b, "");
    buf_word(&b, "a b");
    buf_word(&b, "$(x)'");
    buf_word(&b, "~/x");
    assert_string_equal(b.p, "runs/a-1.b'''a b''$(x)'\\''''~/x'");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_terminals_obey_is_not_shown),
        TEST(words_for_a_shell),
        TEST(slices),
        TEST(a_buffer_is_always_terminated),
        TEST(a_shell_reads_the_same_word),
        TEST(printf_grows_the_buffer),
        TEST(integers),
        TEST(doubles_are_those_of_strtod),
        TEST(random_doubles_are_those_of_strtod),
        TEST(ties_go_to_even),
        TEST(what_is_not_a_number),
        TEST(shortest_exact_text),
        TEST(text_of_a_double_reads_back),
        TEST(utf8),
        TEST(distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
