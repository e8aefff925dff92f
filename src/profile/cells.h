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

/* What bundle_meta.json says of an operator. */
struct op_quality {
    int64_t points, samples;
    struct holdout loo;
};
struct op_quality cell_quality(struct arena *a, const struct profile_result *r,
                               const struct op *op);

/* Mean over the group's samples of pass / (sum of the medians that predict it), a pass counting
 * three times its prediction at most. A sum of medians is below the mean of sums where times are
 * skewed, and by how much is a property of the machine; 1 without samples. */
double cell_iteration_scale(struct arena *a, const struct profile_result *r, enum point_group g);

#endif
