#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(fit.length), .unit = "tokens", .def = "8192,32768,131072", .commands = CMD_FIT,
     .help = "lengths of prompt and output together, for which it is said how many sequences the "
             "memory holds at once"},
};

OPTION_SECTION(fit, rows);
