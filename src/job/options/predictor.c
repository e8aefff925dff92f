#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(predictor.kind), .def = "auto", .commands = SIMULATES | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help =
         "what predicts the time of a batch: bundle, vidur_tables, roofline; auto: the bundle, "
         "or, where there is none, profile.root is not given and the hardware's peaks are known, "
         "the roofline"},
    {KEY(predictor.tables), .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, ALWAYS_IS("predictor.kind", "@tables")),
     .help = "folder of Vidur's prediction tables, <op>.csv or <op>.csv.gz"},
    {KEY(predictor.block_size), .unit = "tokens", .min = 1, .max = 4096,
     .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, ALWAYS_IS("predictor.kind", "auto|@bundle")),
     .help = "block size of the bundle's attention rows; scheduler.block_size when unset"},
    {KEY(predictor.parameters), .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR, ALWAYS_IS("predictor.kind", "auto|@parameters")),
     .help = "parameters of the iteration model instead of the roofline's defaults or a "
             "calibration's: +predictor.parameters.weights_efficiency=0.9"},
    {KEY(predictor.request_overheads), .def = "bundle", .allowed = "bundle|server|none",
     .commands = SIMULATES, .when = WHEN(SIMULATOR),
     .help = "what a request pays once, for HTTP, tokenization and its client: the bundle's "
             "request_overheads.json, where it has one; server: 6 ms before the first token, 2 us "
             "a prompt token, 1 ms after the last, of a server in Python that was not measured"},
};

OPTION_SECTION(predictor, rows);
