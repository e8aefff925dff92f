#include "job/options/options.h"

#define ON WHEN(IS("ncu.enabled", "true"))

static const struct option rows[] = {
    {KEY(ncu.csv), .commands = CMD_DEEP,
     .help = "tables of Nsight Compute made before, on any machine: ncu --csv, either page"},
    {KEY(ncu.enabled), .def = "true", .commands = CMD_DEEP,
     .help = "run Nsight Compute on the top kernels"},
    {KEY(ncu.path), .starts = true, .def = "ncu", .commands = CMD_DEEP,
     .help = "Nsight Compute's program"},
    {KEY(ncu.set), .commands = CMD_DEEP, .when = ON,
     .help = "set of sections, as basic, roofline or full"},
    {KEY(ncu.sections), .commands = CMD_DEEP, .when = ON, .help = "further sections"},
    {KEY(ncu.metrics), .commands = CMD_DEEP, .when = ON, .help = "metrics"},
    {KEY(ncu.query), .def = "true", .commands = CMD_DEEP, .when = ON,
     .help = "ask Nsight Compute first which of the metrics it knows, and leave the others out"},
    {KEY(ncu.replay), .def = "kernel", .allowed = "kernel|application|range|app-range",
     .commands = CMD_DEEP, .when = ON, .help = "what is repeated for each group of metrics"},
    {KEY(ncu.clock_control), .def = "none", .allowed = "none|base", .commands = CMD_DEEP,
     .when = ON,
     .help = "base holds the clocks down, as a reference; none leaves them as they are in use"},
    {KEY(ncu.target_processes), .def = "all", .allowed = "all|application-only",
     .commands = CMD_DEEP, .when = ON, .help = "processes of the command to profile"},
    {KEY(ncu.nvtx), .def = "true", .commands = CMD_DEEP, .when = ON,
     .help = "note the ranges around each launch"},
    {KEY(ncu.nvtx_include), .commands = CMD_DEEP, .when = ON,
     .help = "only inside these ranges, in its own syntax: decode/ is a push/pop range"},
    {KEY(ncu.nvtx_exclude), .commands = CMD_DEEP, .when = ON, .help = "not inside these"},
    {KEY(ncu.by_region), .def = "false", .commands = CMD_DEEP, .when = ON,
     .help = "run it for each stage and each of deep.regions alone"},
    {KEY(ncu.kernel_name), .commands = CMD_DEEP, .when = ON,
     .help = "regular expression of the kernels' functions, instead of the top kernels"},
    {KEY(ncu.filter_mode), .def = "per-launch-config",
     .allowed = "global|per-gpu|per-launch-config", .commands = CMD_DEEP, .when = ON,
     .help = "what launch_skip and launch_count count; versions before 2024.1 know global alone"},
    {KEY(ncu.launch_skip), .def = "0", .max = 1e9, .commands = CMD_DEEP, .when = ON,
     .help = "launches left out first"},
    {KEY(ncu.launch_count), .def = "2", .max = 1e9, .commands = CMD_DEEP, .when = ON,
     .help = "launches profiled; 0 is all"},
    {KEY(ncu.args), .starts = true, .commands = CMD_DEEP, .when = ON, .help = "further arguments"},
};

OPTION_SECTION(ncu, rows);
