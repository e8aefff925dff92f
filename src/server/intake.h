/* A thread that reads large requests, beside the threads that serve connections.
 *
 * Reading a body of many megabytes (JSON, tokens) takes seconds, in which a thread of connections
 * would send nobody's tokens. One such job runs at a time, the smallest that waits first: so a huge
 * prompt delays the others that are large, and no stream; and only one body at a time takes the
 * memory that reading it needs. */
#ifndef SERVER_INTAKE_H
#define SERVER_INTAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct intake;

struct intake_job {
    struct intake_job *next; /* intake's */
    size_t bytes;            /* what it costs, for the order */
    /* run: on intake's thread. Then done, or without run where intake_close came first; the job is
     * the owner's again when done is called, which need not return before it is freed. */
    void (*run)(struct intake_job *job);
    void (*done)(struct intake_job *job);
};

/* ST_IO when the system has no thread. */
enum st intake_open(struct intake **out, struct err *e);
/* False: it is closed, and the job was not taken. */
bool intake_push(struct intake *in, struct intake_job *job);
/* Waits for the job that runs; those that wait are done without having run. From then on nothing is
 * taken. */
void intake_close(struct intake *in);
void intake_free(struct intake **in); /* closes; NULL is fine; nobody may push any more */

#endif
