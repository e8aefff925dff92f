#include "engine/cuda/twins.h"

/* The step as the twins of its operators, with what one of them hands to the next. */
struct twin_step {
    const struct cuda_decode_step_args *a;
    enum cuda_dtype t;
    void *att; /* [rows, heads, head_dim] */
};

static const void *of_layer(const struct twin_step *s, const void *p, int layer)
{
    return p ? (const char *)p + layer * s->a->layer_bytes : NULL;
}

static void product(const struct twin_step *s, struct cuda_matmul_args m)
{
    m.count = &s->a->attention.batch.step->n_decodes;
    m.eps = s->a->attention.eps;
    twin_matmul(&m, s->t);
}

static void attend(const struct twin_step *s, int layer)
{
    struct cuda_attention_args x = s->a->attention;
    x.out = s->att;
    x.k = (char *)x.k + layer * s->a->cache_bytes;
    x.v = (char *)x.v + layer * s->a->cache_bytes;
    x.q_norm = of_layer(s, x.q_norm, layer);
    x.k_norm = of_layer(s, x.k_norm, layer);
    twin_attention_rows(&x, s->t);
}

static void run_layer(const struct twin_step *s, int layer)
{
    const struct cuda_decode_step_args *a = s->a;
    const struct cuda_attention_args *x = &a->attention;
    const int q = x->heads * x->head_dim, kv = x->kv_heads * x->head_dim;
    product(s, (struct cuda_matmul_args){.x = a->x,
                                         .weight = of_layer(s, a->qkv_weight, layer),
                                         .norm = of_layer(s, a->input_norm, layer),
                                         .out = a->qkv,
                                         .in = a->hidden,
                                         .outs = q + 2 * kv});
    attend(s, layer);
    product(s, (struct cuda_matmul_args){.x = s->att,
                                         .weight = of_layer(s, a->out_weight, layer),
                                         .residual = a->x,
                                         .out = a->x,
                                         .in = q,
                                         .outs = a->hidden});
    product(s, (struct cuda_matmul_args){.x = a->x,
                                         .weight = of_layer(s, a->up_weight, layer),
                                         .norm = of_layer(s, a->post_norm, layer),
                                         .out = a->act,
                                         .in = a->hidden,
                                         .outs = a->intermediate,
                                         .act = CUDA_ACT_SILU_GATED});
    product(s, (struct cuda_matmul_args){.x = a->act,
                                         .weight = of_layer(s, a->down_weight, layer),
                                         .residual = a->x,
                                         .out = a->x,
                                         .in = a->intermediate,
                                         .outs = a->hidden});
}

void twin_decode_step(const void *args, enum cuda_dtype t)
{
    const struct cuda_decode_step_args *a = args;
    const struct cuda_attention_args *x = &a->attention;
    const struct cuda_embed_args embed = {
        .batch = x->batch, .table = a->table, .x = a->x, .hidden = a->hidden};
    const size_t row = (size_t)(x->heads * x->head_dim) * (size_t)cuda_dtype_bytes(t);
    if (x->batch.step->n_decodes == 0)
        return;
    const struct twin_step s = {a, t, mem_alloc((size_t)x->batch.step->n_decodes * row)};
    twin_embed(&embed, t);
    for (int layer = 0; layer < a->layers; layer++)
        run_layer(&s, layer);
    product(&s, (struct cuda_matmul_args){.gather = x->batch.row_token,
                                          .x = a->x,
                                          .weight = a->lm_head,
                                          .norm = a->final_norm,
                                          .out = a->logits,
                                          .in = a->hidden,
                                          .outs = a->vocab,
                                          .out_float = 1});
    for (int i = 0; a->stamps && i < cuda_decode_step_stamps(a->layers); i++)
        a->stamps[i] = 1000ULL * (unsigned)(i + 1); /* no clock: a microsecond a phase */
    mem_free(s.att);
}
