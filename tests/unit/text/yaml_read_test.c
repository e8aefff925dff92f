#include "support/support.h"
#include "text/json.h"
#include "text/yaml.h"

static enum st parse(struct test *t, const char *text, struct node **n)
{
    return yaml_parse(t->a, "t.yaml", sv_of(text), n, &t->e);
}

/* The tree as one line of JSON. */
static const char *read_as(struct test *t, const char *text)
{
    struct node *n;
    struct buf b = {0};
    assert_ok(parse(t, text, &n), t);
    json_write(&b, n, 0, false);
    char *s = arena_str(t->a, b.p);
    buf_free(&b);
    return s;
}

static void scalars_follow_the_core_schema(void **state)
{
    static const struct {
        const char *text;
        enum node_kind kind;
        const char *json;
    } cases[] = {
        {"4", NODE_INT, "4"},
        {"-4", NODE_INT, "-4"},
        {"+4", NODE_INT, "4"},
        {"007", NODE_INT, "7"},
        {"9223372036854775807", NODE_INT, "9223372036854775807"},
        {"0.5", NODE_FLOAT, "0.5"},
        {".5", NODE_FLOAT, "0.5"},
        {"5.", NODE_FLOAT, "5"},
        {"1e3", NODE_FLOAT, "1000"},
        {"-1.5E-2", NODE_FLOAT, "-0.015"},
        {"~", NODE_NULL, "null"},
        {"null", NODE_NULL, "null"},
        {"Null", NODE_NULL, "null"},
        {"true", NODE_BOOL, "true"},
        {"FALSE", NODE_BOOL, "false"},
        {"yes", NODE_STR, "\"yes\""},
        {"0x1f", NODE_STR, "\"0x1f\""},
        {"1_000", NODE_STR, "\"1_000\""},
        {"1:30", NODE_STR, "\"1:30\""},
        {"1.2.3", NODE_STR, "\"1.2.3\""},
        {".nan", NODE_STR, "\".nan\""},
        {"-.inf", NODE_STR, "\"-.inf\""},
        {"-", NODE_LIST, "[null]"},
        {"e3", NODE_STR, "\"e3\""},
        {".e3", NODE_STR, "\".e3\""},
        {"'4'", NODE_STR, "\"4\""},
        {"\"true\"", NODE_STR, "\"true\""},
        {"''", NODE_STR, "\"\""},
        {"|\n  4", NODE_STR, "\"4\""},
        {"${a.b}", NODE_STR, "\"${a.b}\""},
        {"!!str 4", NODE_STR, "\"4\""},
        {"!!float 4", NODE_FLOAT, "4"},
        {"!!int '4'", NODE_INT, "4"},
        {"! 4", NODE_STR, "\"4\""},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node *n;
        assert_string_equal(read_as(t, cases[i].text), cases[i].json);
        assert_ok(parse(t, cases[i].text, &n), t);
        assert_int_equal(n->kind, cases[i].kind);
    }
}

static void quoted_says_how_a_string_was_written(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_ok(parse(t, "[a, 'b', \"c\", !!str d]", &n), t);
    assert_false(n->items[0]->quoted);
    assert_true(n->items[1]->quoted);
    assert_true(n->items[2]->quoted);
    assert_true(n->items[3]->quoted);
}

static void documents(void **state)
{
    struct test *t = *state;
    assert_string_equal(read_as(t, ""), "{}");
    assert_string_equal(read_as(t, "# only a comment\n"), "{}");
    assert_string_equal(read_as(t, "---\na: 1\n...\n"), "{\"a\":1}");
    assert_string_equal(read_as(t, "\xef\xbb\xbf"
                                   "a: 1\r\nb: 2\r\n"),
                        "{\"a\":1,\"b\":2}");
    assert_string_equal(read_as(t, "a: {x: 1, y: [1, 2]}\nb:\n- 1\n- c: 2\n  d:\n1: z\n"),
                        "{\"a\":{\"x\":1,\"y\":[1,2]},\"b\":[1,{\"c\":2,\"d\":null}],\"1\":\"z\"}");
}

