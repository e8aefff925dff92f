/* The host's pace: how much longer its work takes in one stretch of a run than in the mean. A core
 * is shared with a neighbour, or its clock goes down, for seconds at a time; then all host times
 * are longer by one factor, whatever the batches are. Without a pace of their own, stretches that
 * happen to have other batches pass for what these batches cost.
 *
 *     pace_new        stretches of PACE_STRETCH iterations of each run, all at 1
 *     pace_equations  the data's normal equations without what the paces explain
 *     pace_step       that of the paces, given the parameters'
 *     pace_settle     how much paces vary, from themselves
 *     pace_widen      another run has a pace of its own
 *
 * The logarithm u of a pace is normal around 0 with standard deviation sd, which is found as by
 * expectation maximization: sd^2 is the mean of u^2 and of u's own variance, over the stretches of
 * whose host anything is known. Stretches beside each other are alike: u counts as of sd
 * sqrt(worth), worth by batches_correlated (batches.h); its own variance is that beside sd alone,
 * else stretches that say little would widen sd round by round. A pace moves all times of the host
 * together, so its derivative is the sum of theirs, and no simulation is needed for it; what it
 * does beyond its stretch is left out. A stretch whose u is beyond 3 sd stalled, as while a kernel
 * is compiled: it counts as one of 3 sd, or one such stretch would say how all others vary. */
#ifndef CALIBRATE_PACE_H
#define CALIBRATE_PACE_H

#include "base/arena.h"
#include "calibrate/theta.h"

enum { PACE_STRETCH = 64 };

struct pace {
    double *ln; /* [n]: u of each stretch */
    size_t n;
    double **of;        /* [runs][iterations]: the factors, as log_replay takes them */
    size_t *first;      /* [runs]: its first stretch */
    size_t *iterations; /* [runs] */
    size_t n_runs;
    double sd, worth;
    /* Of the equations, per stretch: u's curvature and gradient, and what ties it to theta. */
    double *curvature, *gradient;
    double (*tie)[THETAS];
};
void pace_new(struct arena *a, const size_t *iterations, size_t n_runs, struct pace *out);

/* The stretch of a run's iteration. */
size_t pace_stretch(const struct pace *p, size_t run, size_t iteration);

/* A datum: derivatives of its prediction, and by u of its stretch; w its weight; off predicted less
 * observed. Between pace_begin and pace_equations. */
void pace_begin(struct pace *p);
void pace_add(struct pace *p, size_t stretch, const double slope[THETAS], double w, double off);
void pace_equations(struct pace *p, double hessian[THETAS][THETAS], double gradient[THETAS]);

/* The step of each u, to be subtracted, with that of theta: [n]. */
void pace_step(const struct pace *p, const double theta[THETAS], double *step);
void pace_move(struct pace *p, const double *step, double by); /* u -= by step */
void pace_slow(struct pace *p, double by);                     /* all u += by */
bool pace_stalled(const struct pace *p, size_t stretch);
bool pace_known(const struct pace *p, size_t stretch); /* by the data of the last equations */
double pace_loss(const struct pace *p);
void pace_settle(struct arena *scratch, struct pace *p);
/* To the covariance of a fit, what the mean pace of another run as long as these adds: what
 * correlated stretches say of a mean, and at least what runs of one machine were seen to differ by,
 * as two runs don't show bouts that are longer than they are. */
void pace_widen(const struct pace *p, const bool held[THETAS], double (*covariance)[THETAS]);

#endif
