#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "model/formats.h"
#include "text/json.h"

enum { CONFIG_MAX_BYTES = 4 << 20 };

/* Every product of these limits that is formed later (parameters, bytes and FLOPs of a token) stays
 * below 2^62. */
enum {
    MAX_EXPERTS = 1 << 12,
    MAX_LAYERS = 1 << 12,
    MAX_WIDTH = 1 << 20,
    MAX_HEADS = 1 << 14,
    MAX_HEAD_DIM = 1 << 10,
    MAX_INTERMEDIATE = 1 << 23,
    MAX_VOCAB = 1 << 23,
    MAX_POSITIONS = 1 << 30,
};

/* ---- reading members that have several names or may be null --------------------------------- */

/* The first of the names ("a|b") that is there and not null; the place ends in *name. */
static const struct node *find_alias(const struct node *c, const char *names, char name[64])
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        ASSERT(n < 64);
        memcpy(name, p, n);
        name[n] = 0;
        const struct node *v = node_find(c, name);
        if (v && v->kind != NODE_NULL)
            return v;
        p += n + (p[n] == '|');
    }
    size_t n = strcspn(names, "|");
    memcpy(name, names, n);
    name[n] = 0;
    return NULL;
}

static const struct node *present(const struct node *c, const char *key)
{
    char name[64];
    return find_alias(c, key, name);
}

static enum st get_dim(const struct node *c, const char *names, int64_t max, int64_t fallback,
                       int64_t *out, struct err *e)
{
    char name[64];
    if (!find_alias(c, names, name) && fallback >= 0) {
        *out = fallback;
        return ST_OK;
    }
    return node_get_int(c, name, 1, max, out, e);
}

static enum st get_flag(const struct node *c, const char *key, bool fallback, bool *out,
                        struct err *e)
{
    *out = fallback;
    return present(c, key) ? node_get_bool(c, key, out, e) : ST_OK;
}

static enum st get_positive(const struct node *c, const char *key, double fallback, double max,
                            double *out, struct err *e)
{
    *out = fallback;
    return present(c, key) ? node_get_double(c, key, 1e-30, max, out, e) : ST_OK;
}

/* ---- dimensions ------------------------------------------------------------------------------ */

enum { REQUIRED = -1, DERIVED = 0 };

struct dim {
    const char *names;
    size_t offset;
    int64_t max, fallback;
};

#define DIM(field) offsetof(struct model, field)

static const struct dim decoder_dims[] = {
    {"vocab_size", DIM(vocab), MAX_VOCAB, REQUIRED},
    {"hidden_size", DIM(hidden), MAX_WIDTH, REQUIRED},
    {"num_hidden_layers", DIM(layers), MAX_LAYERS, REQUIRED},
    {"num_attention_heads", DIM(heads), MAX_HEADS, REQUIRED},
    {"num_key_value_heads", DIM(kv_heads), MAX_HEADS, DERIVED},
    {"head_dim", DIM(head_dim), MAX_HEAD_DIM, DERIVED},
    {"intermediate_size", DIM(intermediate), MAX_INTERMEDIATE, REQUIRED},
    {"max_position_embeddings", DIM(max_positions), MAX_POSITIONS, 2048},
    {0},
};

static const struct dim qwen_dims[] = {
    {"vocab_size", DIM(vocab), MAX_VOCAB, REQUIRED},
    {"hidden_size", DIM(hidden), MAX_WIDTH, REQUIRED},
    {"num_hidden_layers", DIM(layers), MAX_LAYERS, REQUIRED},
    {"num_attention_heads", DIM(heads), MAX_HEADS, REQUIRED},
    {"kv_channels", DIM(head_dim), MAX_HEAD_DIM, DERIVED},
    {"intermediate_size", DIM(intermediate), MAX_INTERMEDIATE, REQUIRED},
    {"max_position_embeddings", DIM(max_positions), MAX_POSITIONS, 8192},
    {0},
};

static const struct dim bloom_dims[] = {
    {"vocab_size", DIM(vocab), MAX_VOCAB, REQUIRED},
    {"hidden_size|n_embed", DIM(hidden), MAX_WIDTH, REQUIRED},
    {"n_layer|num_hidden_layers", DIM(layers), MAX_LAYERS, REQUIRED},
    {"n_head|num_attention_heads", DIM(heads), MAX_HEADS, REQUIRED},
    {"n_inner", DIM(intermediate), MAX_INTERMEDIATE, DERIVED},
    {"seq_length", DIM(max_positions), MAX_POSITIONS, 2048},
    {0},
};

