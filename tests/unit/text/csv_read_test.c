#include "support/support.h"

#include "text/csv.h"

static struct csv_reader *reader(struct test *t, struct sv text)
{
    struct csv_reader *r;
    assert_ok(csv_open_bytes(&r, "t.csv", text, &t->e), t);
    return r;
}

/* All rows, cells in <>, a row a line. */
static const char *rows(struct test *t, struct csv_reader *r)
{
    struct buf b = {0};
    enum st st;
    while ((st = csv_next(r, &t->e)) == ST_OK) {
        for (int i = 0; i < csv_columns(r); i++)
            buf_printf(&b, "<%.*s>", (int)csv_cell(r, i).n, csv_cell(r, i).p);
        buf_putc(&b, '\n');
    }
    char *s = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    assert_int_equal(st, ST_END);
    assert_int_equal(csv_next(r, &t->e), ST_END);
    csv_close(&r);
    return s;
}

static void rows_in_every_dialect(void **state)
{
    struct test *t = *state;
    assert_string_equal(rows(t, reader(t, SV("a,b\n1,2\n3,4\n"))), "<1><2>\n<3><4>\n");
    assert_string_equal(rows(t, reader(t, SV("a,b\r\n1,2\r\n3,4"))), "<1><2>\n<3><4>\n");
    assert_string_equal(rows(t, reader(t, SV("\xef\xbb\xbf"
                                             "a,b\n\n1,\n\r\n,\n"))),
                        "<1><>\n<><>\n");
    assert_string_equal(rows(t, reader(t, SV("a\n"))), "");
    assert_string_equal(rows(t, reader(t, SV("a\n\"\"\n"))), "<>\n");
    assert_string_equal(rows(t, reader(t, SV("a, b\n 1 ,\xc3\xa9\n"))), "< 1 ><\xc3\xa9>\n");
}

static void quoted_cells(void **state)
{
    struct test *t = *state;
    assert_string_equal(rows(t, reader(t, SV("a,b\n\"x,y\",\"q\"\"q\"\n\"\",\"\"\"\"\n"))),
                        "<x,y><q\"q>\n<><\">\n");
    assert_string_equal(rows(t, reader(t, SV("a,b\n\"two\r\nlines\",1\r\n3,\"4\"\r\n"))),
                        "<two\r\nlines><1>\n<3><4>\n");
    assert_string_equal(rows(t, reader(t, SV("a,b\n\"\"\"\n\"\"\",\"\"\"a\"\"\"\n"))),
                        "<\"\n\"><\"a\">\n");
}

static void the_header_is_known_before_the_rows(void **state)
{
    struct test *t = *state;
    struct csv_reader *r = reader(t, SV(",time,\"x,y\"\n1,2,3\n"));
    int column;
    assert_int_equal(csv_columns(r), 3);
    assert_string_equal(csv_column_name(r, 0), "");
    assert_string_equal(csv_column_name(r, 2), "x,y");
    assert_int_equal(csv_find(r, "time"), 1);
    assert_int_equal(csv_find(r, "tim"), -1);
    assert_ok(csv_require(r, "x,y", &column, &t->e), t);
    assert_int_equal(column, 2);
    csv_close(&r);
    csv_close(&r);
}

static void a_missing_column_names_the_nearest(void **state)
{
    struct test *t = *state;
    struct csv_reader *r = reader(t, SV("request_id,num_prefill_tokens\n"));
    int column;
    assert_err(csv_require(r, "num_prefil_token", &column, &t->e), ST_INPUT, t,
               "t.csv:1: no column 'num_prefil_token' among: request_id, num_prefill_tokens\n"
               "hint: did you mean 'num_prefill_tokens'?");
    assert_err(csv_require(r, "energy_j", &column, &t->e), ST_INPUT, t,
               "t.csv:1: no column 'energy_j' among: request_id, num_prefill_tokens");
    csv_close(&r);
    struct buf b = {0};
    for (int i = 0; i < 25; i++)
        buf_printf(&b, "%sc%d", i ? "," : "", i);
    r = reader(t, (struct sv){b.p, b.n});
    assert_err(csv_require(r, "x", &column, &t->e), ST_INPUT, t,
               "t.csv:1: no column 'x' among: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, "
               "c12, c13, c14, c15, c16, c17, c18, c19 and 5 more\n"
               "hint: did you mean 'c0'?");
    csv_close(&r);
    buf_free(&b);
}

