/* Parts of the commands that run a program of the user's: trace, capture. */
#ifndef CMD_PROGRAM_H
#define CMD_PROGRAM_H

#include "job/context.h"

/* A stable id of the settings, which `id` stands for, and the words of the program. */
const char *program_id(const struct job_context *c, const char *kind, const char *id);
/* The exit code of a shell for a status of waitpid: 128 + the signal that ended it. */
int program_exit_code(int status);

#endif
