/* From parameters to latencies: the simulator over the requests of a stage. */
#ifndef CALIBRATE_TRIAL_H
#define CALIBRATE_TRIAL_H

#include "calibrate/observed.h"
#include "calibrate/theta.h"
#include "serve/serve.h"
#include "sim/predictor.h"

/* The machine is fast and slow by turns: an iteration takes exp(spread x - spread^2 / 2) times as
 * long, where x goes up and down once in TRIAL_WAVE iterations such that its values are those of a
 * normal distribution. Requests are shorter than a turn, so their latencies spread with it. Nothing
 * is drawn: latencies are smooth in the parameters. */
enum { TRIAL_WAVE = 4096 };
/* How far runs that differ in nothing but luck begin apart in the launches of the host. */
enum { TRIAL_LAUNCHES = 997 };
double trial_wave(double spread, uint64_t iteration); /* that factor */

struct trial {
    const struct predictor_ops *predictor; /* one with parameters: the roofline */
    struct predictor_params params;        /* its own; `parameters` is set here */
    struct serve_params serve;             /* checked; overheads are set here */
    const volatile sig_atomic_t *stop;     /* may be NULL */
    int draw;       /* of the stage's arrivals, where they are drawn; 0 = those of its workload */
    uint64_t phase; /* iterations of the wave that have passed at the start, */
    int64_t first_launch; /* of the host's unevenness, in which the run begins */
    /* Instead of the wave: what each iteration takes of its prediction, over and over. */
    const double *ratios; /* [n_ratios]; NULL = the wave */
    size_t n_ratios;
    double *first_tokens_s; /* [w.n] TTFT of each request is written there, NAN = rejected; may be
                               NULL */
    double first_use_s; /* of the first batch of each shape, besides (sim/first_use.h); 0 = none */
};

struct trial_result {
    struct observed_series of[OBSERVED_METRICS];
    int64_t completed, rejected, preemptions;
    double running;         /* mean number of requests in the service, by Little's law */
    double iteration_s;     /* mean */
    double prefix_hit_rate; /* NAN without prefix caching */
    bool saturated;         /* requests waited ever longer (metrics/backlog.h) */
};

/* Serves the stage's requests; its warm-up is left out of the result. Memory of the run is taken
 * from scratch, which may be reset afterwards. */
enum st trial_run(struct arena *scratch, const struct trial *f, const struct observed_stage *stage,
                  const struct theta *t, struct trial_result *out, struct err *e);

#endif
