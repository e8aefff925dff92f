/* Statistics of samples, without NaN. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Percentile by linear interpolation between order statistics, bit for bit NumPy's default: q in
 * [0, 100], sorted ascending, n >= 1. Exact for the sample; for the population, use the interval
 * below. */
double stats_percentile(const double *sorted, size_t n, double q);

/* Standard deviation of a normal distribution over its median absolute deviation. */
#define STATS_NORMAL_MAD 1.4826

/* The middle one, or the mean of the two in the middle; NaN of none. v is sorted. */
double stats_median(double *v, size_t n);
double stats_median_int64(int64_t *v, size_t n);

/* Distribution-free interval of the population's q-th percentile (0 < q < 100): the order
 * statistics low <= high that enclose it with at least the confidence (in (0, 1)), at most half of
 * the rest on either side. From the binomial distribution, exactly for n <= 1000, by its normal
 * approximation above. The samples must be independent; latencies of one run are not quite, so the
 * interval is a lower bound of the uncertainty. False when n is too small to bound it on both
 * sides. */
bool stats_percentile_interval(const double *sorted, size_t n, double q, double confidence,
                               double *low, double *high);

/* Two-sided 95 % quantile of Student's t, df >= 1. */
double stats_student_95(size_t df);

/* Ascending; O(n). scratch[n]. */
void stats_sort(double *v, double *scratch, size_t n);

#endif
