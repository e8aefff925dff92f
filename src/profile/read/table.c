#include "profile/read/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static void build_curve(struct arena *a, struct grid_set *known, const struct surface_point *p,
                        int64_t n, struct curve *out)
{
    double *x = arena_array(a, double, n), *y = arena_array(a, double, n);
    for (int64_t i = 0; i < n; i++) {
        x[i] = p[i].x;
        y[i] = p[i].y;
    }
    *out = (struct curve){grid_intern(a, known, x, (int32_t)n), y};
}

void op_table_build(struct arena *a, enum op_axis axis, struct grid_set *known,
                    struct surface_point *p, int64_t n, struct op_table *out)
{
    n = surface_points_merge(p, n);
    *out = (struct op_table){.axis = axis, .points = p, .n = n};
    if (n == 0)
        return;
    if (axis == AXIS_TOKENS || axis == AXIS_ROWS)
        build_curve(a, known, p, n, &out->curve);
    else
        surface_build(a, axis == AXIS_DECODE ? SURFACE_DECODE : SURFACE_PREFILL, p, n,
                      &out->surface);
}

double op_table_at(const struct op_table *t, double x, double kv, bool *outside)
{
    if (t->n == 0)
        return 0;
    if (t->axis == AXIS_TOKENS || t->axis == AXIS_ROWS)
        return curve_scaled_at(&t->curve, x, outside);
    return surface_at(&t->surface, x, kv, outside);
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

struct holdout op_table_holdout(const struct op_table *t, int64_t folds)
{
    struct holdout h = {0};
    const struct surface_point *all = t->points;
    int64_t n = t->n;
    if (n < 3)
        return h;
    struct arena *keep = arena_new(), *fold_arena = arena_new();
    if (folds <= 0 || folds > n)
        folds = n;
    int64_t *fold = arena_array(keep, int64_t, n);
    struct rng rng = rng_stream(1, "profile.holdout");
    for (int64_t i = 0; i < n; i++)
        fold[i] = i % folds;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)rng_below(&rng, (uint64_t)i + 1), swap = fold[i];
        fold[i] = fold[j];
        fold[j] = swap;
    }
    double *error = arena_array(keep, double, n);
    for (int64_t f = 0; f < folds; f++) {
        arena_reset(fold_arena);
        struct surface_point *rest = arena_array(fold_arena, struct surface_point, n);
        int64_t m = 0;
        for (int64_t i = 0; i < n; i++)
            if (fold[i] != f)
                rest[m++] = all[i];
        struct grid_set known = {0};
        struct op_table without;
        op_table_build(fold_arena, t->axis, &known, rest, m, &without);
        for (int64_t i = 0; i < n; i++) {
            if (fold[i] != f || !(all[i].y > 0))
                continue;
            bool outside = false;
            double y = op_table_at(&without, all[i].x, all[i].kv, &outside);
            if (!outside)
                error[h.tested++] = fabs(y / all[i].y - 1);
        }
    }
    if (h.tested > 0) {
        qsort(error, (size_t)h.tested, sizeof *error, by_value);
        for (int64_t i = 0; i < h.tested; i++)
            h.mean += error[i] / (double)h.tested;
        h.p90 = error[(h.tested - 1) * 9 / 10];
        h.max = error[h.tested - 1];
    }
    arena_free(&keep);
    arena_free(&fold_arena);
    return h;
}
