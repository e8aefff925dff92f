#include "config/command.h"

#define COMMAND_NAME(ID, name) #name,
static const char *const names[] = {COMMANDS(COMMAND_NAME)};

const char *command_name(enum command c)
{
    return names[c];
}

void command_names(struct buf *out, uint32_t bits)
{
    const char *gap = "";
    for (enum command c = 0; c < N_COMMANDS; c++)
        if (bits & command_bit(c)) {
            buf_printf(out, "%s%s", gap, command_name(c));
            gap = ", ";
        }
}
