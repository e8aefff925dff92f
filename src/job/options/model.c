#include "job/options/options.h"

/* Commands that do with a model's sizes, and the setting that says they are all there is. */
enum { SIZED = SIMULATES | CMD_CALIBRATE | CMD_MODEL | CMD_FIT };
#define OPAQUE WHEN(SIMULATOR, ALWAYS_SET("model.weights_gb"))
enum { MOST_BYTES = 1 << 30 };

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
     .when = WHEN(NOT("engine.kind", "@predicts|@idle|@server")),
     .help = "random:SEED for random weights; the safetensors of model.ref when unset"},
    {KEY(model.tokenizer), .commands = MAKES | CMD_SERVE,
     .help = "path of a tokenizer.json; the one of model.ref when unset"},
    {KEY(model.dtype), .allowed = "bf16|fp16|fp32|tf32|fp8|fp4|int8|int4",
     .commands = SIMULATES | CMD_SERVE | CMD_DEEP | CMD_FIT,
     .when = WHEN(SIMULATOR, UNSET("model.weights_gb")),
     .help =
         "number format of the weights and their products; config.json's, else bf16, when unset"},
    {KEY(model.kv_dtype), .allowed = "bf16|fp16|fp32|fp8|fp4|int8",
     .commands = SIMULATES | CMD_SERVE | CMD_FIT,
     .when = WHEN(SIMULATOR, UNSET("model.weights_gb")),
     .help = "number format of the KV cache; config.json's, else that of activations, when unset"},
    {KEY(model.weights_gb), .unit = "GiB", .min = 1e-6, .max = 1e6, .commands = SIZED,
     .when = WHEN(SIMULATOR),
     .help = "weights of a model that is known by its sizes alone, instead of a configuration: all "
             "of them, as they lie in the GPUs' memory"},
    {KEY(model.kv_bytes_per_token), .unit = "bytes", .min = 1, .max = MOST_BYTES, .commands = SIZED,
     .when = OPAQUE, .help = "what a token of it leaves in the KV cache, in all layers and heads"},
    {KEY(model.window_kv_bytes_per_token), .unit = "bytes", .min = 1, .max = MOST_BYTES,
     .commands = SIZED, .when = OPAQUE, .help = "the same in layers that see a window, besides"},
    {KEY(model.window), .unit = "tokens", .min = 1, .max = 1 << 30, .commands = SIZED,
     .when = OPAQUE, .help = "the window of these layers"},
    {KEY(model.state_bytes_per_sequence), .unit = "bytes", .min = 1, .max = INFINITY,
     .commands = SIZED, .when = OPAQUE,
     .help = "states that it keeps of a sequence, however long that is"},
    {KEY(model.kv_heads), .min = 1, .max = 1 << 14, .commands = SIZED, .when = OPAQUE,
     .help =
         "its KV heads: parallel.tp shares keys and values out by heads; 1 where each GPU holds "
         "all of them, as of latent attention; needed above parallel.tp=1"},
    {KEY(model.layers), .min = 1, .max = 1 << 12, .commands = SIZED, .when = OPAQUE,
     .help = "its layers: needed above parallel.pp=1"},
    {KEY(model.workspace_gb), .unit = "GiB", .min = 1e-6, .max = 1e6, .commands = SIZED,
     .when = OPAQUE,
     .help = "memory of each GPU that it takes beside weights, keys and values: activations, CUDA "
             "graphs, the context; scheduler.memory_plan=vllm wants it"},
};

OPTION_SECTION(model, rows);