static enum st read_dims(const struct node *c, const struct dim *d, struct model *m, struct err *e)
{
    for (; d->names; d++)
        TRY(get_dim(c, d->names, d->max, d->fallback, (int64_t *)(void *)((char *)m + d->offset),
                    e));
    return ST_OK;
}

static enum st check_heads(const struct node *c, struct model *m, struct err *e)
{
    char name[64];
    const struct node *at = find_alias(c, "num_attention_heads|n_head", name);
    if (m->head_dim == 0) {
        if (m->hidden % m->heads != 0)
            return node_err(at, ST_INPUT, e,
                            "%s: the hidden size %lld is not divisible by %lld heads", name,
                            (long long)m->hidden, (long long)m->heads);
        m->head_dim = m->hidden / m->heads;
        if (m->head_dim > MAX_HEAD_DIM)
            return node_err(at, ST_INPUT, e, "%s: %lld heads make a head of %lld; at most %d", name,
                            (long long)m->heads, (long long)m->head_dim, MAX_HEAD_DIM);
    }
    if (m->heads % m->kv_heads != 0)
        return node_err(present(c, "num_key_value_heads"), ST_INPUT, e,
                        "num_key_value_heads: %lld heads are not divisible by %lld kv heads",
                        (long long)m->heads, (long long)m->kv_heads);
    if (m->heads * m->head_dim > MAX_WIDTH)
        return node_err(at, ST_INPUT, e, "%s: %lld heads of %lld are more than %d wide", name,
                        (long long)m->heads, (long long)m->head_dim, MAX_WIDTH);
    if (m->position == POSITION_ROPE && m->head_dim % 2 != 0) {
        const struct node *given = present(c, "head_dim");
        return node_err(given ? given : at, ST_INPUT, e,
                        "head_dim: rotary positions need an even head, got %lld",
                        (long long)m->head_dim);
    }
    return ST_OK;
}

/* ---- what the engine does not do is refused by name ------------------------------------------ */

static enum st check_rope_type(const struct node *map, const char *where, struct err *e)
{
    if (map->kind != NODE_MAP)
        return node_err(map, ST_INPUT, e, "%s: expected a map, got %s", where,
                        node_kind_name(map->kind));
    static const char *const keys[] = {"rope_type", "type"};
    for (size_t i = 0; i < 2; i++) {
        const struct node *t = present(map, keys[i]);
        if (t && !(t->kind == NODE_STR && sv_eq(t->s, "default")))
            return node_err(t, ST_INPUT, e,
                            "%s.%s: only 'default' rotary positions are supported, got %s%.*s%s",
                            where, keys[i], t->kind == NODE_STR ? "'" : "",
                            t->kind == NODE_STR ? (int)t->s.n : 0,
                            t->kind == NODE_STR ? t->s.p : "",
                            t->kind == NODE_STR ? "'" : node_kind_name(t->kind));
    }
    const struct node *part = present(map, "partial_rotary_factor");
    if (part && !(part->kind == NODE_FLOAT && part->f >= 1 && part->f <= 1) &&
        !(part->kind == NODE_INT && part->i == 1))
        return node_err(part, ST_INPUT, e, "%s.partial_rotary_factor: only 1 is supported", where);
    return ST_OK;
}

/* transformers 4 writes rope_theta and rope_scaling, transformers 5 rope_parameters. */
static enum st read_rope(const struct node *c, struct model *m, struct err *e)
{
    const struct node *scaling = present(c, "rope_scaling");
    if (scaling)
        TRY(check_rope_type(scaling, "rope_scaling", e));
    TRY(get_positive(c, "rope_theta", 1e4, 1e15, &m->rope_theta, e));
    const struct node *p = present(c, "rope_parameters");
    if (!p)
        return ST_OK;
    TRY(check_rope_type(p, "rope_parameters", e));
    return get_positive(p, "rope_theta", m->rope_theta, 1e15, &m->rope_theta, e);
}

/* Qwen3 slides from layer max_window_layers on, only if use_sliding_window; others whenever
 * sliding_window is set. */
