#include <errno.h>
#include <string.h>

#include "artifact/columns.h"
#include "base/heap.h"

enum { FLUSH_BYTES = 1 << 20, NUMBER_BYTES = 24, NUMBERS_BYTES = RUN_MAX_COLUMNS * NUMBER_BYTES };
enum {
    ROOMY_ROWS = 4096
}; /* waiting rows whose buffers are reused; further ones are cut to size */

struct table_stream {
    const struct run_table *table; /* NULL = this file is not written */
    FILE *f;
    struct buf out;
    int write_errno; /* of the first failed write */
};

/* A formatted row of request_metrics.csv that waits for the rows before it. */
struct waiting_row {
    int64_t id;
    struct buf row;
};

struct run_writer {
    const struct artifact *art;
    struct table_stream streams[RUN_FILES];
    struct run_table requests; /* the columns that are written, */
    struct run_column columns[RUN_MAX_COLUMNS];
    VEC(struct waiting_row) heap; /* smallest id on top */
    VEC(struct buf) spare;        /* buffers of written rows, for reuse */
    int64_t next_id;              /* all rows with smaller ids are in the stream */
    int64_t repeated_id;          /* RUN_NONE = none */
};

/* ---- one row ----------------------------------------------------------------------------- */

static const char digits[] = "00010203040506070809101112131415161718192021222324252627282930313233"
                             "34353637383940414243444546474849505152535455565758596061626364656667"
                             "6869707172737475767778798081828384858687888990919293949596979899";

static char *put_int(char *p, int64_t v)
{
    char tmp[20], *t = tmp + sizeof tmp;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    while (u >= 100) {
        memcpy(t -= 2, digits + 2 * (u % 100), 2);
        u /= 100;
    }
    if (u >= 10)
        memcpy(t -= 2, digits + 2 * u, 2);
    else
        *--t = (char)('0' + u);
    if (v < 0)
        *p++ = '-';
    size_t n = (size_t)(tmp + sizeof tmp - t);
    memcpy(p, t, n);
    return p + n;
}

static void need_room(struct buf *b, size_t more)
{
    if (b->cap - b->n >= more)
        return;
    b->cap = b->cap * 2 > b->n + more ? b->cap * 2 : b->n + more;
    b->p = mem_resize(b->p, b->cap);
}

/* Copies text from foreign servers: bytes that are not UTF-8, and NUL, would make the file
 * unreadable. */
static void put_clean(struct buf *b, const char *s, size_t n)
{
    while (n > 0) {
        size_t good = str_utf8_valid(s, n);
        buf_add(b, s, good);
        if (good == n)
            return;
        buf_puts(b, "\xEF\xBF\xBD");
        s += good + 1;
        n -= good + 1;
    }
}

static void put_text(struct buf *b, const char *s)
{
    if (!s)
        return;
    if (!strpbrk(s, ",\"\r\n")) {
        put_clean(b, s, strlen(s));
        return;
    }
    buf_putc(b, '"');
    for (const char *q; (q = strchr(s, '"')); s = q + 1) {
        put_clean(b, s, (size_t)(q - s));
        buf_puts(b, "\"\"");
    }
    put_clean(b, s, strlen(s));
    buf_putc(b, '"');
}

static int64_t int_at(const char *row, size_t offset)
{
    int64_t v;
    memcpy(&v, row + offset, sizeof v);
    return v;
}

