/* Subcommands: one line of config/command.h and one file in this folder per command. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

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

struct cmd {
    enum command id;
    const char *summary;
    const char *words;   /* allowed first words, "init|inspect", or NULL */
    bool program;        /* takes a program to run: -- command ... */
    const char *columns; /* members of the result, for the table of a sweep; NULL = none */
    const char *about;   /* a paragraph for --help */
    const char *example;
    /* Results on stdout. Returns the exit code; errors in e decide it through err_exit_code. */
    int (*run)(struct cmd_context *c, struct err *e);
};

extern const struct cmd *const cmd_table[]; /* [N_COMMANDS], then NULL */

int cmd_main(int argc, char **argv);

/* Raised by SIGINT and SIGTERM once cmd_catch_signals was called; a second signal, half a second
 * later or more, ends the process. */
extern volatile sig_atomic_t cmd_stop;
void cmd_catch_signals(void);

#endif
