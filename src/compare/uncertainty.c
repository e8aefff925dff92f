/* The uncertainty that a simulated run states of itself. */
#include <math.h>
#include <string.h>

#include "compare/intern.h"
#include "text/csv.h"

static int metric_of(struct sv name)
{
    for (int m = 0; m < METRICS; m++)
        if (sv_eq(name, metric_name((enum metric)m)))
            return m;
    return sv_eq(name, "delay") ? UNCERTAINTY_DELAY : -1;
}

static int percentile_of(struct sv name)
{
    for (int p = 0; p < COMPARE_PERCENTILES; p++)
        if (sv_eq(name, compare_percentile_name(p)))
            return p;
    return -1;
}

/* Skips metrics and percentiles that are not compared. */
static enum st read_row(const struct csv_reader *r, const int column[6],
                        struct compare_uncertainty *d, struct err *e)
{
    int m = metric_of(csv_cell(r, column[0])), p = percentile_of(csv_cell(r, column[1]));
    double v[3], mean;
    if (m < 0 || p < 0 || csv_empty(r, column[2]) || csv_empty(r, column[3]) ||
        csv_empty(r, column[4]))
        return ST_OK;
    for (int i = 0; i < 3; i++)
        TRY(csv_double(r, column[2 + i], 0, 1e18, &v[i], e));
    if (v[1] > v[2])
        return csv_err(r, column[3], e, "the interval is upside down");
    if (v[0] > 0) {
        d->low[m][p] = v[1] / v[0];
        d->high[m][p] = v[2] / v[0];
    }
    if (v[0] > 0 && column[5] >= 0 && !csv_empty(r, column[5])) {
        TRY(csv_double(r, column[5], 0, 1e18, &mean, e));
        d->mean[m][p] = mean / v[0];
        d->uneven = true;
    }
    return ST_OK;
}

static enum st read_rows(struct csv_reader *r, struct compare_uncertainty *d, struct err *e)
{
    static const char *const names[] = {"metric", "percentile", "value_ns", "low_ns", "high_ns"};
    int column[6];
    enum st st;
    for (int i = 0; i < 5; i++)
        TRY(csv_require(r, names[i], &column[i], e));
    column[5] = csv_find(r, "mean_ns"); /* -1: an older file */
    while ((st = csv_next(r, e)) == ST_OK)
        TRY(read_row(r, column, d, e));
    return st == ST_END ? ST_OK : st;
}

enum st compare_uncertainty_read(struct arena *a, const char *dir, struct compare_uncertainty *out,
                                 struct err *e)
{
    out->known = out->uneven = false;
    for (int m = 0; m < UNCERTAINTIES; m++)
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            out->low[m][p] = out->high[m][p] = (double)NAN;
            out->mean[m][p] = 1;
        }
    const char *path = fs_join(a, dir, "percentile_intervals.csv");
    if (!fs_exists(path))
        return ST_OK;
    struct csv_reader *r = NULL;
    TRY(csv_open(&r, path, e));
    enum st st = read_rows(r, out, e);
    csv_close(&r);
    out->known = st == ST_OK;
    return st;
}
