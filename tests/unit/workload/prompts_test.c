#include <string.h>

#include "support/support.h"
#include "workload/workload.h"

static void reads_prompts(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct err e = {0};
    struct tmp tmp = tmp_new();
    static const char text[] =
        "\xEF\xBB\xBF{\"prompt_id\": \"p1\", \"text\": \"caf\\u00e9\\n\"}\r\n"
        "\n"
        "{\"text\": \"\xF0\x9F\x98\x80\", \"more\": [1, {}], \"prompt_id\": "
        "17}\n"
        "  \t\n"
        "{\"prompt_id\": \"p3\", \"text\": \"no line end\"}";
    struct prompt *p;
    size_t n;
    assert_ok(prompts_load(a, tmp_file(&tmp, "p.jsonl", text, strlen(text)), &p, &n, &e), &e);
    assert_int_equal(n, 3);
    assert_string_equal(p[0].id, "p1");
    assert_string_equal(p[0].text, "caf\xC3\xA9\n");
    assert_string_equal(p[1].id, "17");
    assert_string_equal(p[1].text, "\xF0\x9F\x98\x80");
    assert_string_equal(p[2].text, "no line end");
    assert_ok(prompts_load(a, tmp_file(&tmp, "p.jsonl", "", 0), &p, &n, &e), &e);
    assert_int_equal(n, 0);
    tmp_free(&tmp);
    arena_free(&a);
}

#define GOOD "{\"prompt_id\": \"p1\", \"text\": \"x\"}\n"

static const struct bad {
    const char *text, *error;
} bads[] = {
    {GOOD "\n" GOOD, ":3: prompt_id 'p1' stands in line 1 already"},
    {GOOD "{\"prompt_id\": \"p2\", \"text\": \"\"}\n", ":2:29: text is empty"},
    {GOOD "{\"prompt_id\": \"\", \"text\": \"x\"}\n", ":2:15: prompt_id is empty"},
    {GOOD "{\"prompt_id\": \"p2\"}\n", ":2: text is missing"},
    {"{\"text\": \"x\"}\n", ":1: prompt_id is missing"},
    {"{\"prompt_id\": null, \"text\": \"x\"}\n", ":1:15: prompt_id: expected a string, got null"},
    {"{\"prompt_id\": 1.5, \"text\": \"x\"}\n",
     ":1:15: prompt_id: expected a string, got a number"},
    {"{\"prompt_id\": \"p\", \"text\": [\"x\"]}\n", ":1:28: text: expected a string, got a list"},
    {"{\"prompt_id\": \"p\", \"text\": \"a\\u0000b\"}\n", ":1:28: text holds a NUL character"},
    {"{\"prompt_id\": \"a\\u0000\", \"text\": \"x\"}\n", ":1:15: prompt_id holds a NUL character"},
    {GOOD "[1]\n", ":2:1: expected an object, got a list"},
    {GOOD "\"x\"\n", ":2:1: expected an object, got a string"},
    {GOOD "{\"prompt_id\": \"p2\", \"te\n", ":2:24: the text ends inside a string"},
    {GOOD "{\"prompt_id\": \"p2\", \"text\": \"a\xff\"}\n", ":2:31: byte 0xff is not valid UTF-8"},
    {GOOD "{\"prompt_id\": \"p2\", \"prompt_id\": \"p3\", \"text\": \"x\"}\n",
     ":2:21: the key 'prompt_id' appears twice in one map"},
    {GOOD "{\"prompt_id\": 99999999999999999999, \"text\": \"x\"}\n",
     ":2:15: the integer 99999999999999999999 does not fit 64 bits"},
    {GOOD "{\"prompt_id\": \"p2\", \"text\": \"x\", \"n\": NaN}\n",
     ":2:39: expected a value, got 'NaN'"},
};

static void names_every_fault(void **state)
{
    (void)state;
    struct tmp tmp = tmp_new();
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct arena *a = arena_new();
        struct err e = {0};
        struct prompt *p;
        size_t n;
        const char *path = tmp_file(&tmp, "p.jsonl", bads[i].text, strlen(bads[i].text));
        assert_int_equal(prompts_load(a, path, &p, &n, &e), ST_INPUT);
        assert_cause(&e, arena_printf(a, "%s%s", path, bads[i].error));
        arena_free(&a);
    }
    tmp_free(&tmp);
}

static void bounds_depth_and_length(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct err e = {0};
    struct tmp tmp = tmp_new();
    struct prompt *p;
    size_t n;
    struct buf b = {0};
    buf_puts(&b, "{\"deep\": ");
    for (int i = 0; i < 100000; i++)
        buf_putc(&b, '[');
    const char *path = tmp_file(&tmp, "p.jsonl", b.p, b.n);
    assert_int_equal(prompts_load(a, path, &p, &n, &e), ST_INPUT);
    assert_cause(&e, arena_printf(a, "%s:1:73: nested deeper than 64 levels", path));
    buf_clear(&b);
    buf_puts(&b, GOOD "{\"prompt_id\": \"long\", \"text\": \"");
    for (int i = 0; i < PROMPT_MAX_BYTES; i++)
        buf_putc(&b, 'x');
    buf_puts(&b, "\"}\n");
    path = tmp_file(&tmp, "p.jsonl", b.p, b.n);
    assert_int_equal(prompts_load(a, path, &p, &n, &e), ST_INPUT);
    assert_cause(&e,
                 arena_printf(a, "%s:2: the line has 16777249 bytes; the limit is 16777216", path));
    buf_free(&b);
    assert_int_equal(prompts_load(a, "/nowhere/p.jsonl", &p, &n, &e), ST_INPUT);
    assert_cause(&e, "cannot open /nowhere/p.jsonl: No such file or directory");
    tmp_free(&tmp);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_prompts),
        cmocka_unit_test(names_every_fault),
        cmocka_unit_test(bounds_depth_and_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
