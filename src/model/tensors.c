#include <string.h>

#include "model/weights.h"

/* ---- names and shapes ------------------------------------------------------------------------ */

struct list {
    struct arena *a;
    struct tensor *t; /* [cap] */
    size_t n, cap;
};

/* cols 0 = a vector. "%" in the pattern stands for the layer. */
static void add(struct list *l, const char *pattern, int64_t layer, int64_t rows, int64_t cols)
{
    const char *star = strchr(pattern, '%');
    const char *name = star ? arena_printf(l->a, "%.*s%lld%s", (int)(star - pattern), pattern,
                                           (long long)layer, star + 1)
                            : arena_str(l->a, pattern);
    ASSERT(l->n < l->cap);
    l->t[l->n++] = (struct tensor){.name = name,
                                   .dtype = DTYPE_F32,
                                   .n_dims = cols ? 2 : 1,
                                   .dims = {rows, cols},
                                   .bytes = (size_t)(rows * (cols ? cols : 1)) * 4};
}

/* One row per tensor: a name (a "%" makes it one per layer) and its shape in these sizes. */
enum size { NONE, HIDDEN, Q, KV, QKV, HEAD, INTER, VOCAB };

enum when { ALWAYS, QK_NORM, ATTN_BIAS, MLP_BIAS, UNTIED };

struct row {
    const char *name;
    enum size rows, cols;
    enum when when;
};

static const struct row decoder_first[] = {
    {"model.embed_tokens.weight", VOCAB, HIDDEN, ALWAYS},
    {0},
};
static const struct row decoder_layer[] = {
    {"model.layers.%.input_layernorm.weight", HIDDEN, NONE, ALWAYS},
    {"model.layers.%.self_attn.q_proj.weight", Q, HIDDEN, ALWAYS},
    {"model.layers.%.self_attn.q_proj.bias", Q, NONE, ATTN_BIAS},
    {"model.layers.%.self_attn.k_proj.weight", KV, HIDDEN, ALWAYS},
    {"model.layers.%.self_attn.k_proj.bias", KV, NONE, ATTN_BIAS},
    {"model.layers.%.self_attn.v_proj.weight", KV, HIDDEN, ALWAYS},
    {"model.layers.%.self_attn.v_proj.bias", KV, NONE, ATTN_BIAS},
    {"model.layers.%.self_attn.q_norm.weight", HEAD, NONE, QK_NORM},
    {"model.layers.%.self_attn.k_norm.weight", HEAD, NONE, QK_NORM},
    {"model.layers.%.self_attn.o_proj.weight", HIDDEN, Q, ALWAYS},
    {"model.layers.%.self_attn.o_proj.bias", HIDDEN, NONE, ATTN_BIAS},
    {"model.layers.%.post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS},
    {"model.layers.%.mlp.gate_proj.weight", INTER, HIDDEN, ALWAYS},
    {"model.layers.%.mlp.gate_proj.bias", INTER, NONE, MLP_BIAS},
    {"model.layers.%.mlp.up_proj.weight", INTER, HIDDEN, ALWAYS},
    {"model.layers.%.mlp.up_proj.bias", INTER, NONE, MLP_BIAS},
    {"model.layers.%.mlp.down_proj.weight", HIDDEN, INTER, ALWAYS},
    {"model.layers.%.mlp.down_proj.bias", HIDDEN, NONE, MLP_BIAS},
    {0},
};
static const struct row decoder_last[] = {
    {"model.norm.weight", HIDDEN, NONE, ALWAYS},
    {"lm_head.weight", VOCAB, HIDDEN, UNTIED},
    {0},
};

static const struct row bloom_first[] = {
    {"transformer.word_embeddings.weight", VOCAB, HIDDEN, ALWAYS},
    {"transformer.word_embeddings_layernorm.weight", HIDDEN, NONE, ALWAYS},
    {"transformer.word_embeddings_layernorm.bias", HIDDEN, NONE, ALWAYS},
    {0},
};
/* query_key_value: rows in the order [heads, (q, k, v), head_dim] */
static const struct row bloom_layer[] = {
    {"transformer.h.%.input_layernorm.weight", HIDDEN, NONE, ALWAYS},
    {"transformer.h.%.input_layernorm.bias", HIDDEN, NONE, ALWAYS},
    {"transformer.h.%.self_attention.query_key_value.weight", QKV, HIDDEN, ALWAYS},
    {"transformer.h.%.self_attention.query_key_value.bias", QKV, NONE, ALWAYS},
    {"transformer.h.%.self_attention.dense.weight", HIDDEN, Q, ALWAYS},
    {"transformer.h.%.self_attention.dense.bias", HIDDEN, NONE, ALWAYS},
    {"transformer.h.%.post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS},
    {"transformer.h.%.post_attention_layernorm.bias", HIDDEN, NONE, ALWAYS},
    {"transformer.h.%.mlp.dense_h_to_4h.weight", INTER, HIDDEN, ALWAYS},
    {"transformer.h.%.mlp.dense_h_to_4h.bias", INTER, NONE, ALWAYS},
    {"transformer.h.%.mlp.dense_4h_to_h.weight", HIDDEN, INTER, ALWAYS},
    {"transformer.h.%.mlp.dense_4h_to_h.bias", HIDDEN, NONE, ALWAYS},
    {0},
};
static const struct row bloom_last[] = {
    {"transformer.ln_f.weight", HIDDEN, NONE, ALWAYS},
    {"transformer.ln_f.bias", HIDDEN, NONE, ALWAYS},
    {"lm_head.weight", VOCAB, HIDDEN, UNTIED},
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
                          [ATTN_BIAS] = m->attn_bias,
                          [MLP_BIAS] = m->mlp_bias,
                          [UNTIED] = !m->tied};
    return there[w];
}

static void add_rows(struct list *l, const struct model *m, const struct row *r, int64_t layer)
{
    for (; r->name; r++)
        if (is_there(m, r->when))
            add(l, r->name, layer, size_of(m, r->rows), size_of(m, r->cols));
}

struct tensor *model_tensors(struct arena *a, const struct model *m, size_t *n)
{
    size_t cap = 8 + (size_t)m->layers * (sizeof decoder_layer / sizeof *decoder_layer);
    struct list l = {.a = a, .t = arena_array(a, struct tensor, cap), .cap = cap};
    add_rows(&l, m, layouts[m->family].first, 0);
    for (int64_t i = 0; i < m->layers; i++)
        add_rows(&l, m, layouts[m->family].layer, i);
    add_rows(&l, m, layouts[m->family].last, 0);
    *n = l.n;
    return l.t;
}
