#include <time.h>

#include "base/clock.h"
#include "base/vec.h"
#include "text/csv.h"
#include "text/gz.h"
#include "workload/format.h"

typedef VEC(struct workload_request) request_vec;

struct csv_format {
    const char *arrival, *prefill, *decode; /* columns */
    const char *arrival_ns;                 /* replaces an absent `arrival` column; or NULL */
    bool time_of_day;                       /* else seconds */
    bool from_zero;                         /* the first request arrives at 0 */
};

struct csv_columns {
    int arrival, prefill, decode;
    bool in_ns;
};

static enum st read_row(const struct csv_reader *r, const struct csv_format *f,
                        const struct csv_columns *c, struct workload_request *q, struct err *e)
{
    static const double max_seconds = 9.2e9;
    TRY(csv_int(r, c->prefill, 0, INT32_MAX, &q->num_prefill_tokens, e));
    TRY(csv_int(r, c->decode, 0, INT32_MAX, &q->num_decode_tokens, e));
    if (f->time_of_day) {
        struct sv cell = csv_cell(r, c->arrival);
        if (!format_time(cell, &q->arrival_ns))
            return csv_err(r, c->arrival, e,
                           "expected a time as 2024-05-10 00:00:00.123, got '%.*s'",
                           cell.n > 60 ? 60 : (int)cell.n, cell.p);
        q->arrival_s = ns_to_s(q->arrival_ns);
        return ST_OK;
    }
    if (c->in_ns) {
        TRY(csv_int(r, c->arrival, 0, INT64_MAX, &q->arrival_ns, e));
        q->arrival_s = ns_to_s(q->arrival_ns);
        return ST_OK;
    }
    TRY(csv_double(r, c->arrival, 0, max_seconds, &q->arrival_s, e));
    q->arrival_ns = ns_from_s(q->arrival_s);
    return ST_OK;
}

static enum st read_rows(struct csv_reader *r, const struct csv_format *f, int64_t max,
                         request_vec *v, int64_t *left_out, struct err *e)
{
    struct csv_columns c = {0};
    c.in_ns = f->arrival_ns && csv_find(r, f->arrival) < 0 && csv_find(r, f->arrival_ns) >= 0;
    TRY(csv_require(r, c.in_ns ? f->arrival_ns : f->arrival, &c.arrival, e));
    TRY(csv_require(r, f->prefill, &c.prefill, e));
    TRY(csv_require(r, f->decode, &c.decode, e));
    while (max == 0 || (int64_t)v->n < max) {
        struct workload_request q = {0};
        enum st st = csv_next(r, e);
        if (st == ST_END)
            break;
        TRY(st);
        TRY(read_row(r, f, &c, &q, e));
        if (q.num_prefill_tokens == 0 || q.num_decode_tokens == 0)
            ++*left_out;
        else
            vec_push(v, q);
    }
    return ST_OK;
}

static enum st read_csv(struct arena *a, const struct format_params *p, const struct csv_format *f,
                        struct format_result *out, struct err *e)
{
    struct csv_reader *r = NULL;
    struct gz_file file;
    request_vec v = {0};
    *out = (struct format_result){0};
    enum st st = gz_open(p->path, &file, e);
    if (st == ST_OK)
        st = csv_open_bytes(&r, p->path, file.text, e);
    if (st == ST_OK)
        st = read_rows(r, f, p->max_requests, &v, &out->left_out, e);
    csv_close(&r);
    gz_close(&file);
    if (st == ST_OK) {
        out->w.requests = arena_copy(a, v.p, v.n * sizeof *v.p);
        out->w.n = v.n;
        st = format_settle(p->path, out, f->from_zero, e);
    }
    vec_free(&v);
    return st;
}

enum st format_azure_read(struct arena *a, const struct format_params *p, struct format_result *out,
                          struct err *e)
{
    static const struct csv_format f = {.arrival = "TIMESTAMP",
                                        .prefill = "ContextTokens",
                                        .decode = "GeneratedTokens",
                                        .time_of_day = true,
                                        .from_zero = true};
    return read_csv(a, p, &f, out, e);
}

enum st format_burstgpt_read(struct arena *a, const struct format_params *p,
                             struct format_result *out, struct err *e)
{
    static const struct csv_format f = {.arrival = "Timestamp",
                                        .prefill = "Request tokens",
                                        .decode = "Response tokens",
                                        .from_zero = true};
    return read_csv(a, p, &f, out, e);
}

static const int64_t LAST_NS = INT64_C(7258118399) * NS_PER_S; /* of the year 2199 */

/* Dates start in 1970, so that the file cannot be mistaken for the log of a service. */
enum st format_azure_write(struct buf *out, const struct workload *w, const char *const *texts,
                           struct err *e)
{
    (void)texts;
    buf_puts(out, "TIMESTAMP,ContextTokens,GeneratedTokens\n");
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *q = &w->requests[i];
        const time_t second = (time_t)(q->arrival_ns / NS_PER_S);
        struct tm tm;
        char text[40];
        if (q->arrival_ns > LAST_NS || !gmtime_r(&second, &tm))
            return err_set(e, ST_USAGE, "request %lld arrives later than a date can say",
                           (long long)q->request_id);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
        buf_printf(out, "%s.%07lld,%lld,%lld\n", text, (long long)(q->arrival_ns % NS_PER_S / 100),
                   (long long)q->num_prefill_tokens, (long long)q->num_decode_tokens);
    }
    return ST_OK;
}

enum st format_burstgpt_write(struct buf *out, const struct workload *w, const char *const *texts,
                              struct err *e)
{
    (void)texts, (void)e;
    buf_puts(out, "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n");
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *q = &w->requests[i];
        const long long in = q->num_prefill_tokens, answer = q->num_decode_tokens;
        char seconds[STR_DOUBLE_MAX];
        str_from_double(seconds, q->arrival_s);
        buf_printf(out, "%s,twinfer,%lld,%lld,%lld,API log\n", seconds, in, answer, in + answer);
    }
    return ST_OK;
}

enum st format_vidur_read(struct arena *a, const struct format_params *p, struct format_result *out,
                          struct err *e)
{
    static const struct csv_format f = {.arrival = "arrived_at",
                                        .arrival_ns = "arrival_time_ns",
                                        .prefill = "num_prefill_tokens",
                                        .decode = "num_decode_tokens"};
    return read_csv(a, p, &f, out, e);
}

enum st format_vidur_write(struct buf *out, const struct workload *w, const char *const *texts,
                           struct err *e)
{
    (void)texts, (void)e;
    buf_puts(out, "arrived_at,num_prefill_tokens,num_decode_tokens\n");
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *q = &w->requests[i];
        char seconds[STR_DOUBLE_MAX];
        str_from_double(seconds, q->arrival_s);
        buf_printf(out, "%s,%lld,%lld\n", seconds, (long long)q->num_prefill_tokens,
                   (long long)q->num_decode_tokens);
    }
    return ST_OK;
}