static enum st check_window(const struct node *c, const struct model *m, struct err *e)
{
    const struct node *types = present(c, "layer_types");
    for (uint32_t i = 0; types && types->kind == NODE_LIST && i < types->n; i++) {
        const struct node *t = types->items[i];
        if (!(t->kind == NODE_STR && sv_eq(t->s, "full_attention")))
            return node_err(t, ST_INPUT, e,
                            "layer_types: only 'full_attention' is supported, layer %u differs", i);
    }
    const struct node *window = present(c, "sliding_window");
    bool qwen3 = m->family == MODEL_QWEN3 || m->family == MODEL_QWEN3_MOE, used = !qwen3;
    TRY(get_flag(c, "use_sliding_window", used, &used, e));
    int64_t from = 0;
    if (present(c, "max_window_layers") && qwen3)
        TRY(node_get_int(c, "max_window_layers", 0, INT64_MAX, &from, e));
    if (window && used && from < m->layers)
        return node_err(window, ST_INPUT, e, "sliding_window: sliding windows are not supported");
    return ST_OK;
}

/* ---- families -------------------------------------------------------------------------------- */

static enum st read_decoder(const struct node *c, struct model *m, struct err *e)
{
    bool qwen3 = m->family == MODEL_QWEN3 || m->family == MODEL_QWEN3_MOE;
    m->norm = NORM_RMS;
    m->act = ACT_SILU_GATED;
    m->position = POSITION_ROPE;
    m->qk_norm = qwen3;
    TRY(read_dims(c, decoder_dims, m, e));
    if (m->kv_heads == 0)
        m->kv_heads = m->heads;
    if (m->head_dim == 0 && qwen3)
        m->head_dim = 128; /* Qwen3Config's default, not hidden / heads */
    const struct node *act = present(c, "hidden_act");
    if (act && !(act->kind == NODE_STR && (sv_eq(act->s, "silu") || sv_eq(act->s, "swish"))))
        return node_err(act, ST_INPUT, e, "hidden_act: only 'silu' is supported for this model");
    TRY(get_positive(c, "rms_norm_eps", 1e-6, 1, &m->norm_eps, e));
    TRY(get_flag(c, "attention_bias", false, &m->attn_bias, e));
    if (!qwen3)
        TRY(get_flag(c, "mlp_bias", false, &m->mlp_bias, e));
    TRY(get_flag(c, "tie_word_embeddings", false, &m->tied, e));
    TRY(read_rope(c, m, e));
    return check_window(c, m, e);
}

/* Llama with a switch for the biases of q, k, v and o. "rotary.type: dynamic" rescales positions
 * past max_position_embeddings only. */
static enum st read_internlm(const struct node *c, struct model *m, struct err *e)
{
    TRY(read_decoder(c, m, e));
    return get_flag(c, "bias", true, &m->attn_bias, e);
}

/* Its intermediate_size counts gate and up together. */
static enum st read_qwen(const struct node *c, struct model *m, struct err *e)
{
    m->norm = NORM_RMS;
    m->act = ACT_SILU_GATED;
    m->position = POSITION_ROPE;
    m->qkv_bias = true;
    TRY(read_dims(c, qwen_dims, m, e));
    m->kv_heads = m->heads;
    if (m->intermediate % 2 != 0)
        return node_err(present(c, "intermediate_size"), ST_INPUT, e,
                        "intermediate_size: gate and up are two equal halves, got %lld",
                        (long long)m->intermediate);
    m->intermediate /= 2;
    TRY(get_positive(c, "layer_norm_epsilon", 1e-6, 1, &m->norm_eps, e));
    TRY(get_positive(c, "rotary_emb_base", 1e4, 1e15, &m->rope_theta, e));
    return get_flag(c, "tie_word_embeddings", false, &m->tied, e);
}

static enum st read_phi(const struct node *c, struct model *m, struct err *e)
{
    m->norm = NORM_LAYER;
    m->act = ACT_GELU_TANH;
    m->position = POSITION_ROPE;
    m->attn_bias = m->mlp_bias = m->head_bias = m->parallel_block = true;
    TRY(read_dims(c, decoder_dims, m, e));
    if (m->kv_heads == 0)
        m->kv_heads = m->heads;
    bool qk_norm;
    TRY(get_flag(c, "qk_layernorm", false, &qk_norm, e));
    if (qk_norm)
        return node_err(present(c, "qk_layernorm"), ST_INPUT, e,
                        "qk_layernorm: only false is supported");
    const struct node *act = present(c, "hidden_act");
    if (act && !(act->kind == NODE_STR && sv_eq(act->s, "gelu_new")))
        return node_err(act, ST_INPUT, e,
                        "hidden_act: only 'gelu_new' is supported for this model");
    double part;
    TRY(get_positive(c, "partial_rotary_factor", 0.5, 1, &part, e));
    TRY(check_heads(c, m, e));
    m->rotary_dim = (int64_t)(part * (double)m->head_dim);
    TRY(get_positive(c, "layer_norm_eps", 1e-5, 1, &m->norm_eps, e));
    TRY(read_rope(c, m, e));
    return get_flag(c, "tie_word_embeddings", false, &m->tied, e);
}

