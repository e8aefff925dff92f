#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "model/families/family.h"
#include "model/formats.h"
#include "text/json.h"

enum { CONFIG_MAX_BYTES = 32 << 20 }; /* lists of quantised modules have an entry an expert */

static const struct node *present(const struct node *c, const char *key)
{
    const struct node *v = node_find(c, key);
    return v && v->kind != NODE_NULL ? v : NULL;
}

/* ---- dimensions of a model whose layers are alike ----------------------------------------------
 */

static const struct {
    const char *type;
    enum model_family family;
} families[] = {
    {"qwen3", MODEL_QWEN3},         {"llama", MODEL_LLAMA},     {"bloom", MODEL_BLOOM},
    {"mistral", MODEL_LLAMA},       {"qwen2", MODEL_LLAMA},     {"internlm", MODEL_LLAMA},
    {"qwen", MODEL_QWEN},           {"phi", MODEL_PHI},         {"mixtral", MODEL_MIXTRAL},
    {"qwen3_moe", MODEL_QWEN3_MOE}, {"gpt_oss", MODEL_GPT_OSS}, {"gemma3_text", MODEL_GEMMA3},
    {"phi3", MODEL_PHI3},
};
enum { FAMILIES = sizeof families / sizeof *families };

const char *model_family_name(const struct model *m)
{
    if (m->structure)
        return m->structure->family;
    for (size_t i = 0; i < FAMILIES; i++)
        if (families[i].family == m->family)
            return families[i].type;
    err_bug("model family", __FILE__, __LINE__);
}

const char *model_family_words(struct arena *a, const struct model *m)
{
    const char *name = model_family_name(m), *own = m->structure ? m->structure->own_type : NULL;
    if (!own)
        return name;
    return *own ? arena_printf(a, "%s, asked for: its model_type is %s", name, own)
                : arena_printf(a, "%s, asked for: it has no model_type", name);
}

static enum model_family family_of(const char *type)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].type, type) == 0)
            return families[i].family;
    return MODEL_OTHER;
}

static bool has_bias(const struct projections *w, const char *module)
{
    for (int32_t i = 0; i < w->n; i++)
        if (strcmp(w->w[i].module, module) == 0)
            return w->w[i].bias;
    return false;
}

static void set_attention(const struct attention *t, struct model *m)
{
    const bool q = has_bias(&t->weights, "self_attn.q_proj");
    const bool o = has_bias(&t->weights, "self_attn.o_proj");
    m->heads = t->heads;
    m->kv_heads = t->kv_heads;
    m->head_dim = t->k_dim;
    m->qk_norm = t->qk_norm;
    m->attn_bias = o;
    m->qkv_bias = q && !o;
    m->rotary_dim = t->rotary_dim == t->k_dim ? 0 : t->rotary_dim;
}

static void set_mlp(const struct mlp *p, struct model *m)
{
    m->act = p->gated ? ACT_SILU_GATED : ACT_GELU_TANH;
    m->intermediate = p->intermediate;
    m->experts = p->experts;
    m->experts_per_token = p->experts_per_token;
    m->mlp_bias = has_bias(&p->weights, "mlp.down_proj");
}

/* Whether the dimensions say all: one kind of layer, and as many parameters. */
static bool is_uniform(const struct structure *s, const struct model *m)
{
    const struct attention *t = &s->attention[0];
    return s->n_attentions == 1 && s->n_mlps == 1 && t->type == ATTENTION_FULL &&
           t->k_dim == t->v_dim && t->top_k == 0 && t->n_caches == 1 && t->caches[0].elements > 0 &&
           s->mlp[0].intermediate > 0 && s->position != POSITION_TABLE &&
           model_params(m) == structure_params(s);
}

