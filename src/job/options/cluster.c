#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(speculation.draft_tokens), .unit = "tokens", .min = 1, .max = 1024, .commands = SIMULATES,
     .when = WHEN(SIMULATOR),
     .help = "tokens a draft model proposes per step and sequence (vllm_v1, vllm, sarathi, "
             "sequential)"},
    {KEY(speculation.acceptance), .max = 1, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, ALWAYS_SET("speculation.draft_tokens")),
     .help = "probability that a draft token is accepted, if those before it were"},
    {KEY(speculation.draft_cost), .max = 100, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, ALWAYS_SET("speculation.draft_tokens")),
     .help = "time of one pass of the draft model, as a fraction of a decode batch without "
             "speculation"},
    {KEY(cluster.replicas), .def = "1", .min = 1, .max = 4096, .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR), .help = "copies of the model that serve side by side"},
    {KEY(cluster.router), .def = "round_robin", .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR),
     .help =
         "which replica gets a request: round_robin, random, lor, least_outstanding, prefix_aware"},
    {KEY(cluster.prefix_tokens), .unit = "tokens", .min = 1, .max = 1 << 24,
     .commands = SIMULATES | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help = "first tokens that prefix_aware knows a prompt by, without prefix caching"},
    {KEY(cluster.prefill_replicas), .min = 1, .max = 4096, .commands = SIMULATES,
     .when = WHEN(SIMULATOR),
     .help = "how many of the replicas only prefill; the others decode, and KV moves between them "
             "(vllm_v1, vllm, sarathi)"},
    {KEY(cluster.kv_bandwidth_gb_s), .unit = "GB/s", .min = 1e-6, .max = 1e9, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, ALWAYS_SET("cluster.prefill_replicas")),
     .help = "bandwidth of each replica's link for KV, 10^9 bytes/s"},
    {KEY(cluster.kv_latency_s), .unit = "s", .max = 1e6, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, ALWAYS_SET("cluster.prefill_replicas")),
     .help = "latency of a KV transfer"},
    {KEY(parallel.tp), .def = "1", .min = 1, .max = 1024,
     .commands = CMD_PROFILE | SIMULATES | CMD_CALIBRATE | CMD_KERNELS | CMD_SERVE | CMD_FIT,
     .when = WHEN(SIMULATOR), .help = "tensor-parallel degree of a replica"},
    {KEY(parallel.pp), .def = "1", .min = 1, .max = 1024,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "pipeline stages of a replica; each holds a batch of its own"},
    {KEY(parallel.ep), .def = "1", .min = 1, .max = 4096,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "devices that share the experts of a replica: 1, or a multiple of parallel.tp"},
    {KEY(parallel.expert_skew), .def = "0", .max = 10, .commands = SIMULATES | CMD_SERVE,
     .when = WHEN(SIMULATOR),
     .help = "how unevenly tokens choose experts: the e-th most popular by e to the power of minus "
             "that; 0: all alike. Fewer are read then, and the busiest of the parallel.ep devices "
             "sets the time"},
};

OPTION_SECTION(cluster, rows);
