#include "kernels/rows.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double kern_rounded(double v)
{
    double tenths = v * 10, below = floor(tenths);
    bool half = fabs(tenths - below - 0.5) <= tenths * DBL_EPSILON;
    return (half ? below + 1 : round(tenths)) / 10;
}

void kern_put_rounded(struct table *t, double v)
{
    table_cell(t, "%.1f", kern_rounded(v));
}

void kern_put_time(struct table *t, const struct kern_stats *s)
{
    if (s->n == 0) { /* SQL's NULL four times; the deviation of nothing is 0 */
        for (int i = 0; i < 4; i++)
            table_cell(t, "%s", "");
    } else {
        kern_put_rounded(t, s->mean);
        kern_put_rounded(t, s->median);
        table_cell(t, "%lld", (long long)s->min);
        table_cell(t, "%lld", (long long)s->max);
    }
    kern_put_rounded(t, s->stddev);
}

void kern_put_sum(struct table *t, const struct kern_rows *rows, const struct kern_row *r)
{
    kern_put_rounded(t, rows->total > 0 ? 100 * (double)r->s.sum / rows->total : 0);
    table_cell(t, "%lld", (long long)r->s.sum);
    table_cell(t, "%zu", r->s.n);
    kern_put_time(t, &r->s);
}

static int by_total(const void *x, const void *y)
{
    const struct kern_row *a = x, *b = y;
    int c = kern_compare(b->s.sum, a->s.sum);
    c = c ? c : kern_compare((int64_t)a->s.n, (int64_t)b->s.n);
    c = c ? c : strcmp(a->name, b->name);
    return c ? c : kern_compare(a->id, b->id);
}

struct kern_rows kern_rows_of(struct kern_groups *g, const char *const *names)
{
    struct kern_rows rows = {0};
    for (uint32_t i = 0; i < g->n_groups; i++) {
        size_t n = g->first[i + 1] - g->first[i];
        if (n == 0)
            continue;
        struct kern_row row = {kern_stats_of(g->values + g->first[i], n), names[i], i};
        rows.total += (double)row.s.sum;
        vec_push(&rows.list, row);
    }
    if (rows.list.n)
        qsort(rows.list.p, rows.list.n, sizeof *rows.list.p, by_total);
    return rows;
}

int64_t kern_op_time(const void *kernels, size_t i)
{
    return kernels_duration(kernels, i);
}
