#include <stdlib.h>
#include <string.h>

#include "artifact/columns.h"
#include "text/csv.h"

enum { TOLERANCE_NS = 1000 };

/* ---- one table --------------------------------------------------------------------------- */

/* A table being read: rows[n] in file order and the first line of each. `lines` is scratch memory,
 * released by table_free. */
struct table_reading {
    const struct run_table *t;
    char *path;
    struct csv_reader *csv;
    int column[RUN_MAX_COLUMNS];          /* in the file; -1 = not there */
    struct sv last_text[RUN_MAX_COLUMNS]; /* equal texts in a row are stored once */
    char *rows;
    uint32_t *lines;
    size_t n, cap;
    size_t n_contradictions;
    bool foreign_v1;
};

static void table_free(struct table_reading *s)
{
    csv_close(&s->csv);
    mem_free(s->lines);
    s->lines = NULL;
}

static enum st row_err(const struct table_reading *s, size_t row, const char *column, struct err *e,
                       const char *fmt, ...) PRINTF_LIKE(5, 6);
static enum st row_err(const struct table_reading *s, size_t row, const char *column, struct err *e,
                       const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(e, ST_INPUT, s->path, s->lines[row], csv_find(s->csv, column) + 1, "%s: %s",
                  column, text);
}

/* "v1" may omit columns that follow from others. */
static enum run_need need_of(const struct table_reading *s, const struct run_column *c)
{
    const bool latency = s->t == &run_tables[RUN_TOKENS] &&
                         c->offset == offsetof(struct run_token, token_latency_ns);
    return s->foreign_v1 && (c->cell == CELL_SPAN || latency) ? NEED_OPTIONAL : c->need;
}

static enum st find_columns(struct table_reading *s, struct err *e)
{
    for (size_t i = 0; i < s->t->n; i++) {
        const struct run_column *c = &s->t->columns[i];
        if (need_of(s, c) <= NEED_COLUMN)
            TRY(csv_require(s->csv, c->name, &s->column[i], e));
        else
            s->column[i] = csv_find(s->csv, c->name);
    }
    return ST_OK;
}

static void set_int(char *row, size_t offset, int64_t v)
{
    memcpy(row + offset, &v, sizeof v);
}

static int64_t get_int(const char *row, size_t offset)
{
    int64_t v;
    memcpy(&v, row + offset, sizeof v);
    return v;
}

static bool differ(int64_t a, int64_t b)
{
    int64_t d;
    return __builtin_sub_overflow(a, b, &d) || d > TOLERANCE_NS || d < -TOLERANCE_NS;
}

static enum st read_text(struct arena *a, struct table_reading *s, size_t i, char *row)
{
    struct sv v = csv_cell(s->csv, s->column[i]);
    struct sv *last = &s->last_text[i];
    if (!last->p || last->n != v.n || memcmp(last->p, v.p, v.n) != 0)
        *last = (struct sv){arena_strn(a, v.p, v.n), v.n};
    memcpy(row + s->t->columns[i].offset, &last->p, sizeof last->p);
    return ST_OK;
}

/* A cell that is there and not empty. Spans are only counted when they contradict their times,
 * which other columns fill: they are read after those (second pass of read_row). */
static enum st read_cell(struct arena *a, struct table_reading *s, size_t i, char *row,
                         struct err *e)
{
    const struct run_column *c = &s->t->columns[i];
    int at = s->column[i];
    int64_t v = 0;
    switch (c->cell) {
    case CELL_INT:
    case CELL_COUNT:
        TRY(csv_int(s->csv, at, 0, c->cell == CELL_COUNT ? INT32_MAX : INT64_MAX, &v, e));
        set_int(row, c->offset, v);
        return ST_OK;
    case CELL_INT32: {
        TRY(csv_int(s->csv, at, 0, INT32_MAX, &v, e));
        int32_t small = (int32_t)v;
        memcpy(row + c->offset, &small, sizeof small);
        return ST_OK;
    }
    case CELL_FLAG:
        TRY(csv_int(s->csv, at, 0, 1, &v, e));
        *(bool *)(row + c->offset) = v == 1;
        return ST_OK;
    case CELL_STATUS: {
        enum run_status status;
        struct sv text = csv_cell(s->csv, at);
        if (!run_status_parse(text, &status))
            return csv_err(s->csv, at, e,
                           "'%.*s' is not one of ok, error, timeout, rejected, cancelled",
                           (int)(text.n < 80 ? text.n : 80), text.p);
        memcpy(row + c->offset, &status, sizeof status);
        return ST_OK;
    }
    case CELL_DOUBLE: {
        double d;
        TRY(csv_double(s->csv, at, 0, 1e300, &d, e));
        memcpy(row + c->offset, &d, sizeof d);
        return ST_OK;
    }
    case CELL_TEXT:
        return read_text(a, s, i, row);
    case CELL_SPAN: {
        TRY(csv_int(s->csv, at, INT64_MIN, INT64_MAX, &v, e));
        int64_t end = get_int(row, c->offset), start = get_int(row, c->minus);
        if (end == RUN_NONE || start == RUN_NONE || differ(v, end - start))
            s->n_contradictions++;
        return ST_OK;
    }
    }
    return ST_OK;
}

