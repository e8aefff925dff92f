#include "config/option_rows.h"
#include "replay/replay.h"

#define SETTINGS struct replay_capsule_params

#define REPLAYS                                                   \
    {                                                             \
        "capsule", WHEN_SET, NULL, CMD_REPLAY | CMD_ENERGY, false \
    }
#define TRIES                                                \
    {                                                        \
        "capture.trial", WHEN_IS, "true", CMD_CAPTURE, false \
    }

static const struct option rows[] = {
    {AT("capsule", dir), .commands = CMD_REPLAY | CMD_ENERGY,
     .help = "folder of a captured region, made by capture: its very kernels are run again"},
    {KEY(signatures), .commands = CMD_REPLAY, .when = WHEN(UNSET("capsule")),
     .help = "kernel_signatures.json: times its copies, sets and matrix products of known shape"},
    {IN(replay, gpu), .def = "0", .max = 1023, .commands = CMD_REPLAY,
     .help = "which GPU, as CUDA counts them"},
    {AT("replay.samples", timer.samples), .def = "20", .min = 3, .max = 10000,
     .commands = CMD_REPLAY,
     .help = "samples of each time, of which median and quartiles are given"},
    {IN(replay, sample_ms), .unit = "ms", .def = "5", .min = 0.01, .max = 60000,
     .commands = CMD_REPLAY, .help = "shortest sample: a kernel is repeated until it is that long"},
    {IN(replay, cold), .def = "true", .commands = CMD_REPLAY,
     .help = "also time each kernel with the L2 cache overwritten before it"},
    {IN(replay, repeated), .def = "true", .commands = CMD_REPLAY, .when = WHEN(SET("capsule")),
     .help = "also time each kind of kernel by repeating it in its places in the region"},
    {IN(replay, classes), .commands = CMD_REPLAY | CMD_ENERGY, .when = WHEN(SET("capsule")),
     .help = "kinds of operations that run alone: a number, as `class` of "
             "isolated_kernels_timing.json, or a regular expression that matches a part of the "
             "name; all when unset"},
    {IN(replay, dispatch), .def = "-1", .min = -1, .max = 1e9, .commands = CMD_REPLAY,
     .when = WHEN(SET("capsule")),
     .help = "number of the one operation to time or to extract; -1 is the region"},
    {IN(replay, order), .def = "graph", .allowed = "graph|streams", .commands = CMD_REPLAY,
     .when = WHEN(SET("capsule")),
     .help = "run the region as a CUDA graph, or launch by launch on streams"},
    {AT("replay.timeout_s", limits.total_s), .unit = "s", .def = "1800", .max = 1e7,
     .commands = CMD_REPLAY | CMD_ENERGY | CMD_CAPTURE, .when = WHEN(REPLAYS, TRIES),
     .help = "longest replay, beyond the time that samples and windows ask for; what was not "
             "measured until then is told; 0 = no limit. A region of thousands of launches takes "
             "a minute or two"},
    {AT("replay.kernel_timeout_s", limits.kernel_s), .unit = "s", .def = "60", .max = 1e7,
     .commands = CMD_REPLAY | CMD_ENERGY, .when = WHEN(SET("capsule")),
     .help = "longest measurement of one kind of kernel alone, beyond the time that samples and "
             "windows ask for: one that does not end is left out, and told; 0 = no limit. With "
             "gigabytes of memory to put back it takes some seconds"},
    {IN(replay, tolerance), .def = "0", .max = 1, .commands = CMD_REPLAY,
     .when = WHEN(SET("capsule")),
     .help = "relative difference up to which numbers of replay.dtype count as equal; 0 compares "
             "bytes"},
    {IN(replay, dtype), .def = "bytes", .allowed = "bytes|f32|f16|bf16|f64", .commands = CMD_REPLAY,
     .when = WHEN(SET("capsule")),
     .help = "type of the numbers in the memory that is compared, for replay.tolerance"},
};

OPTION_SECTION(replay, rows);
