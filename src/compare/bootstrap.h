/* Intervals of differences between percentiles of two runs, by resampling requests.
 *
 * The requests of a run queue behind each other, so they are not independent: draws are blocks of
 * consecutive requests (circular block bootstrap, Politis and Romano 1992), n^(1/3) long. Where
 * both runs served the same requests, a draw takes the same requests of both (paired): common
 * effects, such as hard requests and bursts, cancel. Otherwise each side is drawn independently.
 * The interval is that of the 2.5th to the 97.5th percentile of the draws.
 *
 * The interval covers the choice of requests. It excludes the variation between runs of one
 * configuration; repeats show that. */
#ifndef COMPARE_BOOTSTRAP_H
#define COMPARE_BOOTSTRAP_H

#include "metrics/metrics.h"

struct boot_value {
    double ns;
    uint32_t owner; /* request, counted from 0 in order of arrival */
};

struct boot_series {
    struct boot_value *values; /* ascending */
    size_t n;
};

/* Sorts by value, then owner. */
void boot_sort(struct boot_series *s);

struct boot_params {
    size_t a_requests, b_requests; /* equal when paired */
    bool paired;
    const double *percentiles; /* [n_percentiles] */
    int n_percentiles;
    uint64_t seed;
};

size_t boot_block(size_t requests); /* length of a block */
/* Draws for that many values of both sides: 2,000, fewer from 100,000 values on, at least 200. */
int boot_draws(size_t values);
/* Whether `requests` requests with `values` values bound the percentile: 20 requests, and five
 * values beyond it. */
bool boot_bounds(size_t requests, size_t values, double percentile);

/* Intervals of 100 * (b - a) / a, b's percentile against a's, into low and high [n_series *
 * n_percentiles]; NAN where boot_bounds is false or a percentile of a is 0. Returns the number of
 * draws. Same input, same bytes. */
int boot_intervals(const struct boot_params *p, const struct boot_series *a,
                   const struct boot_series *b, int n_series, double *low, double *high);

#endif
