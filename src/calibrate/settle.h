/* Where a run had settled. The first requests of a fresh server wait for what later ones find done:
 * kernels are compiled for sizes that come for the first time, memory is taken, clocks go up. That
 * is no cost of a batch, and a fit leaves it out.
 *
 * Of requests the measure is ln(TTFT observed / simulated with the prior's mean), in order of
 * arrival, so that what the load does is not taken for it. Means of 5 each are cut by MSER-5
 * (White, Cobb and Spratt 2000, "A comparison of five steady-state truncation heuristics for
 * simulation"): of all cuts up to the middle, the one with the least standard error of the mean of
 * what is behind it. A cut counts only where the requests before it were slower, beyond 3 standard
 * errors, both against the simulation and as observed. Runs that are overloaded, here or in the
 * simulation, are left whole: a queue has no settled part. */
#ifndef CALIBRATE_SETTLE_H
#define CALIBRATE_SETTLE_H

#include "calibrate/calibrate.h"

enum { SETTLE_GROUP = 5 };

/* How many of n means come before the cut; 0 where nothing differs. */
size_t settle_mser(const double *means, size_t n);

/* Leaves such starts out of all stages that are fitted and have rows, and notes each in `in`. runs:
 * those of in. */
enum st settle_starts(struct arena *a, const struct calibrate_params *p, struct calibrate_input *in,
                      struct observed *runs, size_t n, struct err *e);

#endif
