/* -m: every combination of the values in key=a,b words, one job after another.
 *
 * Before the first job all configurations are loaded: a wrong setting, or a folder (out=) that two
 * jobs would write to, is reported before any work. Each job's output follows a line with its
 * number and settings; at the end comes one table with the members of the results that `columns`
 * names, or with --json one document and nothing else:
 *
 *     {"exit_code", "jobs": [{"job", "settings": {key: value}, "exit_code", "error", "hint",
 *                             "result"}]}
 *
 * A failed job does not stop the others. */
#ifndef JOB_SWEEP_H
#define JOB_SWEEP_H

#include "job/job.h"

struct sweep {
    const char *columns;     /* members of the results, separated by a space; NULL = none */
    struct config_args args; /* overrides with lists of values */
    bool json;
    /* Runs one job: its exit code, its error in e. *result lives in a; NULL = none. */
    int (*job)(void *self, struct arena *a, const struct config_args *args,
               const struct node **result, struct err *e);
    void *self;
};

/* The largest exit code of the jobs; errors in e: of the sweep itself, or interrupted. */
int sweep_run(const struct sweep *s, struct err *e);

#endif
