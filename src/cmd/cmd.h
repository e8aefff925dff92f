/* Subcommands: one line of config/command.h and one file in this folder per command. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "job/context.h"

/* A flag of one command that stands for a setting: "--dispatch 9" is replay.dispatch=9. */
struct cmd_alias {
    const char *flag, *key;
};

struct cmd {
    enum command id;
    const char *summary;
    const char *words;   /* allowed first words, "init|inspect", or NULL */
    bool program;        /* takes a program to run: -- command ... */
    bool rows;           /* key=a,b are rows of its one result: job_context.args has them all, its
                            configuration is that of the first combination */
    const char *dry_run; /* the setting that --dry-run stands for; NULL = no such flag */
    const struct cmd_alias *aliases; /* ends with NULL; NULL = none. `about` names them */
    const char *columns; /* members of the result, for the table of a sweep; NULL = none */
    const char *about;   /* a paragraph for --help */
    const char *example;
    /* Results on stdout. Returns the exit code; errors in e decide it through err_exit_code. */
    int (*run)(struct job_context *c, struct err *e);
};

extern const struct cmd *const cmd_table[]; /* [N_COMMANDS], then NULL */

int cmd_main(int argc, char **argv);

#endif
