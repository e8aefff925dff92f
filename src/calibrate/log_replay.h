/* A run whose server logged its iterations, and how long the simulator says that these take.
 *
 *     logged_run_read   log, match and times of a run directory, and what a trace says of them
 *     log_replay        when each iteration begins and its tokens come, with given parameters
 *
 * The replay hands the logged batches, one after the other, to the simulator's own executor
 * (sim/sim.h) with a predictor of the parameters, as the loop of an engine with one thread does: it
 * launches, with asynchronous scheduling one batch ahead, waits for the oldest, answers. So what is
 * compared is the executor's account of host and device, with compositions that are known; what a
 * scheduler would make of the arrivals is not in it. Times are seconds from the begin of the busy
 * period, which ends where no request is left. */
#ifndef CALIBRATE_LOG_REPLAY_H
#define CALIBRATE_LOG_REPLAY_H

#include "calibrate/trial.h"
#include "metrics/iteration_times.h"
#include "metrics/iteration_trace.h"

struct logged_run {
    struct run run;
    struct iteration_log log;
    struct iteration_match match;
    struct iteration_times times;
    struct iteration_anchor *anchors; /* [n_anchors] */
    size_t n_anchors;
    double *device_s; /* [match.n] by a trace (metrics/iteration_trace.h), NAN = unknown; NULL = no
                         trace */
    size_t n_traced;
};

/* ST_INPUT: a log that does not belong to the run; ST_REJECTED: too few intervals to time it. */
enum st logged_run_read(struct arena *a, const char *dir, const char *log,
                        const struct key_spans *spans, struct logged_run *out, struct err *e);

struct replayed {
    double *begin_s;  /* [n] it is scheduled */
    double *tokens_s; /* [n] the loop has its tokens */
    double *launch_s; /* [n] the loop's time to launch it, the host's part of all */
    double *wait_s;   /* [n] the loop waited for it; both NAN without asynchronous scheduling */
    double *device_s; /* [n] the device's part */
};
struct replayed replayed_new(struct arena *a, size_t n);

/* pace: [r->match.n], what the host takes of its times in each iteration; NULL = these. ST_USAGE: a
 * server (f->serve) of which the executor keeps no account of one thread, by pipeline stages,
 * groups of experts or a policy that knows no launching. */
enum st log_replay(struct arena *scratch, const struct trial *f, const struct logged_run *r,
                   const struct theta *t, const double *pace, struct replayed *out, struct err *e);

#endif
