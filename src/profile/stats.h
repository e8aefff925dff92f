/* Statistics of repeated measurements. */
#ifndef PROFILE_STATS_H
#define PROFILE_STATS_H

#include <stdint.h>

struct stats {
    int64_t n;
    double min, max, mean, median;
    double std; /* population, as Vidur's; 0 for n == 1 */
    /* Mean of the values cut at 3 medians: the average without stalls of the machine, which a
     * median hides and a mean exaggerates. */
    double cut_mean;
};

/* Sorts v. n == 0 gives all zeros. */
struct stats stats_of(double *v, int64_t n);

#endif
