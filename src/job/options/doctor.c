#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(doctor.folders), .commands = CMD_DOCTOR,
     .help = "where to look for what killed processes left, with all folders in them; this folder, "
             "and all in runs/, when unset"},
    {KEY(doctor.remove_partial), .def = "false", .commands = CMD_DOCTOR,
     .help = "remove what killed processes left there"},
    {KEY(doctor.measure), .def = "false", .commands = CMD_DOCTOR,
     .help = "measure what the machine can do at most: memory, matrix products, launches, link to "
             "the GPU; some 10 s"},
    {KEY(doctor.roofs), .def = "runs/roofs.json", .commands = CMD_DOCTOR,
     .when = WHEN(IS("doctor.measure", "true")),
     .help = "file for what was measured; one that is there is replaced"},
    {KEY(doctor.gpu), .def = "0", .max = 1023, .commands = CMD_DOCTOR,
     .when = WHEN(IS("doctor.measure", "true")),
     .help = "which GPU to measure, as CUDA counts them"},
};

OPTION_SECTION(doctor, rows);
