#include "support/support.h"
#include "text/json.h"

static enum st parse(struct test *t, const char *text, struct node **n)
{
    return json_parse(t->a, "t.json", sv_of(text), NULL, n, &t->e);
}

static const char *one_line(struct test *t, const struct node *n)
{
    struct buf b = {0};
    json_write(&b, n, 0, false);
    char *s = arena_str(t->a, b.p);
    buf_free(&b);
    return s;
}

static void a_tree_keeps_order_and_kinds(void **state)
{
    struct test *t = *state;
    static const char text[] =
        "{\"z\":[1,2.5,[],{\"k\":null}],\"a\":{\"x\":true,\"y\":false},\"s\":\"q\"}";
    struct node *n;
    assert_ok(parse(t, text, &n), t);
    assert_string_equal(one_line(t, n), text);
    assert_int_equal(node_path(n, "a.x")->kind, NODE_BOOL);
    assert_true(node_find(n, "s")->quoted);
}

static void nodes_and_keys_know_their_place(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_ok(parse(t, "{\n  \"a\": [7,\n    true]}", &n), t);
    assert_int_equal(n->pairs[0].line, 2);
    assert_int_equal(n->pairs[0].column, 3);
    assert_int_equal(n->pairs[0].value->column, 8);
    assert_int_equal(n->pairs[0].value->items[1]->line, 3);
    assert_int_equal(n->pairs[0].value->items[1]->column, 5);
    assert_string_equal(n->source, "t.json");
}

static void duplicate_keys_are_refused(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_err(parse(t, "{\"a\": {\"b\": 1,\n  \"c\": 2, \"b\": 3}}", &n), ST_INPUT, t,
               "t.json:2:11: the key 'b' appears twice in one map");
    assert_err(parse(t, "{\"a\": 1, \"\\u0061\": 2}", &n), ST_INPUT, t,
               "t.json:1:10: the key 'a' appears twice in one map");
    assert_ok(parse(t, "{\"a\": {\"a\": 1}, \"b\": {\"a\": 1}}", &n), t);
}

static void faults_come_from_the_event_reader(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_err(parse(t, "{\"a\": [1, 2", &n), ST_INPUT, t,
               "t.json:1:12: the text ends where ',' or ']' was expected");
}

static void documents_are_bounded(void **state)
{
    struct test *t = *state;
    struct node *n;
    const struct json_limits limits = {.max_bytes = 4};
    assert_err(json_parse(t->a, "t.json", SV("[1,2]"), &limits, &n, &t->e), ST_INPUT, t,
               "t.json has 5 bytes; the limit for this kind of file is 4");
    test_write(t, "t.json", "[1,2]");
    assert_err(json_load(t->a, test_path(t, "t.json"), &limits, &n, &t->e), ST_INPUT, t,
               "DIR/t.json has 5 bytes; the limit for this kind of file is 4");
}

static void files_are_read(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_ok(json_load(t->a, test_write(t, "t.json", "{\"a\": 1}\n"), NULL, &n, &t->e), t);
    assert_int_equal(node_find(n, "a")->i, 1);
    assert_err(json_load(t->a, test_write(t, "bad.json", "{\n]"), NULL, &n, &t->e), ST_INPUT, t,
               "DIR/bad.json:2:1: expected a key or '}', got ']'");
    assert_err(json_load(t->a, test_path(t, "none.json"), NULL, &n, &t->e), ST_INPUT, t,
               "cannot open DIR/none.json: No such file or directory");
    assert_err(json_load(t->a, test_dir(t), NULL, &n, &t->e), ST_INPUT, t,
               "DIR is not a regular file");
    assert_err(json_load(t->a, test_write(t, "empty.json", ""), NULL, &n, &t->e), ST_INPUT, t,
               "DIR/empty.json:1:1: the text ends where a value was expected");
}

static void a_map_of_a_hundred_thousand_keys(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    buf_putc(&b, '{');
    for (int i = 0; i < 100000; i++)
        buf_printf(&b, "%s\"token%d\":%d", i ? "," : "", i, i);
    buf_putc(&b, '}');
    struct node *n;
    assert_ok(parse(t, b.p, &n), t);
    assert_int_equal(n->n, 100000);
    assert_int_equal(n->pairs[99999].value->i, 99999);
    b.n--;
    buf_puts(&b, ",\"token7\":0}");
    assert_err(parse(t, b.p, &n), ST_INPUT, t,
               "t.json:1:1877782: the key 'token7' appears twice in one map");
    buf_free(&b);
}

static void values_are_counted(void **state)
{
    struct test *t = *state;
    struct node *n;
    const struct json_limits limits = {.max_values = 4};
    assert_ok(json_parse(t->a, "a.json", SV("[1,2,{}]"), &limits, &n, &t->e), t);
    assert_err(json_parse(t->a, "a.json", SV("[1,2,{},3,4]"), &limits, &n, &t->e), ST_INPUT, t,
               "a.json has more than 4 values; the limit for this kind of file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_are_counted),
        TEST(a_tree_keeps_order_and_kinds),
        TEST(nodes_and_keys_know_their_place),
        TEST(duplicate_keys_are_refused),
        TEST(faults_come_from_the_event_reader),
        TEST(documents_are_bounded),
        TEST(files_are_read),
        TEST(a_map_of_a_hundred_thousand_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
