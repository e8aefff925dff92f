/* Rotary positions: transformers 4 writes rope_theta and rope_scaling, transformers 5
 * rope_parameters, which may have a map for each kind of layer. */
#include <math.h>
#include <string.h>

#include "model/families/family.h"

static const struct node *map_of(struct reading *r, const char *names)
{
    const struct node *map = read_node(r, names);
    if (map && map->kind != NODE_MAP)
        reading_fail(r, map, "%s: expected a map, got %s", names, node_kind_name(map->kind));
    return map && map->kind == NODE_MAP ? map : NULL;
}

/* A number of the map; fallback where it has none. */
static double number(const struct node *map, const char *key, double fallback)
{
    const struct node *v = node_find(map, key);
    if (v && v->kind == NODE_INT)
        return (double)v->i;
    return v && v->kind == NODE_FLOAT ? v->f : fallback;
}

static bool says_false(const struct node *map, const char *key)
{
    const struct node *v = node_find(map, key);
    return v && v->kind == NODE_BOOL && !v->b;
}

/* NULL = positions as they are */
static const char *type_of(struct reading *r, const struct node *map)
{
    static const char *const keys[] = {"rope_type", "type"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct node *t = node_find(map, keys[i]);
        if (t && t->kind == NODE_STR && !sv_eq(t->s, "default"))
            return arena_strn(r->a, t->s.p, t->s.n);
    }
    return NULL;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* transformers' get_mscale */
static double mscale(double factor, double times)
{
    return factor <= 1 ? 1 : 0.1 * times * log(factor) + 1;
}

static double yarn_attention(const struct node *map, double factor)
{
    const double given = number(map, "attention_factor", 0);
    const double one = number(map, "mscale", 0), all = number(map, "mscale_all_dim", 0);
    if (given > 0)
        return given;
    return one > 0 && all > 0 ? mscale(factor, one) / mscale(factor, all) : mscale(factor, 1);
}

/* Keys without which a type says nothing. */
static const struct {
    const char *name;
    enum rope_type type;
    const char *needs[4];
} types[] = {
    {"linear", ROPE_LINEAR, {"factor"}},
    {"llama3",
     ROPE_LLAMA3,
     {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
    {"yarn", ROPE_YARN, {"factor", "original_max_position_embeddings"}},
};

static void set_type(struct reading *r, const struct node *map, struct rope *out)
{
    out->type = ROPE_OTHER;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(out->name, types[i].name) != 0)
            continue;
        out->type = (int32_t)types[i].type;
        for (size_t k = 0; k < 4 && types[i].needs[k]; k++)
            if (!(number(map, types[i].needs[k], 0) > 0)) {
                out->type = ROPE_OTHER;
                out->name = arena_printf(r->a, "%s without %s", types[i].name, types[i].needs[k]);
                return;
            }
    }
}

static struct rope rope_of(struct reading *r, const struct node *map, double theta)
{
    struct rope x = {.theta = theta, .factor = 1, .attention = 1, .whole = 1};
    if (!map)
        return x;
    x.theta = number(map, "rope_theta", theta);
    if (!(x.theta > 0))
        x.theta = theta;
    x.name = type_of(r, map);
    if (!x.name)
        return x;
    set_type(r, map, &x);
    x.factor = number(map, "factor", 1);
    x.original = number(map, "original_max_position_embeddings", 0);
    if (x.type == ROPE_LLAMA3) {
        x.low = number(map, "low_freq_factor", 0);
        x.high = number(map, "high_freq_factor", 0);
    }
    if (x.type == ROPE_YARN) {
        x.low = number(map, "beta_slow", 1);
        x.high = number(map, "beta_fast", 32);
        x.whole = !says_false(map, "truncate");
        x.attention = yarn_attention(map, x.factor);
    }
    return x;
}

/* ---- of the model ---------------------------------------------------------------------------- */

static bool same(const struct rope *a, const struct rope *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Layers that slide have angles of their own: rope_local_base_freq, or their own map. */
static bool read_local(struct reading *r, const struct node *nested, struct rope *out)
{
    const double theta = r->family->local_theta;
    const double local = theta > 0 ? read_double(r, "rope_local_base_freq", 0, 1e15, theta) : 0;
    const struct node *own = nested ? node_find(nested, "sliding_attention") : NULL;
    if (own && own->kind == NODE_MAP)
        *out = rope_of(r, own, local > 0 ? local : r->s->rope_theta);
    else if (local > 0)
        *out = rope_of(r, NULL, local);
    return local > 0 || (own && own->kind == NODE_MAP);
}

void family_read_ropes(struct reading *r)
{
    struct structure *s = r->s;
    const struct node *old = map_of(r, "rope_scaling"), *new = map_of(r, "rope_parameters");
    const struct node *full = new ? node_find(new, "full_attention") : NULL;
    const bool nested = full && full->kind == NODE_MAP;
    const double usual = r->family->theta > 0 ? r->family->theta : 1e4;
    s->rope_theta = read_double(r, "rope_theta|rotary_emb_base|rotary_base", 0, 1e15, usual);
    if (r->st != ST_OK)
        return;
    const struct node *map = nested ? full : old && type_of(r, old) ? old : new;
    const struct node *theta = node_find(map ? map : r->c, "rope_theta");
    if (map && theta && theta->kind != NODE_NULL)
        r->st = node_to_double(theta, "rope_theta", 0, 1e15, &s->rope_theta, r->e);
    s->ropes[0] = rope_of(r, map, s->rope_theta);
    if (!old && !new && r->family->needs_rope_map && !s->uncomputed)
        s->uncomputed = "rope_scaling (not there)";
    s->rope_scaling = s->ropes[0].name;
    s->n_ropes = 1;
    if (read_local(r, nested ? new : NULL, &s->ropes[1]) && !same(&s->ropes[0], &s->ropes[1]))
        s->n_ropes = 2;
}
