#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(scheduler.policy), .def = "vllm_v1", .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "who runs in the next batch"},
    {KEY(scheduler.batch_cap), .unit = "sequences", .def = "128", .min = 0, .max = 1 << 20,
     .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "most sequences running at once; orca, faster_transformer: in each pipeline stage's "
             "batch; vllm_0_33: 0 is what vLLM takes on hardware of that memory"},
    {KEY(scheduler.chunk_size), .unit = "tokens", .min = 1, .max = 1 << 24, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES), .help = "tokens per batch of chunked prefill (sarathi)"},
    {KEY(scheduler.token_budget), .unit = "tokens", .min = 1, .max = 1 << 24, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES),
     .help = "tokens per batch (vllm_v1; vllm_0_33: what vLLM takes on that hardware when unset)"},
    {KEY(scheduler.block_size), .unit = "tokens", .def = "16", .min = 1, .max = 4096,
     .commands = HOLDS | CMD_PROFILE, .when = WHEN(OUR_BATCHES),
     .help = "tokens per block of the KV cache"},
    {KEY(scheduler.num_blocks), .unit = "blocks", .min = 1, .max = 1 << 30, .commands = PLANS,
     .when = WHEN(OUR_BATCHES),
     .help = "blocks of the KV cache per replica; what memory holds when unset"},
    {KEY(scheduler.memory_plan), .def = "vllm", .allowed = "vidur|vllm", .commands = HOLDS,
     .when = WHEN(OUR_BATCHES, SET("hardware.memory_gb")),
     .help = "how blocks are counted where num_blocks is unset: what vLLM leaves after weights, "
             "activations and CUDA graphs, or Vidur's formula"},
    {KEY(scheduler.gpu_memory_utilization), .min = 1e-3, .max = 1, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES, SET("hardware.memory_gb"), IS("scheduler.memory_plan", "vllm")),
     .help =
         "fraction of a device's memory that vLLM takes; 1 - hardware.memory_margin when unset"},
    {KEY(scheduler.watermark), .max = 0.999, .commands = PLANS, .when = WHEN(OUR_BATCHES),
     .help = "fraction of blocks kept free when a request is admitted"},
    {KEY(scheduler.max_tokens_in_batch), .unit = "tokens", .min = 1, .max = 1 << 24,
     .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "tokens of a prefill batch (lightllm), padded to its longest prompt (vllm)"},
    {KEY(scheduler.max_waiting_iters), .unit = "batches", .min = 1, .max = 1 << 24,
     .commands = PLANS, .when = WHEN(OUR_BATCHES),
     .help = "decode batches between two looks at the queue (lightllm)"},
    {KEY(scheduler.max_model_len), .unit = "tokens", .min = 1, .max = 1 << 30, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES),
     .help =
         "longest prompt plus output; a longer request is rejected; the model's limit when unset"},
    {KEY(scheduler.prefix_caching), .def = "false", .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "keep KV blocks of finished requests for prompts that begin alike (vllm_v1, "
             "vllm_0_33, vllm, sarathi, sequential)"},
    {KEY(scheduler.hybrid_kv_cache), .def = "true", .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help =
         "blocks behind attention windows are free again, of models that have full attention too "
         "(vllm_v1, vllm_0_33); false is vLLM's --disable-hybrid-kv-cache-manager"},
    {KEY(scheduler.reserve_full_prompt), .def = "false", .commands = PLANS,
     .when = WHEN(OUR_BATCHES),
     .help = "admit a request only when the KV cache has room for its whole prompt (vllm_0_33)"},
    {KEY(scheduler.long_prefill_token_threshold), .unit = "tokens", .min = 1, .max = 1 << 24,
     .commands = PLANS, .when = WHEN(OUR_BATCHES),
     .help = "most tokens of one prompt in a batch while there are other requests (vllm_0_33)"},
    {KEY(scheduler.async_scheduling), .def = "off", .allowed = "off|serial|overlap",
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "a batch more in flight than pipeline stages, built before the tokens of the one "
             "before are known: its host time counted in full (serial), or beside the device time "
             "of that one (overlap)"},
    {KEY(scheduler.cuda_graphs), .def = "auto",
     .allowed = "auto|none|piecewise|full|full_decode_only|full_and_piecewise",
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help = "which batches the engine launches as CUDA graphs, in vLLM's words (cudagraph_mode); "
             "the host launches the kernels of others one by one, and of piecewise ones the pieces "
             "between attentions. auto: full_and_piecewise of vllm_0_33, else nothing is known of "
             "it and launching takes no time (predictor roofline, and calibrations)"},
    {KEY(scheduler.graph_tokens), .unit = "tokens", .min = 1, .max = 1 << 20,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help = "largest batch captured as a CUDA graph; vllm_0_33: what vLLM takes when unset, twice "
             "the sequences and at most 512 (1,024 on B200)"},
};

OPTION_SECTION(scheduler, rows);
