/* State of a running worker, shared by worker.c (start, clocks, end) and worker_run.c
 * (requests). */
#ifndef ENGINE_WORKER_SESSION_H
#define ENGINE_WORKER_SESSION_H

#include "engine/worker/child.h"
#include "engine/worker/offset.h"
#include "engine/worker/worker.h"

struct worker {
    struct worker_params p;
    struct arena *a;       /* of the session */
    struct arena *scratch; /* of one message */
    struct child child;
    struct worker_hello hello;
    const struct node *info, *ready_info;
    struct clock_offset before, after;
    bool same_clock;
    int64_t passes;     /* requested so far */
    int64_t runs;       /* begun so far */
    bool orderly;       /* the run completed: its exit status is meaningful */
    int64_t offset_ns;  /* the worker's clock - ours, as used */
    int64_t slack_ns;   /* times off by more are errors */
    struct buf line;    /* being written */
    int64_t *delays_ns; /* [n_delays], sorted: lateness of each submit; set by worker_run.c */
    size_t n_delays;
    struct worker_counters counters;
};

/* The next message, by until_ns (monotonic). ST_END: none by then, or *stop was raised. `moment` is
 * the phase, for the error of a worker that is gone: "while it loaded its model". */
enum st worker_receive(struct worker *w, int64_t until_ns, const char *moment,
                       struct worker_event *out, struct err *e);
bool worker_stopped(const struct worker *w);
/* Reports an unexpected message, or an error message: always an error. */
enum st worker_unexpected(struct worker *w, const struct worker_event *ev, const char *moment,
                          struct err *e);
/* params.clock_rounds exchanges. Messages of other types go to `other`; NULL: they are errors. */
enum st worker_exchange_clocks(struct worker *w,
                               enum st (*other)(void *self, const struct worker_event *ev,
                                                struct err *e),
                               void *self, struct clock_offset *out, struct err *e);
/* Compares the clocks: w->before and the offset that is used. */
enum st worker_set_offset(struct worker *w, struct err *e);
/* Sends w->line and empties it. True when it is all written. */
bool worker_send_line(struct worker *w);

#endif
