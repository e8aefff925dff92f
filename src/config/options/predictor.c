#include "config/options/options.h"

static const struct option rows[] = {
    {KEY(predictor.kind), .def = "auto", .commands = SIMULATES | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help =
         "what predicts the time of a batch: bundle, vidur_tables, roofline; auto: the bundle, "
         "or, where there is none, profile.root is not given and the hardware's peaks are known, "
         "the roofline"},
    {KEY(predictor.tables), .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, ALWAYS_IS("predictor.kind", "vidur_tables")),
     .help = "folder of Vidur's prediction tables, <op>.csv or <op>.csv.gz"},
    {KEY(predictor.block_size), .unit = "tokens", .min = 1, .max = 4096,
     .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, ALWAYS_IS("predictor.kind", "auto|bundle")),
     .help = "block size of the bundle's attention rows; scheduler.block_size when unset"},
    {KEY(predictor.parameters), .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, ALWAYS_IS("predictor.kind", "auto|bundle|roofline")),
     .help = "parameters of the iteration model instead of the roofline's defaults or a "
             "calibration's: +predictor.parameters.weights_efficiency=0.9"},
};

OPTION_SECTION(predictor, rows);
