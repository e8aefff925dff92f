/* Plain scalars by the YAML 1.2 core schema. */
#include "text/yaml_scalar.h"

#include "support/support.h"

static enum node_kind kind_of(const char *text, struct node *n)
{
    *n = (struct node){.kind = NODE_STR};
    assert_null(yaml_type_scalar(sv_of(text), n));
    return n->kind;
}

static void integers(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {{"0", 0},
                {"-0", 0},
                {"+12", 12},
                {"007", 7},
                {"-5", -5},
                {"00", 0},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct node n;
        assert_int_equal(kind_of(rows[i].text, &n), NODE_INT);
        assert_true(n.i == rows[i].value);
    }
}

static void decimals(void **state)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"1.", 1}, {".5", 0.5}, {"-.5e2", -50}, {"1e3", 1000}, {"+2.5E-1", 0.25}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct node n;
        assert_int_equal(kind_of(rows[i].text, &n), NODE_FLOAT);
        assert_near(n.f, rows[i].value, 0);
    }
}

static void words(void **state)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    (void)state;
    struct node n;
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        assert_int_equal(kind_of(nulls[i], &n), NODE_NULL);
    assert_int_equal(kind_of("True", &n), NODE_BOOL);
    assert_true(n.b);
    assert_int_equal(kind_of("FALSE", &n), NODE_BOOL);
    assert_false(n.b);
}

/* YAML 1.1 took many of these for booleans and numbers. */
static void all_else_is_text(void **state)
{
    static const char *const texts[] = {"yes", "off",   "nUll",  "tRUE", "0x1f", "0o7", "1_000",
                                        "1e",  "1e+",   ".",     "+",    "-",    "--1", ".e1",
                                        "1 2", "12:30", "1.2.3", ".inf", "nan",  " 1"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct node n;
        assert_int_equal(kind_of(texts[i], &n), NODE_STR);
    }
}

static void numbers_that_do_not_fit_are_named(void **state)
{
    struct node n = {.kind = NODE_STR};
    (void)state;
    assert_string_equal(yaml_type_scalar(SV("9223372036854775808"), &n),
                        "an integer that does not fit 64 bits");
    assert_string_equal(yaml_type_scalar(SV("1e999"), &n), "a number that does not fit a double");
    assert_int_equal(n.kind, NODE_STR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(integers),
        TEST(decimals),
        TEST(words),
        TEST(all_else_is_text),
        TEST(numbers_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
