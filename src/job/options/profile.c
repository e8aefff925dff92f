#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(profile.root), .def = "runs/profiles", .commands = CMD_PROFILE | SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR), .help = "folder that holds data/profiling/"},
    {KEY(profile.max_tokens), .unit = "tokens", .def = "4096", .min = 1, .max = 1 << 24,
     .commands = CMD_PROFILE, .help = "largest batch of the token grid"},
    {KEY(profile.max_batch), .unit = "sequences", .def = "64", .min = 1, .max = 1 << 20,
     .commands = CMD_PROFILE, .help = "largest decode batch of the attention grid; 128 on a GPU"},
    {KEY(profile.max_kv), .unit = "tokens", .def = "4096", .min = 1, .max = 1 << 24,
     .commands = CMD_PROFILE, .help = "longest KV cache of the attention grid"},
    {KEY(profile.samples), .def = "20", .min = 1, .max = 100000, .commands = CMD_PROFILE,
     .help = "measurements of each grid point"},
    {KEY(profile.warmup), .def = "2", .max = 100000, .commands = CMD_PROFILE,
     .help = "passes over the grid before the first that counts"},
    {KEY(profile.time_budget_s), .unit = "s", .def = "90", .max = 1e9, .commands = CMD_PROFILE,
     .help =
         "thin the grid to fit about this time; 0 takes the whole grid, which can be many minutes"},
    {KEY(profile.energy), .def = "false", .commands = CMD_PROFILE,
     .when = WHEN(NOT("engine.kind", "@program")),
     .help = "device=cuda: measure the power of the operators too, in time of its own; simulations "
             "from the bundle then have energy"},
    {KEY(profile.energy_budget_s), .unit = "s", .def = "90", .min = 0.01, .max = 600,
     .commands = CMD_PROFILE, .when = WHEN(IS("profile.energy", "true")),
     .help = "thin the sizes at which power is measured to fit about this time"},
    {KEY(profile.extend), .def = "false", .commands = CMD_PROFILE,
     .when = WHEN(NOT("engine.kind", "@program")),
     .help = "measure more into the bundle that exists: another session of the time budget"},
    {KEY(profile.measure), .def = "all", .allowed = "all|calibration", .commands = CMD_PROFILE,
     .when = WHEN(NOT("engine.kind", "@program")),
     .help =
         "calibration: of a bundle that is extended only the calibration run, not the grid again"},
    {KEY(profile.folds), .def = "5", .max = 1000, .commands = CMD_PROFILE,
     .help = "profile check: parts held out in turn; 0 leaves one row out at a time"},
};

OPTION_SECTION(profile, rows);
