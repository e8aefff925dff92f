#include "cmd/flags.h"

#include <stddef.h>

const struct cmd_flag cmd_flags[] = {
    {"--help", "-h", NULL, "show what the command does and its settings, and stop"},
    {"--cfg", NULL, NULL, "print the composed configuration and stop"},
    {"--explain", NULL, "KEY", "say where a value comes from and stop"},
    {"--config-name", NULL, "N", "another primary file than <command>.yaml"},
    {"--config-dir", NULL, "DIR",
     "look for configuration files there first; else in TWINFER_CONFIG_DIR"},
    {"-m", "--multirun", NULL, "run every combination of key=a,b settings"},
    {"--json", NULL, NULL, "results as JSON on stdout"},
    {NULL, NULL, NULL, NULL},
};
