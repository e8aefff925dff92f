#include "job/options/options.h"

static const struct option rows[] = {
    {AT("real_run_dir", compare.real_run_dir), .commands = CMD_COMPARE,
     .when = WHEN(ALWAYS_UNSET("runs")), .help = "the real run"},
    {AT("sim_run_dir", compare.sim_run_dir), .commands = CMD_COMPARE,
     .when = WHEN(ALWAYS_UNSET("runs")),
     .help = "the simulated run that is judged; with two runs of one kind, the other one"},
    {AT("runs", compare.runs), .commands = CMD_COMPARE | CMD_ENERGY,
     .help = "2 to 8 runs, instead of the two above: by how much each differs from the first, with "
             "intervals and without a verdict; energy run: how often the whole is replayed, 1000 "
             "when unset"},
    {AT("spread", compare.spread), .commands = CMD_COMPARE,
     .help = "further runs like the real one, or the first of runs, on the same arrivals: they "
             "tell the run-to-run spread"},
    {KEY(compare.iteration_log), .commands = CMD_COMPARE, .when = WHEN(ALWAYS_UNSET("runs")),
     .help = "log of a vLLM server with --enable-logging-iteration-details, which has the batches "
             "of the real run; when unset, iterations.log or iterations.log.gz in its folder"},
    {KEY(compare.token0), .def = "exclude", .allowed = "exclude|include", .commands = CMD_COMPARE,
     .help = "whether the first token counts in per-token latency"},
    {KEY(compare.cells), .def = "core", .allowed = "core|all", .commands = CMD_COMPARE,
     .help = "what the verdict rests on: P50, P90 and P99 of TTFT, TPOT and E2E, or also P95 and "
             "per-token latency"},
    {KEY(compare.pass_percent), .unit = "%", .def = "5", .max = 1000, .commands = CMD_COMPARE,
     .help = "largest error that passes"},
    {KEY(compare.warn_percent), .unit = "%", .def = "9", .max = 1000, .commands = CMD_COMPARE,
     .help = "largest error that does not fail"},
    {KEY(compare.gate), .def = "none", .allowed = "none|slower", .commands = CMD_COMPARE,
     .help = "of runs: slower = judge them, fail where one is slower than the first by more than "
             "warn_percent for sure"},
};

OPTION_SECTION(compare, rows);