/* Numbers go through a pointer into room made beforehand; only texts grow the buffer. */
static void put_row(struct buf *b, const struct run_table *t, const void *values)
{
    const char *row = values;
    need_room(b, NUMBERS_BYTES);
    char *p = b->p + b->n;
    for (size_t i = 0; i < t->n; i++) {
        const struct run_column *c = &t->columns[i];
        if (i > 0)
            *p++ = ',';
        switch (c->cell) {
        case CELL_INT:
        case CELL_COUNT: {
            int64_t v = int_at(row, c->offset);
            if (v != RUN_NONE)
                p = put_int(p, v);
            break;
        }
        case CELL_INT32: {
            int32_t v;
            memcpy(&v, row + c->offset, sizeof v);
            p = put_int(p, v);
            break;
        }
        case CELL_SPAN: {
            int64_t end = int_at(row, c->offset), start = int_at(row, c->minus);
            if (end != RUN_NONE && start != RUN_NONE)
                p = put_int(p, end - start);
            break;
        }
        case CELL_DOUBLE: {
            double v;
            memcpy(&v, row + c->offset, sizeof v);
            if (v != 0)
                p += snprintf(p, NUMBER_BYTES, "%.9g", v);
            break;
        }
        case CELL_FLAG:
            *p++ = *(const bool *)(row + c->offset) ? '1' : '0';
            break;
        case CELL_STATUS:
        case CELL_TEXT: {
            const char *text;
            if (c->cell == CELL_TEXT) {
                memcpy(&text, row + c->offset, sizeof text);
            } else {
                enum run_status s;
                memcpy(&s, row + c->offset, sizeof s);
                text = run_status_name(s);
            }
            b->n = (size_t)(p - b->p);
            put_text(b, text);
            need_room(b, NUMBERS_BYTES);
            p = b->p + b->n;
            break;
        }
        }
    }
    *p++ = '\n';
    b->n = (size_t)(p - b->p);
}

/* ---- streams ----------------------------------------------------------------------------- */

static void flush(struct table_stream *s)
{
    if (s->out.n > 0 && !s->write_errno && fwrite(s->out.p, 1, s->out.n, s->f) != s->out.n)
        s->write_errno = errno ? errno : EIO;
    s->out.n = 0;
}

static void stream_row(struct run_writer *w, enum run_file file, const void *row)
{
    struct table_stream *s = &w->streams[file];
    if (!s->table)
        return;
    put_row(&s->out, s->table, row);
    if (s->out.n >= FLUSH_BYTES)
        flush(s);
}

static enum st open_stream(struct run_writer *w, enum run_file file, struct err *e)
{
    struct table_stream *s = &w->streams[file];
    const struct run_table *t = file == RUN_REQUESTS ? &w->requests : &run_tables[file];
    TRY(artifact_create_file(w->art, t->file, &s->f, e));
    s->table = t;
    setvbuf(s->f, NULL, _IONBF, 0); /* blocks are buffered here */
    for (size_t i = 0; i < t->n; i++) {
        buf_puts(&s->out, i ? "," : "");
        buf_puts(&s->out, t->columns[i].name);
    }
    buf_putc(&s->out, '\n');
    return ST_OK;
}

/* Columns of request_metrics.csv that not every run has. */
static bool is_wanted(const struct run_column *c, unsigned with)
{
    if (strcmp(c->name, "energy_j") == 0)
        return with & RUN_WITH_ENERGY;
    if (strcmp(c->name, "session_id") == 0 || strcmp(c->name, "turn") == 0)
        return with & RUN_WITH_SESSIONS;
    return true;
}

enum st run_writer_open_with(const struct artifact *art, unsigned with, struct run_writer **out,
                             struct err *e)
{
    const struct run_table *all = &run_tables[RUN_REQUESTS];
    const bool wanted[RUN_FILES] = {true, with & RUN_WITH_TOKENS, with & RUN_WITH_BATCHES};
    struct run_writer *w = mem_alloc(sizeof *w);
    *w = (struct run_writer){.art = art, .repeated_id = RUN_NONE, .requests = *all};
    *out = w;
    w->requests.columns = w->columns;
    w->requests.n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (is_wanted(&all->columns[i], with))
            w->columns[w->requests.n++] = all->columns[i];
    for (int i = 0; i < RUN_FILES; i++) {
        if (wanted[i] && open_stream(w, (enum run_file)i, e) != ST_OK) {
            run_writer_discard(out);
            return e->st;
        }
    }
    return ST_OK;
}

