/* Which models engines here compute, and their layers as these take them. */
#include <string.h>

#include "model/formats.h"
#include "model/model.h"
#include "model/stored.h"

/* ---- layers ---------------------------------------------------------------------------------- */

const struct structure *model_structure(struct arena *a, const struct model *m)
{
    if (m->structure)
        return m->structure;
    struct structure *s = arena_one(a, struct structure);
    structure_init(s, a, m->layers);
    s->name = m->name;
    s->family = "";
    s->hidden = m->hidden;
    s->vocab = m->vocab;
    s->norm = m->norm;
    s->norm_eps = m->norm_eps;
    s->position = m->position;
    s->rope_theta = m->rope_theta;
    s->ropes[0] = model_rope(m, 0);
    s->n_ropes = s->n_attentions = s->n_mlps = 1;
    s->attention[0] = (struct attention){.type = ATTENTION_FULL,
                                         .heads = m->heads,
                                         .kv_heads = m->kv_heads,
                                         .k_dim = m->head_dim,
                                         .v_dim = m->head_dim,
                                         .rotary_dim = m->rotary_dim ? m->rotary_dim : m->head_dim,
                                         .qk_norm = m->qk_norm};
    s->mlp[0] = (struct mlp){.intermediate = m->intermediate,
                             .experts = m->experts,
                             .experts_per_token = m->experts_per_token,
                             .gated = m->act == ACT_SILU_GATED,
                             .act = m->act == ACT_SILU_GATED ? MLP_ACT_SILU : MLP_ACT_GELU_TANH,
                             .router = ROUTER_SOFTMAX,
                             .norm_topk = true};
    return s;
}

struct rope model_rope(const struct model *m, int32_t i)
{
    if (m->structure)
        return m->structure->ropes[i];
    return (struct rope){.theta = m->rope_theta, .factor = 1, .attention = 1};
}

int32_t model_attention_of(const struct model *m, int64_t layer)
{
    return m->layered ? m->structure->attention_of[layer] : 0;
}

int32_t model_mlp_of(const struct model *m, int64_t layer)
{
    return m->layered ? m->structure->mlp_of[layer] : 0;
}

int64_t model_intermediate(const struct model *m, int64_t layer)
{
    return m->layered ? m->structure->mlp[model_mlp_of(m, layer)].intermediate : m->intermediate;
}

int64_t model_experts(const struct model *m, int64_t layer)
{
    return m->layered ? m->structure->mlp[model_mlp_of(m, layer)].experts : m->experts;
}

bool model_gated(const struct model *m)
{
    return m->act == ACT_SILU_GATED;
}

/* ---- what is not computed -------------------------------------------------------------------- */

/* Type names of the families whose tensors are known: tensors.c. */
static bool is_known(const struct model *m)
{
    switch ((int)m->family) {
    case MODEL_QWEN3:
    case MODEL_LLAMA:
    case MODEL_BLOOM:
    case MODEL_MIXTRAL:
    case MODEL_QWEN3_MOE:
    case MODEL_GPT_OSS:
    case MODEL_GEMMA3:
    case MODEL_PHI3:
        return true;
    default:
        return false;
    }
}

/* What stands in the way: text for "no engine here computes ...". */
static const char *rope_lacks(struct arena *a, const struct structure *s, const struct attention *t)
{
    const struct rope *rope = &s->ropes[t->rope];
    if (s->position != POSITION_ROPE)
        return NULL;
    if (rope->type == ROPE_OTHER)
        return arena_printf(a, "rotary positions of type %s", rope->name);
    if (t->rotary_dim != t->k_dim)
        return "heads of which a part is rotated";
    return NULL;
}

static const char *attention_lacks(const struct structure *s, const struct attention *t)
{
    const struct attention *first = &s->attention[0];
    if (t->type != ATTENTION_FULL && t->type != ATTENTION_WINDOW)
        return "attention of that kind";
    if (t->heads != first->heads || t->kv_heads != first->kv_heads || t->k_dim != first->k_dim ||
        t->v_dim != t->k_dim)
        return "kinds of attention with heads of their own";
    if (t->qk_norm != first->qk_norm || t->out_norm != first->out_norm || t->shared_cache ||
        t->top_k)
        return "attention of that kind";
    return NULL;
}

static const char *mlp_lacks(struct arena *a, const struct structure *s, const struct mlp *p)
{
    if (p->intermediate == 0 || p->gated != s->mlp[0].gated || p->out_norm != s->mlp[0].out_norm)
        return "an MLP of that kind";
    if (p->act == MLP_ACT_OTHER)
        return arena_printf(a, "%s with %s", p->gated ? "a gated MLP" : "an MLP", s->act);
    if (p->shared)
        return "shared experts";
    if (p->experts && p->router == ROUTER_OTHER)
        return "routers of that kind";
    return NULL;
}

static int pairs(const struct structure *s)
{
    bool seen[STRUCTURE_ATTENTIONS][STRUCTURE_MLPS] = {{false}};
    int n = 0;
    for (int64_t i = 0; i < s->layers; i++) {
        bool *const one = &seen[s->attention_of[i]][s->mlp_of[i]];
        n += !*one;
        *one = true;
    }
    return n;
}

static const char *structure_lacks(struct arena *a, const struct structure *s)
{
    const char *what = NULL;
    for (int32_t i = 0; i < s->n_attentions && !what; i++) {
        what = attention_lacks(s, &s->attention[i]);
        what = what ? what : rope_lacks(a, s, &s->attention[i]);
    }
    for (int32_t i = 0; i < s->n_mlps && !what; i++)
        what = mlp_lacks(a, s, &s->mlp[i]);
    if (!what && pairs(s) > LAYER_KINDS_MOST)
        what = arena_printf(a, "more than %d kinds of layers", LAYER_KINDS_MOST);
    return what;
}

static enum st refuse(const struct model *m, const char *what, struct err *e)
{
    err_set(e, ST_INPUT, "model %s: no engine here computes %s", m->name, what);
    return err_hint(e, "`twinfer simulate` predicts it");
}

enum st model_check_computed(const struct model *m, struct err *e)
{
    const struct structure *s = m->structure;
    TRY(model_check_described(m, "an engine", e));
    struct arena *a = arena_new();
    enum st st = ST_OK;
    const char *what = NULL;
    if (formats_quantised(m)) {
        const char *weights =
            m->op_formats ? stored_words(a, m->stored) : precision_name(m->weights);
        st = refuse(m, arena_printf(a, "quantised weights (%s)", weights), e);
    } else if (!is_known(m)) {
        err_set(e, ST_INPUT, "model %s: no engine here computes models of type %s", m->name,
                model_family_name(m));
        st = err_hint(e, "`twinfer simulate` serves it on a bundle profiled elsewhere");
    } else if (s && (what = structure_lacks(a, s))) {
        st = refuse(m, what, e);
    } else if (s && s->uncomputed) {
        st = refuse(m, arena_printf(a, "what %s changes", s->uncomputed), e);
    }
    arena_free(&a);
    return st;
}
