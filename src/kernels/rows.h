/* Rows of nsys' reports: figures of one name or range each, in nsys' order and with its rounding.
 * Private to kernels/. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include "base/vec.h"
#include "kernels/ranges.h"

struct kernels_row {
    struct kernels_stats s;
    const char *name;
    uint32_t id; /* caller's tag */
};

struct kernels_rows {
    VEC(struct kernels_row)
    list;         /* by total, largest first; of equal ones fewer instances, names */
    double total; /* of all rows */
};

/* One row per group that is not empty, named names[group]; id is the group. Free with vec_free. */
struct kernels_rows kernels_rows_of(struct kernels_groups *g, const char *const *names);

/* v with one decimal, as SQLite's round() makes it: a decimal half rounds up (1717.55 to 1717.6,
 * though the double is a little less). */
double kernels_rounded(double v);
void kernels_put_rounded(struct table *t, double v);
/* Avg, Med, Min, Max, StdDev */
void kernels_put_time(struct table *t, const struct kernels_stats *s);
/* Time (%), Total Time, Instances, then the five above */
void kernels_put_sum(struct table *t, const struct kernels_rows *rows, const struct kernels_row *r);

int64_t kernels_op_time(const void *kernels, size_t i); /* a kernels_value_fn: of operation i */

static inline int kernels_compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

#endif
