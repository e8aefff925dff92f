/* Cells that were written are read back. The input is a table: cells end at byte 1f, rows at 1e;
 * the first row decides the columns. */
#include "fuzz.h"

#include <string.h>

#include "base/vec.h"
#include "text/csv.h"

enum { CELL_END = 0x1f, ROW_END = 0x1e, MAX_CELLS = 4096 };

typedef VEC(const char *) cells;

/* Returns the columns, 0 for an input that is no table. */
static size_t split(struct arena *a, struct sv text, cells *out)
{
    size_t columns = 0, start = 0;
    if (str_utf8_valid(text.p, text.n) < text.n || memchr(text.p, 0, text.n))
        return 0;
    for (size_t i = 0; i < text.n && out->n < MAX_CELLS; i++) {
        if (text.p[i] != CELL_END && text.p[i] != ROW_END)
            continue;
        vec_push(out, arena_strn(a, text.p + start, i - start));
        start = i + 1;
        if (text.p[i] == ROW_END && !columns)
            columns = out->n;
    }
    return columns;
}

static void write_table(FILE *f, const cells *c, size_t columns, size_t rows)
{
    struct csv_writer w = {.f = f};
    for (size_t i = 0; i < columns; i++)
        csv_put_int(&w, (int64_t)i);
    csv_end_row(&w);
    for (size_t i = 0; i < rows * columns; i++) {
        csv_put_str(&w, c->p[i]);
        if ((i + 1) % columns == 0)
            csv_end_row(&w);
    }
}

static void read_table(struct sv text, const cells *c, size_t columns, size_t rows)
{
    struct csv_reader *r;
    struct err e = {0};
    REQUIRE(csv_open_bytes(&r, "fuzz", text, &e) == ST_OK);
    REQUIRE((size_t)csv_columns(r) == columns);
    for (size_t i = 0; i < rows * columns; i++) {
        if (i % columns == 0)
            REQUIRE(csv_next(r, &e) == ST_OK);
        REQUIRE(sv_eq(csv_cell(r, (int)(i % columns)), c->p[i]));
    }
    REQUIRE(csv_next(r, &e) == ST_END);
    csv_close(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    cells c = {0};
    size_t columns = size ? split(a, (struct sv){(const char *)data, size}, &c) : 0;
    if (columns) {
        char *text = NULL;
        size_t n = 0, rows = c.n / columns;
        FILE *f = open_memstream(&text, &n);
        REQUIRE(f);
        write_table(f, &c, columns, rows);
        fclose(f);
        read_table((struct sv){text, n}, &c, columns, rows);
        free(text);
    }
    vec_free(&c);
    arena_free(&a);
    return 0;
}
