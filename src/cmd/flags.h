/* The flags, each once: the overview, the man pages and completion show these rows. They are
 * implemented in main.c. */
#ifndef CMD_FLAGS_H
#define CMD_FLAGS_H

struct cmd_flag {
    const char *name;  /* "-m" */
    const char *other; /* "--multirun"; NULL = none */
    const char *value; /* its argument, "KEY", or NULL */
    const char *help;  /* one sentence, no full stop */
};

extern const struct cmd_flag cmd_flags[]; /* ends with name == NULL */

#endif
