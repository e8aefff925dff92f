#include "profile/cells.h"

#include <stdlib.h>

#include "base/order.h"

bool profile_measured(const struct profile_result *r, int64_t point)
{
    const struct point *p = &r->points->p[point];
    return p->level <= r->level[point_group(p)] && r->journal->samples[point].n > 0;
}

struct stats cell_point(struct arena *scratch, const struct profile_result *r, const struct op *op,
                        int64_t point)
{
    size_t n = r->journal->samples[point].n;
    double *v = arena_array(scratch, double, n);
    for (size_t i = 0; i < n; i++)
        v[i] = r->journal->samples[point].p[i].op_s[op->kind] / op->repeat;
    return stats_of(v, (int64_t)n);
}

static int64_t axis_value(const struct profile_result *r, const struct op *op, int64_t point)
{
    const struct point *p = &r->points->p[point];
    return op->axis == AXIS_ROWS ? point_rows(p, r->limits) : point_tokens(p);
}

struct stats cell_1d(struct arena *scratch, const struct profile_result *r, const struct op *op,
                     int64_t x)
{
    size_t n = 0;
    for (int64_t i = 0; i < r->points->n; i++)
        if (profile_measured(r, i) && axis_value(r, op, i) == x)
            n += r->journal->samples[i].n;
    double *v = arena_array(scratch, double, n);
    n = 0;
    for (int64_t i = 0; i < r->points->n; i++)
        if (profile_measured(r, i) && axis_value(r, op, i) == x)
            for (size_t k = 0; k < r->journal->samples[i].n; k++)
                v[n++] = r->journal->samples[i].p[k].op_s[op->kind] / op->repeat;
    return stats_of(v, (int64_t)n);
}

int64_t *cell_counts(struct arena *a, const struct profile_result *r, int64_t *n)
{
    int64_t *v = arena_array(a, int64_t, 2 * r->points->n), m = 0;
    for (int64_t i = 0; i < r->points->n; i++)
        if (profile_measured(r, i)) {
            v[m++] = point_tokens(&r->points->p[i]);
            v[m++] = point_rows(&r->points->p[i], r->limits);
        }
    qsort(v, (size_t)m, sizeof *v, order_int64);
    *n = 0;
    for (int64_t i = 0; i < m; i++)
        if (i == 0 || v[i] != v[i - 1])
            v[(*n)++] = v[i];
    return v;
}

static int64_t points_1d(struct arena *a, const struct profile_result *r, const struct op *op,
                         struct surface_point *out, struct stats *stats)
{
    int64_t n, m = 0, *x = cell_counts(a, r, &n);
    for (int64_t i = 0; i < n; i++) {
        struct stats s = cell_1d(a, r, op, x[i]);
        if (s.n == 0)
            continue;
        stats[m] = s;
        out[m++] = (struct surface_point){.x = (double)x[i], .y = s.median};
    }
    return m;
}

static int64_t points_2d(struct arena *a, const struct profile_result *r, const struct op *op,
                         struct surface_point *out, struct stats *stats)
{
    enum point_kind kind = op->axis == AXIS_DECODE ? POINT_DECODE : POINT_PREFILL;
    int64_t m = 0;
    for (int64_t i = 0; i < r->points->n; i++) {
        const struct point *p = &r->points->p[i];
        if (p->kind != kind || !profile_measured(r, i))
            continue;
        stats[m] = cell_point(a, r, op, i);
        out[m] = (struct surface_point){(double)p->x, (double)p->kv, stats[m].median};
        m++;
    }
    return m;
}

struct op_quality cell_quality(struct arena *a, const struct profile_result *r, const struct op *op)
{
    int64_t room = 2 * r->points->n;
    struct surface_point *p = arena_array(a, struct surface_point, room);
    struct stats *stats = arena_array(a, struct stats, room);
    bool flat = op->axis == AXIS_TOKENS || op->axis == AXIS_ROWS;
    struct op_quality q = {0};
    q.points = (flat ? points_1d : points_2d)(a, r, op, p, stats);
    for (int64_t i = 0; i < q.points; i++)
        q.samples += stats[i].n;
    struct grid_set known = {0};
    struct op_table t;
    op_table_build(a, op->axis, &known, p, q.points, &t);
    q.loo = op_table_holdout(&t, 0);
    return q;
}
