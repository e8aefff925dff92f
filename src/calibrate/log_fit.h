/* The fit to logs of iterations: parameters with which the simulator's account of host and device
 * (log_replay.h) explains
 *
 *     intervals   between tokens that reached the client, first ones and last ones, within a busy
 *                 period;
 *     starts      from a request's arrival to its first token. Behind the server's front it
 *                 joins the next iteration, half of an iteration's time later in the mean; the
 *                 rest is outside of the engine;
 *     waits       of the loop for each iteration, as logged, under asynchronous scheduling;
 *     devices     time of iterations on the device, of runs with a trace of their server beside
 *                 them (metrics/iteration_trace.h). A recording slows the host: where other runs
 *                 have no trace, these alone say the first three.
 *
 * Least squares with the prior; each kind has the scale of its residuals (1.48 median absolute
 * deviations, of waits that are not 0 on both sides), and residuals beyond 3 scales lose weight
 * (Huber). Machines are slow in bouts: the host has a pace in each stretch of iterations (pace.h),
 * and the information of a kind is cut by how much more means over blocks of its residuals vary
 * than of independent ones (batches.h). Derivatives are differences. The covariance is that of a
 * run as long as these are: it holds what the host's pace does to one. How uneven the machine is
 * (spread) is the standard deviation of what is left of stretches of 64 iterations of decode steps.
 * How uneven launching is (launch_spread) follows from what intervals with launches of prompts vary
 * beyond those without. */
#ifndef CALIBRATE_LOG_FIT_H
#define CALIBRATE_LOG_FIT_H

#include "calibrate/calibrate.h"

/* ST_USAGE: settings with which the server that was logged can't be one of these (it scheduled
 * asynchronously, and they do not; log_replay.h). */
enum st log_fit(struct arena *a, const struct calibrate_params *p, const struct calibrate_input *in,
                struct calibrate_fit *out, struct err *e);

#endif
