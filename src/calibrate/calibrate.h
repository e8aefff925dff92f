/* Calibration: from observed latencies of a service to the parameters of an iteration.
 *
 *     records (observed.h)
 *       -> calibrate_check    stages that can be fitted, and the settings they state
 *       -> calibrate_fit      parameters with intervals, residuals, what the data could not tell
 *       -> calibrate_write    a bundle: calibration.json, request_overheads.json
 *       -> calibrate_predict  stages that were held out
 *
 * The fit runs the simulator itself (trial.h) and compares percentiles P10 to P90 of TTFT, TPOT and
 * E2E, as far as a record has them; means and P99 hold warm-up and accidents and are only shown. Of
 * a metric in a stage it takes the level, ln of simulated / observed P50, and the shape, the same
 * of the other percentiles less the level. Each counts with a standard deviation that holds the
 * error of the percentile (by the number of requests) and what a model of this kind leaves over:
 * 0.01 of E2E and TPOT, 0.04 of TTFT. Residuals beyond 3 such deviations lose weight (Cauchy), so
 * that an episode the model does not have, such as a stall that filled the queue, does not bend the
 * parameters. With the prior (theta.h) this is the minimum of a sum of squares, found by
 * Gauss-Newton steps with a line search; the inverse of its Hessian is the covariance. Runs with
 * batches are fitted to these alone (batches.h), and runs with a log of their server's iterations
 * to that alone (log_fit.h). Deterministic.
 *
 * Records of several rates tell a constant from a slope; one rate cannot, and the intervals say so.
 */
#ifndef CALIBRATE_CALIBRATE_H
#define CALIBRATE_CALIBRATE_H

#include "calibrate/observed.h"
#include "calibrate/theta.h"
#include "calibrate/trial.h"

/* ---- what can be fitted ---------------------------------------------------------------------- */

enum { CALIBRATE_LEAST_REQUESTS = 50 };

struct calibrate_stage {
    const struct observed *run;
    const struct observed_stage *stage;
    const char *left_out; /* reason; NULL = it is fitted */
};

struct calibrate_input {
    struct calibrate_stage *stages; /* [n] */
    size_t n, n_fitted;
    struct observed_settings settings; /* what the records state together */
    bool batches;                      /* a run has them: fit those */
    bool logs;                         /* a run has a log of iterations: fit those */
    const char **notes;                /* for the fit, of what was done before; [n_notes] */
    size_t n_notes;
};

/* "overload: ...": the stage's latencies are mostly waiting, or its requests waited ever longer
 * (metrics/backlog.h); NULL = neither. batch_cap 0 = unknown. */
const char *calibrate_overload(struct arena *a, const struct observed_stage *s, int64_t batch_cap);
/* Why a stage can't be fitted, "overload: ..."; NULL = it can. batch_cap 0 = unknown. */
const char *calibrate_left_out(struct arena *a, const struct observed_stage *s, int64_t batch_cap);

/* ST_INPUT: records that state different settings, with both. ST_REJECTED: overload alone, or too
 * few requests. */
enum st calibrate_check(struct arena *a, const struct observed *runs, size_t n,
                        struct calibrate_input *out, struct err *e);

/* ST_INPUT: x states another engine or other number formats than first. */
enum st calibrate_same_engine(const struct observed *first, const struct observed *x,
                              struct err *e);

/* What a model of this kind leaves over of a metric: standard deviation of ln. */
extern const double calibrate_left_over[OBSERVED_METRICS];

/* ---- the fit --------------------------------------------------------------------------------- */

struct calibrate_residual {
    const struct calibrate_stage *stage;
    enum observed_metric metric;
    int point;               /* OBSERVED_P10 .. */
    double observed, fitted; /* s */
    double z;                /* ln(fitted / observed) in standard deviations; of P50 the level */
};

