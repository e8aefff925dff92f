#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(out), .commands = ARTIFACTS | CMD_SERVE,
     .help = "directory to write; made from the kind and a stable id of the settings when unset"},
    {KEY(seed), .def = "0", .max = INFINITY,
     .commands =
         CMD_WORKLOAD | CMD_BENCH | CMD_PROFILE | SIMULATES | CMD_MODEL | CMD_SERVE | CMD_LOGITS,
     .help = "seed of everything random; equal seeds give equal bytes"},
    {KEY(repeat), .def = "0", .max = INFINITY, .commands = ONE_RUN,
     .help = "number of this repetition; it is part of the run's id and changes nothing else"},
    {KEY(json), .def = "false", .commands = CMD_ANY, .help = "print results as JSON"},
    {KEY(log.level), .def = "info", .allowed = "error|warn|info|debug", .commands = CMD_ANY,
     .help = "how much to say on stderr"},
    {KEY(vars), .commands = CMD_ANY,
     .help = "values of your own, for use as ${vars.name} elsewhere"},
};

OPTION_SECTION(job, rows);
