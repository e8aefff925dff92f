#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(parallel.tp), .def = "1", .min = 1, .max = 1024,
     .commands = CMD_PROFILE | SIMULATES | CMD_CALIBRATE | CMD_KERNELS | CMD_SERVE | CMD_FIT,
     .when = WHEN(SIMULATOR), .help = "tensor-parallel degree of a replica"},
    {KEY(parallel.pp), .def = "1", .min = 1, .max = 1024,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "pipeline stages of a replica; each holds a batch of its own"},
    {KEY(parallel.ep), .def = "1", .min = 1, .max = 4096,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "devices that share the experts of a replica: 1, or a multiple of parallel.tp"},
    {KEY(parallel.expert_skew), .def = "0", .max = 10, .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR),
     .help = "how unevenly tokens choose experts: the e-th most popular by e to the power of minus "
             "that; 0: all alike. Fewer are read then, and the busiest of the parallel.ep devices "
             "sets the time"},
};

OPTION_SECTION(parallel, rows);
