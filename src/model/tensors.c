#include <string.h>

#include "model/weights.h"

/* ---- names and shapes ------------------------------------------------------------------------ */

/* One row per tensor: a name (a "%" makes it one per layer), its shape in these sizes, the operator
 * that reads it and which part of the operator's weight it is. */
enum size { NONE, HIDDEN, Q, KV, QKV, HEAD, INTER, VOCAB };

enum when { ALWAYS, QK_NORM, QKV_BIAS, OUT_BIAS, MLP_BIAS, UNTIED };

struct row {
    const char *name;
    enum size rows, cols;
    enum when when;
    enum op_kind op;
    enum weight_part part;
};

static const struct row decoder_first[] = {
    {"model.embed_tokens.weight", VOCAB, HIDDEN, ALWAYS, OP_EMB, WEIGHT_WHOLE},
    {0},
};
static const struct row decoder_layer[] = {
    {"model.layers.%.input_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_INPUT_NORM, WEIGHT_WHOLE},
    {"model.layers.%.self_attn.q_proj.weight", Q, HIDDEN, ALWAYS, OP_ATTN_PRE_PROJ, WEIGHT_Q},
    {"model.layers.%.self_attn.q_proj.bias", Q, NONE, QKV_BIAS, OP_ATTN_PRE_PROJ, WEIGHT_Q},
    {"model.layers.%.self_attn.k_proj.weight", KV, HIDDEN, ALWAYS, OP_ATTN_PRE_PROJ, WEIGHT_K},
    {"model.layers.%.self_attn.k_proj.bias", KV, NONE, QKV_BIAS, OP_ATTN_PRE_PROJ, WEIGHT_K},
    {"model.layers.%.self_attn.v_proj.weight", KV, HIDDEN, ALWAYS, OP_ATTN_PRE_PROJ, WEIGHT_V},
    {"model.layers.%.self_attn.v_proj.bias", KV, NONE, QKV_BIAS, OP_ATTN_PRE_PROJ, WEIGHT_V},
    {"model.layers.%.self_attn.q_norm.weight", HEAD, NONE, QK_NORM, OP_QK_NORM, WEIGHT_Q},
    {"model.layers.%.self_attn.k_norm.weight", HEAD, NONE, QK_NORM, OP_QK_NORM, WEIGHT_K},
    {"model.layers.%.self_attn.o_proj.weight", HIDDEN, Q, ALWAYS, OP_ATTN_POST_PROJ, WEIGHT_WHOLE},
    {"model.layers.%.self_attn.o_proj.bias", HIDDEN, NONE, OUT_BIAS, OP_ATTN_POST_PROJ,
     WEIGHT_WHOLE},
    {"model.layers.%.post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_POST_ATTN_NORM,
     WEIGHT_WHOLE},
    {"model.layers.%.mlp.gate_proj.weight", INTER, HIDDEN, ALWAYS, OP_MLP_UP_PROJ, WEIGHT_GATE},
    {"model.layers.%.mlp.gate_proj.bias", INTER, NONE, MLP_BIAS, OP_MLP_UP_PROJ, WEIGHT_GATE},
    {"model.layers.%.mlp.up_proj.weight", INTER, HIDDEN, ALWAYS, OP_MLP_UP_PROJ, WEIGHT_UP},
    {"model.layers.%.mlp.up_proj.bias", INTER, NONE, MLP_BIAS, OP_MLP_UP_PROJ, WEIGHT_UP},
    {"model.layers.%.mlp.down_proj.weight", HIDDEN, INTER, ALWAYS, OP_MLP_DOWN_PROJ, WEIGHT_WHOLE},
    {"model.layers.%.mlp.down_proj.bias", HIDDEN, NONE, MLP_BIAS, OP_MLP_DOWN_PROJ, WEIGHT_WHOLE},
    {0},
};
static const struct row decoder_last[] = {
    {"model.norm.weight", HIDDEN, NONE, ALWAYS, OP_FINAL_NORM, WEIGHT_WHOLE},
    {"lm_head.weight", VOCAB, HIDDEN, UNTIED, OP_LM_HEAD, WEIGHT_WHOLE},
    {0},
};

static const struct row bloom_first[] = {
    {"transformer.word_embeddings.weight", VOCAB, HIDDEN, ALWAYS, OP_EMB, WEIGHT_WHOLE},
    {"transformer.word_embeddings_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_EMB_NORM,
     WEIGHT_WHOLE},
    {"transformer.word_embeddings_layernorm.bias", HIDDEN, NONE, ALWAYS, OP_EMB_NORM, WEIGHT_WHOLE},
    {0},
};
/* query_key_value: rows in the order [heads, (q, k, v), head_dim] */
static const struct row bloom_layer[] = {
    {"transformer.h.%.input_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_INPUT_NORM, WEIGHT_WHOLE},
    {"transformer.h.%.input_layernorm.bias", HIDDEN, NONE, ALWAYS, OP_INPUT_NORM, WEIGHT_WHOLE},
    {"transformer.h.%.self_attention.query_key_value.weight", QKV, HIDDEN, ALWAYS, OP_ATTN_PRE_PROJ,
     WEIGHT_QKV},
    {"transformer.h.%.self_attention.query_key_value.bias", QKV, NONE, ALWAYS, OP_ATTN_PRE_PROJ,
     WEIGHT_QKV},
    {"transformer.h.%.self_attention.dense.weight", HIDDEN, Q, ALWAYS, OP_ATTN_POST_PROJ,
     WEIGHT_WHOLE},
    {"transformer.h.%.self_attention.dense.bias", HIDDEN, NONE, ALWAYS, OP_ATTN_POST_PROJ,
     WEIGHT_WHOLE},
    {"transformer.h.%.post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS, OP_POST_ATTN_NORM,
     WEIGHT_WHOLE},
    {"transformer.h.%.post_attention_layernorm.bias", HIDDEN, NONE, ALWAYS, OP_POST_ATTN_NORM,
     WEIGHT_WHOLE},
    {"transformer.h.%.mlp.dense_h_to_4h.weight", INTER, HIDDEN, ALWAYS, OP_MLP_UP_PROJ,
     WEIGHT_WHOLE},
    {"transformer.h.%.mlp.dense_h_to_4h.bias", INTER, NONE, ALWAYS, OP_MLP_UP_PROJ, WEIGHT_WHOLE},
    {"transformer.h.%.mlp.dense_4h_to_h.weight", HIDDEN, INTER, ALWAYS, OP_MLP_DOWN_PROJ,
     WEIGHT_WHOLE},
    {"transformer.h.%.mlp.dense_4h_to_h.bias", HIDDEN, NONE, ALWAYS, OP_MLP_DOWN_PROJ,
     WEIGHT_WHOLE},
    {0},
};
static const struct row bloom_last[] = {
    {"transformer.ln_f.weight", HIDDEN, NONE, ALWAYS, OP_FINAL_NORM, WEIGHT_WHOLE},
    {"transformer.ln_f.bias", HIDDEN, NONE, ALWAYS, OP_FINAL_NORM, WEIGHT_WHOLE},
    {"lm_head.weight", VOCAB, HIDDEN, UNTIED, OP_LM_HEAD, WEIGHT_WHOLE},
    {0},
};

static const struct {
    const struct row *first, *layer, *last;
} layouts[] = {
    [MODEL_QWEN3] = {decoder_first, decoder_layer, decoder_last},
    [MODEL_LLAMA] = {decoder_first, decoder_layer, decoder_last},
    [MODEL_BLOOM] = {bloom_first, bloom_layer, bloom_last},
};

static int64_t size_of(const struct model *m, enum size s)
{
    const int64_t sizes[] = {[NONE] = 0,
                             [HIDDEN] = m->hidden,
                             [Q] = m->heads * m->head_dim,
                             [KV] = m->kv_heads * m->head_dim,
                             [QKV] = (m->heads + 2 * m->kv_heads) * m->head_dim,
                             [HEAD] = m->head_dim,
                             [INTER] = m->intermediate,
                             [VOCAB] = m->vocab};
    return sizes[s];
}

static bool is_there(const struct model *m, enum when w)
{
    const bool there[] = {[ALWAYS] = true,
                          [QK_NORM] = m->qk_norm,
                          [QKV_BIAS] = m->attn_bias || m->qkv_bias,
                          [OUT_BIAS] = m->attn_bias,
                          [MLP_BIAS] = m->mlp_bias,
                          [UNTIED] = !m->tied};
    return there[w];
}

struct list {
    struct arena *a;
    struct tensor *t; /* [cap] */
    struct weight_place *places;
    size_t n, cap;
};

static const char *name_of(struct arena *a, const char *pattern, int64_t layer)
{
    const char *star = strchr(pattern, '%');
    return star ? arena_printf(a, "%.*s%lld%s", (int)(star - pattern), pattern, (long long)layer,
                               star + 1)
                : arena_str(a, pattern);
}

static bool is_bias(const char *name)
{
    return strcmp(strrchr(name, '.'), ".bias") == 0;
}

static void add_rows(struct list *l, const struct model *m, const struct row *r, int64_t layer)
{
    for (; r->name; r++) {
        if (!is_there(m, r->when))
            continue;
        const int64_t rows = size_of(m, r->rows), cols = size_of(m, r->cols);
        ASSERT(l->n < l->cap);
        l->places[l->n] = (struct weight_place){layer, r->op, r->part, is_bias(r->name)};
        l->t[l->n++] = (struct tensor){.name = name_of(l->a, r->name, layer),
                                       .dtype = DTYPE_F32,
                                       .n_dims = cols ? 2 : 1,
                                       .dims = {rows, cols},
                                       .bytes = (size_t)(rows * (cols ? cols : 1)) * 4};
    }
}

struct tensor *model_tensors(struct arena *a, const struct model *m, struct weight_place **places,
                             size_t *n)
{
    const size_t cap = 8 + (size_t)m->layers * (sizeof decoder_layer / sizeof *decoder_layer);
    struct list l = {.a = a,
                     .t = arena_array(a, struct tensor, cap),
                     .places = arena_array(a, struct weight_place, cap),
                     .cap = cap};
    add_rows(&l, m, layouts[m->family].first, -1);
    for (int64_t i = 0; i < m->layers; i++)
        add_rows(&l, m, layouts[m->family].layer, i);
    add_rows(&l, m, layouts[m->family].last, -1);
    if (places)
        *places = l.places;
    *n = l.n;
    return l.t;
}

int64_t weight_row(const struct model *m, enum weight_part part, int64_t r)
{
    const int64_t d = m->head_dim, q = m->heads * d, kv = m->kv_heads * d;
    switch (part) {
    case WEIGHT_WHOLE:
    case WEIGHT_Q:
    case WEIGHT_GATE:
        return r;
    case WEIGHT_K:
        return q + r;
    case WEIGHT_V:
        return q + kv + r;
    case WEIGHT_UP:
        return m->intermediate + r;
    case WEIGHT_QKV: { /* as many heads of keys and values as of queries */
        const int64_t head = r / (3 * d), which = r / d % 3;
        return which * q + head * d + r % d;
    }
    }
    return r;
}
