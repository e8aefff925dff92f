#include "config/option_rows.h"
#include "engine/registry.h"

#define SETTINGS struct engine_settings

static const struct option device_rows[] = {
    {KEY(device), .def = "cpu",
     .commands = CMD_BENCH | CMD_PROFILE | SIMULATES | CMD_SERVE | CMD_LOGITS,
     .help = "where code runs: cpu, cuda or cuda:N"},
};

OPTION_SECTION(device, device_rows);

static const struct option rows[] = {
    {IN(engine, kind), .def = "cpu", .instead = {CMD_CAPACITY, "sim"}, .null_is_word = true,
     .commands = DRIVES | CMD_PROFILE | CMD_SERVE | CMD_LOGITS, .help = "what carries batches out"},
    {IN(engine, threads), .unit = "threads", .def = "0", .max = 4096,
     .commands = DRIVES | CMD_PROFILE | CMD_SERVE | CMD_LOGITS,
     .when = WHEN(IS("engine.kind", "@threads")),
     .help = "threads of the CPU engine; 0 is every core this process may use"},
    {IN(engine, dtype), .def = "bfloat16", .allowed = "bfloat16|float16|float32",
     .commands = DRIVES | CMD_PROFILE | CMD_SERVE | CMD_LOGITS,
     .when = WHEN(IS("engine.kind", "@gpu")),
     .help = "type of the CUDA engine's weights, keys and values"},
    {IN(engine, check), .def = "false", .commands = DRIVES | CMD_SERVE | CMD_LOGITS,
     .when = WHEN(IS("engine.kind", "@gpu")),
     .help =
         "wait behind every kernel, so that a fault of the GPU names the one that failed; slow"},
    {IN(engine, fused), .def = "false", .commands = DRIVES | CMD_SERVE,
     .when = WHEN(IS("engine.kind", "@gpu")),
     .help = "decode steps of up to 4 sequences as one kernel, where model and GPU allow it"},
    {IN(engine, ignore_eos), .def = "true", .commands = DRIVES | CMD_SERVE,
     .when = WHEN(NOT("engine.kind", "@idle"), ENGINE),
     .help = "generate num_decode_tokens whatever the model says"},
    {IN(engine, idle), .def = "spin", .allowed = "spin|sleep",
     .commands = DRIVES | CMD_PROFILE | CMD_SERVE, .when = WHEN(OUR_BATCHES, ENGINE),
     .help = "how the engine waits for work: running on its cores, or asleep (a core that slept is "
             "slow for the first milliseconds)"},
};

OPTION_SECTION(engine, rows);