static void anchors_and_merge_keys_are_expanded(void **state)
{
    struct test *t = *state;
    assert_string_equal(read_as(t, "a: &x [1, {b: 2}]\nc: *x\nd: &s text\ne: *s\n"),
                        "{\"a\":[1,{\"b\":2}],\"c\":[1,{\"b\":2}],\"d\":\"text\",\"e\":\"text\"}");
    assert_string_equal(read_as(t, "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\n"
                                   "c:\n  <<: [*a, *b]\n  z: 5\n  w: 6\n"),
                        "{\"a\":{\"x\":1,\"y\":2},\"b\":{\"y\":3,\"z\":4},"
                        "\"c\":{\"z\":5,\"w\":6,\"x\":1,\"y\":2}}");
    assert_string_equal(read_as(t, "{'<<': 1}"), "{\"<<\":1}");
    struct node *n;
    assert_ok(parse(t, "a: &x {k: 1}\nb: *x\n", &n), t);
    node_set(t->a, node_find(n, "b"), SV("k"), node_int(t->a, 2));
    assert_int_equal(node_path(n, "a.k")->i, 1);
}

static void places_are_those_of_the_text(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_ok(parse(t, "a: 1\nb:\n  - x\n  - \xc3\xa9: y\n", &n), t);
    const struct node *item = node_find(n, "b")->items[1];
    assert_int_equal(n->pairs[1].line, 2);
    assert_int_equal(item->pairs[0].line, 4);
    assert_int_equal(item->pairs[0].column, 5);
    assert_int_equal(item->pairs[0].value->column, 8);
    assert_string_equal(item->source, "t.yaml");
}

static void faults_are_named_at_their_place(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"a: [1, 2", "t.yaml:1:9: did not find expected ',' or ']' while parsing a flow sequence"},
        {"a: {x: 1", "t.yaml:1:9: did not find expected ',' or '}' while parsing a flow mapping"},
        {"a: 'x", "t.yaml:1:6: found unexpected end of stream while scanning a quoted scalar"},
        {"a: 1\n b: 2", "t.yaml:2:3: mapping values are not allowed in this context"},
        {"a: b: c", "t.yaml:1:5: mapping values are not allowed in this context"},
        {"a: 1\n]", "t.yaml:2:1: did not find expected key while parsing a block mapping"},
        {"a: @x",
         "t.yaml:1:4: found character that cannot start any token while scanning for the next "
         "token"},
        {"a: 1\nb: 2\na: 3\n", "t.yaml:3:1: the key 'a' appears twice in one map"},
        {"{a: 1, 'a': 2}", "t.yaml:1:8: the key 'a' appears twice in one map"},
        {"<<: {a: 1}\n<<: {b: 1}", "t.yaml:2:1: the key '<<' appears twice in one map"},
        {"<<: 3", "t.yaml:1:5: a merge key << wants a map or a list of maps"},
        {"<<: [{a: 1}, 3]", "t.yaml:1:5: a merge key << wants a map or a list of maps"},
        {"a: *x", "t.yaml:1:4: the alias *x has no anchor before it"},
        {"a: &x [*x]", "t.yaml:1:8: the alias *x has no anchor before it"},
        {"[a]: 1", "t.yaml:1:1: a key must be a scalar"},
        {"a: &x b\n*x : 1", "t.yaml:2:1: an alias cannot be a key"},
        {"a: !!python/object 1",
         "t.yaml:1:4: the tag tag:yaml.org,2002:python/object is not supported"},
        {"a: !mine 1", "t.yaml:1:4: the tag !mine is not supported"},
        {"a: !!int x", "t.yaml:1:4: 'x' is not of the type !!int"},
        {"a: !!map 1", "t.yaml:1:4: '1' is not of the type !!map"},
        {"a: !!map [1]", "t.yaml:1:4: a list is not of the type !!map"},
        {"a: !!seq {}", "t.yaml:1:4: a map is not of the type !!seq"},
        {"a: 1\n---\nb: 2", "t.yaml:2:1: a second document begins here; one a file is supported"},
        {"a: 9223372036854775808", "t.yaml:1:4: an integer that does not fit 64 bits"},
        {"a: 1e999", "t.yaml:1:4: a number that does not fit a double"},
        {"a: b\nk\xc3\xa9: \xff", "t.yaml:2:5: bytes that are not UTF-8"},
        {"a: \x01", "t.yaml:1:4: control characters are not allowed"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node *n;
        assert_err(parse(t, cases[i].text, &n), ST_INPUT, t, cases[i].error);
    }
}

