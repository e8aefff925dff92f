#include "metrics/iteration_trace.h"

#include <math.h>

#include "base/fs.h"
#include "text/csv.h"

const char *iteration_trace_beside(struct arena *a, const char *dir)
{
    const char *path = fs_join(a, dir, "iterations.csv");
    return fs_exists(path) ? path : NULL;
}

enum { INDEX, CONTEXT, GENERATION, DEVICE, COLUMNS };

struct match_reading {
    const struct iteration_match *m;
    double *device_s;
    size_t n, at; /* where the row before was found: rows and iterations have one order */
};

static enum st take_row(const struct csv_reader *r, const int column[COLUMNS],
                        struct match_reading *x, struct err *e)
{
    int64_t v[COLUMNS];
    if (csv_empty(r, column[INDEX]))
        return ST_OK; /* it was not logged */
    for (int i = 0; i < COLUMNS; i++)
        TRY(csv_int(r, column[i], 0, INT64_C(1) << 53, &v[i], e));
    size_t i = x->at;
    while (i < x->m->n && x->m->of[i].log->index < v[INDEX])
        i++;
    if (i == x->m->n || x->m->of[i].log->index != v[INDEX])
        return ST_OK; /* of another run of that server */
    const struct logged_iteration *log = x->m->of[i].log;
    if (log->context_tokens != v[CONTEXT] || log->generation_tokens != v[GENERATION]) {
        csv_err(r, column[INDEX], e, "iteration %lld held other tokens by its log",
                (long long)v[INDEX]);
        return err_hint(e, "kernels.iteration_log= must have been this run's log");
    }
    if (!isnan(x->device_s[i]))
        return csv_err(r, column[INDEX], e, "iteration %lld stands here twice",
                       (long long)v[INDEX]);
    x->device_s[i] = (double)v[DEVICE] / 1e9;
    x->n++;
    x->at = i;
    return ST_OK;
}

static enum st read_all(struct csv_reader *r, struct match_reading *x, struct err *e)
{
    static const char *const names[COLUMNS] = {"logged_index", "context_tokens",
                                               "generation_tokens", "device_ns"};
    int column[COLUMNS];
    enum st st;
    for (int i = 0; i < COLUMNS; i++)
        TRY(csv_require(r, names[i], &column[i], e));
    while ((st = csv_next(r, e)) == ST_OK)
        TRY(take_row(r, column, x, e));
    return st == ST_END ? ST_OK : st;
}

enum st iteration_trace_read(struct arena *a, const char *path, const struct iteration_match *m,
                             double **device_s, size_t *n, struct err *e)
{
    struct csv_reader *r = NULL;
    struct match_reading x = {.m = m, .device_s = arena_array(a, double, m->n + 1)};
    for (size_t i = 0; i < m->n; i++)
        x.device_s[i] = (double)NAN;
    TRY(csv_open(&r, path, e));
    const enum st st = read_all(r, &x, e);
    csv_close(&r);
    *device_s = x.device_s;
    *n = x.n;
    return st;
}
