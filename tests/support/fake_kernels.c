#include "support/fake_kernels.h"

#include "kernels/summary.h"

static enum st add_changes(struct arena *a, const struct kernels *after, const char *against,
                           struct kernels_summary *s, struct err *e)
{
    struct trace t;
    struct kernels before;
    TRY(trace_load(&t, against, NULL, e));
    kernels_open(&before, &t, NULL);
    kernels_summary_changes(a, s, against, kernels_diff_table(a, &before, after));
    kernels_close(&before);
    trace_free(&t);
    return ST_OK;
}

enum st fake_kernels(struct arena *a, const char *trace, const char *against, struct buf *json,
                     struct err *e)
{
    struct trace t;
    struct kernels k;
    struct kernels_summary s;
    TRY(trace_load(&t, trace, NULL, e));
    kernels_open(&k, &t, NULL);
    kernels_summary_of(a, &k, trace, &s);
    enum st st = against ? add_changes(a, &k, against, &s, e) : ST_OK;
    if (st == ST_OK)
        kernels_summary_json(json, &s);
    kernels_close(&k);
    trace_free(&t);
    return st;
}
