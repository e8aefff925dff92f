#include "job/options/options.h"

/* Power beside a run or a trace. */
#define RECORDS_POWER                                                  \
    {                                                                  \
        "energy.record", WHEN_IS, "true", CMD_BENCH | CMD_TRACE, false \
    }

static const struct option rows[] = {
    {AT("power", energy.power), .commands = CMD_ENERGY | CMD_REPLAY,
     .when = WHEN({"capsule", WHEN_SET, NULL, CMD_REPLAY, false}),
     .help = "energy report, or replay of a capsule: log of the power, a CSV with "
             "timestamp,gpu,power_w, or time,sum, or "
             "nvidia-smi's columns; or the folder of an energy log"},
    {AT("full", energy.full), .commands = CMD_ENERGY,
     .help = "report: full_model_timing.json, when the whole ran and how often"},
    {AT("isolated", energy.isolated), .commands = CMD_ENERGY,
     .help = "report: isolated_kernels_timing.json, when each kernel ran alone"},
    {AT("application", energy.application), .commands = CMD_ENERGY,
     .help = "report, run: when the program itself ran, a file like that of full="},
    {AT("application_power", energy.application_power), .commands = CMD_ENERGY,
     .when = WHEN(SET("application")),
     .help = "report, run: its power log; the one of power= when unset"},
    {KEY(energy.record), .def = "false", .commands = CMD_BENCH | CMD_TRACE,
     .help =
         "record the power of the GPU meanwhile, in power.csv: energy of the run, of requests and "
         "tokens, of NVTX ranges"},
    {AT("gpu", energy.gpu), .def = "0", .max = 1023, .commands = CMD_ENERGY | CMD_BENCH | CMD_TRACE,
     .when = WHEN(RECORDS_POWER, {"client.server_pid", WHEN_IS, "0", CMD_BENCH, false}),
     .help = "which GPU, as CUDA counts them; of a log, the number in its rows, unset its only "
             "one. bench with "
             "device=cuda:<n> takes that one"},
    {AT("idle_power", energy.idle_power), .unit = "W", .min = 0.001, .max = 1e5,
     .commands = CMD_ENERGY,
     .help = "report: power of the idle GPU, as energy idle measures it; unset it is unknown"},
    {AT("interval_s", energy.interval_s), .unit = "s", .def = "0.04", .min = 0.001, .max = 60,
     .commands = CMD_ENERGY | CMD_BENCH | CMD_TRACE, .when = WHEN(RECORDS_POWER),
     .help = "log, run, and energy.record=true: time between two samples"},
    {KEY(energy.duration_s), .unit = "s", .max = 1e7, .commands = CMD_ENERGY,
     .help =
         "log: how long, until a signal when unset; idle: how long, 5 when unset; run: how long "
         "idle power is measured before and after, 3 when unset"},
    {KEY(energy.window_s), .unit = "s", .min = 1e-5, .max = 600, .commands = CMD_ENERGY,
     .help =
         "run: how long each kernel runs alone, and the whole at least; when unset as long as a "
         "probe, made first, says that energy.percent takes"},
    {KEY(energy.percent), .unit = "%", .def = "1", .min = 0.01, .max = 50, .commands = CMD_ENERGY,
     .help = "probe, run: the 95 % interval that is wanted of a mean power, +- so much of it"},
    {KEY(energy.context), .def = "true", .commands = CMD_ENERGY,
     .help = "idle: hold a context of CUDA, so that the GPU's clocks are where programs have them"},
    {KEY(energy.sampler), .def = "auto",
     .commands = CMD_ENERGY | CMD_BENCH | CMD_TRACE | CMD_PROFILE,
     .when = WHEN(RECORDS_POWER, {"profile.energy", WHEN_IS, "true", CMD_PROFILE, false}),
     .help = "log, idle, run, and where power is measured beside something else: the sensor, "
             "nvml_counter, nvml_instant, nvml_average or rapl; auto takes the first two"},
};

OPTION_SECTION(energy, rows);
