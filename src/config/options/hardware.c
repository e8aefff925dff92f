#include "config/options/options.h"

static const struct option rows[] = {
    {KEY(hardware.id), .commands = CMD_BENCH | CMD_PROFILE | SIMULATES | CMD_SERVE,
     .help = "name of the hardware: the folder of its profiling bundle"},
    {KEY(hardware.memory_gb), .unit = "GiB", .min = 1e-3, .max = 1e6, .commands = RUNS | CMD_SERVE,
     .when = WHEN(OUR_BATCHES),
     .help = "memory of one device: plans scheduler.num_blocks where that is unset"},
    {KEY(hardware.memory_margin), .def = "0.1", .max = 0.999, .commands = RUNS | CMD_SERVE,
     .when = WHEN(OUR_BATCHES, SET("hardware.memory_gb")),
     .help = "fraction of that memory the plan leaves free"},
    {KEY(network_device), .commands = CMD_PROFILE | SIMULATES | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help = "name of the interconnect: the folder of its network tables"},
};

OPTION_SECTION(hardware, rows);
