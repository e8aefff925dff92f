#include <string.h>

#include "engine/cpu/forward.h"

/* Row-wise operators. Below this many floats one thread is faster than waking others. */
enum { ITEM_FLOATS = 16384 };

struct row_loop {
    struct forward *f;
    int64_t layer, rows, per_item;
    void (*row)(struct forward *f, int64_t layer, int64_t row);
};

static void some_rows(void *ctx, int64_t item, int thread)
{
    (void)thread;
    const struct row_loop *r = ctx;
    const int64_t first = item * r->per_item, end = first + r->per_item;
    for (int64_t i = first; i < end && i < r->rows; i++)
        r->row(r->f, r->layer, i);
}

void forward_rows(struct forward *f, int64_t layer, int64_t n, int64_t floats,
                  void (*row)(struct forward *, int64_t, int64_t))
{
    int64_t per_item = ITEM_FLOATS / floats;
    per_item = per_item < 1 ? 1 : per_item;
    struct row_loop r = {f, layer, n, per_item, row};
    pool_run(f->pool, (n + per_item - 1) / per_item, some_rows, &r);
}

static void norm(const struct forward *f, const struct cpu_norm *n, const float *x, float *out)
{
    const size_t width = (size_t)f->m->hidden;
    const float eps = (float)f->m->norm_eps;
    if (n->b)
        f->kn->layer_norm(width, x, n->w, n->b, eps, out);
    else
        f->kn->rms_norm(width, x, n->w, eps, out);
}

static void emb_row(struct forward *f, int64_t layer, int64_t t)
{
    (void)layer;
    const int64_t width = f->m->hidden;
    float *x = f->x + t * width;
    if (f->w.embedding)
        memcpy(x, f->w.embedding + f->b->ids[t] * width, (size_t)width * sizeof *x);
    else
        gemm_get_row(f->kn, &f->w.lm_head, f->b->ids[t], x);
    if (f->s->embedding_scale > 0)
        f->kn->scale((size_t)width, x, (float)f->s->embedding_scale);
}

void op_emb(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, 4 * f->m->hidden, emb_row);
}

static void emb_norm_row(struct forward *f, int64_t layer, int64_t t)
{
    (void)layer;
    float *x = f->x + t * f->m->hidden;
    norm(f, &f->w.emb_norm, x, x);
}

void op_emb_norm(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, f->m->hidden, emb_norm_row);
}

static void input_norm_row(struct forward *f, int64_t layer, int64_t t)
{
    norm(f, &f->w.layers[layer].input_norm, f->x + t * f->m->hidden, f->h + t * f->h_ld);
}

void op_input_norm(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, f->m->hidden, input_norm_row);
}

static void post_norm_row(struct forward *f, int64_t layer, int64_t t)
{
    norm(f, &f->w.layers[layer].post_norm, f->x + t * f->m->hidden, f->h + t * f->h_ld);
}

void op_post_attn_norm(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, f->m->hidden, post_norm_row);
}

/* Outputs of a part are normed where they stand. */
static void attn_out_norm_row(struct forward *f, int64_t layer, int64_t t)
{
    float *y = f->y + t * f->m->hidden;
    norm(f, &f->w.layers[layer].attn_out_norm, y, y);
}

void op_attn_out_norm(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, f->m->hidden, attn_out_norm_row);
}

static void mlp_out_norm_row(struct forward *f, int64_t layer, int64_t t)
{
    float *y = f->y + t * f->m->hidden;
    norm(f, &f->w.layers[layer].mlp_out_norm, y, y);
}

void op_mlp_out_norm(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, f->m->hidden, mlp_out_norm_row);
}

static void final_norm_row(struct forward *f, int64_t layer, int64_t r)
{
    (void)layer;
    norm(f, &f->w.final_norm, f->x + f->b->row_token[r] * f->m->hidden, f->h + r * f->h_ld);
}

void op_final_norm(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_rows, f->m->hidden, final_norm_row);
}

static int64_t qkv_width(const struct model *m)
{
    return (m->heads + 2 * m->kv_heads) * m->head_dim;
}

static void qk_norm_row(struct forward *f, int64_t layer, int64_t t)
{
    const struct model *m = f->m;
    const struct cpu_layer *l = &f->w.layers[layer];
    float *x = f->qkv + t * qkv_width(m);
    for (int64_t head = 0; head < m->heads + m->kv_heads; head++, x += m->head_dim)
        f->kn->rms_norm((size_t)m->head_dim, x, head < m->heads ? l->q_norm : l->k_norm,
                        (float)m->norm_eps, x);
}

void op_qk_norm(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, qkv_width(f->m), qk_norm_row);
}

static void rope_row(struct forward *f, int64_t layer, int64_t t)
{
    const struct model *m = f->m;
    const int64_t half = m->head_dim / 2;
    const int32_t rope = f->s->attention[model_attention_of(m, layer)].rope;
    const float *cosine = f->cosine[rope] + f->b->positions[t] * half;
    const float *sine = f->sine[rope] + f->b->positions[t] * half;
    float *x = f->qkv + t * qkv_width(m);
    for (int64_t head = 0; head < m->heads + m->kv_heads; head++, x += m->head_dim)
        f->kn->rope((size_t)half, cosine, sine, x);
}

void op_rope(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, qkv_width(f->m), rope_row);
}

void forward_act(const struct forward *f, int64_t layer, const float *up, float *out)
{
    const struct mlp *p = &f->s->mlp[model_mlp_of(f->m, layer)];
    const size_t width = (size_t)p->intermediate;
    if (!p->gated)
        f->kn->gelu_tanh(width, up, out);
    else if (p->act == MLP_ACT_CLAMPED)
        f->kn->clamped_mul(width, up, up + width, (float)p->act_alpha, (float)p->act_limit, out);
    else if (p->act == MLP_ACT_GELU_TANH)
        f->kn->gelu_tanh_mul(width, up, up + width, out);
    else
        f->kn->silu_mul(width, up, up + width, out);
}

static void act_row(struct forward *f, int64_t layer, int64_t t)
{
    const int64_t width = model_intermediate(f->m, layer);
    const int64_t up = model_gated(f->m) ? 2 * width : width;
    forward_act(f, layer, f->up + t * up, f->act + t * gemm_ld(width));
}

void op_mlp_act(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, 4 * model_intermediate(f->m, layer), act_row);
}

static void add_row(struct forward *f, int64_t layer, int64_t t)
{
    (void)layer;
    const int64_t width = f->m->hidden;
    f->kn->add((size_t)width, f->x + t * width, f->y + t * width);
}

void op_add(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, f->m->hidden, add_row);
}

static void sample_row(struct forward *f, int64_t layer, int64_t r)
{
    (void)layer;
    const float *logits = f->logits + r * f->m->vocab;
    f->ids_out[r] = (int32_t)f->kn->argmax((size_t)f->sample_vocab, logits);
}

static void draw_row(void *ctx, int64_t r, int thread)
{
    struct forward *f = ctx;
    const struct sampling *how = f->b->row_sampling[r];
    if (how)
        f->ids_out[r] =
            sampler_draw(&f->samplers[thread], how, f->b->positions[f->b->row_token[r]] + 1,
                         (size_t)f->sample_vocab, f->logits + r * f->m->vocab);
}

void op_sample(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_rows, f->m->vocab, sample_row);
    if (f->b->sampled)
        pool_run(f->pool, f->b->n_rows, draw_row, f);
}
