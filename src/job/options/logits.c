#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(logits.prompts), .unit = "sequences", .def = "4", .min = 1, .max = 4096,
     .commands = CMD_LOGITS, .help = "sequences, computed together; their ids come from seed"},
    {KEY(logits.prompt_tokens), .unit = "tokens", .def = "64", .min = 1, .max = 1e6,
     .commands = CMD_LOGITS, .help = "length of each prompt"},
    {KEY(logits.tokens), .unit = "tokens", .def = "16", .min = 1, .max = 1e6,
     .commands = CMD_LOGITS, .help = "tokens that each sequence generates"},
};

OPTION_SECTION(logits, rows);
