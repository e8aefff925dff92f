/* Small dense symmetric systems, as fits have. */
#ifndef BASE_SOLVE_H
#define BASE_SOLVE_H

#include <stdbool.h>

enum { SOLVE_MOST = 32 };

/* x of m x = y, m symmetric and positive definite, [n][stride] row by row. Rows and columns of
 * `left_out` (NULL = none) stay out, their x is 0. False when m is not positive definite. */
bool solve(int n, int stride, const double *m, const bool *left_out, const double *y, double *x);

/* The inverse, [n][stride]; rows and columns of left_out are 0. */
bool solve_inverse(int n, int stride, const double *m, const bool *left_out, double *out);

/* The lower triangle l of m = l l', [n][stride]; rows and columns of left_out are 0. */
bool solve_root(int n, int stride, const double *m, const bool *left_out, double *l);

#endif
