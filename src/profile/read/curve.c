#include "profile/read/curve.h"

#include <string.h>

struct grid *grid_new(struct arena *a, const double *x, int32_t n)
{
    ASSERT(n >= 1);
    struct grid *g = arena_one(a, struct grid);
    g->n = n;
    g->x = arena_copy(a, x, (size_t)n * sizeof *x);
    if (n < 2)
        return g;
    double narrowest = x[n - 1] - x[0];
    for (int32_t i = 1; i < n; i++) {
        ASSERT(x[i] > x[i - 1]);
        if (x[i] - x[i - 1] < narrowest)
            narrowest = x[i] - x[i - 1];
    }
    double want = (x[n - 1] - x[0]) / narrowest;
    g->buckets = want < GRID_MAX_BUCKETS ? (int32_t)want + 1 : GRID_MAX_BUCKETS;
    g->inv_width = g->buckets / (x[n - 1] - x[0]);
    int32_t *bucket = arena_array(a, int32_t, g->buckets);
    for (int32_t b = 0, i = 0; b < g->buckets; b++) {
        double left = x[0] + b / g->inv_width;
        while (i < n - 2 && x[i + 1] <= left)
            i++;
        bucket[b] = i;
    }
    g->bucket = bucket;
    return g;
}

struct grid *grid_intern(struct arena *a, struct grid_set *known, const double *x, int32_t n)
{
    for (int32_t i = 0; i < known->n; i++) {
        struct grid *g = known->grids[i];
        if (g->n == n && memcmp(g->x, x, (size_t)n * sizeof *x) == 0)
            return g;
    }
    struct grid *g = grid_new(a, x, n);
    if (known->n == known->cap) {
        int32_t cap = known->cap ? 2 * known->cap : 16;
        struct grid **grids = arena_array(a, struct grid *, cap);
        if (known->n)
            memcpy(grids, known->grids, (size_t)known->n * sizeof(struct grid *));
        known->grids = grids;
        known->cap = cap;
    }
    known->grids[known->n++] = g;
    return g;
}

int32_t grid_find(const struct grid *g, double v)
{
    if (g->n < 2 || v <= g->x[0])
        return 0;
    if (v >= g->x[g->n - 1])
        return g->n - 2;
    int32_t b = (int32_t)((v - g->x[0]) * g->inv_width);
    int32_t i = g->bucket[b < g->buckets ? b : g->buckets - 1];
    while (i > 0 && g->x[i] > v) /* rounding of the bucket's edge */
        i--;
    while (i < g->n - 2 && g->x[i + 1] <= v)
        i++;
    return i;
}

double curve_at(const struct curve *c, double v, bool *outside)
{
    const struct grid *g = c->grid;
    int32_t last = g->n - 1;
    if (v < g->x[0] || v > g->x[last]) {
        *outside = true;
        return c->y[v < g->x[0] ? 0 : last];
    }
    if (last == 0)
        return c->y[0];
    int32_t i = grid_find(g, v);
    double t = (v - g->x[i]) / (g->x[i + 1] - g->x[i]);
    return c->y[i] + t * (c->y[i + 1] - c->y[i]);
}

double curve_scaled_at(const struct curve *c, double v, bool *outside)
{
    double y = curve_at(c, v, outside);
    double end = c->grid->x[c->grid->n - 1];
    return v > end && end > 0 ? y * (v / end) : y;
}
