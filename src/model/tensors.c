#include <string.h>

#include "model/weights.h"

/* ---- names and shapes ------------------------------------------------------------------------ */

/* One row per tensor: a name (a "%" makes it one per layer, a "#" one per expert), its shape in
 * these sizes, the operator that reads it and which part of the operator's weight it is. */
enum tensor_size { NONE, HIDDEN, Q, KV, QKV, HEAD, HEADS, INTER, INTER_TWICE, EXPERTS, VOCAB };

enum when {
    ALWAYS,
    QK_NORM,
    QKV_BIAS,
    OUT_BIAS,
    MLP_BIAS,
    SINKS,
    ROUTER_BIAS,
    EXPERT_BIAS,
    UNTIED,
};

/* FUSED: those of all experts stand in one tensor; TURNED: and each is [in, out] features. */
enum form { PLAIN, FUSED, TURNED };

struct tensor_row {
    const char *name;
    enum tensor_size rows, cols;
    enum when when;
    enum op_kind op;
    enum weight_part part;
    enum form form;
};

/* clang-format off */
static const struct tensor_row decoder_first[] = {
    {"model.embed_tokens.weight", VOCAB, HIDDEN, ALWAYS, OP_EMB, WEIGHT_WHOLE, PLAIN},
    {0},
};
#define LAYER "model.layers.%."
#define ATTENTION_ROWS                                                                            \
    {LAYER "input_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_INPUT_NORM, WEIGHT_WHOLE, PLAIN},   \
    {LAYER "self_attn.q_proj.weight", Q, HIDDEN, ALWAYS, OP_ATTN_PRE_PROJ, WEIGHT_Q, PLAIN},      \
    {LAYER "self_attn.q_proj.bias", Q, NONE, QKV_BIAS, OP_ATTN_PRE_PROJ, WEIGHT_Q, PLAIN},        \
    {LAYER "self_attn.k_proj.weight", KV, HIDDEN, ALWAYS, OP_ATTN_PRE_PROJ, WEIGHT_K, PLAIN},     \
    {LAYER "self_attn.k_proj.bias", KV, NONE, QKV_BIAS, OP_ATTN_PRE_PROJ, WEIGHT_K, PLAIN},       \
    {LAYER "self_attn.v_proj.weight", KV, HIDDEN, ALWAYS, OP_ATTN_PRE_PROJ, WEIGHT_V, PLAIN},     \
    {LAYER "self_attn.v_proj.bias", KV, NONE, QKV_BIAS, OP_ATTN_PRE_PROJ, WEIGHT_V, PLAIN},       \
    {LAYER "self_attn.q_norm.weight", HEAD, NONE, QK_NORM, OP_QK_NORM, WEIGHT_Q, PLAIN},          \
    {LAYER "self_attn.k_norm.weight", HEAD, NONE, QK_NORM, OP_QK_NORM, WEIGHT_K, PLAIN},          \
    {LAYER "self_attn.sinks", HEADS, NONE, SINKS, OP_ATTN_DECODE, WEIGHT_WHOLE, PLAIN},           \
    {LAYER "self_attn.o_proj.weight", HIDDEN, Q, ALWAYS, OP_ATTN_POST_PROJ, WEIGHT_WHOLE, PLAIN}, \
    {LAYER "self_attn.o_proj.bias", HIDDEN, NONE, OUT_BIAS, OP_ATTN_POST_PROJ, WEIGHT_WHOLE,      \
     PLAIN}
#define NORM(name, op)                                                    \
    {LAYER name ".weight", HIDDEN, NONE, ALWAYS, op, WEIGHT_WHOLE, PLAIN}
#define MLP_ROWS                                                                                  \
    {LAYER "mlp.gate_proj.weight", INTER, HIDDEN, ALWAYS, OP_MLP_UP_PROJ, WEIGHT_GATE, PLAIN},    \
    {LAYER "mlp.gate_proj.bias", INTER, NONE, MLP_BIAS, OP_MLP_UP_PROJ, WEIGHT_GATE, PLAIN},      \
    {LAYER "mlp.up_proj.weight", INTER, HIDDEN, ALWAYS, OP_MLP_UP_PROJ, WEIGHT_UP, PLAIN},        \
    {LAYER "mlp.up_proj.bias", INTER, NONE, MLP_BIAS, OP_MLP_UP_PROJ, WEIGHT_UP, PLAIN},          \
    {LAYER "mlp.down_proj.weight", HIDDEN, INTER, ALWAYS, OP_MLP_DOWN_PROJ, WEIGHT_WHOLE, PLAIN}, \
    {LAYER "mlp.down_proj.bias", HIDDEN, NONE, MLP_BIAS, OP_MLP_DOWN_PROJ, WEIGHT_WHOLE, PLAIN}
#define EXPERT_ROWS(moe, gate, up, down)                                                         \
    {LAYER moe ".gate.weight", EXPERTS, HIDDEN, ALWAYS, OP_MOE_ROUTER, WEIGHT_WHOLE, PLAIN},     \
    {LAYER moe ".experts.#." gate ".weight", INTER, HIDDEN, ALWAYS, OP_MOE_UP_PROJ, WEIGHT_GATE, \
     PLAIN},                                                                                     \
    {LAYER moe ".experts.#." up ".weight", INTER, HIDDEN, ALWAYS, OP_MOE_UP_PROJ, WEIGHT_UP,     \
     PLAIN},                                                                                     \
    {LAYER moe ".experts.#." down ".weight", HIDDEN, INTER, ALWAYS, OP_MOE_DOWN_PROJ,            \
     WEIGHT_WHOLE, PLAIN}

static const struct tensor_row decoder_attention[] = {
    ATTENTION_ROWS,
    {0},
};
static const struct tensor_row decoder_mlp[] = {
    NORM("post_attention_layernorm", OP_POST_ATTN_NORM),
    MLP_ROWS,
    {0},
};
static const struct tensor_row decoder_last[] = {
    {"model.norm.weight", HIDDEN, NONE, ALWAYS, OP_FINAL_NORM, WEIGHT_WHOLE, PLAIN},
    {"lm_head.weight", VOCAB, HIDDEN, UNTIED, OP_LM_HEAD, WEIGHT_WHOLE, PLAIN},
    {0},
};
static const struct tensor_row qwen3_moe_experts[] = {
    NORM("post_attention_layernorm", OP_POST_ATTN_NORM),
    EXPERT_ROWS("mlp", "gate_proj", "up_proj", "down_proj"),
    {0},
};
static const struct tensor_row mixtral_experts[] = {
    NORM("post_attention_layernorm", OP_POST_ATTN_NORM),
    EXPERT_ROWS("block_sparse_moe", "w1", "w3", "w2"),
    {0},
};

/* Gemma's post_attention_layernorm is behind the attention, not in front of the MLP. */
static const struct tensor_row gemma3_attention[] = {
    ATTENTION_ROWS,
    NORM("post_attention_layernorm", OP_ATTN_OUT_NORM),
    {0},
};
static const struct tensor_row gemma3_mlp[] = {
    NORM("pre_feedforward_layernorm", OP_POST_ATTN_NORM),
    MLP_ROWS,
    NORM("post_feedforward_layernorm", OP_MLP_OUT_NORM),
    {0},
};

static const struct tensor_row phi3_attention[] = {
    NORM("input_layernorm", OP_INPUT_NORM),
    {LAYER "self_attn.qkv_proj.weight", QKV, HIDDEN, ALWAYS, OP_ATTN_PRE_PROJ, WEIGHT_WHOLE,
     PLAIN},
    {LAYER "self_attn.o_proj.weight", HIDDEN, Q, ALWAYS, OP_ATTN_POST_PROJ, WEIGHT_WHOLE, PLAIN},
    {0},
};
static const struct tensor_row phi3_mlp[] = {
    NORM("post_attention_layernorm", OP_POST_ATTN_NORM),
    {LAYER "mlp.gate_up_proj.weight", INTER_TWICE, HIDDEN, ALWAYS, OP_MLP_UP_PROJ, WEIGHT_WHOLE,
     PLAIN},
    {LAYER "mlp.down_proj.weight", HIDDEN, INTER, ALWAYS, OP_MLP_DOWN_PROJ, WEIGHT_WHOLE, PLAIN},
    {0},
};

static const struct tensor_row gpt_oss_experts[] = {
    NORM("post_attention_layernorm", OP_POST_ATTN_NORM),
    {LAYER "mlp.router.weight", EXPERTS, HIDDEN, ALWAYS, OP_MOE_ROUTER, WEIGHT_WHOLE, PLAIN},
    {LAYER "mlp.router.bias", EXPERTS, NONE, ROUTER_BIAS, OP_MOE_ROUTER, WEIGHT_WHOLE, PLAIN},
    {LAYER "mlp.experts.gate_up_proj", HIDDEN, INTER_TWICE, ALWAYS, OP_MOE_UP_PROJ,
     WEIGHT_GATE_UP, TURNED},
    {LAYER "mlp.experts.gate_up_proj_bias", INTER_TWICE, NONE, EXPERT_BIAS, OP_MOE_UP_PROJ,
     WEIGHT_GATE_UP, FUSED},
    {LAYER "mlp.experts.down_proj", INTER, HIDDEN, ALWAYS, OP_MOE_DOWN_PROJ, WEIGHT_WHOLE,
     TURNED},
    {LAYER "mlp.experts.down_proj_bias", HIDDEN, NONE, EXPERT_BIAS, OP_MOE_DOWN_PROJ,
     WEIGHT_WHOLE, FUSED},
    {0},
};

static const struct tensor_row bloom_first[] = {
    {"transformer.word_embeddings.weight", VOCAB, HIDDEN, ALWAYS, OP_EMB, WEIGHT_WHOLE, PLAIN},
    {"transformer.word_embeddings_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_EMB_NORM,
     WEIGHT_WHOLE, PLAIN},
    {"transformer.word_embeddings_layernorm.bias", HIDDEN, NONE, ALWAYS, OP_EMB_NORM,
     WEIGHT_WHOLE, PLAIN},
    {0},
};
/* query_key_value: rows in the order [heads, (q, k, v), head_dim] */
static const struct tensor_row bloom_attention[] = {
    {"transformer.h.%.input_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_INPUT_NORM, WEIGHT_WHOLE,
     PLAIN},
    {"transformer.h.%.input_layernorm.bias", HIDDEN, NONE, ALWAYS, OP_INPUT_NORM, WEIGHT_WHOLE,
     PLAIN},
    {"transformer.h.%.self_attention.query_key_value.weight", QKV, HIDDEN, ALWAYS,
     OP_ATTN_PRE_PROJ, WEIGHT_QKV, PLAIN},
    {"transformer.h.%.self_attention.query_key_value.bias", QKV, NONE, ALWAYS, OP_ATTN_PRE_PROJ,
     WEIGHT_QKV, PLAIN},
    {"transformer.h.%.self_attention.dense.weight", HIDDEN, Q, ALWAYS, OP_ATTN_POST_PROJ,
     WEIGHT_WHOLE, PLAIN},
    {"transformer.h.%.self_attention.dense.bias", HIDDEN, NONE, ALWAYS, OP_ATTN_POST_PROJ,
     WEIGHT_WHOLE, PLAIN},
    {0},
};
static const struct tensor_row bloom_mlp[] = {
    {"transformer.h.%.post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_POST_ATTN_NORM,
     WEIGHT_WHOLE, PLAIN},
    {"transformer.h.%.post_attention_layernorm.bias", HIDDEN, NONE, ALWAYS, OP_POST_ATTN_NORM,
     WEIGHT_WHOLE, PLAIN},
    {"transformer.h.%.mlp.dense_h_to_4h.weight", INTER, HIDDEN, ALWAYS, OP_MLP_UP_PROJ,
     WEIGHT_WHOLE, PLAIN},
    {"transformer.h.%.mlp.dense_h_to_4h.bias", INTER, NONE, ALWAYS, OP_MLP_UP_PROJ, WEIGHT_WHOLE,
     PLAIN},
    {"transformer.h.%.mlp.dense_4h_to_h.weight", HIDDEN, INTER, ALWAYS, OP_MLP_DOWN_PROJ,
     WEIGHT_WHOLE, PLAIN},
    {"transformer.h.%.mlp.dense_4h_to_h.bias", HIDDEN, NONE, ALWAYS, OP_MLP_DOWN_PROJ,
     WEIGHT_WHOLE, PLAIN},
    {0},
};
static const struct tensor_row bloom_last[] = {
    {"transformer.ln_f.weight", HIDDEN, NONE, ALWAYS, OP_FINAL_NORM, WEIGHT_WHOLE, PLAIN},
    {"transformer.ln_f.bias", HIDDEN, NONE, ALWAYS, OP_FINAL_NORM, WEIGHT_WHOLE, PLAIN},
    {"lm_head.weight", VOCAB, HIDDEN, UNTIED, OP_LM_HEAD, WEIGHT_WHOLE, PLAIN},
    {0},
};
/* clang-format on */

static const struct {
    const struct tensor_row *first, *attention, *mlp, *experts, *last;
} layouts[] = {
    [MODEL_QWEN3] = {decoder_first, decoder_attention, decoder_mlp, NULL, decoder_last},
    [MODEL_LLAMA] = {decoder_first, decoder_attention, decoder_mlp, NULL, decoder_last},
    [MODEL_BLOOM] = {bloom_first, bloom_attention, bloom_mlp, NULL, bloom_last},
    [MODEL_MIXTRAL] = {decoder_first, decoder_attention, NULL, mixtral_experts, decoder_last},
    [MODEL_QWEN3_MOE] = {decoder_first, decoder_attention, decoder_mlp, qwen3_moe_experts,
                         decoder_last},
    [MODEL_GPT_OSS] = {decoder_first, decoder_attention, NULL, gpt_oss_experts, decoder_last},
    [MODEL_PHI3] = {decoder_first, phi3_attention, phi3_mlp, NULL, decoder_last},
    [MODEL_GEMMA3] = {decoder_first, gemma3_attention, gemma3_mlp, NULL, decoder_last},
};

/* What a layer has; outside the layers that of the first. */
struct layer_kinds {
    const struct model *m;
    const struct attention *attention; /* NULL: a model of dimensions */
    const struct mlp *mlp;
    int64_t intermediate, experts;
};

static struct layer_kinds kinds_of(const struct model *m, int64_t layer)
{
    const int64_t of = layer < 0 ? 0 : layer;
    const struct structure *s = m->structure;
    return (struct layer_kinds){.m = m,
                                .attention = s ? &s->attention[model_attention_of(m, of)] : NULL,
                                .mlp = s ? &s->mlp[model_mlp_of(m, of)] : NULL,
                                .intermediate = model_intermediate(m, of),
                                .experts = model_experts(m, of)};
}

static int64_t size_of(const struct layer_kinds *k, enum tensor_size s)
{
    const struct model *m = k->m;
    const int64_t sizes[] = {[NONE] = 0,
                             [HIDDEN] = m->hidden,
                             [Q] = m->heads * m->head_dim,
                             [KV] = m->kv_heads * m->head_dim,
                             [QKV] = (m->heads + 2 * m->kv_heads) * m->head_dim,
                             [HEAD] = m->head_dim,
                             [HEADS] = m->heads,
                             [INTER] = k->intermediate,
                             [INTER_TWICE] = 2 * k->intermediate,
                             [EXPERTS] = k->experts,
                             [VOCAB] = m->vocab};
    return sizes[s];
}

static bool is_there(const struct layer_kinds *k, enum when w)
{
    const struct model *m = k->m;
    const bool there[] = {[ALWAYS] = true,
                          [QK_NORM] = m->qk_norm,
                          [QKV_BIAS] = m->attn_bias || m->qkv_bias,
                          [OUT_BIAS] = m->attn_bias,
                          [MLP_BIAS] = m->mlp_bias,
                          [SINKS] = k->attention && k->attention->sinks,
                          [ROUTER_BIAS] = k->mlp && k->mlp->router_bias,
                          [EXPERT_BIAS] = k->mlp && k->mlp->expert_bias,
                          [UNTIED] = !m->tied};
    return there[w];
}

/* ---- the list -------------------------------------------------------------------------------- */

struct tensor_list {
    struct arena *a;
    struct tensor *t; /* [cap] */
    struct weight_place *places;
    size_t n, cap;
};

/* "%" is the layer, "#" the expert. */
static const char *name_of(struct arena *a, const char *pattern, int64_t layer, int64_t expert)
{
    const char *star = strchr(pattern, '%'), *hash = strchr(pattern, '#');
    if (!star)
        return arena_str(a, pattern);
    if (!hash)
        return arena_printf(a, "%.*s%lld%s", (int)(star - pattern), pattern, (long long)layer,
                            star + 1);
    return arena_printf(a, "%.*s%lld%.*s%lld%s", (int)(star - pattern), pattern, (long long)layer,
                        (int)(hash - star - 1), star + 1, (long long)expert, hash + 1);
}

static bool is_bias(const char *name)
{
    const size_t n = strlen(name);
    return n >= 4 && strcmp(name + n - 4, "bias") == 0;
}

static struct tensor tensor_of(const struct layer_kinds *k, const struct tensor_row *r,
                               const char *name)
{
    const int64_t sizes[] = {r->form == PLAIN ? 0 : k->experts, size_of(k, r->rows),
                             size_of(k, r->cols)};
    struct tensor t = {.name = name, .dtype = DTYPE_F32, .bytes = dtype_bytes(DTYPE_F32)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] == 0)
            continue;
        t.dims[t.n_dims++] = sizes[i];
        t.bytes *= (size_t)sizes[i];
    }
    return t;
}

