/* A calibration from a plan: records, the server's settings, the fit, held-out checks. */
#ifndef JOB_CALIBRATE_H
#define JOB_CALIBRATE_H

#include "calibrate/calibrate.h"
#include "job/job.h"

/* A percentile or mean of a stage that was predicted. */
struct job_checked {
    const char *run, *stage, *name; /* "e2e_p50" */
    double observed, predicted;     /* s */
    double low, high;               /* 95 % interval of the prediction */
    double copied;     /* that of the stage of the fit with the nearest load: NAN = none */
    const char *doubt; /* calibrate_overload; NULL = none */
};

struct job_calibration {
    struct job_model m;
    struct serve_params serve;
    struct job_setup setup;
    struct iteration_hardware peaks;
    struct iteration_shape shape;
    struct theta_prior prior;
    struct observed *runs, *checks; /* [from], [check] */
    struct calibrate_input in;      /* n = 0: nothing was given to fit */
    struct calibrate_fit fit;
    const char *root, *dir;      /* out; the bundle's folder, NULL = none was written */
    struct job_checked *checked; /* [n_checked] */
    size_t n_checked;
    const char *idle_note;    /* on checked stages that found the server idle; NULL = none */
    const char *forward_note; /* of calibrate.forward; NULL = none was given */
    struct trial trial;
};

/* Reads from=, fits and, where something was fitted, writes the bundle below out=; predicts check=,
 * with <out>/check.csv. Settings that a record states are the server's; one that was typed and
 * contradicts them is ST_INPUT. */
enum st job_calibrate(const struct job_context *c, struct job_calibration *out, struct err *e);

#endif
