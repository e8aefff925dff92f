#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(settings.log), .commands = CMD_SETTINGS,
     .help = "what a vLLM server wrote since its start, plain or gzip"},
};

OPTION_SECTION(settings, rows);
