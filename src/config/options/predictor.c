#include "config/options/options.h"

static const struct option rows[] = {
    {KEY(predictor.kind), .def = "bundle", .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR), .help = "what predicts the time of a batch: bundle, vidur_tables"},
    {KEY(predictor.tables), .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, ALWAYS_IS("predictor.kind", "vidur_tables")),
     .help = "folder of Vidur's prediction tables, <op>.csv or <op>.csv.gz"},
    {KEY(predictor.block_size), .unit = "tokens", .min = 1, .max = 4096,
     .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, ALWAYS_IS("predictor.kind", "bundle")),
     .help = "block size of the bundle's attention rows; scheduler.block_size when unset"},
};

OPTION_SECTION(predictor, rows);
