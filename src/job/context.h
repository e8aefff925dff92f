/* Context of a job, and the request to stop. */
#ifndef JOB_CONTEXT_H
#define JOB_CONTEXT_H

#include <signal.h>

#include "config/config.h"
#include "job/plan.h"

struct job_context {
    struct arena *a; /* of this job */
    const struct config *config;
    const struct plan *plan;        /* config->plan */
    const struct config_args *args; /* source of config, to load variants of it */
    const char *const *words; /* positional words after the command: `model init` -> {"init"} */
    size_t n_words;
    char **program; /* words after --, NULL-terminated; NULL = none */
    bool json;      /* results on stdout as JSON */
    /* In a sweep: receives the result, a tree in a, and with json nothing is printed. NULL = a
     * single command. */
    const struct node **result;
};

/* Set by SIGINT, SIGTERM and SIGHUP (unless that was ignored) once job_catch_signals was called; a
 * second signal, half a second later or more, ends the process. */
extern volatile sig_atomic_t job_stop;
void job_catch_signals(void);

#endif
