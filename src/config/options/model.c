#include "config/options/options.h"

static const struct option rows[] = {
    {KEY(model.name), .commands = MODELS | CMD_KERNELS | CMD_SERVE | CMD_DEEP,
     .help = "name of the model in bundles and artifacts"},
    {KEY(model.hub), .commands = MODELS | CMD_SERVE | CMD_DEEP,
     .help = "its name on the Hugging Face hub: Vidur's bundles carry that"},
    {KEY(model.ref), .commands = MODELS | CMD_SERVE | CMD_DEEP,
     .help = "directory with config.json, weights and tokenizer.json"},
    {KEY(model.family), .commands = MODELS | CMD_SERVE | CMD_DEEP,
     .help = "read the configuration as one of this model_type, which is known: for a model_type "
             "that is not"},
    {KEY(model.config), .commands = MODELS | CMD_SERVE | CMD_DEEP, .when = WHEN(UNSET("model.ref")),
     .help = "Hugging Face config.json keys of a model without model.ref"},
    {KEY(model.weights), .commands = DRIVES | CMD_PROFILE | CMD_SERVE | CMD_LOGITS,
     .when = WHEN(NOT("engine.kind", "sim|null|openai")),
     .help = "random:SEED for random weights; the safetensors of model.ref when unset"},
    {KEY(model.tokenizer), .commands = MAKES | CMD_SERVE,
     .help = "path of a tokenizer.json; the one of model.ref when unset"},
    {KEY(model.dtype), .allowed = "bf16|fp16|fp32|tf32|fp8|fp4|int8|int4",
     .commands = SIMULATES | CMD_SERVE | CMD_DEEP | CMD_FIT, .when = WHEN(SIMULATOR),
     .help =
         "number format of the weights and their products; config.json's, else bf16, when unset"},
    {KEY(model.kv_dtype), .allowed = "bf16|fp16|fp32|fp8|fp4|int8",
     .commands = SIMULATES | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "number format of the KV cache; config.json's, else that of activations, when unset"},
};

OPTION_SECTION(model, rows);
