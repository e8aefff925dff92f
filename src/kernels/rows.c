#include "kernels/rows.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double kernels_rounded(double v)
{
    double tenths = v * 10, below = floor(tenths);
    bool half = fabs(tenths - below - 0.5) <= tenths * DBL_EPSILON;
    return (half ? below + 1 : round(tenths)) / 10;
}

void kernels_put_rounded(struct table *t, double v)
{
    table_cell(t, "%.1f", kernels_rounded(v));
}

void kernels_put_time(struct table *t, const struct kernels_stats *s)
{
    if (s->n == 0) { /* SQL's NULL four times */
        for (int i = 0; i < 4; i++)
            table_cell(t, "%s", "");
    } else {
        kernels_put_rounded(t, s->mean);
        kernels_put_rounded(t, s->median);
        table_cell(t, "%lld", (long long)s->min);
        table_cell(t, "%lld", (long long)s->max);
    }
    kernels_put_rounded(t, isnan(s->stddev) ? 0 : s->stddev); /* as nsys writes it */
}

void kernels_put_sum(struct table *t, const struct kernels_rows *rows, const struct kernels_row *r)
{
    kernels_put_rounded(t, rows->total > 0 ? 100 * (double)r->s.sum / rows->total : 0);
    table_cell(t, "%lld", (long long)r->s.sum);
    table_cell(t, "%zu", r->s.n);
    kernels_put_time(t, &r->s);
}

static int by_total(const void *x, const void *y)
{
    const struct kernels_row *a = x, *b = y;
    int c = kernels_compare(b->s.sum, a->s.sum);
    c = c ? c : kernels_compare((int64_t)a->s.n, (int64_t)b->s.n);
    c = c ? c : strcmp(a->name, b->name);
    return c ? c : kernels_compare(a->id, b->id);
}

struct kernels_rows kernels_rows_of(struct kernels_groups *g, const char *const *names)
{
    struct kernels_rows rows = {0};
    for (uint32_t i = 0; i < g->n_groups; i++) {
        size_t n = g->first[i + 1] - g->first[i];
        if (n == 0)
            continue;
        struct kernels_row row = {kernels_stats_of(g->values + g->first[i], n), names[i], i};
        rows.total += (double)row.s.sum;
        vec_push(&rows.list, row);
    }
    if (rows.list.n)
        qsort(rows.list.p, rows.list.n, sizeof *rows.list.p, by_total);
    return rows;
}

int64_t kernels_op_time(const void *kernels, size_t i)
{
    return kernels_duration(kernels, i);
}
