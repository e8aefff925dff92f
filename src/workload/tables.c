#include "base/clock.h"
#include "workload/make.h"

static enum st find_columns(struct tables *t, struct err *e)
{
    t->prompt = csv_find(t->lengths, "prompt_id");
    TRY(csv_require(t->lengths, "request_id", &t->id, e));
    TRY(csv_require(t->lengths, "num_prefill_tokens", &t->prefill, e));
    TRY(csv_require(t->lengths, "num_decode_tokens", &t->decode, e));
    TRY(csv_require(t->intervals, "request_id", &t->interval_id, e));
    TRY(csv_require(t->intervals, "inter_arrival_ns", &t->gap, e));
    return csv_require(t->intervals, "arrival_time_ns", &t->arrival, e);
}

enum st tables_open(const struct workload_paths *p, struct tables *out, struct err *e)
{
    *out = (struct tables){.last_id = -1};
    enum st st = csv_open(&out->lengths, p->lengths, e);
    if (st == ST_OK)
        st = csv_open(&out->intervals, p->intervals, e);
    if (st == ST_OK)
        st = find_columns(out, e);
    if (st != ST_OK)
        tables_close(out);
    return st;
}

void tables_close(struct tables *t)
{
    csv_close(&t->lengths);
    csv_close(&t->intervals);
}

enum st tables_next(struct tables *t, struct workload_request *out, struct sv *prompt,
                    struct err *e)
{
    int64_t id, gap_ns, arrival_ns, sum_ns;
    enum st a = csv_next(t->lengths, e),
            b = a == ST_OK || a == ST_END ? csv_next(t->intervals, e) : a;
    if (a != b)
        return a == ST_END || b == ST_END
                   ? err_set(e, ST_INPUT, "the tables have different numbers of rows")
                   : b;
    TRY(b);
    TRY(csv_int(t->lengths, t->id, t->last_id + 1, INT64_MAX, &out->request_id, e));
    TRY(csv_int(t->lengths, t->prefill, 1, INT32_MAX, &out->num_prefill_tokens, e));
    TRY(csv_int(t->lengths, t->decode, 1, INT32_MAX, &out->num_decode_tokens, e));
    TRY(csv_int(t->intervals, t->interval_id, 0, INT64_MAX, &id, e));
    TRY(csv_int(t->intervals, t->gap, 0, INT64_MAX, &gap_ns, e));
    TRY(csv_int(t->intervals, t->arrival, 0, INT64_MAX, &arrival_ns, e));
    if (id != out->request_id)
        return csv_err(t->intervals, t->interval_id, e, "another request than in the lengths");
    if (__builtin_add_overflow(t->now_ns, gap_ns, &sum_ns) || sum_ns != arrival_ns)
        return csv_err(t->intervals, t->arrival, e, "not the sum of the gaps");
    t->last_id = id;
    t->now_ns = out->arrival_ns = arrival_ns;
    out->arrival_s = ns_to_s(arrival_ns);
    *prompt = t->prompt >= 0 ? csv_cell(t->lengths, t->prompt) : (struct sv){0};
    return ST_OK;
}
