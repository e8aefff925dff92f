/* The fit to batches: runs whose engine says what each batch held and how long it took.
 *
 * Least squares of the batches' durations with the prior, each batch weighted by its residual over
 * the scale of such residuals (1.48 median absolute deviations, of those with chunks and of those
 * without): fully up to 3 scales, as 3 up to 9, not at all beyond: stalls do not belong to a mean.
 * A run may not have settled when it began (kernels are compiled, memory is taken, clocks go up).
 * Its first batches are cut by MSER-5 (settle.h) of the residuals, which cuts none where nothing
 * differs. Batches are no independent samples, as the machine is slow in bouts: their
 * information is cut by how much more the means over blocks of them differ than means of
 * independent ones would, at the length of block where that is most (Flyvbjerg and Petersen 1989),
 * down to 8 blocks. That is so of the blocks' means; by what batches of one block differ, bouts do
 * not touch, and it counts as of independent samples. The first batch of a shape (sim/first_use.h)
 * takes longer where an engine prepares something for each. By how much is the difference of the
 * medians of residuals, of first batches and of others; it counts where there are BATCHES_LEAST of
 * both and it is beyond three times its error. What is left of each batch that counted, measured /
 * predicted in its order, is the machine's unevenness. */
#ifndef CALIBRATE_BATCHES_H
#define CALIBRATE_BATCHES_H

#include "calibrate/calibrate.h"

enum { BATCHES_LEAST = 30 };

/* ST_REJECTED: fewer batches than BATCHES_LEAST. */
enum st batches_fit(struct arena *a, const struct calibrate_params *p,
                    const struct calibrate_input *in, struct calibrate_fit *out, struct err *e);

/* Of how many values one is worth, as neighbours are alike: over blocks of 1, 2, 4, ... of them,
 * the largest of the block means' variance against what independent values have (Flyvbjerg and
 * Petersen 1989). *block: the length at which it is. v is overwritten. */
double batches_correlated(double *v, size_t n, size_t *block);

#endif