/* In the words of libyaml, which before 0.2.5 wrote "violate". */
static void a_tab_that_indents_is_named_at_its_place(void **state)
{
    static const char begin[] = "t.yaml:2:1: found a tab character that violate",
                      end[] = " indentation while scanning a plain scalar";
    struct test *t = *state;
    struct node *n;
    assert_int_equal(parse(t, "a: 1\n\tb: 2", &n), ST_INPUT);
    const char *said = err_cause(&t->e, 0);
    assert_memory_equal(said, begin, sizeof begin - 1);
    said += sizeof begin - 1;
    assert_string_equal(said + (*said == 's'), end);
}

static void a_billion_laughs_are_refused(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    struct node *n;
    buf_puts(&b, "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for (int i = 1; i < 10; i++) {
        buf_printf(&b, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            buf_printf(&b, "%s*a%d", k ? ", " : "", i - 1);
        buf_puts(&b, "]\n");
    }
    assert_err(parse(t, b.p, &n), ST_INPUT, t,
               "t.yaml:6:50: more than 1048576 values once anchors are expanded");
    buf_free(&b);
}

static void texts_are_repeated_within_a_limit(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    struct node *n;
    buf_puts(&b, "a: &x '");
    for (int i = 0; i < 1 << 20; i++)
        buf_putc(&b, 'x');
    buf_puts(&b, "'\nb: [");
    for (int i = 0; i < 4; i++)
        buf_puts(&b, "*x,");
    assert_ok(parse(t, arena_printf(t->a, "%s]\n", b.p), &n), t);
    assert_int_equal(node_find(n, "b")->n, 4);
    assert_true(arena_used(t->a) < (size_t)16 << 20);
    buf_puts(&b, "*x]\n"); /* a copy of that tree writes them all out */
    assert_err(parse(t, b.p, &n), ST_INPUT, t,
               "t.yaml:2:17: more than 4194304 bytes of text once anchors are expanded");
    buf_free(&b);
}

static void deep_nesting_is_refused(void **state)
{
    struct test *t = *state;
    char text[200] = {0};
    struct node *n;
    memset(text, '[', YAML_MAX_DEPTH);
    memset(text + YAML_MAX_DEPTH, ']', YAML_MAX_DEPTH);
    assert_ok(parse(t, text, &n), t);
    memset(text, '[', 100);
    assert_err(parse(t, text, &n), ST_INPUT, t, "t.yaml:1:65: nested deeper than 64 levels");
}

static void anchors_do_not_nest_deeper(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    struct node *n;
    for (int i = 0; i < 3; i++) {
        buf_printf(&b, "a%d: &a%d ", i, i);
        for (int k = 0; k < 30; k++)
            buf_putc(&b, '[');
        if (i)
            buf_printf(&b, "*a%d", i - 1);
        for (int k = 0; k < 30; k++)
            buf_putc(&b, ']');
        buf_putc(&b, '\n');
    }
    assert_err(parse(t, b.p, &n), ST_INPUT, t, "t.yaml:3:39: nested deeper than 64 levels");
    buf_free(&b);
}

static void size_is_bounded(void **state)
{
    struct test *t = *state;
    struct node *n;
    struct sv big = {mem_alloc(YAML_MAX_BYTES + 1), YAML_MAX_BYTES + 1};
    assert_err(yaml_parse(t->a, "t.yaml", big, &n, &t->e), ST_INPUT, t,
               "t.yaml has 4194305 bytes; the limit for this kind of file is 4194304");
    mem_free((void *)(uintptr_t)big.p);
}

static void files_are_read(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_ok(yaml_load(t->a, test_write(t, "c.yaml", "a: 1\n"), &n, &t->e), t);
    assert_int_equal(node_find(n, "a")->i, 1);
    assert_err(yaml_load(t->a, test_path(t, "no.yaml"), &n, &t->e), ST_INPUT, t,
               "cannot open DIR/no.yaml: No such file or directory");
    assert_err(yaml_load(t->a, test_write(t, "c.yaml", "a: 1\nb: *c\n"), &n, &t->e), ST_INPUT, t,
               "DIR/c.yaml:2:4: the alias *c has no anchor before it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(scalars_follow_the_core_schema),
        TEST(quoted_says_how_a_string_was_written),
        TEST(documents),
        TEST(anchors_and_merge_keys_are_expanded),
        TEST(places_are_those_of_the_text),
        TEST(faults_are_named_at_their_place),
        TEST(a_tab_that_indents_is_named_at_its_place),
        TEST(a_billion_laughs_are_refused),
        TEST(texts_are_repeated_within_a_limit),
        TEST(deep_nesting_is_refused),
        TEST(anchors_do_not_nest_deeper),
        TEST(size_is_bounded),
        TEST(files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
