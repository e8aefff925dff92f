/* One operator's measured points and the function made from them, whichever its axis. */
#ifndef PROFILE_READ_TABLE_H
#define PROFILE_READ_TABLE_H

#include "model/model.h"
#include "profile/read/surface.h"

struct op_table {
    enum op_axis axis;
    const struct surface_point *points; /* [n] merged; seconds of one repeat; kv 0 on 1-D axes */
    int64_t n;                          /* 0 = the operator is not there */
    struct curve curve;                 /* AXIS_TOKENS, AXIS_ROWS */
    struct surface surface;             /* AXIS_PREFILL, AXIS_DECODE */
};

/* Takes p over, sorts and merges it. `known` shares grids between operators. */
void op_table_build(struct arena *a, enum op_axis axis, struct grid_set *known,
                    struct surface_point *p, int64_t n, struct op_table *out);

/* Seconds of one repeat. x: tokens, rows, sequences or chunk tokens; kv as in surface.h. */
double op_table_at(const struct op_table *t, double x, double kv, bool *outside);

/* Error of predicting held-out points from the rest; see bundle_check(). tested 0: no error known.
 */
struct holdout {
    int64_t tested;
    double mean, p90, max;
};
struct holdout op_table_holdout(const struct op_table *t, int64_t folds);

#endif
