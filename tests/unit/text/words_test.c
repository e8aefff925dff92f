#include "text/words.h"

#include <math.h>

#include "support/support.h"

static void durations_have_four_digits_and_a_fitting_unit(void **state)
{
    static const struct {
        double s;
        const char *want;
    } cases[] = {{0, "0 ns"},
                 {3e-9, "3 ns"},
                 {1.5e-6, "1.500 µs"},
                 {99.9999999e-6, "100.0 µs"},
                 {0.99999e-3, "1.000 ms"},
                 {2.1044e-3, "2.104 ms"},
                 {0.0123456, "12.35 ms"},
                 {9.8765, "9877 ms"},
                 {12.3456, "12.35 s"},
                 {-0.002, "-2.000 ms"},
                 {NAN, "n/a"}};
    (void)state;
    char text[WORDS_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(words_duration(text, cases[i].s), cases[i].want);
}

static void percents_carry_a_sign_where_it_matters(void **state)
{
    static const struct {
        double v;
        const char *plain, *change;
    } cases[] = {{0, "0.0 %", "0.0 %"},       {-0.04, "0.0 %", "0.0 %"}, {1.26, "1.3 %", "+1.3 %"},
                 {-9.94, "-9.9 %", "-9.9 %"}, {9.96, "10 %", "+10 %"},   {123.4, "123 %", "+123 %"},
                 {INFINITY, "n/a", "n/a"}};
    (void)state;
    char text[WORDS_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(words_percent(text, cases[i].v), cases[i].plain);
        assert_string_equal(words_change(text, cases[i].v), cases[i].change);
    }
}

static void an_unknown_share_is_nothing(void **state)
{
    (void)state;
    char text[WORDS_MAX];
    assert_string_equal(words_share(text, 0.624), "62 %");
    assert_string_equal(words_share(text, -0.1), "-10 %");
    assert_string_equal(words_share(text, -0.004), "0 %");
    assert_string_equal(words_share(text, NAN), "");
}

static void counts_are_grouped(void **state)
{
    (void)state;
    char text[WORDS_MAX];
    assert_string_equal(words_count(text, 0), "0");
    assert_string_equal(words_count(text, 999), "999");
    assert_string_equal(words_count(text, 1000), "1,000");
    assert_string_equal(words_count(text, -123456), "-123,456");
    assert_string_equal(words_count(text, INT64_MIN), "-9,223,372,036,854,775,808");
}

static void a_column_of_milliseconds(void **state)
{
    (void)state;
    static const struct {
        double s;
        const char *text;
    } rows[] = {{0.0006321, "0.6321"}, {0.003107, "3.107"},  {0.09148, "91.48"},
                {0.1161, "116.1"},     {1.322, "1322"},      {12.3456, "12346"},
                {0, "0.000"},          {2.5e-7, "0.000250"}, {0.0099996, "10.000"},
                {-0.0006, "-0.6000"},  {(double)NAN, "n/a"}};
    char text[WORDS_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(words_ms(text, rows[i].s), rows[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_column_of_milliseconds),
        TEST(durations_have_four_digits_and_a_fitting_unit),
        TEST(percents_carry_a_sign_where_it_matters),
        TEST(an_unknown_share_is_nothing),
        TEST(counts_are_grouped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
