#include "capture/capture.h"
#include "config/option_rows.h"

#define SETTINGS struct capture_settings

static const struct option rows[] = {
    {KEY(region), .commands = CMD_CAPTURE,
     .help =
         "what to capture: range#occurrence or range@domain#occurrence of an NVTX range, counted "
         "from 1; profiler#occurrence, from cuProfilerStart to cuProfilerStop; graph:first-last, "
         "from one launch of a CUDA graph to another, counted from 1 by process, graph:3 for one "
         "alone; or profiler/graph:first-last, counted from cuProfilerStart on"},
    {IN(capture, trial), .def = "true", .commands = CMD_CAPTURE,
     .help =
         "replay the region once at the end, in a process of its own: a capsule that lacks memory "
         "is refused"},
    {AT("capture.timeout_s", patience.most_s), .unit = "s", .def = "0", .max = 1e7,
     .commands = CMD_CAPTURE,
     .help = "how long the command may run before it is told to end (SIGTERM); 0 = as long as it "
             "likes: what comes before the region is its own"},
    {AT("capture.stop_timeout_s", patience.told_s), .unit = "s", .def = "10", .max = 1e6,
     .commands = CMD_CAPTURE,
     .help = "how long the command may take to end when it is told to, before it is killed; a "
             "second signal kills it at once"},
};

OPTION_SECTION(capture, rows);
