#include "model/layout.h"

/* Hands out pieces of one allocation. */
struct layout_carver {
    const struct weight_sizes *s;
    uint64_t base, used;
};

static size_t up_to(size_t n, size_t align)
{
    return (n + align - 1) / align * align;
}

static uint64_t carve(struct layout_carver *c, size_t elements)
{
    const uint64_t at = c->base + c->used;
    c->used += up_to(elements * c->s->element, c->s->align);
    return at;
}

static struct weight_matrix carve_matrix(struct layout_carver *c, int64_t m, int64_t k, bool bias)
{
    const struct weight_sizes *s = c->s;
    struct weight_matrix w = {.m = m, .k = k};
    w.data = carve(c, s->matrix ? s->matrix(s->ctx, m, k) : (size_t)(m * k));
    if (bias)
        w.bias = carve(c, s->bias ? s->bias(s->ctx, m) : (size_t)m);
    return w;
}

static struct weight_norm carve_norm(struct layout_carver *c, const struct model *m)
{
    struct weight_norm n = {.w = carve(c, (size_t)m->hidden)};
    n.b = m->norm == NORM_LAYER ? carve(c, (size_t)m->hidden) : 0;
    return n;
}

static struct weight_experts carve_experts(struct layout_carver *c, int64_t n, int64_t m, int64_t k,
                                           bool bias)
{
    const struct weight_sizes *s = c->s;
    const size_t data = s->matrix ? s->matrix(s->ctx, m, k) : (size_t)(m * k);
    const size_t one_bias = s->bias ? s->bias(s->ctx, m) : (size_t)m;
    struct weight_experts x = {.first = {.m = m, .k = k}, .n = n};
    x.data_step = up_to(data * s->element, s->align);
    x.bias_step = bias ? up_to(one_bias * s->element, s->align) : 0;
    x.first.data = c->base + c->used;
    c->used += (size_t)n * x.data_step;
    if (bias)
        x.first.bias = c->base + c->used;
    c->used += (size_t)n * x.bias_step;
    return x;
}

static void carve_attention(struct layout_carver *c, const struct model *m,
                            const struct attention *t, struct weight_layer *l)
{
    const int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    l->input_norm = carve_norm(c, m);
    l->qkv = carve_matrix(c, q + 2 * kv, m->hidden, m->attn_bias || m->qkv_bias);
    if (m->qk_norm) {
        l->q_norm = carve(c, (size_t)m->head_dim);
        l->k_norm = carve(c, (size_t)m->head_dim);
    }
    if (t && t->sinks)
        l->sinks = carve(c, (size_t)m->heads);
    l->out = carve_matrix(c, m->hidden, q, m->attn_bias);
    if (t && t->out_norm)
        l->attn_out_norm = carve_norm(c, m);
}

/* p NULL: of dimensions. */
static void carve_mlp(struct layout_carver *c, const struct model *m, const struct mlp *p,
                      int64_t layer, struct weight_layer *l)
{
    const int64_t width = model_intermediate(m, layer), experts = model_experts(m, layer);
    const int64_t up = model_gated(m) ? 2 * width : width;
    l->post_norm = carve_norm(c, m);
    if (experts) {
        l->router = carve_matrix(c, experts, m->hidden, p && p->router_bias);
        l->expert_up = carve_experts(c, experts, up, m->hidden, p && p->expert_bias);
        l->expert_down = carve_experts(c, experts, m->hidden, width, p && p->expert_bias);
    } else {
        l->up = carve_matrix(c, up, m->hidden, m->mlp_bias);
        l->down = carve_matrix(c, m->hidden, width, m->mlp_bias);
    }
    if (p && p->out_norm)
        l->mlp_out_norm = carve_norm(c, m);
}

static struct weight_layer carve_layer(struct layout_carver *c, const struct model *m,
                                       int64_t layer)
{
    const struct structure *s = m->structure;
    struct weight_layer l = {0};
    carve_attention(c, m, s ? &s->attention[model_attention_of(m, layer)] : NULL, &l);
    carve_mlp(c, m, s ? &s->mlp[model_mlp_of(m, layer)] : NULL, layer, &l);
    return l;
}

struct weight_matrix weight_expert(const struct weight_experts *x, int64_t expert)
{
    struct weight_matrix w = x->first;
    w.data += (uint64_t)expert * x->data_step;
    if (w.bias)
        w.bias += (uint64_t)expert * x->bias_step;
    return w;
}

