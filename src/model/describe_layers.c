#include "model/describe_layers.h"

#include "text/table.h"

struct layer_bytes layer_bytes_of(const struct structure *s, double element_bytes,
                                  double state_bytes)
{
    struct layer_bytes sum = {0};
    for (int32_t i = 0; i < s->n_attentions; i++) {
        const struct attention *t = &s->attention[i];
        const double layers = (double)structure_layers_of_attention(s, i);
        for (int32_t k = 0; k < t->n_caches; k++) {
            const struct cache *c = &t->caches[k];
            const double entry = cache_entry_bytes(c, element_bytes);
            const double token = layers * entry / (double)c->ratio;
            if (c->window == 0)
                sum.token += token;
            else
                sum.window_token += token;
            sum.window += (double)c->window * token;
            sum.last += c->ratio > 1 ? layers * entry : 0;
        }
        sum.state += layers * ((double)t->state.elements * element_bytes +
                               (double)t->state.float32 * state_bytes);
    }
    return sum;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* "64 heads of 128, 8 KV heads", "128 heads, latent 512 + 64" */
static const char *heads_words(struct arena *a, const struct attention *t)
{
    if (t->heads == 0)
        return "";
    if (t->type == ATTENTION_LATENT)
        return arena_printf(a, "%lld, of a latent %lld", (long long)t->heads, (long long)t->v_dim);
    const char *dims = t->k_dim == t->v_dim ? arena_printf(a, "%lld", (long long)t->k_dim)
                                            : arena_printf(a, "%lld, %lld", (long long)t->k_dim,
                                                           (long long)t->v_dim);
    return arena_printf(a, "%lld of %s, %lld KV", (long long)t->heads, dims,
                        (long long)t->kv_heads);
}

static const char *reach_words(struct arena *a, const struct attention *t)
{
    if (t->shared_cache)
        return "another layer's";
    if (t->window && t->top_k)
        return arena_printf(a, "%lld, and %lld chosen", (long long)t->window, (long long)t->top_k);
    if (t->window)
        return arena_printf(a, "%lld", (long long)t->window);
    if (t->top_k)
        return arena_printf(a, "%lld chosen", (long long)t->top_k);
    return t->type == ATTENTION_STATE || t->type == ATTENTION_NONE ? "" : "all";
}

static void attention_table(struct arena *a, const struct structure *s, struct buf *out)
{
    static const char *const heads[] = {"attention", "layers", "heads", "tokens seen",
                                        "parameters"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    struct table *t = table_new(a, COLUMNS);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, "%s", heads[i]);
    for (int32_t i = 0; i < s->n_attentions; i++) {
        const struct attention *x = &s->attention[i];
        table_cell(t, "%s", attention_type_name(x->type));
        table_cell(t, "%lld", (long long)structure_layers_of_attention(s, i));
        table_cell(t, "%s", heads_words(a, x));
        table_cell(t, "%s", reach_words(a, x));
        table_cell(t, "%lld", (long long)projections_params(&x->weights));
    }
    table_text(out, t);
}

static void mlp_table(struct arena *a, const struct structure *s, struct buf *out)
{
    static const char *const heads[] = {"MLP", "layers", "width", "experts", "parameters"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    struct table *t = table_new(a, COLUMNS);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, "%s", heads[i]);
    for (int32_t i = 0; i < s->n_mlps; i++) {
        const struct mlp *x = &s->mlp[i];
        table_cell(t, "%s", x->experts ? "experts" : x->intermediate ? "dense" : "none");
        table_cell(t, "%lld", (long long)structure_layers_of_mlp(s, i));
        table_cell(t, "%lld%s", (long long)x->intermediate,
                   x->shared ? arena_printf(a, ", shared %lld", (long long)x->shared) : "");
        table_cell(t, "%s",
                   x->experts ? arena_printf(a, "%lld of %lld", (long long)x->experts_per_token,
                                             (long long)x->experts)
                              : "");
        table_cell(t, "%lld", (long long)projections_params(&x->weights));
    }
    table_text(out, t);
}

void describe_layers(struct arena *a, const struct structure *s, struct buf *out)
{
    attention_table(a, s, out);
    buf_putc(out, '\n');
    mlp_table(a, s, out);
}

/* ---- as a tree ------------------------------------------------------------------------------- */

struct layer_member {
    const char *key;
    int64_t value;
};

static void put(struct arena *a, struct node *map, const struct layer_member *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        node_put(a, map, m[i].key, node_int(a, m[i].value));
}
#define PUT(a, map, members) put(a, map, members, sizeof members / sizeof *members)

static struct node *cache_node(struct arena *a, const struct cache *c)
{
    struct node *n = node_new(a, NODE_MAP);
    const struct layer_member members[] = {
        {"elements", c->elements}, {"bytes", c->bytes}, {"ratio", c->ratio}, {"window", c->window}};
    PUT(a, n, members);
    node_put(a, n, "whole", node_bool(a, c->whole));
    return n;
}

static struct node *attention_node(struct arena *a, const struct structure *s, int32_t i)
{
    const struct attention *t = &s->attention[i];
    struct node *n = node_new(a, NODE_MAP), *caches = node_new(a, NODE_LIST);
    const struct layer_member members[] = {
        {"layers", structure_layers_of_attention(s, i)},
        {"heads", t->heads},
        {"kv_heads", t->kv_heads},
        {"k_dim", t->k_dim},
        {"v_dim", t->v_dim},
        {"window", t->window},
        {"top_k", t->top_k},
        {"parameters", projections_params(&t->weights)},
        {"state_elements", t->state.elements},
        {"state_float32", t->state.float32},
    };
    node_put(a, n, "kind", node_str(a, attention_type_name(t->type)));
    PUT(a, n, members);
    for (int32_t k = 0; k < t->n_caches; k++)
        node_push(a, caches, cache_node(a, &t->caches[k]));
    node_put(a, n, "caches", caches);
    return n;
}

static struct node *mlp_node(struct arena *a, const struct structure *s, int32_t i)
{
    const struct mlp *p = &s->mlp[i];
    struct node *n = node_new(a, NODE_MAP);
    const struct layer_member members[] = {
        {"layers", structure_layers_of_mlp(s, i)},
        {"intermediate", p->intermediate},
        {"experts", p->experts},
        {"experts_per_token", p->experts_per_token},
        {"shared", p->shared},
        {"parameters", projections_params(&p->weights)},
    };
    PUT(a, n, members);
    return n;
}

struct node *describe_layers_node(struct arena *a, const struct structure *s)
{
    struct node *n = node_new(a, NODE_MAP), *attention = node_new(a, NODE_LIST);
    struct node *mlp = node_new(a, NODE_LIST);
    for (int32_t i = 0; i < s->n_attentions; i++)
        node_push(a, attention, attention_node(a, s, i));
    for (int32_t i = 0; i < s->n_mlps; i++)
        node_push(a, mlp, mlp_node(a, s, i));
    node_put(a, n, "attention", attention);
    node_put(a, n, "mlp", mlp);
    node_put(a, n, "draft_layers", node_int(a, s->draft_layers));
    node_put(a, n, "encoder", node_str_or_null(a, s->encoder));
    return n;
}
