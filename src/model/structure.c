#include "model/structure.h"

#include <string.h>

#include "base/err.h"

const char *attention_type_name(enum attention_type t)
{
    static const char *const names[ATTENTION_TYPES] = {
        [ATTENTION_NONE] = "none",     [ATTENTION_FULL] = "full",
        [ATTENTION_WINDOW] = "window", [ATTENTION_CHUNKED] = "chunked",
        [ATTENTION_LATENT] = "latent", [ATTENTION_STATE] = "state",
    };
    ASSERT(t >= 0 && t < ATTENTION_TYPES);
    return names[t];
}

void structure_init(struct structure *s, struct arena *a, int64_t layers)
{
    s->layers = layers;
    s->attention_of = arena_array(a, uint8_t, layers);
    s->mlp_of = arena_array(a, uint8_t, layers);
}

/* Kinds are compared byte for byte: whoever makes one begins with zeros, and modules are literals
 * of one place each. */
static int32_t find_kind(const void *kinds, int32_t n, size_t size, const void *kind)
{
    for (int32_t i = 0; i < n; i++)
        if (memcmp((const char *)kinds + (size_t)i * size, kind, size) == 0)
            return i;
    return n;
}

bool structure_set_layer(struct structure *s, int64_t i, const struct attention *attention,
                         const struct mlp *mlp)
{
    int32_t at = find_kind(s->attention, s->n_attentions, sizeof *attention, attention);
    int32_t to = find_kind(s->mlp, s->n_mlps, sizeof *mlp, mlp);
    if (at == STRUCTURE_ATTENTIONS || to == STRUCTURE_MLPS)
        return false;
    if (at == s->n_attentions)
        memcpy(&s->attention[s->n_attentions++], attention, sizeof *attention);
    if (to == s->n_mlps)
        memcpy(&s->mlp[s->n_mlps++], mlp, sizeof *mlp);
    s->attention_of[i] = (uint8_t)at;
    s->mlp_of[i] = (uint8_t)to;
    return true;
}

void attention_cache(struct attention *a, struct cache c)
{
    ASSERT(a->n_caches < ATTENTION_CACHES);
    struct cache *to = &a->caches[a->n_caches++];
    to->elements = c.elements;
    to->bytes = c.bytes;
    to->packed_fp8 = c.packed_fp8;
    to->packed_fp4 = c.packed_fp4;
    to->ratio = c.ratio ? c.ratio : 1;
    to->window = c.window;
    to->whole = c.whole;
}

void projections_add(struct projections *w, const char *module, enum projection_cut cut,
                     int64_t rows, int64_t columns, int64_t copies, bool bias)
{
    if (rows == 0 || columns == 0 || copies == 0)
        return;
    ASSERT(w->n < PROJECTIONS_MOST);
    struct projection *to = &w->w[w->n++];
    to->module = module;
    to->cut = cut;
    to->rows = rows;
    to->columns = columns;
    to->copies = copies;
    to->bias = bias;
}

/* ---- an index -------------------------------------------------------------------------------- */

int64_t attention_index_width(const struct attention *a)
{
    static const char *const modules[] = {"self_attn.indexer.wq_b", "self_attn.indexer.q_b_proj",
                                          "self_attn.indexer.q_proj"};
    for (int32_t i = 0; i < a->weights.n; i++)
        for (size_t k = 0; k < sizeof modules / sizeof *modules; k++)
            if (strcmp(a->weights.w[i].module, modules[k]) == 0)
                return a->weights.w[i].rows;
    return 0;
}

int32_t attention_index_cache(const struct attention *a)
{
    return attention_index_width(a) ? a->n_caches - 1 : -1; /* its list is the last */
}

double cache_entry_bytes(const struct cache *c, double element_bytes)
{
    const int64_t packed = element_bytes > 1   ? 0
                           : element_bytes < 1 ? c->packed_fp4
                                               : c->packed_fp8;
    return packed ? (double)packed : (double)c->elements * element_bytes + (double)c->bytes;
}

int64_t attention_key_elements(const struct attention *a)
{
    return a->shared_cache ? a->kv_heads * (a->k_dim + a->v_dim)
           : a->n_caches   ? a->caches[0].elements
                           : 0;
}

/* ---- one stage, one shard
 * ------------------------------------------------------------------------------ */

static int64_t divided_up(int64_t n, int64_t parts)
{
    return (n + parts - 1) / parts;
}

/* KV heads of a shard over those of the model. */
static int64_t kv_part(int64_t n, int64_t kv_heads, int64_t tp)
{
    return kv_heads ? n / kv_heads * divided_up(kv_heads, tp) : n;
}

