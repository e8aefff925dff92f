#include "config/option_rows.h"
#include "deep/deep.h"

#define SETTINGS struct deep_params

#define CHOSEN WHEN(IS("deep.timeline", "nsys"))

#define ON WHEN(IS("ncu.enabled", "true"))

static const struct option rows[] = {
    {KEY(work), .allowed = "bench|serve|simulate|capacity|profile", .commands = CMD_DEEP,
     .help = "profile a command of this program; what stands after -- are its settings"},
    {IN(deep, dry_run), .def = "false", .commands = CMD_DEEP,
     .help = "print the commands of the session, one argument a line, and stop; --dry-run is the "
             "same"},
    {IN(deep, mode), .def = "full", .allowed = "full|light", .commands = CMD_DEEP,
     .help = "what the timeline records: API calls and synchronization too, or launches, kernels, "
             "copies and ranges"},
    {IN(deep, timeline), .def = "twinfer", .allowed = "twinfer|nsys|none", .commands = CMD_DEEP,
     .help = "which recorder makes the timeline; where nsys is not there, twinfer's does"},
    {IN(deep, trace), .commands = CMD_DEEP,
     .help = "a timeline made before, instead of a command: what kernels.trace takes"},
    {IN(deep, session), .commands = CMD_DEEP,
     .help =
         "folder of an earlier session: its measurements again, with other stages, roofs or model"},
    {IN(deep, against), .commands = CMD_DEEP,
     .help = "folder of an earlier session of the same command: by how much kernel totals differ "
             "from it"},
    {IN(deep, baseline), .def = "true", .commands = CMD_DEEP,
     .help = "run the command unprofiled first; overheads count against that"},
    {IN(deep, warmup), .def = "true", .when = WHEN(IS("deep.baseline", "true")),
     .commands = CMD_DEEP,
     .help = "run it once more before, so that the baseline finds files in memory and caches "
             "filled, as the runs behind it do"},
    {IN(deep, stages), .commands = CMD_DEEP,
     .help = "tree of stages: name, or name: {range: PATTERN, load: {batch, prompt_tokens, "
             "context_tokens, steps, flop, bytes}, sub-stages}; each is an NVTX range"},
    {IN(deep, regions), .commands = CMD_DEEP,
     .help = "patterns of further NVTX ranges that get a table of kernels each"},
    {IN(deep, include), .commands = CMD_DEEP,
     .help = "patterns with * and ?: only kernels whose name matches one are in the tables of "
             "regions"},
    {IN(deep, exclude), .commands = CMD_DEEP, .help = "patterns of kernels to leave out there"},
    {AT("deep.metrics", groups), .commands = CMD_DEEP,
     .help =
         "groups of figures in the tables of regions: time, flop, memory, occupancy, limits; all "
         "when unset"},
    {IN(deep, top), .def = "10", .min = 1, .max = 1000, .commands = CMD_DEEP,
     .help = "kernels that Nsight Compute profiles and tables list: those that took most"},
    {IN(deep, max_overhead_percent), .unit = "%", .def = "25", .max = 1e6, .commands = CMD_DEEP,
     .help = "a timeline that costs more is made again with deep.mode=light"},
    {AT("deep.timeout_s", limit_s), .unit = "s", .def = "600", .max = 1e6, .commands = CMD_DEEP,
     .help = "cut off each run of the command or a tool after so long; 0 is never; what a tool is "
             "asked "
             "about itself (--version) after 20 s at most"},
    {IN(deep, roofs), .commands = CMD_DEEP,
     .help = "measured roofs of the GPU (doctor doctor.measure=true); the rates of hardware= when "
             "unset"},
    {IN(deep, inputs), .commands = CMD_DEEP,
     .help = "files and folders that inputs.yaml names with size and hash, beside those in the "
             "command"},
    {AT("deep.library", guest_library), .starts = true, .commands = CMD_DEEP,
     .help = "path of libtwinfer_inject.so; the one beside this program when unset"},
    {IN(deep, cupti), .starts = true, .commands = CMD_DEEP,
     .help = "path of libcupti; found when unset"},
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
    {AT("ncu.csv", csv), .commands = CMD_DEEP,
     .help = "tables of Nsight Compute made before, on any machine: ncu --csv, either page"},
    {AT("ncu.enabled", ncu_enabled), .def = "true", .commands = CMD_DEEP,
     .help = "run Nsight Compute on the top kernels"},
    {KEY(ncu.path), .starts = true, .def = "ncu", .commands = CMD_DEEP,
     .help = "Nsight Compute's program"},
    {KEY(ncu.set), .commands = CMD_DEEP, .when = ON,
     .help = "set of sections, as basic, roofline or full"},
    {KEY(ncu.sections), .commands = CMD_DEEP, .when = ON, .help = "further sections"},
    {KEY(ncu.metrics), .commands = CMD_DEEP, .when = ON, .help = "metrics"},
    {AT("ncu.query", ncu_query), .def = "true", .commands = CMD_DEEP, .when = ON,
     .help = "ask Nsight Compute first which of the metrics it knows, and leave the others out"},
    {KEY(ncu.replay), .def = "kernel", .allowed = "kernel|application|range|app-range",
     .commands = CMD_DEEP, .when = ON, .help = "what is repeated for each group of metrics"},
    {KEY(ncu.clock_control), .def = "none", .allowed = "none|base", .commands = CMD_DEEP,
     .when = ON,
     .help = "base holds the clocks down, as a reference; none leaves them as they are in use"},
    {KEY(ncu.target_processes), .def = "all", .allowed = "all|application-only",
     .commands = CMD_DEEP, .when = ON, .help = "processes of the command to profile"},
    {KEY(ncu.nvtx), .def = "true", .commands = CMD_DEEP, .when = ON,
     .help = "note the ranges around each launch"},
    {KEY(ncu.nvtx_include), .commands = CMD_DEEP, .when = ON,
     .help = "only inside these ranges, in its own syntax: decode/ is a push/pop range"},
    {KEY(ncu.nvtx_exclude), .commands = CMD_DEEP, .when = ON, .help = "not inside these"},
    {AT("ncu.by_region", ncu_by_region), .def = "false", .commands = CMD_DEEP, .when = ON,
     .help = "run it for each stage and each of deep.regions alone"},
    {KEY(ncu.kernel_name), .commands = CMD_DEEP, .when = ON,
     .help = "regular expression of the kernels' functions, instead of the top kernels"},
    {KEY(ncu.filter_mode), .def = "per-launch-config",
     .allowed = "global|per-gpu|per-launch-config", .commands = CMD_DEEP, .when = ON,
     .help = "what launch_skip and launch_count count; versions before 2024.1 know global alone"},
    {KEY(ncu.launch_skip), .def = "0", .max = 1e9, .commands = CMD_DEEP, .when = ON,
     .help = "launches left out first"},
    {KEY(ncu.launch_count), .def = "2", .max = 1e9, .commands = CMD_DEEP, .when = ON,
     .help = "launches profiled; 0 is all"},
    {KEY(ncu.args), .starts = true, .commands = CMD_DEEP, .when = ON, .help = "further arguments"},
};

OPTION_SECTION(deep, rows);
