#include "text/table.h"

#include <string.h>

struct table {
    struct arena *a;
    int columns, cells, cap;
    const char **cell; /* [cells], row by row */
    bool *right;       /* [columns]; NULL = by their cells */
};

struct table *table_new(struct arena *a, int columns)
{
    ASSERT(columns > 0);
    struct table *t = arena_one(a, struct table);
    t->a = a;
    t->columns = columns;
    return t;
}

struct table *table_headed(struct arena *a, const char *const *heads, int columns)
{
    struct table *t = table_new(a, columns);
    for (int i = 0; i < columns; i++)
        table_cell(t, "%s", heads[i]);
    return t;
}

void table_cell(struct table *t, const char *fmt, ...)
{
    if (t->cells == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        const char **bigger = arena_array(t->a, const char *, t->cap);
        if (t->cells)
            memcpy(bigger, t->cell, (size_t)t->cells * sizeof *bigger);
        t->cell = bigger;
    }
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(t->a, fmt, ap);
    va_end(ap);
    for (char *p = s; *p; p++) /* on one line; str_make_printable makes '?' of the others */
        if (*p == '\n' || *p == '\r' || *p == '\t')
            *p = ' ';
    str_make_printable(s, strlen(s), false);
    t->cell[t->cells++] = s;
}

int table_columns(const struct table *t)
{
    return t->columns;
}

int table_rows(const struct table *t)
{
    return t->cells / t->columns;
}

const char *table_at(const struct table *t, int row, int column)
{
    ASSERT(row >= 0 && row < table_rows(t) && column >= 0 && column < t->columns);
    return t->cell[row * t->columns + column];
}

static bool is_number(const char *s)
{
    s += *s == '+' || *s == '-' || *s == '<' || *s == '>';
    s += *s == '.';
    return *s >= '0' && *s <= '9';
}

static bool is_absent(const char *s)
{
    return *s == 0 || strcmp(s, "-") == 0 || strcmp(s, "n/a") == 0;
}

void table_align(struct table *t, int column, bool right)
{
    if (!t->right)
        t->right = arena_array(t->a, bool, t->columns);
    t->right[column] = right;
}

bool table_right(const struct table *t, int column)
{
    if (t->right)
        return t->right[column];
    bool any = false;
    for (int row = 1; row < table_rows(t); row++) {
        const char *s = table_at(t, row, column);
        if (is_number(s))
            any = true;
        else if (!is_absent(s))
            return false;
    }
    return any;
}

/* [columns], computed once per column instead of per cell. */
static bool *alignment(const struct table *t)
{
    bool *right = mem_alloc((size_t)t->columns * sizeof *right);
    for (int c = 0; c < t->columns; c++)
        right[c] = table_right(t, c);
    return right;
}

static int width(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

static void repeat(struct buf *out, char c, int n)
{
    for (; n > 0; n--)
        buf_putc(out, c);
}

/* Widest cell per column, as `form` gives them. */
static int *widths(const struct table *t, void (*form)(struct buf *, const char *))
{
    int *w = mem_alloc((size_t)t->columns * sizeof *w);
    struct buf b = {0};
    for (int i = 0; i < table_rows(t) * t->columns; i++) {
        buf_clear(&b);
        form(&b, t->cell[i]);
        int n = width(buf_str(&b));
        if (n > w[i % t->columns])
            w[i % t->columns] = n;
    }
    buf_free(&b);
    return w;
}

static void padded(struct buf *out, const char *s, int w, bool right)
{
    int pad = w - width(s);
    repeat(out, ' ', right ? pad : 0);
    buf_puts(out, s);
    repeat(out, ' ', right ? 0 : pad);
}

void table_text(struct buf *out, const struct table *t)
{
    int *w = widths(t, buf_puts);
    bool *right = alignment(t);
    for (int row = 0; row < table_rows(t); row++) {
        for (int c = 0; c < t->columns; c++) {
            buf_puts(out, c ? "  " : "");
            padded(out, table_at(t, row, c), w[c], right[c]);
        }
        while (out->n && out->p[out->n - 1] == ' ')
            out->p[--out->n] = 0;
        buf_putc(out, '\n');
        for (int c = 0; row == 0 && c < t->columns; c++) {
            buf_puts(out, c ? "  " : "");
            repeat(out, '-', w[c]);
        }
        if (row == 0)
            buf_putc(out, '\n');
    }
    mem_free(right);
    mem_free(w);
}

void table_markdown_text(struct buf *out, const char *s)
{
    for (; *s; s++) {
        if (strchr("\\|<*`[", *s))
            buf_putc(out, '\\');
        buf_putc(out, *s);
    }
}

void table_markdown(struct buf *out, const struct table *t)
{
    int *w = widths(t, table_markdown_text);
    bool *right = alignment(t);
    struct buf cell = {0};
    for (int row = 0; row < table_rows(t); row++) {
        for (int c = 0; c < t->columns; c++) {
            buf_clear(&cell);
            table_markdown_text(&cell, table_at(t, row, c));
            buf_puts(out, c ? " " : "| ");
            padded(out, buf_str(&cell), w[c] < 3 ? 3 : w[c], right[c]);
            buf_puts(out, " |");
        }
        buf_putc(out, '\n');
        for (int c = 0; row == 0 && c < t->columns; c++) {
            buf_puts(out, c ? "-" : "|-");
            repeat(out, '-', w[c] < 3 ? 3 : w[c]);
            buf_puts(out, right[c] ? ":|" : "-|");
        }
        if (row == 0)
            buf_putc(out, '\n');
    }
    buf_free(&cell);
    mem_free(right);
    mem_free(w);
}