static void cut(struct projections *w, int64_t kv_heads, int64_t tp)
{
    for (int32_t i = 0; i < w->n; i++) {
        struct projection *p = &w->w[i];
        switch (p->cut) {
        case CUT_NONE:
            break;
        case CUT_ROWS:
        case CUT_EXPERT_ROWS:
            p->rows = divided_up(p->rows, tp);
            break;
        case CUT_KV:
            p->rows = kv_part(p->rows, kv_heads, tp);
            break;
        case CUT_COLUMNS:
        case CUT_EXPERT_COLUMNS:
            p->columns = divided_up(p->columns, tp);
            break;
        }
    }
}

void structure_stage(const struct structure *s, int64_t first, int64_t n, struct structure *out)
{
    *out = *s;
    out->layers = n;
    out->attention_of = s->attention_of + first;
    out->mlp_of = s->mlp_of + first;
}

static void cut_state(struct sequence_state *s, int64_t tp)
{
    s->elements = divided_up(s->elements, tp);
    s->float32 = divided_up(s->float32, tp);
    s->heads = divided_up(s->heads, tp);
    s->key_heads = divided_up(s->key_heads, tp);
    s->decays = divided_up(s->decays, tp);
    s->channels = divided_up(s->channels, tp);
}

void structure_shard(const struct structure *s, int64_t tp, struct structure *out)
{
    *out = *s;
    for (int32_t i = 0; i < out->n_attentions; i++) {
        struct attention *t = &out->attention[i];
        cut(&t->weights, t->kv_heads, tp);
        for (int32_t k = 0; k < t->n_caches; k++)
            if (!t->caches[k].whole)
                t->caches[k].elements = kv_part(t->caches[k].elements, t->kv_heads, tp);
        t->heads = divided_up(t->heads, tp);
        t->kv_heads = divided_up(t->kv_heads, tp);
        cut_state(&t->state, tp);
    }
    for (int32_t i = 0; i < out->n_mlps; i++) {
        struct mlp *m = &out->mlp[i];
        cut(&m->weights, 0, tp);
        m->intermediate = divided_up(m->intermediate, tp);
        m->shared = divided_up(m->shared, tp);
    }
    cut(&out->outside, 0, tp);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static int64_t projection_params(const struct projection *w)
{
    return w->copies * w->rows * (w->columns + w->bias);
}

static bool is_expert(const struct projection *w)
{
    return w->cut == CUT_EXPERT_ROWS || w->cut == CUT_EXPERT_COLUMNS;
}

int64_t projections_params(const struct projections *w)
{
    int64_t sum = w->vectors;
    for (int32_t i = 0; i < w->n; i++)
        sum += projection_params(&w->w[i]);
    return sum;
}

/* Experts only, every copy. */
static int64_t expert_params(const struct projections *w)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < w->n; i++)
        if (is_expert(&w->w[i]))
            sum += projection_params(&w->w[i]);
    return sum;
}

static int64_t count(const uint8_t *kind_of, int64_t layers, int32_t kind)
{
    int64_t n = 0;
    for (int64_t i = 0; i < layers; i++)
        n += kind_of[i] == kind;
    return n;
}

int64_t structure_layers_of_attention(const struct structure *s, int32_t kind)
{
    return count(s->attention_of, s->layers, kind);
}

int64_t structure_layers_of_mlp(const struct structure *s, int32_t kind)
{
    return count(s->mlp_of, s->layers, kind);
}

int64_t structure_params(const struct structure *s)
{
    int64_t sum = projections_params(&s->outside);
    for (int32_t i = 0; i < s->n_attentions; i++)
        sum += structure_layers_of_attention(s, i) * projections_params(&s->attention[i].weights);
    for (int32_t i = 0; i < s->n_mlps; i++)
        sum += structure_layers_of_mlp(s, i) * projections_params(&s->mlp[i].weights);
    return sum;
}

int64_t structure_expert_params(const struct structure *s)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < s->n_mlps; i++)
        sum += structure_layers_of_mlp(s, i) * expert_params(&s->mlp[i].weights);
    return sum;
}

int64_t structure_active_params(const struct structure *s)
{
    int64_t sum = structure_params(s);
    for (int32_t i = 0; i < s->n_mlps; i++) {
        const struct mlp *m = &s->mlp[i];
        if (m->experts == 0)
            continue;
        int64_t all = structure_layers_of_mlp(s, i) * expert_params(&m->weights);
        sum -= all / m->experts * (m->experts - m->experts_per_token);
    }
    return sum;
}
