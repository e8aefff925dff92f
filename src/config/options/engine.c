#include "config/options/options.h"

static const struct option rows[] = {
    {KEY(engine.kind), .def = "cpu", .instead = {CMD_CAPACITY, "sim"}, .null_is_word = true,
     .commands = DRIVES | CMD_PROFILE | CMD_SERVE | CMD_LOGITS, .help = "what carries batches out"},
    {KEY(engine.threads), .unit = "threads", .def = "0", .max = 4096,
     .commands = DRIVES | CMD_PROFILE | CMD_SERVE | CMD_LOGITS,
     .when = WHEN(IS("engine.kind", "cpu")),
     .help = "threads of the CPU engine; 0 is every core this process may use"},
    {KEY(engine.dtype), .def = "bfloat16", .allowed = "bfloat16|float16|float32",
     .commands = DRIVES | CMD_PROFILE | CMD_SERVE | CMD_LOGITS,
     .when = WHEN(IS("engine.kind", "cuda")),
     .help = "type of the CUDA engine's weights, keys and values"},
    {KEY(engine.check), .def = "false", .commands = DRIVES | CMD_SERVE | CMD_LOGITS,
     .when = WHEN(IS("engine.kind", "cuda")),
     .help =
         "wait behind every kernel, so that a fault of the GPU names the one that failed; slow"},
    {KEY(engine.fused), .def = "false", .commands = DRIVES | CMD_SERVE,
     .when = WHEN(IS("engine.kind", "cuda")),
     .help = "decode steps of up to 4 sequences as one kernel, where model and GPU allow it"},
    {KEY(engine.ignore_eos), .def = "true", .commands = DRIVES | CMD_SERVE,
     .when = WHEN(NOT("engine.kind", "null"), ENGINE),
     .help = "generate num_decode_tokens whatever the model says"},
    {KEY(engine.idle), .def = "spin", .allowed = "spin|sleep",
     .commands = DRIVES | CMD_PROFILE | CMD_SERVE, .when = WHEN(OUR_BATCHES, ENGINE),
     .help = "how the engine waits for work: running on its cores, or asleep (a core that slept is "
             "slow for the first milliseconds)"},
    {KEY(url), .commands = DRIVES, .when = WHEN(IS("engine.kind", "openai")),
     .help = "address of an OpenAI-style server, as http://127.0.0.1:8000"},
    {KEY(chat_template), .def = "none", .allowed = "none|chatml|llama2|model",
     .commands = DRIVES | CMD_SERVE, .when = WHEN({"engine.kind", WHEN_IS, "openai", .of = DRIVES}),
     .help = "how a chat becomes a prompt: by the model's own template (serve), or one of these; "
             "completions of engine=openai put their text into it"},
};

OPTION_SECTION(engine, rows);