/* layers NULL: only counts. */
static void lay_out(struct layout_carver *c, const struct model *m, struct weight_layer *layers,
                    struct weight_layout *l)
{
    *l = (struct weight_layout){.layers = layers};
    if (!m->tied)
        l->embedding = carve(c, (size_t)(m->vocab * m->hidden));
    if (m->emb_norm)
        l->emb_norm = carve_norm(c, m);
    for (int64_t i = 0; i < m->layers; i++) {
        const struct weight_layer one = carve_layer(c, m, i);
        if (layers)
            layers[i] = one;
    }
    l->final_norm = carve_norm(c, m);
    l->lm_head = carve_matrix(c, m->vocab, m->hidden, false);
    if (m->tied)
        l->embedding = l->lm_head.data;
    l->bytes = c->used;
}

void weight_layout_make(struct arena *a, const struct model *m, const struct weight_sizes *s,
                        uint64_t base, struct weight_layout *out)
{
    struct layout_carver c = {.s = s, .base = base};
    ASSERT(base != 0);
    lay_out(&c, m, arena_array(a, struct weight_layer, m->layers), out);
}

uint64_t weight_layout_bytes(const struct model *m, const struct weight_sizes *s)
{
    struct layout_carver c = {.s = s};
    struct weight_layout l;
    lay_out(&c, m, NULL, &l);
    return l.bytes;
}

/* ---- where a tensor goes --------------------------------------------------------------------- */

/* m = 0: the operator's tensors are vectors, or the embedding. */
static struct weight_matrix matrix_of(const struct weight_layout *l, const struct weight_place *p,
                                      const struct weight_layer *layer)
{
    switch ((int)p->op) {
    case OP_EMB: /* of a tied model the head is the embedding */
        return l->embedding == l->lm_head.data ? l->lm_head : (struct weight_matrix){0};
    case OP_LM_HEAD:
        return l->lm_head;
    case OP_ATTN_PRE_PROJ:
        return layer->qkv;
    case OP_ATTN_POST_PROJ:
        return layer->out;
    case OP_MLP_UP_PROJ:
        return layer->up;
    case OP_MLP_DOWN_PROJ:
        return layer->down;
    case OP_MOE_ROUTER:
        return layer->router;
    case OP_MOE_UP_PROJ:
        return weight_expert(&layer->expert_up, p->expert);
    case OP_MOE_DOWN_PROJ:
        return weight_expert(&layer->expert_down, p->expert);
    default:
        return (struct weight_matrix){0};
    }
}

static uint64_t vector_of(const struct weight_layout *l, const struct weight_place *p,
                          const struct weight_layer *layer)
{
    const struct weight_norm *norm = NULL;
    switch ((int)p->op) {
    case OP_EMB:
        return l->embedding;
    case OP_QK_NORM:
        return p->part == WEIGHT_Q ? layer->q_norm : layer->k_norm;
    case OP_ATTN_DECODE:
        return layer->sinks;
    case OP_EMB_NORM:
        norm = &l->emb_norm;
        break;
    case OP_INPUT_NORM:
        norm = &layer->input_norm;
        break;
    case OP_POST_ATTN_NORM:
        norm = &layer->post_norm;
        break;
    case OP_ATTN_OUT_NORM:
        norm = &layer->attn_out_norm;
        break;
    case OP_MLP_OUT_NORM:
        norm = &layer->mlp_out_norm;
        break;
    case OP_FINAL_NORM:
        norm = &l->final_norm;
        break;
    default:
        err_bug("a tensor without a place", __FILE__, __LINE__);
    }
    return p->bias ? norm->b : norm->w;
}

struct weight_target weight_target_of(const struct weight_layout *l, const struct tensor *t,
                                      const struct weight_place *p)
{
    const struct weight_layer *layer = p->layer >= 0 ? &l->layers[p->layer] : NULL;
    const struct weight_matrix m = matrix_of(l, p, layer);
    struct weight_target x = {
        .matrix = m, .rows = t->dims[0], .width = t->n_dims == 2 ? t->dims[1] : 1};
    ASSERT(p->pieces == 1);
    x.at = m.m == 0 ? vector_of(l, p, layer) : p->bias ? m.bias : m.data;
    return x;
}
