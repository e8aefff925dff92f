#include "base/clock.h"
#include "base/vec.h"
#include "text/csv.h"
#include "workload/make.h"

/* Beyond this many seconds (292 years) nanoseconds do not fit. */
static const double max_seconds = 9.2e9;

struct columns {
    int arrived_at, arrival_ns, prefill, decode; /* -1 = not asked for */
};

static enum st find_columns(const struct csv_reader *r, bool arrivals, bool lengths,
                            struct columns *c, struct err *e)
{
    *c = (struct columns){-1, -1, -1, -1};
    if (lengths) {
        TRY(csv_require(r, "num_prefill_tokens", &c->prefill, e));
        TRY(csv_require(r, "num_decode_tokens", &c->decode, e));
    }
    if (!arrivals)
        return ST_OK;
    c->arrival_ns = csv_find(r, "arrival_time_ns");
    if (c->arrival_ns >= 0 && csv_find(r, "arrived_at") < 0)
        return ST_OK;
    c->arrival_ns = -1;
    return csv_require(r, "arrived_at", &c->arrived_at, e);
}

struct row {
    int64_t arrival_ns, prefill, decode;
    double arrival_s;
};

static enum st read_arrival(const struct csv_reader *r, const struct columns *c,
                            const struct row *before, struct row *row, struct err *e)
{
    int at = c->arrived_at >= 0 ? c->arrived_at : c->arrival_ns;
    if (c->arrived_at >= 0) {
        TRY(csv_double(r, at, 0, max_seconds, &row->arrival_s, e));
        row->arrival_ns = ns_from_s(row->arrival_s);
    } else {
        TRY(csv_int(r, at, 0, INT64_MAX, &row->arrival_ns, e));
        row->arrival_s = ns_to_s(row->arrival_ns);
    }
    if (before && row->arrival_s < before->arrival_s) {
        struct sv cell = csv_cell(r, at);
        csv_err(r, at, e, "%.*s is before the row above it", (int)cell.n, cell.p);
        return err_hint(e, "sort the trace by %s", csv_column_name(r, at));
    }
    return ST_OK;
}

static enum st read_row(const struct csv_reader *r, const struct columns *c,
                        const struct row *before, struct row *row, struct err *e)
{
    if (c->prefill >= 0) {
        TRY(csv_int(r, c->prefill, 1, INT32_MAX, &row->prefill, e));
        TRY(csv_int(r, c->decode, 1, INT32_MAX, &row->decode, e));
    }
    return c->arrived_at >= 0 || c->arrival_ns >= 0 ? read_arrival(r, c, before, row, e) : ST_OK;
}

typedef VEC(struct row) row_vec;

static enum st read_rows(struct csv_reader *r, const struct columns *c, row_vec *v, struct err *e)
{
    for (;;) {
        enum st st = csv_next(r, e);
        if (st == ST_END)
            return ST_OK;
        if (st != ST_OK)
            return st;
        struct row row = {0};
        TRY(read_row(r, c, v->n ? &vec_last(v) : NULL, &row, e));
        vec_push(v, row);
    }
}

static void keep(struct arena *a, const row_vec *v, bool arrivals, bool lengths,
                 struct trace_rows *out)
{
    *out = (struct trace_rows){.n = v->n};
    if (arrivals) {
        out->arrival_ns = arena_array(a, int64_t, v->n);
        out->arrival_s = arena_array(a, double, v->n);
    }
    if (lengths) {
        out->prefill = arena_array(a, int64_t, v->n);
        out->decode = arena_array(a, int64_t, v->n);
    }
    for (size_t i = 0; i < v->n; i++) {
        if (arrivals) {
            out->arrival_ns[i] = v->p[i].arrival_ns;
            out->arrival_s[i] = v->p[i].arrival_s;
        }
        if (lengths) {
            out->prefill[i] = v->p[i].prefill;
            out->decode[i] = v->p[i].decode;
        }
    }
}

enum st trace_read(struct arena *a, const char *path, bool arrivals, bool lengths,
                   struct trace_rows *out, struct err *e)
{
    struct csv_reader *r;
    struct columns c;
    TRY(csv_open(&r, path, e));
    row_vec v = {0};
    enum st st = find_columns(r, arrivals, lengths, &c, e);
    if (st == ST_OK)
        st = read_rows(r, &c, &v, e);
    if (st == ST_OK && v.n == 0)
        st = err_at(e, ST_INPUT, path, 0, 0, "has a header and no rows");
    if (st == ST_OK)
        keep(a, &v, arrivals, lengths, out);
    vec_free(&v);
    csv_close(&r);
    return st;
}

enum st workload_load_trace(struct arena *a, const char *csv, struct workload *out, struct err *e)
{
    struct trace_rows t;
    *out = (struct workload){0};
    TRY(trace_read(a, csv, true, true, &t, e));
    out->n = t.n;
    out->requests = arena_array(a, struct workload_request, t.n);
    for (size_t i = 0; i < t.n; i++)
        out->requests[i] = (struct workload_request){
            .request_id = (int64_t)i,
            .arrival_ns = t.arrival_ns[i],
            .arrival_s = t.arrival_s[i],
            .num_prefill_tokens = t.prefill[i],
            .num_decode_tokens = t.decode[i],
        };
    return ST_OK;
}
