/* Piecewise linear functions of one variable with look-up in constant time.
 *
 * A grid holds sorted knots and a table from equal buckets to segments; curves over the same knots
 * share their grid, so a sum of such curves is again one curve. */
#ifndef PROFILE_READ_CURVE_H
#define PROFILE_READ_CURVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum { GRID_MAX_BUCKETS = 1 << 14 };

struct grid {
    int32_t n, buckets;
    const double *x;       /* [n] strictly ascending */
    const int32_t *bucket; /* [buckets]: the segment that holds the bucket's left edge */
    double inv_width;      /* buckets per unit of x */
};

/* The knots are copied; n >= 1. */
struct grid *grid_new(struct arena *a, const double *x, int32_t n);
/* The same grid when one of `known` has these knots, else a new one that is added to it. */
struct grid_set {
    struct grid **grids;
    int32_t n, cap;
};
struct grid *grid_intern(struct arena *a, struct grid_set *known, const double *x, int32_t n);

/* The segment i with x[i] <= v < x[i + 1]: 0 below the grid, n - 2 above it, 0 when n is 1. */
int32_t grid_find(const struct grid *g, double v);

struct curve {
    const struct grid *grid; /* NULL = no curve */
    const double *y;         /* [grid->n] */
};

/* Inside: linear between the knots. Outside: the nearest knot's value, and *outside is set. */
double curve_at(const struct curve *c, double v, bool *outside);

/* The same, but above the last knot in proportion to v: a time that grows with the work. */
double curve_scaled_at(const struct curve *c, double v, bool *outside);

#endif
