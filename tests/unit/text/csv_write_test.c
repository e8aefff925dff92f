#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/csv.h"

struct memory {
    char *p;
    size_t n;
    struct csv_writer w;
};

static struct memory *open_memory(struct test *t)
{
    struct memory *m = arena_one(t->a, struct memory);
    m->w.f = open_memstream(&m->p, &m->n);
    assert_non_null(m->w.f);
    return m;
}

static const char *closed(struct test *t, struct memory *m)
{
    assert_int_equal(fclose(m->w.f), 0);
    char *s = arena_strn(t->a, m->p, m->n);
    free(m->p);
    m->p = s;
    return s;
}

static void cells_and_rows(void **state)
{
    struct test *t = *state;
    struct memory *m = open_memory(t);
    csv_put_str(&m->w, "id");
    csv_put_int(&m->w, INT64_MIN);
    csv_put_double(&m->w, 0.1);
    csv_put_empty(&m->w);
    csv_end_row(&m->w);
    csv_put_double(&m->w, NAN);
    csv_put_double(&m->w, -INFINITY);
    csv_put_double(&m->w, 1e300);
    csv_put_str(&m->w, "");
    csv_end_row(&m->w);
    assert_string_equal(closed(t, m), "id,-9223372036854775808,0.1,\n,,1e+300,\n");
}

static void quotes_only_where_needed(void **state)
{
    struct test *t = *state;
    struct memory *m = open_memory(t);
    static const char *const cells[] = {"plain text", "a,b", "q\"q", "two\nlines", "cr\r", "'"};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        csv_put_str(&m->w, cells[i]);
    csv_end_row(&m->w);
    assert_string_equal(closed(t, m), "plain text,\"a,b\",\"q\"\"q\",\"two\nlines\",\"cr\r\",'\n");
}

static void what_is_written_reads_back(void **state)
{
    static const char *const cells[] = {"", "x", "\"", ",", "\r", "\n", "\r\n", " a ", "\"\"", "é"};
    enum { N = sizeof cells / sizeof *cells };
    struct test *t = *state;
    for (int columns = 1; columns <= 3; columns++) {
        struct memory *m = open_memory(t);
        for (int c = 0; c < columns; c++)
            csv_put_int(&m->w, c);
        csv_end_row(&m->w);
        for (int i = 0; i < N; i++) {
            for (int c = 0; c < columns; c++)
                csv_put_str(&m->w, cells[(i + c) % N]);
            csv_end_row(&m->w);
        }
        struct csv_reader *r;
        closed(t, m);
        assert_ok(csv_open_bytes(&r, "t.csv", (struct sv){m->p, m->n}, &t->e), t);
        for (int i = 0; i < N; i++) {
            assert_ok(csv_next(r, &t->e), t);
            for (int c = 0; c < columns; c++)
                assert_sv(csv_cell(r, c), cells[(i + c) % N]);
        }
        assert_int_equal(csv_next(r, &t->e), ST_END);
        csv_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cells_and_rows),
        TEST(quotes_only_where_needed),
        TEST(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
