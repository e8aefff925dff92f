#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(goodput), .unit = "ms", .commands = CMD_BENCH | CMD_SIMULATE,
     .help = "limits that a good request meets, in vLLM's syntax: ttft:200 tpot:50 e2el:2000"},
};

OPTION_SECTION(goodput, rows);
