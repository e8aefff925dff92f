#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(output.tokens), .def = "full", .allowed = "full|none", .commands = ONE_RUN | CMD_SERVE,
     .when = WHEN(RECORDED), .help = "whether token_metrics.csv is written"},
    {KEY(output.batches), .def = "full", .allowed = "full|none", .commands = ONE_RUN | CMD_SERVE,
     .when = WHEN(RECORDED, NOT("engine.kind", "@server")),
     .help = "whether batches.csv is written"},
    {KEY(output.vidur_metrics), .def = "false", .commands = ONE_RUN | CMD_SERVE,
     .when = WHEN(RECORDED, NOT("engine.kind", "@server")),
     .help = "write request_metrics_vidur.csv too: Vidur's names, definitions and units"},
    {KEY(output.time_series), .def = "true", .commands = ONE_RUN | CMD_SERVE,
     .when = WHEN(RECORDED, NOT("engine.kind", "@server")),
     .help = "write time_series.csv: queue, running requests, KV blocks, batch size and power over "
             "time"},
    {KEY(output.perfetto), .def = "false", .commands = ONE_RUN | CMD_SERVE,
     .when = WHEN(RECORDED, NOT("engine.kind", "@server")),
     .help = "write trace.json: the batches of each replica and stage, for ui.perfetto.dev"},
    {KEY(output.write_hydra_snapshot), .def = "true",
     .commands =
         CMD_WORKLOAD | CMD_BENCH | SIMULATES | CMD_COMPARE | CMD_KERNELS | CMD_SERVE | CMD_DEEP,
     .when = WHEN(RECORDED), .help = "keep config.yaml and overrides.yaml beside the results"},
    {KEY(report.inputs), .commands = CMD_REPORT, .help = "artifact directories to report on"},
};

OPTION_SECTION(output, rows);
