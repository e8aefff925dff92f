/* When the tokens of logged iterations (iteration_match.h) came, by two clocks that each lack
 * something: the log has how long the engine's loop waited for each iteration, the run when some
 * iterations' tokens reached the client, first tokens and ends.
 *
 * The loop does three things for an iteration: schedule and launch it, wait, answer. From tokens of
 * one to those of the next it takes
 *
 *     wait (elapsed_s) + answer + launching of the next one to launch
 *
 * That one is the iteration itself, or, under asynchronous scheduling, the one behind it, which is
 * launched before the wait. Waits are logged; answers and launches are what is left of the time
 * between tokens that reached the client, least squares over all such intervals in which the server
 * was not idle, with residuals beyond two scales losing weight (Huber). A launch has a time by kind
 * of iteration: decode steps alone, and powers of two of tokens where prompts are in it, so that a
 * step at a captured size shows; and one a sequence. Both ways are tried: the one that leaves less
 * is how the server was scheduled. Under asynchronous scheduling a launch holds up the tokens of
 * the iteration before; as a part of the loop's time (duration_s) it counts to the iteration
 * launched.
 *
 * Error: an iteration's own time is known as well as waits are logged (0.01 ms) and launches of a
 * kind are alike; residual_s is the median of what is left of an interval, which holds the jitter
 * of the way to the client twice. Means over many iterations are much better than that. */
#ifndef METRICS_ITERATION_TIMES_H
#define METRICS_ITERATION_TIMES_H

#include "metrics/iteration_match.h"

/* Fewer intervals say nothing. */
enum { ITERATION_INTERVALS_LEAST = 30 };

struct iteration_times {
    bool async;
    double *tokens_s;   /* [n] when its tokens reached the client, on the run's clock */
    double *start_s;    /* [n] when its own part of the loop's time began, */
    double *duration_s; /* [n] and how long that was: launch, wait, answer */
    double residual_s, residual_p90_s; /* of intervals between tokens at the client, absolute */
    size_t n_intervals;
    double waited; /* share of the time that the log's elapsed is */
};

/* ST_REJECTED: fewer intervals than ITERATION_INTERVALS_LEAST. Lives in a. */
enum st iteration_times(struct arena *a, const struct run *run, const struct iteration_match *m,
                        struct iteration_times *out, struct err *e);

/* "the server scheduled asynchronously; ...": what the times are made of, one line for notes. */
const char *iteration_times_words(struct arena *a, const struct iteration_match *m,
                                  const struct iteration_times *t);

/* Rows of batches.csv of matched iterations: what they held, and, as there, from the tokens before
 * to theirs. Neither host's nor device's part of that is known (RUN_NONE). */
struct run_batch *iteration_batches(struct arena *a, const struct iteration_match *m,
                                    const struct iteration_times *t);

/* An iteration whose tokens reached the client at time_s: the first token of a request, or its
 * last. */
struct iteration_anchor {
    size_t iteration;
    double time_s;
    bool end;
    size_t request;
};
/* Those of known iterations' requests, by iteration, then by time; returns their number. */
size_t iteration_anchors(struct arena *a, const struct run *run, const struct iteration_match *m,
                         struct iteration_anchor **out);

#endif
