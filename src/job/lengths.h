/* A simulated system under workloads of any length: a search for a capacity asks how it changes
 * with the number of requests. */
#ifndef JOB_LENGTHS_H
#define JOB_LENGTHS_H

#include "job/sim.h"

struct job_lengths {
    const struct job_context *c;
    struct job_probe probe; /* of the last length */
    int64_t times;          /* of it */
    bool open;
};

/* Whether the plan's requests can be so many times as many: they are made, not given, and fit in
 * memory. */
bool job_lengths_has(const struct plan *p, int64_t times);
/* Opens l->probe under so many times the requests; the one before is closed. times 1: the plan's,
 * given or made. l must not move until job_lengths_close. */
enum st job_lengths_open(struct job_lengths *l, int64_t times, struct err *e);
void job_lengths_close(struct job_lengths *l);

#endif
