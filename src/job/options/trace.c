#include "job/options/options.h"

static const struct option rows[] = {
    {KEY_AT("attach", trace.attach), .def = "true", .commands = CMD_TRACE,
     .help = "run the command after --; false makes the folder and prints the variables to run it "
             "under"},
    {KEY_AT("trace.range", trace.ranges), .commands = CMD_TRACE,
     .help =
         "record only inside these NVTX ranges: range@domain, with * for any text, \\@ for an @"},
    {KEY(trace.profiler), .def = "false", .commands = CMD_TRACE,
     .help = "record only between cuProfilerStart and cuProfilerStop"},
    {KEY(trace.delay_s), .unit = "s", .def = "0", .max = 1e6, .commands = CMD_TRACE,
     .help = "start recording so long after a process first uses CUDA"},
    {KEY(trace.duration_s), .unit = "s", .def = "0", .max = 1e6, .commands = CMD_TRACE,
     .help = "record for so long; 0 is no limit"},
    {KEY(trace.graphs), .def = "node", .allowed = "node|graph", .commands = CMD_TRACE,
     .help = "CUDA graphs: every kernel in them, or one record a launch, which costs less; the "
             "same for the whole process, and other profilers in it get no CUPTI then"},
    {KEY(trace.api), .def = "none", .allowed = "none|driver|runtime|all", .commands = CMD_TRACE,
     .help = "records of API calls; they slow a launch-bound program by 15 % and more"},
    {KEY(trace.copies), .def = "true", .commands = CMD_TRACE, .help = "record copies and sets"},
    {KEY(trace.sync), .def = "true", .commands = CMD_TRACE, .help = "record synchronization"},
    {KEY(trace.nvtx), .def = "true", .commands = CMD_TRACE, .help = "record NVTX ranges"},
    {KEY(trace.launches), .def = "true", .commands = CMD_TRACE,
     .help = "record when the host launched each kernel, copy and set"},
    {KEY(trace.flush_ms), .unit = "ms", .def = "500", .min = 1, .max = 1e6, .commands = CMD_TRACE,
     .help = "how much of the recording a killed process may lose while it works; a fiftieth of "
             "that after its last work"},
    {KEY(trace.buffers), .def = "128", .min = 2, .max = 4096, .commands = CMD_TRACE,
     .help = "most activity buffers of 4 MiB; beyond them records are dropped and counted"},
    {KEY(region), .commands = CMD_CAPTURE,
     .help =
         "what to capture: range#occurrence or range@domain#occurrence of an NVTX range, counted "
         "from 1; profiler#occurrence, from cuProfilerStart to cuProfilerStop; graph:first-last, "
         "from one launch of a CUDA graph to another, counted from 1 by process, graph:3 for one "
         "alone; or profiler/graph:first-last, counted from cuProfilerStart on"},
    {KEY(capture.trial), .def = "true", .commands = CMD_CAPTURE,
     .help =
         "replay the region once at the end, in a process of its own: a capsule that lacks memory "
         "is refused"},
    {KEY(capture.timeout_s), .unit = "s", .def = "0", .max = 1e7, .commands = CMD_CAPTURE,
     .help = "how long the command may run before it is told to end (SIGTERM); 0 = as long as it "
             "likes: what comes before the region is its own"},
    {KEY(capture.stop_timeout_s), .unit = "s", .def = "10", .max = 1e6, .commands = CMD_CAPTURE,
     .help = "how long the command may take to end when it is told to, before it is killed; a "
             "second signal kills it at once"},
    {KEY(trace.library), .starts = true, .commands = CMD_TRACE | CMD_CAPTURE,
     .help = "path of libtwinfer_inject.so; the one beside this program when unset"},
    {KEY(trace.cupti), .starts = true, .commands = CMD_TRACE | CMD_CAPTURE,
     .help = "path of libcupti; the one that the process has loaded, or that is found, when unset"},
};

OPTION_SECTION(trace, rows);
