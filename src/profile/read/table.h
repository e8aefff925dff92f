/* One operator's measured points and the function fitted to them, for any axis. */
#ifndef PROFILE_READ_TABLE_H
#define PROFILE_READ_TABLE_H

#include "model/model.h"
#include "profile/read/surface.h"

/* The function over tokens or rows is linear between the points, except that a step between two
 * points stands at the edge of a tile (tiles.h) where the points show tiles: the curve then has two
 * more knots there, which are not points. */
struct op_table {
    enum op_axis axis;
    const struct surface_point *points; /* [n] sorted, equal ones once; seconds of one repeat; kv 0
                                           on 1-D axes */
    int64_t n;                          /* 0 = no points */
    double tile;                        /* of tokens or rows; 0 = none */
    struct seen seen;                   /* by attention's queries; kv of the points is seen_kv */
    struct model experts;               /* for expert operators: their number and choice; else 0 */
    double expert_fit[3];               /* a, b, c of op_table_build_experts */
    struct curve curve;                 /* AXIS_TOKENS, AXIS_ROWS */
    struct surface surface;             /* AXIS_PREFILL, AXIS_DECODE */
};

/* Takes p over and sorts it; points of equal place are merged to their mean. `known` shares grids
 * between operators. */
void op_table_build(struct arena *a, enum op_axis axis, struct grid_set *known,
                    struct surface_point *p, int64_t n, struct op_table *out);

/* The same of attention whose queries see that much. rows: how the lengths of a decode's rows
 * differ; NULL = they do not. */
void op_table_build_seen(struct arena *a, enum op_axis axis, const struct seen *seen,
                         const struct seen_rows *rows, struct grid_set *known,
                         struct surface_point *p, int64_t n, struct op_table *out);

/* The same for an operator of a model's experts, over tokens: between the points the ratio to a fit
 * a + b experts hit + c tokens, coefficients >= 0, is linear. */
void op_table_build_experts(struct arena *a, const struct model *m, struct grid_set *known,
                            struct surface_point *p, int64_t n, struct op_table *out);

/* Whichever of these the operator of the model's list takes. */
void op_table_build_for(struct arena *a, const struct model *m, const struct op *op,
                        const struct seen_rows *rows, struct grid_set *known,
                        struct surface_point *p, int64_t n, struct op_table *out);

/* The table that other values at the same places give, with the tiles of t: y[i] instead of
 * t->points[i].y. */
void op_table_replace(struct arena *a, const struct op_table *t, struct grid_set *known,
                      const double *y, struct op_table *out);

/* Seconds of one repeat. x: tokens, rows, sequences or chunk tokens; kv: cached tokens, seen or
 * not. */
double op_table_at(const struct op_table *t, double x, double kv, bool *outside);

/* Error of predicting held-out points from the rest; see bundle_check(). tested 0: no error known.
 */
struct holdout {
    int64_t tested;                /* held-out points */
    int64_t extrapolated;          /* those outside the grid of the rest */
    double mean, median, p90, max; /* of |predicted / measured - 1| */
};
struct holdout op_table_holdout(const struct op_table *t, int64_t folds);

/* The same point by point: error[i] is predicted / measured - 1 of t->points[i], NAN where it was
 * not tested. Returns the number outside the grid of the rest. */
int64_t op_table_errors(const struct op_table *t, int64_t folds, double *error);

/* What leave-one-out errors say of the table that has all its points; standard deviations of
 * ln(true / predicted), taken as normal.
 *
 * place: of a measured point, independent of the others. A point's error e when it is left out has
 *   two parts, its own noise and that of the two neighbours it is predicted from, half of each: of
 *   noise s, e varies by s sqrt(3/2). So place = sqrt(pi / 2) mean |e - mean e| / sqrt(3/2).
 * shift: of all points alike. Times that bend are missed on one side everywhere. Left out, a point
 *   lies in the middle of a gap twice as wide as any that is left: 4 times the error in the middle
 *   of one, 6 times its mean over one (for a parabola). So shift = |mean e| / 6. */
struct op_spread {
    double place, shift;
};
/* error: [n], NAN = none. 0, 0 for fewer than 3. */
struct op_spread op_spread_of(const double *error, int64_t n);

#endif
