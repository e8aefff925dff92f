#include "engine/cpu/forward.h"

void op_attn_pre_proj(struct forward *f, int64_t layer)
{
    gemm_run(f->pool, f->kn, &f->w.layers[layer].qkv, f->b->n_tokens, f->h, f->h_ld, f->qkv);
}

void op_attn_post_proj(struct forward *f, int64_t layer)
{
    gemm_run(f->pool, f->kn, &f->w.layers[layer].out, f->b->n_tokens, f->att, f->att_ld, f->y);
}

void op_mlp_up_proj(struct forward *f, int64_t layer)
{
    gemm_run(f->pool, f->kn, &f->w.layers[layer].up, f->b->n_tokens, f->h, f->h_ld, f->up);
}

void op_mlp_down_proj(struct forward *f, int64_t layer)
{
    gemm_run(f->pool, f->kn, &f->w.layers[layer].down, f->b->n_tokens, f->act,
             gemm_ld(model_intermediate(f->m, layer)), f->y);
}

void op_lm_head(struct forward *f, int64_t layer)
{
    (void)layer;
    gemm_run(f->pool, f->kn, &f->w.lm_head, f->b->n_rows, f->h, f->h_ld, f->logits);
}
