#include "config/option_rows.h"
#include "serve/serve.h"

#define SETTINGS struct serve_params

static const struct option rows[] = {
    {IN(scheduler, policy), .def = "vllm_v1", .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "who runs in the next batch"},
    {IN(scheduler, batch_cap), .unit = "sequences", .def = "128", .min = 0, .max = 1 << 20,
     .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "most sequences running at once; orca, faster_transformer: in each pipeline stage's "
             "batch; vllm_0_33: 0 is what vLLM takes on hardware of that memory"},
    {IN(scheduler, chunk_size), .unit = "tokens", .min = 1, .max = 1 << 24, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES),
     .help = "tokens per batch of chunked prefill (@{scheduler.policy:chunk_size})"},
    {IN(scheduler, token_budget), .unit = "tokens", .min = 1, .max = 1 << 24, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES),
     .help = "tokens per batch (vllm_v1; vllm_0_33: what vLLM takes on that hardware when unset)"},
    {IN(scheduler, block_size), .unit = "tokens", .def = "16", .min = 1, .max = 4096,
     .commands = HOLDS | CMD_PROFILE, .when = WHEN(OUR_BATCHES),
     .help = "tokens per block of the KV cache"},
    {IN(scheduler, num_blocks), .unit = "blocks", .min = 1, .max = 1 << 30, .commands = PLANS,
     .when = WHEN(OUR_BATCHES),
     .help = "blocks of the KV cache per replica; what memory holds when unset"},
    {IN(scheduler, memory_plan), .def = "vllm", .allowed = "vidur|vllm", .commands = HOLDS,
     .when = WHEN(OUR_BATCHES, SET("hardware.memory_gb")),
     .help = "how blocks are counted where num_blocks is unset: what vLLM leaves after weights, "
             "activations and CUDA graphs, or Vidur's formula"},
    {IN(scheduler, gpu_memory_utilization), .min = 1e-3, .max = 1, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES, SET("hardware.memory_gb"), IS("scheduler.memory_plan", "vllm")),
     .help =
         "fraction of a device's memory that vLLM takes; 1 - hardware.memory_margin when unset"},
    {IN(scheduler, watermark), .max = 0.999, .commands = PLANS, .when = WHEN(OUR_BATCHES),
     .help = "fraction of blocks kept free when a request is admitted"},
    {IN(scheduler, max_tokens_in_batch), .unit = "tokens", .min = 1, .max = 1 << 24,
     .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "tokens of a prefill batch (lightllm), padded to its longest prompt (vllm)"},
    {IN(scheduler, max_waiting_iters), .unit = "batches", .min = 1, .max = 1 << 24,
     .commands = PLANS, .when = WHEN(OUR_BATCHES),
     .help =
         "decode batches between two looks at the queue (@{scheduler.policy:max_waiting_iters})"},
    {IN(scheduler, max_model_len), .unit = "tokens", .min = 1, .max = 1 << 30, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES),
     .help =
         "longest prompt plus output; a longer request is rejected; the model's limit when unset"},
    {IN(scheduler, prefix_caching), .def = "false", .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "keep KV blocks of finished requests for prompts that begin alike "
             "(@{scheduler.policy:prefix_caching})"},
    {IN(scheduler, hybrid_kv_cache), .def = "true", .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help =
         "blocks behind attention windows are free again, of models that have full attention too "
         "(@{scheduler.policy:kv_groups}); false is vLLM's --disable-hybrid-kv-cache-manager"},
    {IN(scheduler, reserve_full_prompt), .def = "false", .commands = PLANS,
     .when = WHEN(OUR_BATCHES),
     .help = "admit a request only when the KV cache has room for its whole prompt "
             "(@{scheduler.policy:reserve_full_prompt})"},
    {IN(scheduler, long_prefill_token_threshold), .unit = "tokens", .min = 1, .max = 1 << 24,
     .commands = PLANS, .when = WHEN(OUR_BATCHES),
     .help = "most tokens of one prompt in a batch while there are other requests "
             "(@{scheduler.policy:long_prefill})"},
    {AT("scheduler.async_scheduling", async), .def = "off", .allowed = "off|serial|overlap",
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "a batch more in flight than pipeline stages, built before the tokens of the one "
             "before are known: its host time counted in full (serial), or beside the device time "
             "of that one (overlap)"},
    {AT("scheduler.cuda_graphs", launching.mode), .def = "auto",
     .allowed = "auto|none|piecewise|full|full_decode_only|full_and_piecewise",
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help = "which batches the engine launches as CUDA graphs, in vLLM's words (cudagraph_mode); "
             "the host launches the kernels of others one by one, and of piecewise ones the pieces "
             "between attentions. auto: full_and_piecewise of vllm_0_33, else nothing is known of "
             "it and launching takes no time (predictor roofline, and calibrations)"},
    {AT("scheduler.graph_tokens", launching.tokens), .unit = "tokens", .min = 1, .max = 1 << 20,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help = "largest batch captured as a CUDA graph; vllm_0_33: what vLLM takes when unset, twice "
             "the sequences and at most 512 (1,024 on B200)"},
};

OPTION_SECTION(scheduler, rows);

static const struct option cluster_rows[] = {
    {IN(speculation, draft_tokens), .unit = "tokens", .min = 1, .max = 1024, .commands = SIMULATES,
     .when = WHEN(SIMULATOR),
     .help = "tokens a draft model proposes per step and sequence "
             "(@{scheduler.policy:speculation})"},
    {IN(speculation, acceptance), .max = 1, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, ALWAYS_SET("speculation.draft_tokens")),
     .help = "probability that a draft token is accepted, if those before it were"},
    {IN(speculation, draft_cost), .max = 100, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, ALWAYS_SET("speculation.draft_tokens")),
     .help = "time of one pass of the draft model, as a fraction of a decode batch without "
             "speculation"},
    {IN(cluster, replicas), .def = "1", .min = 1, .max = 4096, .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR), .help = "copies of the model that serve side by side"},
    {IN(cluster, router), .def = "round_robin", .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR),
     .help =
         "which replica gets a request: round_robin, random, lor, least_outstanding, prefix_aware"},
    {IN(cluster, prefix_tokens), .unit = "tokens", .min = 1, .max = 1 << 24,
     .commands = SIMULATES | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help = "first tokens that prefix_aware knows a prompt by, without prefix caching"},
    {IN(cluster, prefill_replicas), .min = 1, .max = 4096, .commands = SIMULATES,
     .when = WHEN(SIMULATOR),
     .help = "how many of the replicas only prefill; the others decode, and KV moves between them "
             "(@{scheduler.policy:disaggregation})"},
    {IN(cluster, kv_bandwidth_gb_s), .unit = "GB/s", .min = 1e-6, .max = 1e9, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, ALWAYS_SET("cluster.prefill_replicas")),
     .help = "bandwidth of each replica's link for KV, 10^9 bytes/s"},
    {IN(cluster, kv_latency_s), .unit = "s", .max = 1e6, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, ALWAYS_SET("cluster.prefill_replicas")),
     .help = "latency of a KV transfer"},
};

OPTION_SECTION(cluster, cluster_rows);
