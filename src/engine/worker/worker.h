/* Foreign engines: another program serves the workload, twinfer sends the requests at their planned
 * times and keeps the times of every token (docs/worker-protocol.md).
 *
 * No serving loop runs here: the worker does the batching. Rows go to the sink as in serve/serve.h
 * and have the same meaning; times are the worker's clock moved by the measured offset to ours. One
 * thread; every wait has a limit. */
#ifndef ENGINE_WORKER_WORKER_H
#define ENGINE_WORKER_WORKER_H

#include <signal.h>

#include "engine/worker/message.h"
#include "serve/serve.h"

enum worker_prompt { WORKER_IDS, WORKER_TEXT };

struct worker_params {    /* rows: engine/worker/options.c */
    struct texts command; /* program and arguments */
    struct worker_greeting greeting;
    /* Seconds; each is described in docs/worker-protocol.md. request: 0 = none */
    double start_timeout_s, load_timeout_s, silence_timeout_s, request_timeout_s, stop_timeout_s;
    int64_t clock_rounds;      /* of each of the two exchanges, >= 1 */
    enum worker_prompt prompt; /* what is submitted */
    bool only_passes;          /* which prompts it takes is left to the caller */
    bool ignore_eos;
    const volatile sig_atomic_t *stop; /* set: end soon, ST_INTERRUPTED; NULL = never */
};

extern const struct option_section worker_options;

struct worker;

/* Starts the program and waits until its model is loaded and the clocks are compared. Parameters
 * and what they point to are borrowed until close. ST_DEVICE: it cannot be started, ends, hangs,
 * reports an error or has another protocol version; ST_INPUT: malformed or contradictory messages.
 */
enum st worker_open(const struct worker_params *p, struct worker **out, struct err *e);
const struct worker_hello *worker_facts(const struct worker *w);

struct worker_work {
    const struct workload_request *requests; /* [n] in the workload's order, ids unique */
    size_t n;
    const struct concurrency *concurrency; /* closed loop; NULL = open (workload/release.h) */
    int32_t *const *ids;                   /* [n] prompts as ids, or with params.text */
    const char *const *texts;              /* [n] */
    int64_t warmup_requests;               /* the first n requests are labelled warm-up */
    bool more_follows;                     /* the worker is not told that no request will come */
};

struct worker_counters {
    int64_t requests, rejected, failed, timeouts;
    int64_t tokens, batches, messages;
    int64_t moved_times; /* token times corrected within the clocks' uncertainty: not before their
                            request was sent, nor before the previous token */
    int64_t bytes_sent;
    double loop_seconds; /* wall time of the run */
    /* As in serve/serve.h. */
    bool follows;
    double concurrency_mean;
    int64_t concurrency_peak, sessions;
};

/* Serves the work, rows to the sink (sink.batch gets no completion); second 0 is when this is
 * called. Every request gets one row. When the run breaks off, those that were running have status
 * error (interrupted: cancelled), and after an error those that were not sent have none. Compares
 * the clocks again at the end. With ids that no call before it had, a worker serves several works
 * one after another, with more_follows where another may come; the clocks are compared before each.
 */
enum st worker_run(struct worker *w, const struct worker_work *work, const struct serve_sink *sink,
                   struct worker_counters *counters, struct err *e);

/* ---- passes ----------------------------------------------------------------------------------
 *
 * Whole iterations of a given composition, carried out by a worker whose hello has the capability
 * `passes`, instead of requests. */

struct worker_times {
    size_t n;
    int64_t *total_ns;  /* [n] from the start of an iteration to where the next could start */
    int64_t *device_ns; /* [n]; NULL = the worker does not tell them apart */
};

/* Carries the pass out, repeats times after warmup ones (the id is set here). Times live in the
 * arena. ST_END: the worker refused this composition, for *why; others may follow. ST_DEVICE: it
 * ended, gave up, or said nothing for silence_timeout_s. ST_INPUT: malformed messages, times that
 * cannot be. ST_INTERRUPTED: *stop was raised. */
enum st worker_passes(struct worker *w, struct arena *a, struct worker_pass p,
                      struct worker_times *out, const char **why, struct err *e);

/* For run_meta.json: {command, hello, clock, send_delay_ns, counters}. */
struct node *worker_meta(struct arena *a, const struct worker *w);

/* Requests a shutdown, then enforces it. NULL is fine; *w is cleared. */
void worker_close(struct worker **w);

#endif