static int64_t copies_of(const struct layer_kinds *k, const struct tensor_row *r)
{
    return strchr(r->name, '#') ? k->experts : 1;
}

static void add_rows(struct tensor_list *l, const struct model *m, const struct tensor_row *r,
                     int64_t layer)
{
    const struct layer_kinds k = kinds_of(m, layer);
    for (; r && r->name; r++) {
        if (!is_there(&k, r->when))
            continue;
        for (int64_t i = 0; i < copies_of(&k, r); i++) {
            const char *name = name_of(l->a, r->name, layer, i);
            ASSERT(l->n < l->cap);
            l->places[l->n] = (struct weight_place){.layer = layer,
                                                    .op = r->op,
                                                    .part = r->part,
                                                    .bias = is_bias(r->name),
                                                    .transposed = r->form == TURNED,
                                                    .expert = i,
                                                    .pieces = r->form == PLAIN ? 1 : k.experts};
            l->t[l->n++] = tensor_of(&k, r, name);
        }
    }
}

static const struct tensor_row *mlp_rows(const struct model *m, int64_t layer)
{
    return model_experts(m, layer) ? layouts[m->family].experts : layouts[m->family].mlp;
}

/* No fewer than there will be. */
static size_t most_tensors(const struct model *m)
{
    enum { OF_A_LAYER = 32 };
    size_t n = 8;
    for (int64_t i = 0; i < m->layers; i++)
        n += OF_A_LAYER + 3 * (size_t)model_experts(m, i);
    return n;
}

