#include "engine/cuda/rules.h"

/* clang-format off */
#define OPS(...)                                                       \
    .ops = {__VA_ARGS__},                                              \
    .n = sizeof((enum op_kind[]){__VA_ARGS__}) / sizeof(enum op_kind)

/* Carried by the kernel of the step, which OP_EMB launches. */
#define IN_STEP(op) {OPS(op), RULE_STEP, 0, "decode_step", NULL}

static const struct rule rules[] = {
    {OPS(OP_EMB), RULE_STEP, 0, "decode_step", rule_decode_step},
    IN_STEP(OP_INPUT_NORM), IN_STEP(OP_ATTN_PRE_PROJ), IN_STEP(OP_QK_NORM), IN_STEP(OP_ROPE),
    IN_STEP(OP_KV_SAVE), {OPS(OP_ATTN_PREFILL), RULE_STEP, 0, "nothing", NULL},
    IN_STEP(OP_ATTN_DECODE), IN_STEP(OP_ATTN_POST_PROJ), IN_STEP(OP_ADD),
    IN_STEP(OP_POST_ATTN_NORM), IN_STEP(OP_MLP_UP_PROJ), IN_STEP(OP_MLP_ACT),
    IN_STEP(OP_MLP_DOWN_PROJ), IN_STEP(OP_FINAL_NORM), IN_STEP(OP_LM_HEAD),

    {OPS(OP_EMB), 0, 0, "embed", rule_embed},
    {OPS(OP_EMB_NORM), 0, 0, "norm", rule_norm},

    {OPS(OP_INPUT_NORM, OP_ATTN_PRE_PROJ), RULE_FEW | RULE_RMS, 0, "matmul", rule_few},
    {OPS(OP_INPUT_NORM), 0, 0, "norm", rule_norm},
    {OPS(OP_ATTN_PRE_PROJ), RULE_FEW, 0, "matmul", rule_few},
    {OPS(OP_ATTN_PRE_PROJ), 0, 0, "cuBLASLt", rule_product},

    {OPS(OP_QK_NORM, OP_ROPE, OP_KV_SAVE, OP_ATTN_PREFILL, OP_ATTN_DECODE),
     RULE_FITS | RULE_DECODES, RULE_CHUNKS, "attention_decode", rule_decode_fused},
    {OPS(OP_ROPE, OP_KV_SAVE, OP_ATTN_PREFILL, OP_ATTN_DECODE),
     RULE_FITS | RULE_DECODES, RULE_CHUNKS, "attention_decode", rule_decode_fused},
    {OPS(OP_KV_SAVE, OP_ATTN_PREFILL, OP_ATTN_DECODE),
     RULE_FITS | RULE_DECODES, RULE_CHUNKS, "attention_decode", rule_decode_fused},
    {OPS(OP_QK_NORM, OP_ROPE, OP_KV_SAVE), 0, 0, "rope", rule_rope},
    {OPS(OP_ROPE, OP_KV_SAVE), 0, 0, "rope", rule_rope},
    {OPS(OP_KV_SAVE), 0, 0, "rope", rule_rope},
    {OPS(OP_ATTN_PREFILL, OP_ATTN_DECODE), 0, RULE_FITS, "attention_any", rule_any},
    {OPS(OP_ATTN_PREFILL), RULE_CHUNKS, 0, "attention_prefill", rule_prefill},
    {OPS(OP_ATTN_PREFILL), 0, RULE_CHUNKS, "nothing", NULL},
    {OPS(OP_ATTN_DECODE), RULE_DECODES, 0, "attention_decode", rule_decode},
    {OPS(OP_ATTN_DECODE), 0, RULE_DECODES, "nothing", NULL},

    {OPS(OP_ATTN_POST_PROJ, OP_ADD), RULE_FEW, 0, "matmul", rule_few},
    {OPS(OP_ATTN_POST_PROJ, OP_ADD), 0, 0, "cuBLASLt", rule_product},
    {OPS(OP_ATTN_POST_PROJ), RULE_FEW, 0, "matmul", rule_few},
    {OPS(OP_ATTN_POST_PROJ), 0, 0, "cuBLASLt", rule_product},
    {OPS(OP_ATTN_OUT_NORM, OP_ADD), 0, 0, "norm", rule_norm},
    {OPS(OP_POST_ATTN_NORM, OP_MLP_UP_PROJ, OP_MLP_ACT),
     RULE_FEW | RULE_RMS, 0, "matmul", rule_few},
    {OPS(OP_POST_ATTN_NORM), 0, 0, "norm", rule_norm},
    {OPS(OP_MLP_UP_PROJ, OP_MLP_ACT), RULE_FEW, 0, "matmul", rule_few},
    {OPS(OP_MLP_UP_PROJ), 0, 0, "cuBLASLt", rule_product},
    {OPS(OP_MLP_ACT), 0, 0, "act", rule_act},
    {OPS(OP_MLP_DOWN_PROJ, OP_ADD), RULE_FEW, 0, "matmul", rule_few},
    {OPS(OP_MLP_DOWN_PROJ, OP_ADD), 0, 0, "cuBLASLt", rule_product},
    {OPS(OP_MLP_DOWN_PROJ), RULE_FEW, 0, "matmul", rule_few},
    {OPS(OP_MLP_DOWN_PROJ), 0, 0, "cuBLASLt", rule_product},
    {OPS(OP_MLP_OUT_NORM, OP_ADD), 0, 0, "norm", rule_norm},

    {OPS(OP_MOE_ROUTER), RULE_FEW, 0, "matmul, route, group", rule_route_few},
    {OPS(OP_MOE_ROUTER), 0, 0, "cuBLASLt, route, group", rule_route},
    {OPS(OP_MOE_UP_PROJ, OP_MOE_ACT), 0, 0, "experts", rule_experts},
    {OPS(OP_MOE_DOWN_PROJ), 0, 0, "experts", rule_experts},
    {OPS(OP_MOE_COMBINE, OP_ADD), 0, 0, "combine", rule_combine},

    {OPS(OP_FINAL_NORM, OP_LM_HEAD), RULE_FEW_ROWS | RULE_RMS, 0, "matmul", rule_few},
    {OPS(OP_FINAL_NORM), 0, 0, "norm", rule_norm},
    {OPS(OP_LM_HEAD), RULE_FEW_ROWS, 0, "matmul", rule_few},
    {OPS(OP_LM_HEAD), 0, 0, "cuBLASLt", rule_product},
    {OPS(OP_SAMPLE), RULE_SAMPLED, 0, "argmax, sample", rule_draw},
    {OPS(OP_SAMPLE), 0, 0, "argmax", rule_greedy},
};
/* clang-format on */

