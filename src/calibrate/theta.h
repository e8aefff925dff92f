/* Parameters of a calibration: those of the iteration model, what a request pays outside the
 * engine, and how uneven the machine is. Fits work on their logarithms, so values stay positive and
 * a prior says by what factor a value may be off. */
#ifndef CALIBRATE_THETA_H
#define CALIBRATE_THETA_H

#include "profile/read/iteration.h"
#include "profile/read/overheads.h"

enum {
    THETA_FRONT = ITERATION_PARAMS, /* request_overheads.front_s */
    THETA_FIRST_TOKEN,              /* .first_token_s */
    THETA_PROMPT_TOKEN,             /* .prompt_token_s */
    THETA_COMPLETION,               /* .completion_s */
    THETA_STREAM,                   /* .stream_s */
    THETA_SPREAD, /* standard deviation of ln of an iteration's time, over times long to a request
                   */
    THETAS,
};
const char *theta_name(int i); /* "weights_efficiency", "first_token_s", "spread" */
const char *theta_unit(int i);

/* Logarithms of the values. */
struct theta {
    double ln[THETAS];
};
struct iteration_params theta_iteration(const struct theta *t);
struct request_overheads theta_overheads(const struct theta *t);
double theta_spread(const struct theta *t);

/* A normal distribution of the logarithms: mean, and the inverse of the covariance. Parameters that
 * are 0, or that no batch of the model depends on, are held: their row and column are 0. */
struct theta_prior {
    struct theta mean;
    double precision[THETAS][THETAS];
    bool held[THETAS];
    const char *source; /* for the report: "roofline" */
};

/* The roofline's defaults for that model and its parallelism, with the uncertainty stated beside
 * them (iteration.h); request overheads and spread by general experience, stated in
 * docs/methodology.md.
 */
void theta_prior_roofline(const struct model *m, const struct iteration_shape *shape,
                          struct theta_prior *out);

/* Minus the logarithm of the prior's density, but for a constant, and its share of the normal
 * equations: sets hessian and gradient, where data add theirs. */
double theta_prior_loss(const struct theta_prior *p, const struct theta *t);
void theta_prior_equations(const struct theta_prior *p, const struct theta *t,
                           double hessian[THETAS][THETAS], double gradient[THETAS]);

/* Values as they are kept within the ranges of iteration.h. */
void theta_clamp(struct theta *t);

#endif