struct calibrate_fit {
    struct theta theta;
    double covariance[THETAS][THETAS]; /* of the logarithms; 0 for held ones */
    double told[THETAS]; /* standard deviation after / before the fit: 1 = the data said nothing */
    bool held[THETAS];
    struct theta before;                  /* the prior's mean, */
    double before_sd[THETAS];             /* and standard deviations; 0 for held ones */
    struct calibrate_residual *residuals; /* [n_residuals] */
    size_t n_residuals;
    bool fits;
    const char **notes; /* what does not fit, what could not be told; [n_notes] */
    size_t n_notes;
    int64_t simulations, steps;
    const double *unevenness; /* of batches: measured / predicted in their order, [n_unevenness] */
    const bool *uneven_prompt;
    size_t n_unevenness;
    double bout;                        /* batches that are slow or fast together */
    double first_use_s, first_use_sd_s; /* of batches: sim/first_use.h; 0 = none was seen */
};

struct calibrate_params {
    const struct trial *trial;
    const struct iteration_shape *shape;
    const struct theta_prior *prior;
};

enum st calibrate_fit(struct arena *a, const struct calibrate_params *p,
                      const struct calibrate_input *in, struct calibrate_fit *out, struct err *e);

/* The fit's parameters are the prior's mean, with its covariance: nothing was observed. */
void calibrate_none(const struct theta_prior *prior, struct calibrate_fit *out);

/* ---- prediction ------------------------------------------------------------------------------ */

/* Percentiles of a stage as the fit predicts them: means over CALIBRATE_PHASES places at which the
 * wave of unevenness may stand when the run begins, each with another draw of arrivals that are
 * drawn, or CALIBRATE_PLACES of what was left of
 * measured batches, whose few bouts are no wave. low, high: 95 % interval, of CALIBRATE_DRAWS
 * simulations with parameters drawn from the fit's covariance. After a fit to batches they are
 * CALIBRATE_BOUTS, each with bouts of its own, as which request meets a slow one is chance: a
 * stationary bootstrap (Politis and Romano 1994) of what was left of the batches; and wider by
 * Student's t, as a run has few bouts. */
enum { CALIBRATE_PHASES = 4, CALIBRATE_PLACES = 64, CALIBRATE_DRAWS = 24, CALIBRATE_BOUTS = 96 };
struct calibrate_prediction {
    struct observed_series of[OBSERVED_METRICS];
    struct observed_series low[OBSERVED_METRICS], high[OBSERVED_METRICS];
    int64_t preemptions, rejected;
    bool saturated; /* its requests wait ever longer */
};
enum st calibrate_predict(struct arena *a, const struct calibrate_params *p,
                          const struct calibrate_fit *fit, const struct observed_stage *stage,
                          bool intervals, struct calibrate_prediction *out, struct err *e);

/* ---- files ----------------------------------------------------------------------------------- */

struct calibrate_written {
    const char *root, *hardware, *model_name;
    const struct model *model;
    const struct iteration_hardware *peaks;
    int64_t tp, pp, ep;
    const struct node *settings; /* of the server, by their keys in the configuration */
    const struct node *meta;     /* more members of bundle_meta.json: provenance */
};
/* The folder of the bundle below root. */
const char *calibrate_dir(struct arena *a, const struct calibrate_written *w);
enum st calibrate_write(struct arena *a, const struct calibrate_written *w,
                        const struct calibrate_input *in, const struct calibrate_fit *fit,
                        struct err *e);

/* Bundles that other calibrations wrote (of other models too) as a prior: the product of what their
 * data said and the prior given, each let off by `between` of the prior's standard deviations, as
 * models differ from each other. ST_INPUT: a folder without calibration.json. */
enum st calibrate_pool(struct arena *a, const char *const *roots, size_t n, double between,
                       const struct theta_prior *prior, struct theta_prior *out, struct err *e);
/* The same of a fit at hand, whose prior was `prior`; source names it. */
enum st calibrate_pool_fit(struct arena *a, const char *source, const struct calibrate_fit *fit,
                           double between, const struct theta_prior *prior, struct theta_prior *out,
                           struct err *e);

#endif
