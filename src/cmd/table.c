#include "cmd/commands.h"

#define COMMAND_ROW(ID, name) [COMMAND_##ID] = &cmd_##name,
const struct cmd *const cmd_table[] = {COMMANDS(COMMAND_ROW) NULL};
