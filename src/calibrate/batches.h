/* The fit to batches: runs whose engine says what each batch held and how long it took.
 *
 * Least squares of the batches' durations with the prior, each batch weighted by its residual over
 * the residuals' own scale (1.48 median absolute deviations): fully up to 3 scales, as 3 up to 9,
 * not at all beyond: stalls do not belong to a mean. Where the first half of the batches takes
 * longer or shorter than the second, beyond twice its error, the run had not settled (kernels are
 * compiled, memory is taken), and the second half alone counts. Batches are no independent samples:
 * the information of n of them is cut by their residuals' lag-1 correlation c, (1 - c) / (1 + c).
 * What is left of each batch that counted, measured / predicted in its order, is the machine's
 * unevenness. */
#ifndef CALIBRATE_BATCHES_H
#define CALIBRATE_BATCHES_H

#include "calibrate/calibrate.h"

enum { BATCHES_LEAST = 30 };

/* ST_REJECTED: fewer batches than BATCHES_LEAST. */
enum st batches_fit(struct arena *a, const struct calibrate_params *p,
                    const struct calibrate_input *in, struct calibrate_fit *out, struct err *e);

#endif
