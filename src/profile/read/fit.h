/* Least squares of a few features with coefficients >= 0 and weights 1/time: the shape of an
 * operator's times. */
#ifndef PROFILE_READ_FIT_H
#define PROFILE_READ_FIT_H

#include <stdint.h>

enum { FIT_FEATURES = 5 };

/* Minimises sum ((theta . f - y) / y)^2 over theta >= 0. f: [n][nf], y: [n] >= 0, nf <=
 * FIT_FEATURES. At least one of the features in the bit mask `some` gets a coefficient above 0.
 * Times that are all 0: theta is 1, 0, ... */
void fit_positive(int nf, int64_t n, const double *f, const double *y, unsigned some,
                  double *theta);

#endif
