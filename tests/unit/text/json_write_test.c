#include "support/support.h"

#include <math.h>

#include "text/json.h"

static const char *quoted(struct test *t, struct sv s)
{
    struct buf b = {0};
    json_quote(&b, s);
    char *copy = arena_str(t->a, b.p);
    buf_free(&b);
    return copy;
}

static const char *written(struct test *t, const char *text, int indent, bool sorted)
{
    struct node *n;
    struct buf b = {0};
    assert_ok(json_parse(t->a, "t.json", sv_of(text), NULL, &n, &t->e), t);
    json_write(&b, n, indent, sorted);
    char *copy = arena_str(t->a, b.p);
    buf_free(&b);
    return copy;
}

static void text_is_escaped(void **state)
{
    struct test *t = *state;
    assert_string_equal(quoted(t, SV("")), "\"\"");
    assert_string_equal(quoted(t, SV("a\"b\\c/d")), "\"a\\\"b\\\\c/d\"");
    assert_string_equal(quoted(t, SV("\b\f\n\r\t\x01\x1f\x7f")),
                        "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"");
    assert_string_equal(quoted(t, SV("a\0b")), "\"a\\u0000b\"");
    assert_string_equal(quoted(t, SV("\xc3\xa9\xf0\x9f\x98\x80")), "\"\xc3\xa9\xf0\x9f\x98\x80\"");
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
    struct test *t = *state;
    assert_string_equal(quoted(t, SV("a\xff\xc3(z")), "\"a\xef\xbf\xbd\xef\xbf\xbd(z\"");
    assert_string_equal(quoted(t, SV("\xe2\x82")), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void indented(void **state)
{
    struct test *t = *state;
    assert_string_equal(written(t, "{\"b\":[1,[],{}],\"a\":{\"x\":null}}", 2, false),
                        "{\n"
                        "  \"b\": [\n"
                        "    1,\n"
                        "    [],\n"
                        "    {}\n"
                        "  ],\n"
                        "  \"a\": {\n"
                        "    \"x\": null\n"
                        "  }\n"
                        "}\n");
}

static void sorted_bytewise_at_every_level(void **state)
{
    struct test *t = *state;
    assert_string_equal(
        written(t, "{\"b\":1,\"ab\":2,\"a\":{\"z\":1,\"\xc3\xa9\":2,\"Z\":3}}", 0, true),
        "{\"a\":{\"Z\":3,\"z\":1,\"\xc3\xa9\":2},\"ab\":2,\"b\":1}");
}

static void numbers_are_exact_and_short(void **state)
{
    struct test *t = *state;
    assert_string_equal(
        written(t, "[0.1,1e300,5e-324,-0,0.30000000000000004,1e15,123456.0]", 0, false),
        "[0.1,1e+300,5e-324,-0,0.30000000000000004,1e+15,123456]");
    struct node *list = node_new(t->a, NODE_LIST);
    node_push(t->a, list, node_float(t->a, NAN));
    node_push(t->a, list, node_float(t->a, -INFINITY));
    node_push(t->a, list, node_int(t->a, INT64_MIN));
    struct buf b = {0};
    json_write(&b, list, 0, false);
    assert_string_equal(b.p, "[null,null,-9223372036854775808]");
    buf_free(&b);
}

/* What a terminal obeys is an escape, and reads back. */
static void no_terminal_obeys_it(void **state)
{
    struct test *t = *state;
    assert_string_equal(quoted(t, SV("\xc2\x9b \xe2\x80\xae \xe2\x81\xa9 \xc2\xa0\xe2\x82\xac")),
                        "\"\\u009b \\u202e \\u2069 \xc2\xa0\xe2\x82\xac\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_terminal_obeys_it),
        TEST(text_is_escaped),
        TEST(bytes_that_are_not_utf8_are_replaced),
        TEST(indented),
        TEST(sorted_bytewise_at_every_level),
        TEST(numbers_are_exact_and_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