/* ---- experts --------------------------------------------------------------------------------- */

static enum st read_experts(const struct node *c, const char *count, struct model *m, struct err *e)
{
    TRY(node_get_int(c, count, 1, MAX_EXPERTS, &m->experts, e));
    TRY(node_get_int(c, "num_experts_per_tok", 1, m->experts, &m->experts_per_token, e));
    if (m->intermediate * m->experts > MAX_INTERMEDIATE)
        return node_err(present(c, count), ST_INPUT, e,
                        "%s: %lld experts of %lld are more than %d wide together", count,
                        (long long)m->experts, (long long)m->intermediate, MAX_INTERMEDIATE);
    return ST_OK;
}

static enum st read_mixtral(const struct node *c, struct model *m, struct err *e)
{
    TRY(read_decoder(c, m, e));
    return read_experts(c, "num_local_experts", m, e);
}

/* Every layer has experts; intermediate_size would be that of layers without. */
static enum st read_qwen3_moe(const struct node *c, struct model *m, struct err *e)
{
    int64_t step = 1;
    TRY(read_decoder(c, m, e));
    if (present(c, "decoder_sparse_step"))
        TRY(node_get_int(c, "decoder_sparse_step", 1, INT64_MAX, &step, e));
    const struct node *dense = present(c, "mlp_only_layers");
    if (step != 1)
        return node_err(present(c, "decoder_sparse_step"), ST_INPUT, e,
                        "decoder_sparse_step: only 1 is supported, experts in every layer");
    if (dense && dense->kind == NODE_LIST && dense->n > 0)
        return node_err(dense, ST_INPUT, e,
                        "mlp_only_layers: layers without experts are not supported");
    TRY(node_get_int(c, "moe_intermediate_size", 1, MAX_INTERMEDIATE, &m->intermediate, e));
    return read_experts(c, "num_experts", m, e);
}

static enum st read_bloom(const struct node *c, struct model *m, struct err *e)
{
    m->norm = NORM_LAYER;
    m->act = ACT_GELU_TANH;
    m->position = POSITION_ALIBI;
    m->attn_bias = m->mlp_bias = m->emb_norm = true;
    TRY(read_dims(c, bloom_dims, m, e));
    m->kv_heads = m->heads;
    if (m->intermediate != 0 && m->intermediate != 4 * m->hidden)
        return node_err(present(c, "n_inner"), ST_INPUT, e,
                        "n_inner: BLOOM's is 4 x the hidden size = %lld, got %lld",
                        (long long)(4 * m->hidden), (long long)m->intermediate);
    m->intermediate = 4 * m->hidden;
    bool post = false;
    TRY(get_flag(c, "apply_residual_connection_post_layernorm", false, &post, e));
    if (post)
        return node_err(present(c, "apply_residual_connection_post_layernorm"), ST_INPUT, e,
                        "apply_residual_connection_post_layernorm: only false is supported");
    TRY(get_positive(c, "layer_norm_epsilon", 1e-5, 1, &m->norm_eps, e));
    return get_flag(c, "tie_word_embeddings", true, &m->tied, e);
}

static const struct family {
    const char *type;
    enum model_family family;
    enum st (*read)(const struct node *c, struct model *m, struct err *e);
} families[] = {
    {"qwen3", MODEL_QWEN3, read_decoder},     {"llama", MODEL_LLAMA, read_decoder},
    {"bloom", MODEL_BLOOM, read_bloom},       {"internlm", MODEL_LLAMA, read_internlm},
    {"qwen", MODEL_QWEN, read_qwen},          {"phi", MODEL_PHI, read_phi},
    {"mixtral", MODEL_MIXTRAL, read_mixtral}, {"qwen3_moe", MODEL_QWEN3_MOE, read_qwen3_moe},
};
enum { FAMILIES = sizeof families / sizeof *families };

const char *model_family_name(enum model_family f)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (families[i].family == f)
            return families[i].type;
    err_bug("model family", __FILE__, __LINE__);
}

