#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "text/csv.h"

enum { MAX_COLUMNS = 4096, MAX_ROW_BYTES = 16 << 20, FIRST_BUFFER = 1 << 18 };

struct csv_reader {
    struct arena *a; /* source, header names */
    const char *source;
    int fd;       /* -1: bytes of the caller */
    char *buffer; /* of a file: holds at least the current row */
    size_t buffer_bytes;
    const char *p, *end; /* bytes not yet turned into rows */
    bool last;           /* nothing follows `end` */
    long line;           /* of the current row's first byte */
    long next_line;
    int columns;
    const char **names; /* [columns] */
    struct map by_name;
    struct sv *cells;    /* [columns] of the current row */
    struct buf unquoted; /* texts of the row's quoted cells that hold a doubled quote */
};

/* ---- bytes ---- */

static enum st fill(struct csv_reader *r, struct err *e)
{
    size_t have = (size_t)(r->end - r->p);
    if (have >= MAX_ROW_BYTES)
        return err_at(e, ST_INPUT, r->source, r->next_line, 0, "a row of more than %d bytes",
                      MAX_ROW_BYTES);
    if (have * 2 > r->buffer_bytes || !r->buffer) {
        size_t bytes = r->buffer ? r->buffer_bytes * 2 : FIRST_BUFFER;
        char *bigger = mem_alloc(bytes);
        if (have)
            memcpy(bigger, r->p, have);
        mem_free(r->buffer);
        r->buffer = bigger;
        r->buffer_bytes = bytes;
    } else if (have) {
        memmove(r->buffer, r->p, have);
    }
    r->p = r->buffer;
    r->end = r->buffer + have;
    while (r->end < r->buffer + r->buffer_bytes) {
        ssize_t got = read(r->fd, r->buffer + have, r->buffer_bytes - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(e, true, "cannot read %s", r->source);
        r->last = got == 0;
        r->end += got;
        break;
    }
    return ST_OK;
}

/* Whether a row's bytes so far end inside a quoted cell. Only a quote at the start of a cell opens
 * one; others are left for split_quoted to report. */
struct quotes {
    bool inside;
    size_t closed; /* offset behind the last closing quote, 0 = none: a quote there reopens it */
};

static void follow_quotes(struct quotes *q, const char *row, const char *p, const char *end)
{
    for (; (p = memchr(p, '"', (size_t)(end - p))) != NULL; p++) {
        if (q->inside) {
            q->inside = false;
            q->closed = (size_t)(p + 1 - row);
        } else {
            q->inside = p == row || p[-1] == ',' || q->closed == (size_t)(p - row);
        }
    }
}

/* The bytes of the next row without its line end; a newline inside quotes does not end it. */
static enum st take_row(struct csv_reader *r, struct sv *row, bool *quoted, struct err *e)
{
    size_t searched = 0;
    struct quotes q = {0};
    *quoted = false;
    for (;;) {
        const char *nl = NULL;
        while (r->p + searched < r->end) {
            const char *from = r->p + searched;
            nl = memchr(from, '\n', (size_t)(r->end - from));
            const char *to = nl ? nl : r->end;
            if (memchr(from, '"', (size_t)(to - from))) {
                *quoted = true;
                follow_quotes(&q, r->p, from, to);
            }
            searched = (size_t)(to - r->p) + (nl != NULL);
            if (nl && !q.inside)
                break;
            nl = NULL;
        }
        if (nl) {
            *row = (struct sv){r->p, (size_t)(nl - r->p)};
            r->p = nl + 1;
            break;
        }
        if (r->last) {
            *row = (struct sv){r->p, (size_t)(r->end - r->p)};
            r->p = r->end;
            break;
        }
        TRY(fill(r, e));
    }
    if (row->n > MAX_ROW_BYTES)
        return err_at(e, ST_INPUT, r->source, r->next_line, 0, "a row of more than %d bytes",
                      MAX_ROW_BYTES);
    if (row->n && row->p[row->n - 1] == '\r')
        row->n--;
    return ST_OK;
}

static long newlines(struct sv row)
{
    long n = 0;
    for (const char *p = row.p, *end = row.p + row.n;
         (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++)
        n++;
    return n;
}

/* ---- cells ---- */

static enum st bad_cell(const struct csv_reader *r, int column, struct err *e, const char *what)
{
    if (r->names && column < r->columns)
        return csv_err(r, column, e, "%s", what);
    return err_at(e, ST_INPUT, r->source, r->line, column + 1, "%s", what);
}

static enum st wrong_count(const struct csv_reader *r, long cells, struct err *e)
{
    return err_at(e, ST_INPUT, r->source, r->line, 0, "%ld cell%s where the header has %d", cells,
                  cells == 1 ? "" : "s", r->columns);
}

/* Stores cell `column`: as a header name while the header is read, else as a cell of the row. */
static enum st put_cell(struct csv_reader *r, long column, struct sv cell, struct err *e)
{
    if (r->names) {
        if (column < r->columns)
            r->cells[column] = cell;
        return ST_OK;
    }
    if (column == MAX_COLUMNS)
        return err_at(e, ST_INPUT, r->source, r->line, 0, "more than %d columns", MAX_COLUMNS);
    r->cells[column] = cell;
    return ST_OK;
}

/* A row without quotes: one pass over its bytes. */
static enum st split_plain(struct csv_reader *r, struct sv row, long *cells, struct err *e)
{
    static const unsigned char comma[256] = {[','] = 1, [0] = 1};
    long n = 0;
    const char *start = row.p, *end = row.p + row.n;
    for (const char *p = row.p;; p++) {
        while (p < end && !comma[(unsigned char)*p])
            p++;
        if (p < end && *p == 0)
            return bad_cell(r, (int)n, e, "a NUL byte");
        TRY(put_cell(r, n++, (struct sv){start, (size_t)(p - start)}, e));
        if (p == end)
            break;
        start = p + 1;
    }
    *cells = n;
    return ST_OK;
}

/* p is behind the opening quote; moves it to the comma or the end. */
static enum st quoted_cell(struct csv_reader *r, int column, const char **at, const char *end,
                           struct sv *cell, struct err *e)
{
    const char *p = *at, *start = p;
    size_t text = r->unquoted.n;
    bool doubled = false;
    for (;;) {
        const char *q = memchr(p, '"', (size_t)(end - p));
        if (!q)
            return bad_cell(r, column, e, "the quoted cell is never closed");
        if (q + 1 == end || q[1] != '"') {
            if (doubled)
                buf_add(&r->unquoted, start, (size_t)(q - start));
            *cell = doubled ? (struct sv){r->unquoted.p + text, r->unquoted.n - text}
                            : (struct sv){start, (size_t)(q - start)};
            *at = q + 1;
            break;
        }
        doubled = true;
        buf_add(&r->unquoted, start, (size_t)(q + 1 - start));
        p = start = q + 2;
    }
    if (*at < end && **at != ',')
        return bad_cell(r, column, e, "text after the closing quote of a cell");
    return ST_OK;
}

static enum st split_quoted(struct csv_reader *r, struct sv row, long *cells, struct err *e)
{
    buf_clear(&r->unquoted);
    if (r->unquoted.cap <= row.n) { /* reserved here because cells point into it */
        buf_free(&r->unquoted);
        r->unquoted.p = mem_alloc(row.n + 1);
        r->unquoted.cap = row.n + 1;
    }
    long n = 0;
    for (const char *p = row.p, *end = row.p + row.n;; p++) {
        struct sv cell = {0};
        int column = n < MAX_COLUMNS ? (int)n : MAX_COLUMNS;
        if (p < end && *p == '"') {
            p++;
            TRY(quoted_cell(r, column, &p, end, &cell, e));
        } else {
            const char *q = memchr(p, ',', (size_t)(end - p));
            cell = (struct sv){p, (size_t)((q ? q : end) - p)};
            if (memchr(cell.p, '"', cell.n))
                return bad_cell(r, column, e, "a quote inside a cell that does not begin with one");
            p = cell.p + cell.n;
        }
        if (memchr(cell.p, 0, cell.n))
            return bad_cell(r, column, e, "a NUL byte");
        TRY(put_cell(r, n++, cell, e));
        if (p == end)
            break;
    }
    *cells = n;
    return ST_OK;
}

static enum st split(struct csv_reader *r, struct sv row, bool quoted, long *cells, struct err *e)
{
    size_t valid = str_utf8_valid(row.p, row.n);
    if (valid < row.n) {
        int column = 0;
        for (size_t i = 0; i < valid; i++)
            column += row.p[i] == ',';
        return bad_cell(r, column, e, "bytes that are not UTF-8");
    }
    return quoted ? split_quoted(r, row, cells, e) : split_plain(r, row, cells, e);
}

/* ---- the header ---- */

static enum st next_row(struct csv_reader *r, struct sv *row, bool *quoted, struct err *e)
{
    do {
        if (r->p == r->end && !r->last)
            TRY(fill(r, e));
        if (r->p == r->end && r->last)
            return ST_END;
        TRY(take_row(r, row, quoted, e));
        r->line = r->next_line;
        r->next_line += 1 + (*quoted ? newlines(*row) : 0);
    } while (row->n == 0);
    return ST_OK;
}

static enum st read_header(struct csv_reader *r, struct err *e)
{
    struct sv row;
    bool quoted;
    while (r->end - r->p < 3 && !r->last)
        TRY(fill(r, e));
    if (r->end - r->p >= 3 && memcmp(r->p, "\xef\xbb\xbf", 3) == 0)
        r->p += 3;
    enum st st = next_row(r, &row, &quoted, e);
    if (st == ST_END)
        return err_set(e, ST_INPUT, "%s: empty, expected a header line", r->source);
    TRY(st);
    r->cells = arena_array(r->a, struct sv, MAX_COLUMNS);
    long n;
    TRY(split(r, row, quoted, &n, e));
    r->columns = (int)n;
    const char **names = arena_array(r->a, const char *, n);
    for (int i = 0; i < r->columns; i++) {
        bool is_new;
        names[i] = arena_strn(r->a, r->cells[i].p, r->cells[i].n);
        struct map_entry *entry = map_put(&r->by_name, names[i], r->cells[i].n, &is_new);
        if (!is_new)
            return err_at(e, ST_INPUT, r->source, r->line, i + 1,
                          "the column '%.100s' appears twice", names[i]);
        entry->i = i;
    }
    r->names = names;
    return ST_OK;
}

static struct csv_reader *new_reader(const char *source)
{
    struct arena *a = arena_new();
    struct csv_reader *r = arena_one(a, struct csv_reader);
    r->a = a;
    r->source = arena_str(a, source);
    r->fd = -1;
    r->next_line = 1;
    map_init(&r->by_name, a);
    return r;
}

static enum st opened(struct csv_reader *made, struct csv_reader **r, struct err *e)
{
    enum st st = read_header(made, e);
    if (st != ST_OK)
        csv_close(&made);
    *r = made;
    return st;
}

enum st csv_open(struct csv_reader **r, const char *path, struct err *e)
{
    *r = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (fd < 0)
        return err_errno(e, true, "cannot open %s", path);
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        close(fd);
        return err_set(e, ST_INPUT, "%s is not a regular file", path);
    }
    struct csv_reader *made = new_reader(path);
    made->fd = fd;
    return opened(made, r, e);
}

enum st csv_open_bytes(struct csv_reader **r, const char *source, struct sv bytes, struct err *e)
{
    struct csv_reader *made = new_reader(source);
    made->p = bytes.p;
    made->end = bytes.p + bytes.n;
    made->last = true;
    return opened(made, r, e);
}

void csv_close(struct csv_reader **r)
{
    if (!r || !*r)
        return;
    if ((*r)->fd >= 0)
        close((*r)->fd);
    mem_free((*r)->buffer);
    buf_free(&(*r)->unquoted);
    struct arena *a = (*r)->a; /* holds the reader itself */
    arena_free(&a);
    *r = NULL;
}

int csv_columns(const struct csv_reader *r)
{
    return r->columns;
}

const char *csv_column_name(const struct csv_reader *r, int column)
{
    ASSERT(column >= 0 && column < r->columns);
    return r->names[column];
}

int csv_find(const struct csv_reader *r, const char *name)
{
    const struct map_entry *found = map_find(&r->by_name, name, strlen(name));
    return found ? (int)found->i : -1;
}

enum st csv_require(const struct csv_reader *r, const char *name, int *column, struct err *e)
{
    enum { LISTED = 20 };
    *column = csv_find(r, name);
    if (*column >= 0)
        return ST_OK;
    struct buf list = {0};
    int nearest = 0, best = 1 << 30;
    for (int i = 0; i < r->columns; i++) {
        if (i < LISTED)
            buf_printf(&list, "%s%.60s", i ? ", " : "", r->names[i]);
        int distance = str_distance(name, r->names[i]);
        if (distance < best) {
            best = distance;
            nearest = i;
        }
    }
    if (r->columns > LISTED)
        buf_printf(&list, " and %d more", r->columns - LISTED);
    err_at(e, ST_INPUT, r->source, 1, 0, "no column '%s' among: %s", name, buf_str(&list));
    buf_free(&list);
    if (best <= 2 + (int)strlen(name) / 4)
        err_hint(e, "did you mean '%s'?", r->names[nearest]);
    return ST_INPUT;
}

/* ---- rows ---- */

enum st csv_next(struct csv_reader *r, struct err *e)
{
    struct sv row;
    bool quoted;
    long cells;
    TRY(next_row(r, &row, &quoted, e));
    TRY(split(r, row, quoted, &cells, e));
    return cells == r->columns ? ST_OK : wrong_count(r, cells, e);
}

long csv_line(const struct csv_reader *r)
{
    return r->line;
}

struct sv csv_cell(const struct csv_reader *r, int column)
{
    ASSERT(column >= 0 && column < r->columns);
    return r->cells[column];
}

bool csv_empty(const struct csv_reader *r, int column)
{
    return csv_cell(r, column).n == 0;
}

enum st csv_err(const struct csv_reader *r, int column, struct err *e, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(e, ST_INPUT, r->source, r->line, column + 1, "%.100s: %s", r->names[column],
                  text);
}

static enum st not_a(const struct csv_reader *r, int column, const char *kind, struct err *e)
{
    struct sv s = csv_cell(r, column);
    if (s.n == 0)
        return csv_err(r, column, e, "expected %s, the cell is empty", kind);
    return csv_err(r, column, e, "expected %s, got '%.*s'", kind, (int)(s.n < 60 ? s.n : 60), s.p);
}

enum st csv_int(const struct csv_reader *r, int column, int64_t min, int64_t max, int64_t *out,
                struct err *e)
{
    struct sv s = csv_cell(r, column);
    int64_t v;
    double d;
    if (!str_int64(s, &v)) {
        bool integral = str_double(s, &d) && fabs(d) < 0x1p53 && d == (double)(int64_t)d;
        if (!integral)
            return not_a(r, column, "an integer", e);
        v = (int64_t)d;
    }
    if (v < min)
        return csv_err(r, column, e, "%lld is below the minimum %lld", (long long)v,
                       (long long)min);
    if (v > max)
        return csv_err(r, column, e, "%lld is above the maximum %lld", (long long)v,
                       (long long)max);
    *out = v;
    return ST_OK;
}

enum st csv_double(const struct csv_reader *r, int column, double min, double max, double *out,
                   struct err *e)
{
    double v;
    if (!str_double(csv_cell(r, column), &v))
        return not_a(r, column, "a number", e);
    if (v < min)
        return csv_err(r, column, e, "%g is below the minimum %g", v, min);
    if (v > max)
        return csv_err(r, column, e, "%g is above the maximum %g", v, max);
    *out = v;
    return ST_OK;
}
