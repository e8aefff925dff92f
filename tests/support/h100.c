#include "support/h100.h"

const struct iteration_hardware h100_peaks = {.dram_bytes_per_s = 3350e9,
                                              .flop_per_s = {[PRECISION_BF16] = 989e12},
                                              .links.link_bytes_per_s = 450e9};

/* What the two have alike. */
#define LLAMA                                                                                  \
    .name = "m", .family = MODEL_LLAMA, .norm = NORM_RMS, .act = ACT_SILU_GATED, .layers = 32, \
    .hidden = 4096, .heads = 32, .head_dim = 128, .vocab = 32000

const struct model llama_7b = {LLAMA, .kv_heads = 32, .intermediate = 11008,
                               .max_positions = 32768};
const struct model llama_8b = {LLAMA, .kv_heads = 8, .intermediate = 14336, .max_positions = 4096};
