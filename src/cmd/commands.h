/* The rows of the commands, one per file of this folder. */
#ifndef CMD_COMMANDS_H
#define CMD_COMMANDS_H

#include "cmd/cmd.h"

#define COMMAND_EXTERN(ID, name) extern const struct cmd cmd_##name;
COMMANDS(COMMAND_EXTERN)

/* The process that replays a capsule (replay/worker.h). Returns its exit code. */
int cmd_replay_worker(const char *order);

#endif