/* A missing value is an empty cell; the system that wrote "v1" spells it out in places. */
static bool is_missing(const struct table_reading *s, size_t i)
{
    static const char *const words[] = {"null", "None", "NaN", "nan", "NA", "<NA>"};
    if (csv_empty(s->csv, s->column[i]))
        return true;
    if (!s->foreign_v1 || s->t->columns[i].cell == CELL_TEXT)
        return false;
    const struct sv cell = csv_cell(s->csv, s->column[i]);
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (sv_eq(cell, words[k]))
            return true;
    return false;
}

static enum st read_row(struct arena *a, struct table_reading *s, char *row, struct err *e)
{
    for (int spans = 0; spans < 2; spans++) {
        for (size_t i = 0; i < s->t->n; i++) {
            const struct run_column *c = &s->t->columns[i];
            if ((c->cell == CELL_SPAN) != spans)
                continue;
            if (c->cell == CELL_INT)
                set_int(row, c->offset, RUN_NONE);
            if (s->column[i] < 0)
                continue;
            if (!is_missing(s, i))
                TRY(read_cell(a, s, i, row, e));
            else if (need_of(s, c) == NEED_VALUE)
                return csv_err(s->csv, s->column[i], e, "is empty, but every row needs it");
        }
    }
    return ST_OK;
}

/* Allocates the rows once: no file has more rows than line ends plus one, nor than fit into its
 * bytes with every needed cell filled (a file of blank lines must not cost memory). */
static enum st most_rows(const struct table_reading *s, size_t *rows, struct err *e)
{
    struct fs_map m;
    TRY(fs_map(s->path, &m, e));
    size_t row_bytes = 0;
    for (size_t i = 0; i < s->t->n; i++)
        row_bytes += s->t->columns[i].need == NEED_VALUE    ? 2
                     : s->t->columns[i].need == NEED_COLUMN ? 1
                                                            : 0;
    size_t fit = m.n / row_bytes + 1, lines = 1;
    const char *p = m.p; /* NULL for an empty file */
    for (size_t left = m.n; lines < fit && left > 0 && (p = memchr(p, '\n', left)); lines++)
        left = m.n - (size_t)(++p - m.p);
    fs_unmap(&m);
    *rows = lines < fit ? lines : fit;
    return ST_OK;
}

static enum st read_rows(struct arena *a, struct table_reading *s, struct err *e)
{
    TRY(find_columns(s, e));
    for (;;) {
        enum st st = csv_next(s->csv, e);
        if (st == ST_END)
            return ST_OK;
        if (st != ST_OK)
            return st;
        if (s->n == s->cap)
            return err_at(e, ST_INPUT, s->path, 0, 0, "the file grew while it was read");
        s->lines[s->n] = (uint32_t)csv_line(s->csv);
        TRY(read_row(a, s, s->rows + s->n * s->t->row_bytes, e));
        s->n++;
    }
}

/* Reads a whole table; the caller frees it also after an error. */
static enum st table_read(struct arena *a, const struct run *r, enum run_file file,
                          struct table_reading *s, struct err *e)
{
    *s = (struct table_reading){.t = &run_tables[file],
                                .foreign_v1 = artifact_is_foreign_v1(r->meta)};
    s->path = fs_join(a, r->dir, s->t->file);
    TRY(most_rows(s, &s->cap, e));
    TRY(csv_open(&s->csv, s->path, e));
    s->rows = arena_alloc_n(a, s->cap, s->t->row_bytes);
    s->lines = mem_alloc(s->cap * sizeof *s->lines);
    return read_rows(a, s, e);
}

/* ---- requests ---------------------------------------------------------------------------- */

struct by_id {
    int64_t id;
    size_t row;
};

