#include <string.h>

#include "workload/stream.h"

static enum st collect(struct arena *a, struct workload_stream *s, struct workload *out,
                       struct err *e)
{
    out->n = (size_t)workload_stream_total(s);
    out->requests = arena_array(a, struct workload_request, out->n);
    for (size_t i = 0; i < out->n; i++) {
        struct workload_request *r = &out->requests[i];
        TRY(workload_stream_next(s, r, e));
        if (r->hash_ids) { /* the stream owns them */
            int64_t tokens = r->hash_covers ? r->hash_covers : r->num_prefill_tokens;
            size_t n = (size_t)((tokens + r->hash_tokens - 1) / r->hash_tokens);
            int64_t *ids = arena_array(a, int64_t, n);
            memcpy(ids, r->hash_ids, n * sizeof *ids);
            r->hash_ids = ids;
        }
    }
    return ST_OK;
}

enum st workload_make(struct arena *a, const struct workload_params *p, struct workload *out,
                      struct err *e)
{
    struct workload_stream *s;
    *out = (struct workload){0};
    TRY(workload_stream_make(p, &s, e));
    enum st st = collect(a, s, out, e);
    workload_stream_close(&s);
    return st;
}

enum st workload_load_trace(struct arena *a, const char *csv, struct workload *out, struct err *e)
{
    struct workload_stream *s;
    *out = (struct workload){0};
    if (workload_is_mooncake(csv))
        return workload_load_mooncake(a, csv, out, e);
    TRY(workload_stream_trace(csv, &s, e));
    enum st st = collect(a, s, out, e);
    workload_stream_close(&s);
    return st;
}