static void lines_count_newlines_inside_cells(void **state)
{
    struct test *t = *state;
    struct csv_reader *r = reader(t, SV("a,\"b\nb\"\n\n1,2\n\"x\n\ny\",3\n4,5\n"));
    assert_ok(csv_next(r, &t->e), t);
    assert_int_equal(csv_line(r), 4);
    assert_ok(csv_next(r, &t->e), t);
    assert_int_equal(csv_line(r), 5);
    assert_ok(csv_next(r, &t->e), t);
    assert_int_equal(csv_line(r), 8);
    csv_close(&r);
}

static void faults_of_the_header(void **state)
{
    static const struct {
        struct sv text;
        const char *error;
    } cases[] = {
        {SV(""), "t.csv: empty, expected a header line"},
        {SV("\n\n"), "t.csv: empty, expected a header line"},
        {SV("\xef\xbb\xbf"), "t.csv: empty, expected a header line"},
        {SV("a,b,a\n"), "t.csv:1:3: the column 'a' appears twice"},
        {SV("a,,\n"), "t.csv:1:3: the column '' appears twice"},
        {SV("a,\"b\n"), "t.csv:1:2: the quoted cell is never closed"},
        {SV("a,b\0c\n"), "t.csv:1:2: a NUL byte"},
        {SV("a,b\xff\n"), "t.csv:1:2: bytes that are not UTF-8"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct csv_reader *r;
        assert_err(csv_open_bytes(&r, "t.csv", cases[i].text, &t->e), ST_INPUT, t, cases[i].error);
        assert_null(r);
    }
}

static void faults_of_a_row(void **state)
{
    static const struct {
        struct sv text;
        const char *error;
    } cases[] = {
        {SV("1,2,3"), "t.csv:3: 3 cells where the header has 2"},
        {SV("1"), "t.csv:3: 1 cell where the header has 2"},
        {SV("\"1\",\"2\",3"), "t.csv:3: 3 cells where the header has 2"},
        {SV("1,\"2\n7,8\n"), "t.csv:3:2: bb: the quoted cell is never closed"},
        {SV("1,\"2\"x\n"), "t.csv:3:2: bb: text after the closing quote of a cell"},
        {SV("1,\"2\" \n"), "t.csv:3:2: bb: text after the closing quote of a cell"},
        {SV("1\"2,3\n"), "t.csv:3:1: aa: a quote inside a cell that does not begin with one"},
        {SV("1, \"2\"\n"), "t.csv:3:2: bb: a quote inside a cell that does not begin with one"},
        {SV("1,2\"\"\n3,4\n"), "t.csv:3:2: bb: a quote inside a cell that does not begin with one"},
        {SV("1,\0\n"), "t.csv:3:2: bb: a NUL byte"},
        {SV("1,\"\0\"\n"), "t.csv:3:2: bb: a NUL byte"},
        {SV("\xc0\x80,1\n"), "t.csv:3:1: aa: bytes that are not UTF-8"},
        {SV("1,\"\xed\xa0\x80\"\n"), "t.csv:3:2: bb: bytes that are not UTF-8"},
        {SV("1,2,\0,4\n"), "t.csv:3:3: a NUL byte"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = {0};
        buf_puts(&b, "aa,bb\nok,ok\n");
        buf_add(&b, cases[i].text.p, cases[i].text.n);
        struct csv_reader *r = reader(t, (struct sv){b.p, b.n});
        assert_ok(csv_next(r, &t->e), t);
        assert_err(csv_next(r, &t->e), ST_INPUT, t, cases[i].error);
        csv_close(&r);
        buf_free(&b);
    }
}

static void a_million_columns_are_refused(void **state)
{
    struct test *t = *state;
    struct csv_reader *r;
    struct buf b = {0};
    for (int i = 0; i < 1000000; i++)
        buf_printf(&b, "c%d,", i);
    assert_err(csv_open_bytes(&r, "t.csv", (struct sv){b.p, b.n}, &t->e), ST_INPUT, t,
               "t.csv:1: more than 4096 columns");
    buf_clear(&b);
    buf_puts(&b, "a,b\n");
    for (int i = 0; i < 1000000; i++)
        buf_puts(&b, "\"1\",");
    r = reader(t, (struct sv){b.p, b.n});
    assert_err(csv_next(r, &t->e), ST_INPUT, t, "t.csv:2: 1000001 cells where the header has 2");
    csv_close(&r);
    buf_free(&b);
}

static void the_largest_header(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    for (int i = 0; i < 4096; i++)
        buf_printf(&b, "%sc%d", i ? "," : "", i);
    struct csv_reader *r = reader(t, (struct sv){b.p, b.n});
    assert_int_equal(csv_columns(r), 4096);
    assert_int_equal(csv_find(r, "c4095"), 4095);
    csv_close(&r);
    buf_free(&b);
}

static void long_rows_are_bounded(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    buf_puts(&b, "a\n\"");
    for (int i = 0; i < 17 << 16; i++)
        buf_puts(&b, "0123456789abcde\n");
    struct csv_reader *r;
    assert_ok(csv_open(&r, test_write_bytes(t, "l.csv", (struct sv){b.p, b.n}), &t->e), t);
    assert_err(csv_next(r, &t->e), ST_INPUT, t, "DIR/l.csv:2: a row of more than 16777216 bytes");
    csv_close(&r);
    r = reader(t, (struct sv){b.p, b.n});
    assert_err(csv_next(r, &t->e), ST_INPUT, t, "t.csv:2: a row of more than 16777216 bytes");
    csv_close(&r);
    buf_free(&b);
}

/* Rows and cells longer than the file buffer, cut by it at every place. */
static void files_read_like_bytes(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    buf_puts(&b, "n,text\n");
    for (int i = 0; i < 3000; i++) {
        buf_printf(&b, "%d,\"", i);
        for (int k = 0; k < i % 700; k++)
            buf_puts(&b, k % 50 == 7 ? "\"\"" : k % 61 == 9 ? "\n" : "x,");
        buf_puts(&b, i % 2 ? "\"\n" : "\"\r\n");
    }
    buf_puts(&b, "9,");
    for (int i = 0; i < 1000000; i++)
        buf_putc(&b, 'y');
    struct sv text = {b.p, b.n};
    struct csv_reader *r;
    assert_ok(csv_open(&r, test_write_bytes(t, "f.csv", text), &t->e), t);
    assert_string_equal(rows(t, r), rows(t, reader(t, text)));
    buf_free(&b);
}

static void files_that_cannot_be_read(void **state)
{
    struct test *t = *state;
    struct csv_reader *r;
    assert_err(csv_open(&r, test_path(t, "no.csv"), &t->e), ST_INPUT, t,
               "cannot open DIR/no.csv: No such file or directory");
    assert_err(csv_open(&r, test_dir(t), &t->e), ST_INPUT, t, "DIR is not a regular file");
    assert_err(csv_open(&r, test_write(t, "e.csv", ""), &t->e), ST_INPUT, t,
               "DIR/e.csv: empty, expected a header line");
}

static void integers(void **state)
{
    struct test *t = *state;
    struct csv_reader *r = reader(t, SV("a,b,c,d,e\n12,12.0,-9223372036854775808,1e3,-0\n"
                                        "x,1.5,,9223372036854775808,nan\n7,1e300,0x1, 1,1.0e17\n"));
    int64_t v;
    assert_ok(csv_next(r, &t->e), t);
    const int64_t expected[] = {12, 12, INT64_MIN, 1000, 0};
    for (int i = 0; i < 5; i++) {
        assert_ok(csv_int(r, i, INT64_MIN, INT64_MAX, &v, &t->e), t);
        assert_int_equal(v, expected[i]);
    }
    assert_err(csv_int(r, 0, 0, 11, &v, &t->e), ST_INPUT, t,
               "t.csv:2:1: a: 12 is above the maximum 11");
    assert_err(csv_int(r, 2, 0, 11, &v, &t->e), ST_INPUT, t,
               "t.csv:2:3: c: -9223372036854775808 is below the minimum 0");
    static const char *const errors[2][5] = {
        {"t.csv:3:1: a: expected an integer, got 'x'",
         "t.csv:3:2: b: expected an integer, got '1.5'",
         "t.csv:3:3: c: expected an integer, the cell is empty",
         "t.csv:3:4: d: expected an integer, got '9223372036854775808'",
         "t.csv:3:5: e: expected an integer, got 'nan'"},
        {NULL, "t.csv:4:2: b: expected an integer, got '1e300'",
         "t.csv:4:3: c: expected an integer, got '0x1'",
         "t.csv:4:4: d: expected an integer, got ' 1'",
         "t.csv:4:5: e: expected an integer, got '1.0e17'"},
    };
    for (int row = 0; row < 2; row++) {
        assert_ok(csv_next(r, &t->e), t);
        for (int i = 0; i < 5; i++)
            if (errors[row][i])
                assert_err(csv_int(r, i, INT64_MIN, INT64_MAX, &v, &t->e), ST_INPUT, t,
                           errors[row][i]);
    }
    csv_close(&r);
}

static void doubles(void **state)
{
    struct test *t = *state;
    struct csv_reader *r = reader(t, SV("a,b,c\n0.25,-3,1.734723475976807e-18\nnan,inf,\n"));
    double v;
    assert_ok(csv_next(r, &t->e), t);
    assert_ok(csv_double(r, 0, 0, 1, &v, &t->e), t);
    assert_near(v, 0.25, 0);
    assert_ok(csv_double(r, 2, 0, 1, &v, &t->e), t);
    assert_near(v, 1.734723475976807e-18, 0);
    assert_err(csv_double(r, 1, 0, 1, &v, &t->e), ST_INPUT, t,
               "t.csv:2:2: b: -3 is below the minimum 0");
    assert_err(csv_double(r, 0, 0, 0.125, &v, &t->e), ST_INPUT, t,
               "t.csv:2:1: a: 0.25 is above the maximum 0.125");
    assert_ok(csv_next(r, &t->e), t);
    assert_err(csv_double(r, 0, 0, 1, &v, &t->e), ST_INPUT, t,
               "t.csv:3:1: a: expected a number, got 'nan'");
    assert_err(csv_double(r, 1, 0, 1, &v, &t->e), ST_INPUT, t,
               "t.csv:3:2: b: expected a number, got 'inf'");
    assert_err(csv_double(r, 2, 0, 1, &v, &t->e), ST_INPUT, t,
               "t.csv:3:3: c: expected a number, the cell is empty");
    assert_true(csv_empty(r, 2));
    assert_false(csv_empty(r, 1));
    csv_close(&r);
}

static void errors_of_the_caller_have_the_same_form(void **state)
{
    struct test *t = *state;
    struct csv_reader *r = reader(t, SV("a,kind\n1,x\n"));
    assert_ok(csv_next(r, &t->e), t);
    assert_err(csv_err(r, 1, &t->e, "unknown %s '\x1b[31m'", "kind"), ST_INPUT, t,
               "t.csv:2:2: kind: unknown kind '?[31m'");
    csv_close(&r);
}

static void published_tables_are_read(void **state)
{
    struct test *t = *state;
    struct csv_reader *r;
    const char *path =
        test_data(t, "vidur/data/profiling/compute/a100/meta-llama/Llama-2-70b-hf/attention.csv");
    assert_ok(csv_open(&r, path, &t->e), t);
    int column;
    double v, sum = 0;
    assert_ok(csv_require(r, "time_stats.attn_output_reshape.median", &column, &t->e), t);
    enum st st;
    while ((st = csv_next(r, &t->e)) == ST_OK) {
        assert_ok(csv_double(r, column, 0, 10, &v, &t->e), t);
        sum += v;
    }
    assert_int_equal(st, ST_END);
    assert_true(sum > 0);
    csv_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_in_every_dialect),
        TEST(quoted_cells),
        TEST(the_header_is_known_before_the_rows),
        TEST(a_missing_column_names_the_nearest),
        TEST(lines_count_newlines_inside_cells),
        TEST(faults_of_the_header),
        TEST(faults_of_a_row),
        TEST(a_million_columns_are_refused),
        TEST(the_largest_header),
        TEST(long_rows_are_bounded),
        TEST(files_read_like_bytes),
        TEST(files_that_cannot_be_read),
        TEST(integers),
        TEST(doubles),
        TEST(errors_of_the_caller_have_the_same_form),
        TEST(published_tables_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
