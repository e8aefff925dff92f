#include "base/clock.h"
#include "workload/make.h"

/* Beyond this many seconds (292 years) nanoseconds do not fit. */
static const double max_seconds = 9.2e9;

static enum st find_columns(struct trace_reader *r, bool arrivals, bool lengths, struct err *e)
{
    r->arrived_at = r->arrival_ns = r->prefill = r->decode = -1;
    if (lengths) {
        TRY(csv_require(r->csv, "num_prefill_tokens", &r->prefill, e));
        TRY(csv_require(r->csv, "num_decode_tokens", &r->decode, e));
    }
    if (!arrivals)
        return ST_OK;
    r->arrival_ns = csv_find(r->csv, "arrival_time_ns");
    if (r->arrival_ns >= 0 && csv_find(r->csv, "arrived_at") < 0)
        return ST_OK;
    r->arrival_ns = -1;
    return csv_require(r->csv, "arrived_at", &r->arrived_at, e);
}

enum st workload_trace_open(const char *path, bool arrivals, bool lengths, struct trace_reader *out,
                            struct err *e)
{
    *out = (struct trace_reader){.last_s = -1};
    TRY(csv_open(&out->csv, path, e));
    enum st st = find_columns(out, arrivals, lengths, e);
    if (st != ST_OK)
        workload_trace_close(out);
    return st;
}

void workload_trace_close(struct trace_reader *r)
{
    csv_close(&r->csv);
}

static enum st read_arrival(struct trace_reader *r, struct trace_row *row, struct err *e)
{
    int at = r->arrived_at >= 0 ? r->arrived_at : r->arrival_ns;
    if (r->arrived_at >= 0) {
        TRY(csv_double(r->csv, at, 0, max_seconds, &row->arrival_s, e));
        row->arrival_ns = ns_from_s(row->arrival_s);
    } else {
        TRY(csv_int(r->csv, at, 0, INT64_MAX, &row->arrival_ns, e));
        row->arrival_s = ns_to_s(row->arrival_ns);
    }
    if (row->arrival_s < r->last_s) {
        struct sv cell = csv_cell(r->csv, at);
        csv_err(r->csv, at, e, "%.*s is before the row above it", (int)cell.n, cell.p);
        return err_hint(e, "sort the trace by %s", csv_column_name(r->csv, at));
    }
    r->last_s = row->arrival_s;
    return ST_OK;
}

enum st workload_trace_next(struct trace_reader *r, struct trace_row *out, struct err *e)
{
    *out = (struct trace_row){0};
    TRY(csv_next(r->csv, e));
    if (r->prefill >= 0) {
        TRY(csv_int(r->csv, r->prefill, 1, INT32_MAX, &out->prefill, e));
        TRY(csv_int(r->csv, r->decode, 1, INT32_MAX, &out->decode, e));
    }
    return r->arrived_at >= 0 || r->arrival_ns >= 0 ? read_arrival(r, out, e) : ST_OK;
}

enum st workload_trace_count(const char *path, bool arrivals, bool lengths, int64_t *n,
                             struct err *e)
{
    struct trace_reader r;
    struct trace_row row;
    enum st st;
    TRY(workload_trace_open(path, arrivals, lengths, &r, e));
    for (*n = 0; (st = workload_trace_next(&r, &row, e)) == ST_OK; ++*n)
        ;
    workload_trace_close(&r);
    if (st != ST_END)
        return st;
    return *n ? ST_OK : err_at(e, ST_INPUT, path, 0, 0, "has a header and no rows");
}
