#include "job/options/options.h"

#define CHOSEN WHEN(IS("deep.timeline", "nsys"))

static const struct option rows[] = {
    {KEY(nsys.path), .starts = true, .def = "nsys", .commands = CMD_DEEP,
     .help = "Nsight Systems' program"},
    {KEY(nsys.trace), .def = "cuda,nvtx,osrt", .commands = CMD_DEEP, .when = CHOSEN,
     .help = "what it traces"},
    {KEY(nsys.sample), .def = "none", .allowed = "none|process-tree|system-wide",
     .commands = CMD_DEEP, .when = CHOSEN, .help = "sampling of the processor"},
    {KEY(nsys.capture_range), .def = "none", .allowed = "none|nvtx|cudaProfilerApi",
     .commands = CMD_DEEP, .when = CHOSEN, .help = "what begins the recording"},
    {KEY(nsys.nvtx_capture), .commands = CMD_DEEP,
     .when = WHEN(IS("deep.timeline", "nsys"), IS("nsys.capture_range", "nvtx")),
     .help = "range@domain that begins it; its text need not be registered"},
    {KEY(nsys.capture_end), .commands = CMD_DEEP,
     .when = WHEN(IS("deep.timeline", "nsys"), NOT("nsys.capture_range", "none")),
     .help = "what its end does: none, stop, stop-shutdown, repeat:N, repeat-shutdown:N"},
    {KEY(nsys.reports), .commands = CMD_DEEP, .when = CHOSEN,
     .help = "reports of nsys stats to keep, as CSV"},
    {KEY(nsys.args), .starts = true, .commands = CMD_DEEP, .when = CHOSEN,
     .help = "further arguments of nsys profile"},
};

OPTION_SECTION(nsys, rows);
