/* One forward pass: executes the model's operator list on a batch resolved to rows (engine/rows.h):
 * T tokens, R rows whose logits are needed. Buffers, all float32; inputs of projections have rows
 * h_ld, att_ld and act_ld floats apart (gemm_ld), the others no gaps:
 *
 *   x    [T, hidden]                      residual stream
 *   h    [T, hidden]                      normed input of a projection; [R, hidden] of lm_head
 *   qkv  [T, heads + 2 kv_heads, head_dim]
 *   att  [T, heads, head_dim]
 *   up   [T, 2 intermediate] gated, [T, intermediate] otherwise
 *   act  [T, intermediate]
 *   y    [T, hidden]                      output of a projection, before the residual add
 *   logits [R, vocab], ids_out [R]
 *
 * Of models with experts, X of E per token (struct experts): T X rows of up, act and of
 *
 *   in   [T X, hidden]                    h of each token's experts, grouped by expert
 *   out  [T X, hidden]                    their outputs
 *
 * KV cache of one layer: k [blocks, kv_heads, head_dim, block_size], v [blocks, kv_heads,
 * block_size, head_dim]. Keys stand transposed: scores of neighbouring keys are one vector. */
#ifndef ENGINE_CPU_FORWARD_H
#define ENGINE_CPU_FORWARD_H

#include "engine/cpu/weights.h"
#include "engine/rows.h"
#include "engine/sampler.h"

struct attention_scratch; /* buffers of one thread for one item of attention */

/* Which experts each token of the batch goes through: written by the router, read until their
 * outputs are summed. */
struct experts {
    float *logits;             /* [T, E] */
    float *weights;            /* [T, X] */
    int32_t *chosen;           /* [T, X] */
    int32_t *at;               /* [T, X] row of in and out */
    int32_t *token;            /* [T X] token of that row */
    struct gemm_group *groups; /* [E] rows of each expert that is hit */
    int64_t n_groups;
    float *in, *out;
};

struct forward {
    const struct model *m;
    const struct structure *s; /* of m: what its kinds of layers compute */
    const struct cpu_kernels *kn;
    struct pool *pool;
    struct cpu_weights w;
    struct model_steps steps;
    int64_t block_size, num_blocks, max_tokens, max_rows, sample_vocab;

    const struct row_batch *b; /* what to compute; set by the engine before forward_run */

    struct pages buffers, cache;
    struct ready *ready; /* touches the cache's other blocks; NULL = none */
    float *x, *h, *qkv, *att, *up, *act, *y, *logits;
    struct experts experts;
    int64_t h_ld, att_ld;
    int32_t *ids_out;
    float *k, *v;                   /* [layers] of the shapes above */
    int64_t layer_floats;           /* of k, and of v */
    float *cosine[STRUCTURE_ROPES]; /* [max_position, head_dim / 2] of each of s->ropes */
    float *sine[STRUCTURE_ROPES];
    float *slopes;                      /* [heads]; NULL = rotary */
    int64_t max_position;               /* positions the model and the cache allow */
    struct attention_scratch **scratch; /* [threads] */
    struct sampler *samplers;           /* [threads] */
    struct arena *arena;

    bool timed;           /* fill op_s for this batch */
    double op_s[OP_ROWS]; /* by row: seconds of the last run, summed over repeats */
};

struct cpu_engine_params;
/* Weights, cache and buffers. Errors as cpu_engine_open. Free with forward_free in any case. */
enum st forward_open(struct forward *f, const struct cpu_engine_params *p, struct err *e);
void forward_free(struct forward *f);

/* Execute the list: writes logits and ids_out, and K and V of all tokens into the cache. */
void forward_run(struct forward *f);

/* ---- operators: one function per op_kind; layer is 0 outside the layers ------------------------
 */

typedef void operator_fn(struct forward *f, int64_t layer);

/* ops_token.c */
operator_fn op_emb, op_emb_norm, op_input_norm, op_qk_norm, op_rope, op_attn_out_norm,
    op_post_attn_norm, op_mlp_act, op_mlp_out_norm, op_add, op_final_norm, op_sample;
/* ops_matmul.c */
operator_fn op_attn_pre_proj, op_attn_post_proj, op_mlp_up_proj, op_mlp_down_proj, op_lm_head;
/* ops_experts.c */
operator_fn op_moe_router, op_moe_up_proj, op_moe_act, op_moe_down_proj, op_moe_combine;
/* ops_attention.c */
operator_fn op_kv_save, op_attn_prefill, op_attn_decode;

/* row() for every row of n, each costing about `floats` floats of work, by all threads. */
void forward_rows(struct forward *f, int64_t layer, int64_t n, int64_t floats,
                  void (*row)(struct forward *f, int64_t layer, int64_t row));
/* Between the two products of an MLP or an expert of that layer; gate stands in front of up. */
void forward_act(const struct forward *f, int64_t layer, const float *up, float *out);

size_t attention_scratch_bytes(const struct model *m);

#endif
