/* The table cells of a profile: statistics of one operator at one place of its axis. */
#ifndef PROFILE_CELLS_H
#define PROFILE_CELLS_H

#include "profile/read/table.h"
#include "profile/stats.h"
#include "profile/write.h"

/* Seconds of one repeat over all samples whose batch had that many tokens (AXIS_TOKENS) or rows
 * (AXIS_ROWS). n == 0: not measured. */
struct stats cell_1d(struct arena *scratch, const struct profile_result *r, const struct op *op,
                     int64_t x);
/* The same over the samples of one point. */
struct stats cell_point(struct arena *scratch, const struct profile_result *r, const struct op *op,
                        int64_t point);

/* The distinct tokens and rows of the measured points, ascending. */
int64_t *cell_counts(struct arena *a, const struct profile_result *r, int64_t *n);

/* Quality of an operator's cells, for bundle_meta.json. */
struct op_quality {
    int64_t points, samples;
    struct holdout loo;
};
struct op_quality cell_quality(struct arena *a, const struct profile_result *r,
                               const struct op *op);

#endif