enum st model_check_computed(const struct model *m, struct err *e)
{
    if (formats_quantised(m)) {
        err_set(e, ST_INPUT, "model %s: no engine here computes quantised weights (%s)", m->name,
                precision_name(m->weights));
        return err_hint(e, "`twinfer simulate` predicts it");
    }
    if (m->family == MODEL_QWEN3 || m->family == MODEL_LLAMA || m->family == MODEL_BLOOM)
        return ST_OK;
    err_set(e, ST_INPUT, "model %s: no engine here computes models of type %s", m->name,
            model_family_name(m->family));
    return err_hint(e, "`twinfer simulate` serves it on a bundle profiled elsewhere");
}

static enum st find_family(const struct node *c, const struct family **out, struct err *e)
{
    const char *type;
    TRY(node_get_str(c, "model_type", &type, e));
    for (size_t i = 0; i < FAMILIES; i++) {
        if (strcmp(type, families[i].type) == 0) {
            *out = &families[i];
            return ST_OK;
        }
    }
    struct buf known = {0};
    for (size_t i = 0; i < FAMILIES; i++)
        buf_printf(&known, "%s%s",
                   i == 0             ? ""
                   : i + 1 < FAMILIES ? ", "
                                      : " and ",
                   families[i].type);
    node_err(node_find(c, "model_type"), ST_INPUT, e,
             "model_type: '%.100s' is not supported; %s are", type, buf_str(&known));
    buf_free(&known);
    return ST_INPUT;
}

/* ---- token ids ---------------------------------------------------------------------------------
 */

static bool is_eos(const struct model *m, int64_t id)
{
    for (int64_t i = 0; i < m->n_eos; i++)
        if (m->eos_ids[i] == id)
            return true;
    return false;
}

enum st model_add_eos(struct model *m, const struct node *c, struct err *e)
{
    const struct node *eos = present(c, "eos_token_id");
    enum { MAX_EOS = sizeof m->eos_ids / sizeof *m->eos_ids };
    if (!eos)
        return ST_OK;
    bool list = eos->kind == NODE_LIST;
    uint32_t n = list ? eos->n : 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct node *v = list ? eos->items[i] : eos;
        if (v->kind != NODE_INT)
            return node_err(v, ST_INPUT, e, "eos_token_id: expected an integer, got %s",
                            node_kind_name(v->kind));
        if (v->i < 0 || v->i >= m->vocab)
            return node_err(v, ST_INPUT, e, "eos_token_id: %lld is not in the vocabulary of %lld",
                            (long long)v->i, (long long)m->vocab);
        if (is_eos(m, v->i))
            continue;
        if (m->n_eos == MAX_EOS)
            return node_err(eos, ST_INPUT, e, "eos_token_id: at most %d ids, got %u", MAX_EOS, n);
        m->eos_ids[m->n_eos++] = v->i;
    }
    return ST_OK;
}

enum st model_from_config(struct arena *a, const char *name, const struct node *config,
                          struct model *out, struct err *e)
{
    const struct family *f = NULL;
    struct model m = {.name = arena_str(a, name), .bos_id = -1};
    if (!config || config->kind != NODE_MAP)
        return config ? node_err(config, ST_INPUT, e, "expected a map, got %s",
                                 node_kind_name(config->kind))
                      : err_set(e, ST_INPUT, "model %s has no configuration", name);
    TRY(find_family(config, &f, e));
    m.family = f->family;
    TRY(formats_from_config(config, &m, e));
    TRY(f->read(config, &m, e));
    TRY(check_heads(config, &m, e));
    if (present(config, "bos_token_id"))
        TRY(node_get_int(config, "bos_token_id", 0, m.vocab - 1, &m.bos_id, e));
    TRY(model_add_eos(&m, config, e));
    *out = m;
    return ST_OK;
}

const char *model_folder_name(struct arena *a, const char *dir)
{
    char *real = realpath(dir, NULL);
    const char *name = arena_str(a, fs_base(real ? real : dir));
    free(real);
    return *name ? name : "model";
}

enum st model_load(struct arena *a, const char *dir, struct model *out, struct err *e)
{
    struct node *config;
    const struct json_limits limits = {.max_bytes = CONFIG_MAX_BYTES};
    if (json_load(a, fs_join(a, dir, "config.json"), &limits, &config, e) != ST_OK ||
        model_from_config(a, model_folder_name(a, dir), config, out, e) != ST_OK)
        return err_add(e, "cannot use the model in %s", dir);
    return ST_OK;
}