struct tensor *model_tensors(struct arena *a, const struct model *m, struct weight_place **places,
                             size_t *n)
{
    const size_t cap = most_tensors(m);
    struct tensor_list l = {.a = a,
                            .t = arena_array(a, struct tensor, cap),
                            .places = arena_array(a, struct weight_place, cap),
                            .cap = cap};
    add_rows(&l, m, layouts[m->family].first, -1);
    for (int64_t i = 0; i < m->layers; i++) {
        add_rows(&l, m, layouts[m->family].attention, i);
        add_rows(&l, m, mlp_rows(m, i), i);
    }
    add_rows(&l, m, layouts[m->family].last, -1);
    if (places)
        *places = l.places;
    *n = l.n;
    return l.t;
}

struct tensor weight_piece(const struct tensor *t, const struct weight_place *p, int64_t i,
                           struct weight_place *place, int64_t *first)
{
    struct tensor one = *t;
    *place = *p;
    *first = 0;
    if (p->pieces == 1)
        return one;
    ASSERT(t->dims[0] == p->pieces);
    one.n_dims--;
    for (int d = 0; d < one.n_dims; d++)
        one.dims[d] = t->dims[d + 1];
    one.bytes = t->bytes / (size_t)p->pieces;
    if (t->data)
        one.data = (const char *)t->data + (size_t)i * one.bytes;
    *first = i * tensor_elements(&one);
    place->expert = i;
    place->pieces = 1;
    return one;
}

int64_t weight_row(const struct model *m, const struct weight_place *p, int64_t r)
{
    const int64_t d = m->head_dim, q = m->heads * d, kv = m->kv_heads * d;
    switch (p->part) {
    case WEIGHT_WHOLE:
    case WEIGHT_Q:
    case WEIGHT_GATE:
        return r;
    case WEIGHT_K:
        return q + r;
    case WEIGHT_V:
        return q + kv + r;
    case WEIGHT_UP:
        return model_intermediate(m, p->layer) + r;
    case WEIGHT_GATE_UP:
        return r % 2 * model_intermediate(m, p->layer) + r / 2;
    case WEIGHT_QKV: { /* as many heads of keys and values as of queries */
        const int64_t head = r / (3 * d), which = r / d % 3;
        return which * q + head * d + r % d;
    }
    }
    return r;
}
