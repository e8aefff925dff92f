#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(work), .allowed = "bench|serve|simulate|capacity|profile", .commands = CMD_DEEP,
     .help = "profile a command of this program; what stands after -- are its settings"},
    {KEY(deep.dry_run), .def = "false", .commands = CMD_DEEP,
     .help = "print the commands of the session, one argument a line, and stop; --dry-run is the "
             "same"},
    {KEY(deep.mode), .def = "full", .allowed = "full|light", .commands = CMD_DEEP,
     .help = "what the timeline records: API calls and synchronization too, or launches, kernels, "
             "copies and ranges"},
    {KEY(deep.timeline), .def = "twinfer", .allowed = "twinfer|nsys|none", .commands = CMD_DEEP,
     .help = "which recorder makes the timeline; where nsys is not there, twinfer's does"},
    {KEY(deep.trace), .commands = CMD_DEEP,
     .help = "a timeline made before, instead of a command: what kernels.trace takes"},
    {KEY(deep.session), .commands = CMD_DEEP,
     .help =
         "folder of an earlier session: its measurements again, with other stages, roofs or model"},
    {KEY(deep.against), .commands = CMD_DEEP,
     .help = "folder of an earlier session of the same command: by how much kernel totals differ "
             "from it"},
    {KEY(deep.baseline), .def = "true", .commands = CMD_DEEP,
     .help = "run the command unprofiled first; overheads count against that"},
    {KEY(deep.warmup), .def = "true", .when = WHEN(IS("deep.baseline", "true")),
     .commands = CMD_DEEP,
     .help = "run it once more before, so that the baseline finds files in memory and caches "
             "filled, as the runs behind it do"},
    {KEY(deep.stages), .commands = CMD_DEEP,
     .help = "tree of stages: name, or name: {range: PATTERN, load: {batch, prompt_tokens, "
             "context_tokens, steps, flop, bytes}, sub-stages}; each is an NVTX range"},
    {KEY(deep.regions), .commands = CMD_DEEP,
     .help = "patterns of further NVTX ranges that get a table of kernels each"},
    {KEY(deep.include), .commands = CMD_DEEP,
     .help = "patterns with * and ?: only kernels whose name matches one are in the tables of "
             "regions"},
    {KEY(deep.exclude), .commands = CMD_DEEP, .help = "patterns of kernels to leave out there"},
    {KEY(deep.metrics), .commands = CMD_DEEP,
     .help =
         "groups of figures in the tables of regions: time, flop, memory, occupancy, limits; all "
         "when unset"},
    {KEY(deep.top), .def = "10", .min = 1, .max = 1000, .commands = CMD_DEEP,
     .help = "kernels that Nsight Compute profiles and tables list: those that took most"},
    {KEY(deep.max_overhead_percent), .unit = "%", .def = "25", .max = 1e6, .commands = CMD_DEEP,
     .help = "a timeline that costs more is made again with deep.mode=light"},
    {KEY(deep.timeout_s), .unit = "s", .def = "600", .max = 1e6, .commands = CMD_DEEP,
     .help = "cut off each run of the command or a tool after so long; 0 is never; what a tool is "
             "asked "
             "about itself (--version) after 20 s at most"},
    {KEY(deep.roofs), .commands = CMD_DEEP,
     .help = "measured roofs of the GPU (doctor doctor.measure=true); the rates of hardware= when "
             "unset"},
    {KEY(deep.inputs), .commands = CMD_DEEP,
     .help = "files and folders that inputs.yaml names with size and hash, beside those in the "
             "command"},
    {KEY(deep.library), .starts = true, .commands = CMD_DEEP,
     .help = "path of libtwinfer_inject.so; the one beside this program when unset"},
    {KEY(deep.cupti), .starts = true, .commands = CMD_DEEP,
     .help = "path of libcupti; found when unset"},
};

OPTION_SECTION(deep, rows);
