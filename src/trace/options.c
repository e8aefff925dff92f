#include "config/option_rows.h"
#include "trace/record.h"

#define SETTINGS struct trace_record

static const struct option rows[] = {
    {KEY(attach), .def = "true", .commands = CMD_TRACE,
     .help = "run the command after --; false makes the folder and prints the variables to run it "
             "under"},
    {AT("trace.range", ranges), .commands = CMD_TRACE,
     .help =
         "record only inside these NVTX ranges: range@domain, with * for any text, \\@ for an @"},
    {IN(trace, profiler), .def = "false", .commands = CMD_TRACE,
     .help = "record only between cuProfilerStart and cuProfilerStop"},
    {IN(trace, delay_s), .unit = "s", .def = "0", .max = 1e6, .commands = CMD_TRACE,
     .help = "start recording so long after a process first uses CUDA"},
    {IN(trace, duration_s), .unit = "s", .def = "0", .max = 1e6, .commands = CMD_TRACE,
     .help = "record for so long; 0 is no limit"},
    {IN(trace, graphs), .def = "node", .allowed = "node|graph", .commands = CMD_TRACE,
     .help = "CUDA graphs: every kernel in them, or one record a launch, which costs less; the "
             "same for the whole process, and other profilers in it get no CUPTI then"},
    {IN(trace, api), .def = "none", .allowed = "none|driver|runtime|all", .commands = CMD_TRACE,
     .help = "records of API calls; they slow a launch-bound program by 15 % and more"},
    {IN(trace, copies), .def = "true", .commands = CMD_TRACE, .help = "record copies and sets"},
    {IN(trace, sync), .def = "true", .commands = CMD_TRACE, .help = "record synchronization"},
    {IN(trace, nvtx), .def = "true", .commands = CMD_TRACE, .help = "record NVTX ranges"},
    {IN(trace, launches), .def = "true", .commands = CMD_TRACE,
     .help = "record when the host launched each kernel, copy and set"},
    {IN(trace, flush_ms), .unit = "ms", .def = "500", .min = 1, .max = 1e6, .commands = CMD_TRACE,
     .help = "how much of the recording a killed process may lose while it works; a fiftieth of "
             "that after its last work"},
    {IN(trace, buffers), .def = "128", .min = 2, .max = 4096, .commands = CMD_TRACE,
     .help = "most activity buffers of 4 MiB; beyond them records are dropped and counted"},
};

OPTION_SECTION(trace, rows);

static const struct option library_rows[] = {
    {IN(trace, library), .starts = true, .commands = CMD_TRACE | CMD_CAPTURE,
     .help = "path of libtwinfer_inject.so; the one beside this program when unset"},
    {IN(trace, cupti), .starts = true, .commands = CMD_TRACE | CMD_CAPTURE,
     .help = "path of libcupti; the one that the process has loaded, or that is found, when unset"},
};

OPTION_SECTION(trace_library, library_rows);
