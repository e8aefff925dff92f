#include "text/document.h"

#include <math.h>

#include "support/fake_document.h"
#include "support/support.h"
#include "text/json.h"

static const char *made(struct test *t, void (*form)(struct buf *, const struct document *))
{
    struct buf b = {0};
    form(&b, fake_document(t->a));
    const char *s = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    return s;
}

static void as_text(void **state)
{
    struct test *t = *state;
    assert_string_equal(made(t, document_text),
                        "Profile <a>\n"
                        "\n"
                        "prefill is slower\n"
                        "\n"
                        "- Elapsed: 12.50 ms, of the *stages*\n"
                        "- GPUs: 2\n"
                        "\n"
                        "Findings\n"
                        "\n"
                        "1. a * b (kernel): It takes <b>all</b>.\n"
                        "2. It waits.\n"
                        "\n"
                        "Stages\n"
                        "\n"
                        "Of 3 stages.\n"
                        "\n"
                        "Run     Stage                Calls     Total  Change      PID  Tool\n"
                        "------  -----------------  -------  --------  ------  -------  --------\n"
                        "first   prefill              1,204  12.50 ms  +4.2 %  4711000\n"
                        "first   a|b<c> (nsys?[1m)      n/a       n/a     n/a        7  nsys?[1m\n"
                        "second  - decode           refused  250.0 µs                8  none\n"
                        "\n"
                        "A stage includes its sub-stages.\n"
                        "\n"
                        "Facts\n"
                        "\n"
                        "What   Value\n"
                        "-----  --------\n"
                        "Model  a|b\n"
                        "Host   8.030 µs\n"
                        "\n"
                        "- One `note`.\n"
                        "- Another.\n"
                        "\n"
                        "The end.\n");
}

static void as_markdown(void **state)
{
    struct test *t = *state;
    assert_string_equal(
        made(t, document_markdown),
        "# Profile \\<a>\n"
        "\n"
        "prefill is slower\n"
        "\n"
        "- Elapsed: 12.50 ms, of the \\*stages\\*\n"
        "- GPUs: 2\n"
        "\n"
        "## Findings\n"
        "\n"
        "1. **a \\* b** (kernel): It takes \\<b>all\\</b>.\n"
        "2. It waits.\n"
        "\n"
        "## Stages\n"
        "\n"
        "Of 3 stages.\n"
        "\n"
        "| Run    | Stage                |   Calls |    Total | Change |     PID | Tool      |\n"
        "|--------|----------------------|--------:|---------:|-------:|--------:|-----------|\n"
        "| first  | prefill              |   1,204 | 12.50 ms | +4.2 % | 4711000 |           |\n"
        "| first  | a\\|b\\<c> (nsys?\\[1m) |     n/a |      n/a |    n/a |       7 |"
        " nsys?\\[1m |\n"
        "| second | - decode             | refused | 250.0 µs |        |       8 | none      |\n"
        "\n"
        "A stage includes its sub-stages.\n"
        "\n"
        "## Facts\n"
        "\n"
        "| What  | Value    |\n"
        "|-------|----------|\n"
        "| Model | a\\|b     |\n"
        "| Host  | 8.030 µs |\n"
        "\n"
        "- One \\`note\\`.\n"
        "- Another.\n"
        "\n"
        "The end.\n");
}

static void as_json(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    json_write(&b, document_json(fake_document_table(t->a)), 0, false);
    assert_string_equal(buf_str(&b),
                        "[{\"calls\":1204,\"total_ms\":12.5,"
                        "\"change_percent\":4.2,\"process\":4711000,\"tool\":null},"
                        "{\"calls\":null,\"total_ms\":null,"
                        "\"change_percent\":null,\"process\":7,\"tool\":\"nsys\\u001b[1m\"},"
                        "{\"calls\":\"refused\",\"total_ms\":0.25,"
                        "\"change_percent\":null,\"process\":8,\"tool\":\"none\"}]");
    buf_free(&b);
}

static void every_kind_has_words(void **state)
{
    struct test *t = *state;
    static const struct {
        enum document_kind kind;
        double v;
        const char *words, *unknown;
    } rows[] = {
        {DOCUMENT_COUNT, 1204, "1,204", "n/a"},
        {DOCUMENT_COUNT, -3, "-3", "n/a"},
        {DOCUMENT_COUNT, 1e16, "n/a", "n/a"},
        {DOCUMENT_ID, 4711000, "4711000", "n/a"},
        {DOCUMENT_NUMBER, 3.14159, "3.142", "n/a"},
        {DOCUMENT_NUMBER, 23456.7, "23,457", "n/a"},
        {DOCUMENT_S, 12.5, "12.50 s", "n/a"},
        {DOCUMENT_MS, 12.5, "12.50 ms", "n/a"},
        {DOCUMENT_US, 12.5, "12.50 µs", "n/a"},
        {DOCUMENT_NS, 12, "12 ns", "n/a"},
        {DOCUMENT_NS_AS_MS, 2104000, "2.104", "n/a"},
        {DOCUMENT_PERCENT, 1.23, "1.2 %", "n/a"},
        {DOCUMENT_FINE, 0.006172, "0.00617 %", "n/a"},
        {DOCUMENT_CHANGE, 12, "+12 %", "n/a"},
        {DOCUMENT_SHARE, 0.62, "62 %", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(document_value(t->a, rows[i].kind, rows[i].v), rows[i].words);
        assert_string_equal(document_value(t->a, rows[i].kind, NAN), rows[i].unknown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(as_text), TEST(as_markdown), TEST(as_json),
                                       TEST(every_kind_has_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