static void set_dimensions(const struct structure *s, struct model *m)
{
    m->structure = s;
    m->family = family_of(s->family);
    m->layers = s->layers;
    m->hidden = s->hidden;
    m->vocab = s->vocab;
    m->max_positions = s->max_positions;
    m->norm = s->norm;
    m->norm_eps = s->norm_eps;
    m->position = s->position;
    m->rope_theta = s->rope_theta;
    m->parallel_block = s->one_norm;
    m->emb_norm = s->emb_norm;
    m->tied = s->tied;
    m->head_bias = has_bias(&s->outside, "lm_head");
    set_attention(&s->attention[0], m);
    set_mlp(&s->mlp[0], m);
    m->layered = m->heads == 0 || !is_uniform(s, m);
    for (int32_t i = 0; m->layered && i < s->n_mlps; i++) /* who counts experts wants their kind */
        if (s->mlp[i].experts) {
            m->experts = s->mlp[i].experts;
            m->experts_per_token = s->mlp[i].experts_per_token;
        }
}

enum st model_check_modelled(const struct model *m, struct err *e)
{
    const struct structure *s = m->structure;
    struct key_spans spans;
    if (m->layered && !key_spans_of(s, &spans))
        return err_set(e, ST_INPUT,
                       "model %s: more than %d different windows of attention (type %s) are not "
                       "modelled yet",
                       m->name, SPANS_MOST, model_family_name(m));
    for (int32_t i = 0, first = -1; m->layered && i < s->n_mlps; i++) {
        const struct mlp *p = &s->mlp[i];
        if (p->experts == 0)
            continue;
        first = first < 0 ? i : first;
        if (p->experts != s->mlp[first].experts ||
            p->experts_per_token != s->mlp[first].experts_per_token)
            return err_set(e, ST_INPUT,
                           "model %s: layers with %lld and with %lld experts are not modelled yet",
                           m->name, (long long)s->mlp[first].experts, (long long)p->experts);
    }
    return ST_OK;
}

enum st model_check_uniform(const struct model *m, struct err *e)
{
    if (!m->layered)
        return ST_OK;
    err_set(e, ST_INPUT, "model %s: layers of type %s have no operators of their own here yet",
            m->name, model_family_name(m));
    return err_hint(e, "`twinfer model inspect` has its parameters and what it keeps per token");
}

enum st model_check_described(const struct model *m, const char *what, struct err *e)
{
    if (!m->opaque)
        return ST_OK;
    err_set(e, ST_USAGE, "model %s: %s goes by its operators, and it is known by its sizes alone",
            m->name, what);
    return err_hint(
        e, "`twinfer calibrate` makes a bundle of a server's latencies, which profile.root= "
           "takes, as one of measured iterations (docs/formats.md: iteration.csv)");
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
    return model_read_as(a, name, config, NULL, NULL, out, e);
}

enum st model_from_files(struct arena *a, const char *name, const struct node *config,
                         const struct node *side, struct model *out, struct err *e)
{
    return model_read_as(a, name, config, side, NULL, out, e);
}

enum st model_read_as(struct arena *a, const char *name, const struct node *config,
                      const struct node *side, const char *as, struct model *out, struct err *e)
{
    struct model m = {.name = arena_str(a, name), .bos_id = -1};
    struct structure *s = arena_one(a, struct structure);
    TRY(family_read(a, name, config, as, s, e));
    if (s->own_type)
        m.name = s->name = arena_printf(a, "%s_as_%s", name, s->family);
    set_dimensions(s, &m);
    TRY(formats_from_config(a, config, side, &m, e));
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
    struct node *config, *side;
    const struct json_limits limits = {.max_bytes = CONFIG_MAX_BYTES, .python = true};
    if (json_load(a, fs_join(a, dir, "config.json"), &limits, &config, e) != ST_OK ||
        formats_load_side(a, dir, &side, e) != ST_OK ||
        model_from_files(a, model_folder_name(a, dir), config, side, out, e) != ST_OK)
        return err_add(e, "cannot use the model in %s", dir);
    return ST_OK;
}
