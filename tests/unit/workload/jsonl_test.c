/* One JSON object a line: places of errors are those of the file, not of the line. */
#include "workload/jsonl.h"

#include "support/support.h"

static enum st open_text(struct test *t, struct jsonl *j, const char *text, size_t max_line_bytes)
{
    return jsonl_open(j, test_write(t, "f.jsonl", text), max_line_bytes, &t->e);
}

static void objects_come_one_by_one_with_their_lines(void **state)
{
    struct test *t = *state;
    struct jsonl j;
    struct node *n;
    int64_t v;
    assert_ok(open_text(t, &j, "{\"a\":1}\n\n  \r\n{\"a\":2}\r\n{\"a\":3}", 1000), t);
    const long lines[] = {1, 4, 5};
    for (int64_t i = 0; i < 3; i++) {
        assert_ok(jsonl_next(&j, &n, &t->e), t);
        assert_int_equal(j.line, lines[i]);
        assert_ok(node_get_int(n, "a", 0, 9, &v, &t->e), t);
        assert_int_equal(v, i + 1);
    }
    assert_int_equal(jsonl_next(&j, &n, &t->e), ST_END);
    assert_int_equal(jsonl_next(&j, &n, &t->e), ST_END);
    jsonl_close(&j);
}

static void getters_name_the_line_of_the_file(void **state)
{
    struct test *t = *state;
    struct jsonl j;
    struct node *n;
    int64_t v;
    assert_ok(open_text(t, &j, "{}\n{\"a\": [{\"b\": \"x\"}], \"c\": true}\n", 1000), t);
    assert_ok(jsonl_next(&j, &n, &t->e), t);
    assert_ok(jsonl_next(&j, &n, &t->e), t);
    assert_err(node_get_int(n->pairs[0].value->items[0], "b", 0, 9, &v, &t->e), ST_INPUT, t,
               "DIR/f.jsonl:2:14: b: expected an integer, got a string");
    jsonl_close(&j);
}

static void bad_lines_are_refused_at_their_place(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{}\n{\"a\":}\n", "DIR/f.jsonl:2:6: "},
        {"{}\n\n[1]\n", "DIR/f.jsonl:3:1: expected an object, got a list"},
        {"{}\n{\"a\":\"\xff\"}\n", "DIR/f.jsonl:2:7: byte 0xff is not valid UTF-8"},
        {"{}\n{\"a\":\"0123456789012345678901234567890123456789\"}\n",
         "DIR/f.jsonl:2: the line has 48 bytes; the limit is 40"},
        {"{\"a\":1", "DIR/f.jsonl:1:7: "}, /* cut */
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct jsonl j;
        struct node *n;
        enum st st = ST_OK;
        assert_ok(open_text(t, &j, rows[i].text, 40), t);
        while (st == ST_OK)
            st = jsonl_next(&j, &n, &t->e);
        assert_int_equal(st, ST_INPUT);
        const char *want = arena_printf(t->a, "%s%s", test_dir(t), rows[i].error + 3);
        assert_memory_equal(err_cause(&t->e, 0), want, strlen(want));
        err_clear(&t->e);
        jsonl_close(&j);
    }
}

static void a_file_that_is_not_there_can_be_closed(void **state)
{
    struct test *t = *state;
    struct jsonl j;
    assert_err(jsonl_open(&j, test_path(t, "none"), 1000, &t->e), ST_INPUT, t,
               "cannot open DIR/none: No such file or directory");
    jsonl_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(objects_come_one_by_one_with_their_lines),
        TEST(getters_name_the_line_of_the_file),
        TEST(bad_lines_are_refused_at_their_place),
        TEST(a_file_that_is_not_there_can_be_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