static int compare_ids(const void *pa, const void *pb)
{
    const struct by_id *a = pa, *b = pb;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static bool ascending(const struct run_request *r, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (r[i - 1].request_id >= r[i].request_id)
            return false;
    return true;
}

static enum st sort_requests(struct arena *a, const struct table_reading *s, struct run *out,
                             struct err *e)
{
    struct run_request *rows = out->requests;
    size_t n = out->n_requests;
    if (ascending(rows, n))
        return ST_OK;
    struct by_id *order = mem_alloc(n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (struct by_id){rows[i].request_id, i};
    qsort(order, n, sizeof *order, compare_ids);
    enum st st = ST_OK;
    struct run_request *sorted = arena_array(a, struct run_request, n);
    for (size_t i = 0; i < n && st == ST_OK; i++) {
        sorted[i] = rows[order[i].row];
        if (i > 0 && order[i].id == order[i - 1].id)
            st = row_err(s, order[i].row, "request_id", e, "%lld stands in line %u already",
                         (long long)order[i].id, s->lines[order[i - 1].row]);
    }
    mem_free(order);
    out->requests = sorted;
    return st;
}

static enum st check_order(const struct table_reading *s, size_t row, const struct run_request *r,
                           struct err *e)
{
    if (r->first_token_ns != RUN_NONE && r->first_token_ns < r->arrival_ns)
        return row_err(s, row, "first_token_time_ns", e, "%lld is before arrival_time_ns %lld",
                       (long long)r->first_token_ns, (long long)r->arrival_ns);
    if (r->completion_ns == RUN_NONE)
        return ST_OK;
    if (r->first_token_ns != RUN_NONE && r->completion_ns < r->first_token_ns)
        return row_err(s, row, "completion_time_ns", e, "%lld is before first_token_time_ns %lld",
                       (long long)r->completion_ns, (long long)r->first_token_ns);
    if (r->completion_ns < r->arrival_ns)
        return row_err(s, row, "completion_time_ns", e, "%lld is before arrival_time_ns %lld",
                       (long long)r->completion_ns, (long long)r->arrival_ns);
    return ST_OK;
}

static enum st load_requests(struct arena *a, struct run *out, bool *has_completion, struct err *e)
{
    struct table_reading s;
    enum st st = table_read(a, out, RUN_REQUESTS, &s, e);
    out->requests = (struct run_request *)(void *)s.rows;
    out->n_requests = s.n;
    out->n_contradictions += s.n_contradictions;
    for (size_t i = 0; st == ST_OK && i < s.n; i++)
        st = check_order(&s, i, &out->requests[i], e);
    if (st == ST_OK)
        st = sort_requests(a, &s, out, e);
    *has_completion = st == ST_OK && csv_find(s.csv, "completion_time_ns") >= 0;
    table_free(&s);
    return st;
}

/* ---- tokens ------------------------------------------------------------------------------ */

/* Ids mostly are 0..n-1. */
const struct run_request *run_find(const struct run *r, int64_t id)
{
    if ((uint64_t)id < r->n_requests && r->requests[id].request_id == id)
        return &r->requests[id];
    size_t low = 0, high = r->n_requests;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->requests[mid].request_id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < r->n_requests && r->requests[low].request_id == id ? &r->requests[low] : NULL;
}

static enum st count_tokens(const struct table_reading *s, struct run *r, uint32_t *owner,
                            struct err *e)
{
    const struct run_token *rows = (const struct run_token *)(const void *)s->rows;
    for (size_t i = 0; i < s->n; i++) {
        const struct run_request *q = run_find(r, rows[i].request_id);
        if (!q)
            return row_err(s, i, "request_id", e, "%lld is not in request_metrics.csv",
                           (long long)rows[i].request_id);
        owner[i] = (uint32_t)(q - r->requests);
        r->first_token[owner[i] + 1]++;
    }
    for (size_t i = 0; i < r->n_requests; i++)
        r->first_token[i + 1] += r->first_token[i];
    return ST_OK;
}

/* Puts every token at its request's place; a gap in the indices shows as an index too large for the
 * number of tokens, or as one that comes twice. */
static enum st place_tokens(const struct table_reading *s, struct run *r, const uint32_t *owner,
                            struct err *e)
{
    const struct run_token *rows = (const struct run_token *)(const void *)s->rows;
    for (size_t i = 0; i < s->n; i++)
        r->tokens[i].token_index = RUN_NONE;
    for (size_t i = 0; i < s->n; i++) {
        size_t first = r->first_token[owner[i]], n = r->first_token[owner[i] + 1] - first;
        int64_t index = rows[i].token_index;
        if ((uint64_t)index >= n)
            return row_err(s, i, "token_index", e,
                           "%lld, but request %lld has %zu tokens: indices run from 0 without gaps",
                           (long long)index, (long long)rows[i].request_id, n);
        struct run_token *place = &r->tokens[first + (size_t)index];
        if (place->token_index != RUN_NONE)
            return row_err(s, i, "token_index", e, "%lld of request %lld comes twice",
                           (long long)index, (long long)rows[i].request_id);
        *place = rows[i];
    }
    return ST_OK;
}

/* Whether the cell differs from the gap between the times; a missing cell is filled from them. */
static bool latency_differs(struct run_token *t, int64_t gap_ns)
{
    if (t->token_latency_ns == RUN_NONE)
        t->token_latency_ns = gap_ns;
    return differ(t->token_latency_ns, gap_ns);
}

static enum st check_times(const struct table_reading *s, struct run *r, const uint32_t *owner,
                           struct err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct run_token *row = (const struct run_token *)(const void *)s->rows + i;
        const struct run_request *q = &r->requests[owner[i]];
        struct run_token *t = &r->tokens[r->first_token[owner[i]] + (size_t)row->token_index];
        if (row->token_index == 0) {
            if (row->token_time_ns < q->arrival_ns)
                return row_err(s, i, "token_time_ns", e,
                               "%lld is before the request's arrival_time_ns %lld",
                               (long long)row->token_time_ns, (long long)q->arrival_ns);
            bool known = q->first_token_ns != RUN_NONE;
            r->n_contradictions += latency_differs(t, 0);
            r->n_contradictions += !known || differ(q->first_token_ns, row->token_time_ns);
            continue;
        }
        int64_t before = t[-1].token_time_ns;
        if (row->token_time_ns < before)
            return row_err(
                s, i, "token_time_ns", e, "%lld is before the request's token %lld (%lld)",
                (long long)row->token_time_ns, (long long)row->token_index - 1, (long long)before);
        r->n_contradictions += latency_differs(t, row->token_time_ns - before);
    }
    return ST_OK;
}

/* Detects a file that was cut between two rows. Only our own runs (with `tool` in the meta) promise
 * a row for every token. */
static enum st check_complete(const struct table_reading *s, const struct run *r, struct err *e)
{
    for (size_t i = 0; i < r->n_requests; i++) {
        const struct run_request *q = &r->requests[i];
        const int64_t rows = (int64_t)(r->first_token[i + 1] - r->first_token[i]);
        if (q->status == RUN_OK && rows != q->num_decode_tokens_actual)
            return err_set(e, ST_INPUT,
                           "%s: request %lld has %lld rows, but it generated %lld tokens", s->path,
                           (long long)q->request_id, (long long)rows,
                           (long long)q->num_decode_tokens_actual);
    }
    return ST_OK;
}

static enum st load_tokens(struct arena *a, struct run *out, struct err *e)
{
    struct arena *scratch = arena_new(); /* rows in file order; the sorted ones outlive them */
    struct table_reading s;
    enum st st = table_read(scratch, out, RUN_TOKENS, &s, e);
    if (st == ST_OK) {
        uint32_t *owner = arena_array(scratch, uint32_t, s.n);
        out->n_tokens = s.n;
        out->tokens = arena_array(a, struct run_token, s.n);
        out->first_token = arena_array(a, size_t, out->n_requests + 1);
        st = count_tokens(&s, out, owner, e);
        if (st == ST_OK)
            st = place_tokens(&s, out, owner, e);
        if (st == ST_OK)
            st = check_times(&s, out, owner, e);
        if (st == ST_OK && node_find(out->meta, "tool") && !s.foreign_v1)
            st = check_complete(&s, out, e);
    }
    table_free(&s);
    arena_free(&scratch);
    return st;
}

/* ---- batches, run ------------------------------------------------------------------------ */

static enum st load_batches(struct arena *a, struct run *out, struct err *e)
{
    struct table_reading s;
    enum st st = table_read(a, out, RUN_BATCHES, &s, e);
    out->batches = (struct run_batch *)(void *)s.rows;
    out->n_batches = s.n;
    table_free(&s);
    return st;
}

/* Fills completion times; never before the first token's time, which the other file may contradict.
 */
static void complete_from_tokens(struct run *r)
{
    for (size_t i = 0; r->tokens && i < r->n_requests; i++) {
        struct run_request *q = &r->requests[i];
        if (q->completion_ns != RUN_NONE || r->first_token[i] == r->first_token[i + 1])
            continue;
        int64_t last_ns = r->tokens[r->first_token[i + 1] - 1].token_time_ns;
        q->completion_ns = last_ns > q->first_token_ns ? last_ns : q->first_token_ns;
    }
}

enum st run_load(struct arena *a, const char *dir, const char *type, struct run *out, struct err *e)
{
    struct node *meta;
    bool has_completion;
    *out = (struct run){.dir = arena_str(a, dir)};
    TRY(artifact_open(a, dir, "run_meta.json", type ? type : "real|vidur", &meta, e));
    out->meta = meta;
    TRY(load_requests(a, out, &has_completion, e));
    if (fs_exists(fs_join(a, dir, run_tables[RUN_TOKENS].file)))
        TRY(load_tokens(a, out, e));
    if (fs_exists(fs_join(a, dir, run_tables[RUN_BATCHES].file)))
        TRY(load_batches(a, out, e));
    if (!has_completion || artifact_is_foreign_v1(meta))
        complete_from_tokens(out);
    return ST_OK;
}
