#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(sim.host_overhead), .def = "true", .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, IS("predictor.kind", "auto|@parameters")),
     .help = "add the measured host time of each iteration"},
    {KEY(sim.replicas_mc), .unit = "runs", .def = "0", .max = 100000, .commands = CMD_SIMULATE,
     .help = "simulate that many times more with operator times off by their errors, for intervals "
             "of the percentiles; 0 is none, else 10 or more"},
};

OPTION_SECTION(sim, rows);
