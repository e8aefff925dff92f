#include "support/support.h"
#include "text/table.h"

static struct table *make(struct test *t, int columns, const char *const *cells, int n)
{
    struct table *table = table_new(t->a, columns);
    for (int i = 0; i < n; i++)
        table_cell(table, "%s", cells[i]);
    return table;
}

#define MAKE(t, columns, ...)                            \
    make(t, columns, (const char *const[]){__VA_ARGS__}, \
         (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

static const char *text_of(struct test *t, void (*form)(struct buf *, const struct table *),
                           const struct table *table)
{
    struct buf b = {0};
    form(&b, table);
    char *s = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    return s;
}

static void numbers_align_right(void **state)
{
    struct test *t = *state;
    const struct table *table =
        MAKE(t, 4, "metric", "real", "sim (ms)", "note", "ttft p50", "42.1", "-0.5", "x", "e2e",
             "1234.5 ms", "n/a", "12 y", "t", "", "-", "");
    assert_string_equal(text_of(t, table_text, table), "metric         real  sim (ms)  note\n"
                                                       "--------  ---------  --------  ----\n"
                                                       "ttft p50       42.1      -0.5  x\n"
                                                       "e2e       1234.5 ms       n/a  12 y\n"
                                                       "t                           -\n");
    assert_true(table_right(table, 1));
    assert_false(table_right(table, 3));
}

static void alignment_may_be_given(void **state)
{
    struct test *t = *state;
    struct table *table = MAKE(t, 3, "name", "ms", "call", "1. a", "n/a", "12", "2. bc", "-", "3");
    table_align(table, 1, true);
    assert_string_equal(text_of(t, table_text, table), "name    ms  call\n"
                                                       "-----  ---  ----\n"
                                                       "1. a   n/a  12\n"
                                                       "2. bc    -  3\n");
}

static void widths_count_characters(void **state)
{
    struct test *t = *state;
    assert_string_equal(text_of(t, table_text, MAKE(t, 2, "a", "b", "\xc3\xa9\xc3\xa9", "1")),
                        "a   b\n"
                        "--  -\n"
                        "\xc3\xa9\xc3\xa9  1\n");
}

static void markdown(void **state)
{
    struct test *t = *state;
    assert_string_equal(
        text_of(t, table_markdown, MAKE(t, 2, "name", "ms", "a|b<c>*`[\\", "1.5", "x\ny", "10")),
        "| name             |  ms |\n"
        "|------------------|----:|\n"
        "| a\\|b\\<c>\\*\\`\\[\\\\ | 1.5 |\n"
        "| x y              |  10 |\n");
}

static void only_a_header(void **state)
{
    struct test *t = *state;
    const struct table *table = MAKE(t, 2, "a", "b", "unfinished");
    assert_int_equal(table_rows(table), 1);
    assert_int_equal(table_columns(table), 2);
    assert_string_equal(table_at(table, 0, 1), "b");
    assert_string_equal(text_of(t, table_text, table), "a  b\n-  -\n");
    assert_string_equal(text_of(t, table_text, table_new(t->a, 1)), "");
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    struct test *t = *state;
    assert_string_equal(text_of(t, table_text, MAKE(t, 1, "a\x1b[31m\tb\x7f\xc2\x9b\xe2\x80\xae")),
                        "a?[31m b??????\n--------------\n");
}

static void many_rows(void **state)
{
    struct test *t = *state;
    struct table *table = table_new(t->a, 3);
    for (int i = 0; i < 3000; i++)
        table_cell(table, "%d", i);
    assert_int_equal(table_rows(table), 1000);
    assert_string_equal(table_at(table, 999, 2), "2999");
}

/* Columns of numbers, which are looked at to the end: were it done for each cell, this would take
 * longer than a test may. */
static void very_many_rows(void **state)
{
    struct test *t = *state;
    enum { N = 200000 };
    struct table *table = table_new(t->a, 2);
    for (int i = 0; i < 2 * N; i++)
        table_cell(table, "%d", i % 10);
    struct buf b = {0};
    table_text(&b, table);
    assert_int_equal(b.n, (N + 1) * 5);
    buf_clear(&b);
    table_markdown(&b, table);
    assert_int_equal(b.n, (N + 1) * 14);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_align_right),
        TEST(alignment_may_be_given),
        TEST(widths_count_characters),
        TEST(markdown),
        TEST(only_a_header),
        TEST(control_characters_do_not_reach_the_terminal),
        TEST(many_rows),
        TEST(very_many_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
