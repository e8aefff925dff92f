#include "support/support.h"

#include <math.h>

#include "text/json.h"
#include "text/yaml.h"

static const char *json_of(struct test *t, const struct node *n)
{
    struct buf b = {0};
    json_write(&b, n, 0, false);
    char *s = arena_str(t->a, b.p);
    buf_free(&b);
    return s;
}

static const char *yaml_of(struct test *t, const struct node *n)
{
    struct buf b = {0};
    yaml_write(&b, n);
    char *s = arena_str(t->a, b.p);
    buf_free(&b);
    return s;
}

static void block_style(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_ok(json_parse(t->a, "t",
                         SV("{\"m\":{\"i\":1,\"f\":2.5,\"e\":{}},\"l\":[1,[2,[3]],"
                            "{\"a\":1,\"b\":{\"c\":null}},[],{}],\"b\":true}"),
                         NULL, &n, &t->e),
              t);
    assert_string_equal(yaml_of(t, n), "m:\n"
                                       "  i: 1\n"
                                       "  f: 2.5\n"
                                       "  e: {}\n"
                                       "l:\n"
                                       "  - 1\n"
                                       "  - - 2\n"
                                       "    - - 3\n"
                                       "  - a: 1\n"
                                       "    b:\n"
                                       "      c: null\n"
                                       "  - []\n"
                                       "  - {}\n"
                                       "b: true\n");
}

static void documents_of_one_scalar(void **state)
{
    struct test *t = *state;
    assert_string_equal(yaml_of(t, node_new(t->a, NODE_NULL)), "null\n");
    assert_string_equal(yaml_of(t, node_new(t->a, NODE_MAP)), "{}\n");
    assert_string_equal(yaml_of(t, node_new(t->a, NODE_LIST)), "[]\n");
    assert_string_equal(yaml_of(t, node_str(t->a, "x y")), "x y\n");
}

static void floats_stay_floats(void **state)
{
    struct test *t = *state;
    assert_string_equal(yaml_of(t, node_float(t->a, 3)), "3.0\n");
    assert_string_equal(yaml_of(t, node_float(t->a, 1e300)), "1.0e+300\n");
    assert_string_equal(yaml_of(t, node_float(t->a, -0.0)), "-0.0\n");
    assert_string_equal(yaml_of(t, node_float(t->a, 0.1)), "0.1\n");
    assert_string_equal(yaml_of(t, node_float(t->a, NAN)), "null\n");
}

static void text_is_quoted_only_where_needed(void **state)
{
    static const struct {
        struct sv text;
        const char *yaml;
    } cases[] = {
        {SV("word"), "word\n"},
        {SV("runs/real/x_1.5"), "runs/real/x_1.5\n"},
        {SV("two words"), "two words\n"},
        {SV(""), "''\n"},
        {SV(" lead"), "' lead'\n"},
        {SV("trail "), "'trail '\n"},
        {SV("4"), "'4'\n"},
        {SV("1e3"), "'1e3'\n"},
        {SV("null"), "'null'\n"},
        {SV("~"), "'~'\n"},
        {SV("True"), "'True'\n"},
        {SV("yes"), "'yes'\n"},
        {SV("Off"), "'Off'\n"},
        {SV("n"), "'n'\n"},
        {SV("2024-01-01"), "'2024-01-01'\n"},
        {SV("a: b"), "'a: b'\n"},
        {SV("#c"), "'#c'\n"},
        {SV("- x"), "'- x'\n"},
        {SV("${a.b}"), "'${a.b}'\n"},
        {SV("it's"), "'it''s'\n"},
        {SV("a\nb"), "\"a\\nb\"\n"},
        {SV("t\tq\"\\"), "\"t\\tq\\\"\\\\\"\n"},
        {SV("a\0\x01\x7f"), "\"a\\x00\\x01\\x7f\"\n"},
        {SV("\xc3\xa9"), "\"\xc3\xa9\"\n"},
        {SV("\xc2\x85\xe2\x80\xa8\xef\xbb\xbf"), "\"\\x85\\u2028\\ufeff\"\n"},
        {SV("\xf0\x9f\x98\x80"), "\"\xf0\x9f\x98\x80\"\n"},
        {SV("bad\xff"), "\"bad\xef\xbf\xbd\"\n"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node *n = node_new(t->a, NODE_STR);
        n->s = cases[i].text;
        assert_string_equal(yaml_of(t, n), cases[i].yaml);
    }
    struct node *n = node_str(t->a, "word");
    n->quoted = true;
    assert_string_equal(yaml_of(t, n), "'word'\n");
}

/* Every text above and a few awkward trees, read back. */
static void what_is_written_reads_back(void **state)
{
    static const char *const trees[] = {
        "{\"a\":[{},[],[[]],[{\"b\":[1]}]],\"<<\":1,\"\":\"\",\"null\":null,\"4\":4}",
        "[[[\"x\",{\"y\":[{\"z\":\"\"}]}]]]",
        "[\"a\\n\\n b\",\" # \",\"'\",\"\\\"\",\"\\u0000\",\"\\u2028\",\"?\",\"? x\",\"-\",\":\"]",
        "{\"k: v\":{\"- l\":[true,\"true\",1.5,\"1.5\"]},\"multi\\nline\":{\"a\":1}}",
        "[-9223372036854775808,9223372036854775807,\"x\\ty\",\"\\u007f\",\"%d\",\"!t\",\"&a\"]",
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        struct node *n, *again;
        assert_ok(json_parse(t->a, "t", sv_of(trees[i]), NULL, &n, &t->e), t);
        const char *text = yaml_of(t, n);
        assert_ok(yaml_parse(t->a, "y", sv_of(text), &again, &t->e), t);
        assert_string_equal(json_of(t, again), json_of(t, n));
        assert_string_equal(yaml_of(t, again), text);
    }
}

static void long_keys_take_the_long_form(void **state)
{
    struct test *t = *state;
    struct node *n = node_new(t->a, NODE_MAP), *inner = node_new(t->a, NODE_MAP), *again;
    char *key = arena_alloc(t->a, 3001);
    memset(key, 'k', 3000);
    node_set(t->a, inner, sv_of(key), node_int(t->a, 1));
    node_set(t->a, n, sv_of(key), inner);
    assert_ok(yaml_parse(t->a, "y", sv_of(yaml_of(t, n)), &again, &t->e), t);
    assert_string_equal(json_of(t, again), json_of(t, n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(block_style),
        TEST(documents_of_one_scalar),
        TEST(floats_stay_floats),
        TEST(text_is_quoted_only_where_needed),
        TEST(what_is_written_reads_back),
        TEST(long_keys_take_the_long_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
