#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(kernels.trace), .commands = CMD_KERNELS,
     .help = "trace to read: a spool, an nsys SQLite export, a PyTorch JSON, or a folder with one"},
    {KEY(kernels.include), .commands = CMD_KERNELS,
     .help = "patterns with * and ?: only kernels, copies and sets whose name matches one"},
    {KEY(kernels.exclude), .commands = CMD_KERNELS, .help = "patterns of names to leave out"},
    {KEY(kernels.regions), .commands = CMD_KERNELS,
     .help =
         "patterns of NVTX ranges that get a table of kernels each; the outermost ones when unset"},
    {KEY(kernels.from_ms), .unit = "ms", .def = "0", .max = 1e12, .commands = CMD_KERNELS,
     .help = "leave out what ended before, counted from the start of the trace"},
    {KEY(kernels.to_ms), .unit = "ms", .def = "0", .max = 1e12, .commands = CMD_KERNELS,
     .help = "leave out what began then or later; 0 is the end"},
    {AT("kernels.export", kernels.exports), .commands = CMD_KERNELS,
     .help = "formats to write the trace in: sqlite (nsys' schema), perfetto, kineto"},
    {KEY(kernels.against), .commands = CMD_KERNELS,
     .help = "another trace, of which the same span and patterns count: kernels_diff.csv and "
             "kernels_diff.md say what changed from it"},
    {KEY(kernels.step), .commands = CMD_KERNELS,
     .help = "pattern of the range around one iteration of the engine: writes cpu_overheads.csv"},
    {KEY(kernels.step_batch_size), .unit = "sequences", .min = 1, .max = 1 << 20,
     .commands = CMD_KERNELS, .when = WHEN(SET("kernels.step")),
     .help = "sequences in every iteration; unset it is the first number in the range's name"},
    {KEY(kernels.composition), .commands = CMD_KERNELS,
     .help =
         "name of the ranges around one iteration each, with {prefill_tokens}, {context}, "
         "{decode}, {kv} for its numbers and * for any text, or auto: writes profile/, a bundle "
         "of measured iterations"},
    {KEY(kernels.step_table), .commands = CMD_KERNELS, .when = WHEN(SET("kernels.step")),
     .help = "CSV of step (the ranges that kernels.step names, from 0), prefill_tokens, context, "
             "decode, kv: instead of kernels.composition"},
    {KEY(kernels.iterations), .def = "false", .commands = CMD_KERNELS,
     .help = "iterations of an inference server that marks none, by its launches and its copies to "
             "the host: writes iterations.csv"},
    {KEY(kernels.iteration_log), .commands = CMD_KERNELS,
     .when = WHEN(IS("kernels.iterations", "true")),
     .help =
         "log of a vLLM server with --enable-logging-iteration-details: what its iterations "
         "held; with model.name and hardware.id writes profile/, a bundle of measured iterations"},
    {KEY(kernels.runs), .commands = CMD_KERNELS, .when = WHEN(SET("kernels.iteration_log")),
     .help = "run directories of clients whose requests that server had: tokens in its caches"},
};

OPTION_SECTION(kernels, rows);