enum st run_writer_open(const struct artifact *art, bool with_tokens, bool with_batches,
                        struct run_writer **out, struct err *e)
{
    return run_writer_open_with(
        art, (with_tokens ? RUN_WITH_TOKENS : 0) | (with_batches ? RUN_WITH_BATCHES : 0), out, e);
}

/* ---- requests in order of their ids ------------------------------------------------------ */

static bool earlier(const struct waiting_row *a, const struct waiting_row *b)
{
    return a->id < b->id;
}

/* Moves waiting rows into the stream: those next in order, or all at the end. */
static void drain(struct run_writer *w, bool all)
{
    struct table_stream *s = &w->streams[RUN_REQUESTS];
    while (w->heap.n > 0 && (all || w->heap.p[0].id <= w->next_id)) {
        struct waiting_row row;
        heap_pop(&w->heap, earlier, &row);
        if (row.id < w->next_id)
            w->repeated_id = row.id;
        else
            w->next_id = row.id + 1;
        buf_add(&s->out, row.row.p, row.row.n);
        buf_clear(&row.row);
        vec_push(&w->spare, row.row);
        if (s->out.n >= FLUSH_BYTES)
            flush(s);
    }
}

void run_write_request(struct run_writer *w, const struct run_request *r)
{
    if (r->request_id == w->next_id) {
        stream_row(w, RUN_REQUESTS, r);
        w->next_id++;
        drain(w, false);
        return;
    }
    struct buf row = {0};
    if (w->spare.n)
        row = vec_pop(&w->spare);
    put_row(&row, &w->requests, r);
    if (w->heap.n >= ROOMY_ROWS) {
        row.p = mem_resize(row.p, row.n + 1);
        row.cap = row.n + 1;
    }
    struct waiting_row later = {r->request_id, row};
    heap_push(&w->heap, earlier, later);
}

void run_write_token(struct run_writer *w, const struct run_token *t)
{
    stream_row(w, RUN_TOKENS, t);
}

void run_write_batch(struct run_writer *w, const struct run_batch *b)
{
    stream_row(w, RUN_BATCHES, b);
}

/* ---- end --------------------------------------------------------------------------------- */

enum st run_writer_close(struct run_writer **pw, struct err *e)
{
    struct run_writer *w = *pw;
    if (!w)
        return ST_OK;
    drain(w, true);
    enum st st = ST_OK;
    for (int i = 0; i < RUN_FILES; i++) {
        struct table_stream *s = &w->streams[i];
        if (!s->table)
            continue;
        flush(s);
        if (st == ST_OK && s->write_errno) {
            errno = s->write_errno;
            err_errno(e, false, "cannot write %s",
                      artifact_path(w->art->a, w->art, s->table->file));
            st = err_hint(e, "free space there, or choose another place with out=");
        }
        if (st == ST_OK)
            st = artifact_close_file(w->art, s->table->file, &s->f, e);
    }
    if (st == ST_OK && w->repeated_id != RUN_NONE)
        st = err_set(e, ST_INPUT, "request_id %lld has more than one result",
                     (long long)w->repeated_id);
    run_writer_discard(pw);
    return st;
}

void run_writer_discard(struct run_writer **pw)
{
    struct run_writer *w = *pw;
    if (!w)
        return;
    for (int i = 0; i < RUN_FILES; i++) {
        if (w->streams[i].f)
            fclose(w->streams[i].f);
        buf_free(&w->streams[i].out);
    }
    for (size_t i = 0; i < w->heap.n; i++)
        buf_free(&w->heap.p[i].row);
    for (size_t i = 0; i < w->spare.n; i++)
        buf_free(&w->spare.p[i]);
    vec_free(&w->heap);
    vec_free(&w->spare);
    mem_free(w);
    *pw = NULL;
}
