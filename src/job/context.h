/* What a job is given, and whether it was asked to stop. */
#ifndef JOB_CONTEXT_H
#define JOB_CONTEXT_H

#include <signal.h>

#include "config/config.h"

struct cmd_context {
    struct arena *a; /* of this job */
    const struct config *config;
    const struct plan *plan;        /* &config->plan */
    const struct config_args *args; /* what config was loaded from, to load variants of it */
    const char *const *words; /* positional words after the command: `model init` -> {"init"} */
    size_t n_words;
    char **program; /* what stands after --, NULL-terminated; NULL = nothing */
    bool json;      /* results on stdout as JSON */
    /* Of a sweep: the result goes here, a tree in a, and with json nothing is printed. NULL = the
     * command stands alone. */
    const struct node **result;
};

/* Raised by SIGINT and SIGTERM once cmd_catch_signals was called; a second signal, half a second
 * later or more, ends the process. */
extern volatile sig_atomic_t cmd_stop;
void cmd_catch_signals(void);

#endif
