#include "kernels/classes.h"

#include <string.h>

const char *kernels_class_name(unsigned c)
{
    static const char *const names[KERNELS_CLASSES] = {
        [CLASS_ATTENTION] = "attention",
        [CLASS_PRODUCTS] = "products",
        [CLASS_EXPERTS] = "experts",
        [CLASS_ROUTING] = "routing",
        [CLASS_NORMS] = "norms",
        [CLASS_SAMPLING] = "sampling",
        [CLASS_COLLECTIVES] = "collectives",
        [CLASS_COPIES] = "copies",
        [CLASS_OTHER] = "other",
    };
    return c < KERNELS_CLASSES ? names[c] : NULL;
}

/* The first row with a part of the name decides: what is special stands before what is general. */
static const struct {
    const char *part;
    enum kernels_operator is;
} rows[] = {
    /* experts: vLLM's and SGLang's Triton kernels, CUTLASS' and DeepGEMM's grouped products */
    {"fused_moe_kernel", CLASS_EXPERTS},
    {"fused_moe_gptq_awq", CLASS_EXPERTS},
    {"moe_wna16", CLASS_EXPERTS},
    {"MarlinMoe", CLASS_EXPERTS},
    {"marlin_moe", CLASS_EXPERTS},
    {"grouped_gemm", CLASS_EXPERTS},
    {"GroupedGemm", CLASS_EXPERTS},
    {"GroupProblemShape", CLASS_EXPERTS},
    {"MoeFCGemm", CLASS_EXPERTS},
    {"moe_gemm", CLASS_EXPERTS},
    {"matmul_ogs", CLASS_EXPERTS},
    {"topkGating", CLASS_ROUTING},
    {"topk_gating", CLASS_ROUTING},
    {"grouped_topk", CLASS_ROUTING},
    {"moeSoftmax", CLASS_ROUTING},
    {"moeTopK", CLASS_ROUTING},
    {"moe_align", CLASS_ROUTING},
    {"moe_sum", CLASS_ROUTING},
    {"moe_permute", CLASS_ROUTING},
    {"moe_fused_gate", CLASS_ROUTING},
    {"count_and_sort_expert", CLASS_ROUTING},
    {"expandInputRows", CLASS_ROUTING},
    {"finalizeMoeRouting", CLASS_ROUTING},
    {"routingIndices", CLASS_ROUTING},
    {"expert", CLASS_ROUTING},
    /* attention, before the products that it is made of */
    {"flash::", CLASS_ATTENTION},
    {"flash_fwd", CLASS_ATTENTION},
    {"flash_attn", CLASS_ATTENTION},
    {"FlashAttn", CLASS_ATTENTION},
    {"flashinfer::Batch", CLASS_ATTENTION},
    {"BatchDecodeWithPaged", CLASS_ATTENTION},
    {"BatchPrefillWith", CLASS_ATTENTION},
    {"fmha", CLASS_ATTENTION},
    {"Fmha", CLASS_ATTENTION},
    {"mha_", CLASS_ATTENTION},
    {"paged_attention", CLASS_ATTENTION},
    {"unified_attention", CLASS_ATTENTION},
    {"masked_multihead", CLASS_ATTENTION},
    {"attention", CLASS_ATTENTION},
    {"Attention", CLASS_ATTENTION},
    {"reshape_and_cache", CLASS_ATTENTION},
    {"concat_and_cache", CLASS_ATTENTION},
    {"prepare_varlen_num_blocks", CLASS_ATTENTION},
    {"merge_attn_states", CLASS_ATTENTION},
    {"MergeStates", CLASS_ATTENTION},
    /* sampling */
    {"ArgMax", CLASS_SAMPLING},
    {"argmax", CLASS_SAMPLING},
    {"multinomial", CLASS_SAMPLING},
    {"sampling", CLASS_SAMPLING},
    {"Sampling", CLASS_SAMPLING},
    {"topk_topp", CLASS_SAMPLING},
    {"gumbel", CLASS_SAMPLING},
    {"SoftMaxForward", CLASS_SAMPLING},
    {"log_softmax", CLASS_SAMPLING},
    {"apply_penalties", CLASS_SAMPLING},
    {"repetition_penalties", CLASS_SAMPLING},
    {"sbtopk", CLASS_SAMPLING},
    /* norms; Inductor names a kernel after what it fused, and a norm has a square root */
    {"rms_norm", CLASS_NORMS},
    {"RMSNorm", CLASS_NORMS},
    {"rmsnorm", CLASS_NORMS},
    {"layer_norm", CLASS_NORMS},
    {"LayerNorm", CLASS_NORMS},
    {"layernorm", CLASS_NORMS},
    {"rsqrt", CLASS_NORMS},
};

enum kernels_operator kernels_class_of(uint8_t kind, const char *full_name, const char *short_name)
{
    if (kind == TRACE_COPY || kind == TRACE_SET)
        return CLASS_COPIES;
    if (kernels_communicates(kind, full_name, short_name))
        return CLASS_COLLECTIVES;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(full_name, rows[i].part))
            return rows[i].is;
    return kernels_tier(kind, full_name) == 2 ? CLASS_PRODUCTS : CLASS_OTHER;
}

uint8_t *kernels_classes_of(struct arena *a, const struct kernels *k)
{
    uint8_t *of = arena_array(a, uint8_t, k->n_names + 1);
    for (uint32_t i = 0; i < k->n_names; i++)
        of[i] = (uint8_t)kernels_class_of(k->kind[i], k->names[i], k->shorts[i]);
    return of;
}