/* Decode rows alone, and every row emits. */
static bool takes_step(const struct cuda_forward *f, const struct cuda_sizes *s)
{
    return s->chunks == 0 && s->decodes > 0 && s->decodes <= f->step_rows &&
           s->tokens == s->decodes && s->rows == s->decodes;
}

uint32_t rules_of_pass(const struct cuda_forward *f, const struct cuda_pass *p)
{
    const struct cuda_sizes *s = &p->sizes;
    return (s->tokens <= CUDA_FEW_ROWS ? RULE_FEW : 0) |
           (s->rows <= CUDA_FEW_ROWS ? RULE_FEW_ROWS : 0) | (s->chunks > 0 ? RULE_CHUNKS : 0) |
           (s->decodes > 0 ? RULE_DECODES : 0) | (f->fits ? RULE_FITS : 0) |
           (f->m->norm == NORM_RMS && f->s->norm_offset == 0 ? RULE_RMS : 0) |
           (p->sampled ? RULE_SAMPLED : 0) | (takes_step(f, s) ? RULE_STEP : 0);
}

static bool takes(const struct rule *r, uint32_t pass, const enum op_kind *ops, int n)
{
    if (r->n > n || (pass & r->needs) != r->needs || pass & r->lacks)
        return false;
    for (int i = 0; i < r->n; i++)
        if (r->ops[i] != ops[i])
            return false;
    return true;
}

const struct rule *rule_for(uint32_t pass, const enum op_kind *ops, int n)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (takes(&rules[i], pass, ops, n))
            return &rules[i];
    err_bug("an operator without a kernel", __FILE__, __LINE__);
}

bool rule_has(const struct rule *r, enum op_kind op)
{
    for (int i = 0; i < r->n; i++)
        if (r->ops[i] == op)
            return true;
    return false;
}

int32_t rule_row(const struct rule_use *u)
{
    const enum op_kind op = rule_charged(u->rule, u->p->sizes.chunks > 0);
    for (int i = 0; i < u->rule->n; i++)
        if (u->rule->ops[i] == op)
            return u->rows[i];
    return (int32_t)op; /* of a whole step, whose layers are alike */
}

enum op_kind rule_charged(const struct rule *r, bool chunks)
{
    static const enum op_kind order[] = {OP_ATTN_PRE_PROJ, OP_ATTN_POST_PROJ, OP_MLP_UP_PROJ,
                                         OP_MLP_DOWN_PROJ, OP_MOE_UP_PROJ,    OP_LM_HEAD};
    if (r->needs & RULE_STEP) /* only that operator's table knows the cache's length */
        return OP_ATTN_DECODE;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (rule_has(r, order[i]))
            return order[i];
    if (rule_has(r, OP_ATTN_DECODE) && !(chunks && rule_has(r, OP_ATTN_PREFILL)))
        return OP_ATTN_DECODE;
    if (rule_has(r, OP_ATTN_PREFILL))
        return OP_ATTN_PREFILL;
    return rule_has(r, OP_ROPE) ? OP_ROPE : rule_has(r, OP_KV_SAVE) ? OP_KV_SAVE : r->ops[0];
}
