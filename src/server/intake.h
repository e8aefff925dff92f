/* A thread that reads large requests, beside the threads that serve connections.
 *
 * Reading a body of many megabytes (JSON, tokens) takes seconds, during which a connection thread
 * could not send tokens. One such job runs at a time, the smallest waiting one first: a huge prompt
 * delays other large ones but no stream, and only one body at a time needs the memory of reading
 * it. */
#ifndef SERVER_INTAKE_H
#define SERVER_INTAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct intake;

struct intake_job {
    struct intake_job *next; /* intake's */
    size_t bytes;            /* cost, for the order */
    /* run: on intake's thread, then done; after intake_close, done without run. The job belongs to
     * its owner again when done is called, and may be freed before done returns. */
    void (*run)(struct intake_job *job);
    void (*done)(struct intake_job *job);
};

/* ST_IO when the system has no thread. */
enum st intake_open(struct intake **out, struct err *e);
/* False: it is closed, and the job was not accepted. */
bool intake_push(struct intake *in, struct intake_job *job);
/* Waits for the running job; completes waiting ones without running them. No more jobs are
 * accepted. */
void intake_close(struct intake *in);
void intake_free(struct intake **in); /* closes; NULL is fine; no push may follow */

#endif
