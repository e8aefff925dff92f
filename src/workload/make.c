#include "workload/make.h"

#include "config/plan.h"

enum { MAX_REQUESTS = 100000000 };

/* Reads the traces the kinds ask for; one file serves both when it is the same. */
static enum st read_traces(struct arena *a, const struct workload_params *p,
                           struct trace_rows *arrivals, struct trace_rows *lengths, struct err *e)
{
    *arrivals = *lengths = (struct trace_rows){0};
    if (p->arrival_kind == ARRIVAL_TRACE) {
        if (!p->arrival_trace)
            return err_set(e, ST_USAGE, "workload.arrival.kind=trace needs workload.arrival.trace");
        TRY(trace_read(a, p->arrival_trace, true, false, arrivals, e));
    }
    if (p->lengths_kind == LENGTHS_TRACE) {
        if (!p->lengths_trace)
            return err_set(e, ST_USAGE, "workload.lengths.kind=trace needs workload.lengths.trace");
        TRY(trace_read(a, p->lengths_trace, false, true, lengths, e));
    }
    return ST_OK;
}

static enum st enough_rows(const char *path, const struct trace_rows *t, int64_t n, struct err *e)
{
    if (t->n == 0 || (uint64_t)n <= t->n)
        return ST_OK;
    err_set(e, ST_USAGE, "workload.num_requests is %lld, but %s has %zu rows", (long long)n, path,
            t->n);
    return err_hint(e, "set workload.num_requests=%zu or less", t->n);
}

static enum st count_requests(const struct workload_params *p, const struct trace_rows *arrivals,
                              const struct trace_rows *lengths, size_t *n, struct err *e)
{
    int64_t want = p->num_requests;
    if (want < 0 || want > MAX_REQUESTS)
        return err_set(e, ST_USAGE, "workload.num_requests must be 0 to %d, got %lld", MAX_REQUESTS,
                       (long long)want);
    if (want == 0) {
        size_t rows =
            arrivals->n && (!lengths->n || arrivals->n < lengths->n) ? arrivals->n : lengths->n;
        want = (int64_t)(rows ? rows : p->n_prompts);
    }
    if (want == 0)
        return err_set(e, ST_USAGE,
                       "workload.num_requests is not set, and there is neither a trace "
                       "nor a file of prompts to count");
    TRY(enough_rows(p->arrival_trace, arrivals, want, e));
    TRY(enough_rows(p->lengths_trace, lengths, want, e));
    *n = (size_t)want;
    return ST_OK;
}

enum st workload_make(struct arena *a, const struct workload_params *p, struct workload *out,
                      struct err *e)
{
    struct trace_rows arrivals, lengths;
    *out = (struct workload){0};
    TRY(read_traces(a, p, &arrivals, &lengths, e));
    TRY(count_requests(p, &arrivals, &lengths, &out->n, e));
    out->requests = arena_array(a, struct workload_request, out->n);
    for (size_t i = 0; i < out->n; i++) {
        out->requests[i].request_id = (int64_t)i;
        out->requests[i].prompt_id = p->n_prompts ? p->prompts[i % p->n_prompts].id : NULL;
    }
    TRY(workload_arrivals(p, &arrivals, out->requests, out->n, e));
    return workload_lengths(a, p, &lengths, out->requests, out->n, e);
}
