#include "config/options/options.h"

static const struct option rows[] = {
    {KEY(doctor.folders), .commands = CMD_DOCTOR,
     .help = "where to look for what killed processes left, with all folders in them; this folder, "
             "and all in runs/, when unset"},
    {KEY(doctor.remove_partial), .def = "false", .commands = CMD_DOCTOR,
     .help = "remove what killed processes left there"},
};

OPTION_SECTION(doctor, rows);
