#include "model/opaque.h"

#include <math.h>

#include "model/shard.h"

enum { KINDS = 3, MATRICES = 2 };
static const double MATRIX_BYTES = 2; /* of an element: bf16 */

/* ---- making one ------------------------------------------------------------------------------ */

/* What the layers of a kind keep, all together. */
struct layer_kind {
    const char *key; /* its setting */
    enum attention_type type;
    int64_t kv_bytes, window, state_bytes;
    int64_t layers;
};

/* Layers of a kind that stands at place `of` of n in turn. */
static int64_t layers_of(int64_t layers, int n, int of)
{
    return layers / n + (of < layers % n);
}

static enum st not_whole(const struct layer_kind *k, int64_t heads, struct err *e)
{
    if (heads > 1)
        return err_set(
            e, ST_USAGE,
            "%s: %lld bytes are not shared evenly by %lld layers and model.kv_heads=%lld", k->key,
            (long long)k->kv_bytes, (long long)k->layers, (long long)heads);
    return err_set(e, ST_USAGE, "%s: %lld bytes are not shared evenly by %lld layers", k->key,
                   (long long)k->kv_bytes, (long long)k->layers);
}

static enum st make_attention(const struct layer_kind *k, int64_t heads, double matrix_params,
                              struct attention *out, struct err *e)
{
    const int64_t bytes = k->kv_bytes / k->layers;
    *out = (struct attention){.type = k->type, .window = k->window};
    for (int i = 0; i < MATRICES; i++)
        projections_add(&out->weights, "weights", CUT_COLUMNS, 1, (int64_t)ceil(matrix_params), 1,
                        false);
    if (k->kv_bytes) {
        if (bytes * k->layers != k->kv_bytes || bytes % heads)
            return not_whole(k, heads, e);
        out->heads = out->kv_heads = heads;
        out->k_dim = out->prompt_k_dim = (bytes / heads + 1) / 2;
        out->v_dim = out->prompt_v_dim = bytes / heads - out->k_dim;
        attention_cache(out, (struct cache){.elements = bytes, .ratio = 1, .window = k->window});
    }
    if (k->state_bytes)
        out->state.float32 =
            (int64_t)ceil((double)k->state_bytes / (double)k->layers / (double)sizeof(float));
    return ST_OK;
}

static enum st check_sizes(const char *name, const struct opaque *s, struct err *e)
{
    if (!s->kv_bytes && !s->window_kv_bytes && !s->state_bytes)
        return err_hint((err_set(e, ST_USAGE,
                                 "model.kv_bytes_per_token: not set: what a token of %s leaves in "
                                 "the cache is not known",
                                 name),
                         e),
                        "a server's log has it: the bytes of its KV cache by the tokens in it");
    if (s->window && !s->window_kv_bytes)
        return err_set(e, ST_USAGE,
                       "model.window: model.window_kv_bytes_per_token says what layers with a "
                       "window keep of a token, and is not set");
    if (s->window_kv_bytes && !s->window)
        return err_set(e, ST_USAGE,
                       "model.window_kv_bytes_per_token: model.window says for how many tokens "
                       "they are kept, and is not set");
    return ST_OK;
}

enum st opaque_model(struct arena *a, const char *name, const struct opaque *sizes,
                     struct model *out, struct err *e)
{
    const struct layer_kind all[KINDS] = {
        {"model.kv_bytes_per_token", ATTENTION_FULL, sizes->kv_bytes, 0, 0, 0},
        {"model.window_kv_bytes_per_token", ATTENTION_WINDOW, sizes->window_kv_bytes, sizes->window,
         0, 0},
        {"model.state_bytes_per_sequence", ATTENTION_STATE, 0, 0, sizes->state_bytes, 0},
    };
    struct layer_kind kinds[KINDS];
    struct attention made[KINDS];
    int n = 0;
    TRY(check_sizes(name, sizes, e));
    for (int i = 0; i < KINDS; i++)
        if (all[i].kv_bytes || all[i].state_bytes)
            kinds[n++] = all[i];
    const int64_t layers = sizes->layers ? sizes->layers : n;
    if (layers < n)
        return err_set(e, ST_USAGE, "model.layers: %lld for %d kinds of layers", (long long)layers,
                       n);
    const double params = sizes->weight_bytes / MATRIX_BYTES / MATRICES / (double)layers;
    const int64_t heads = sizes->kv_heads ? sizes->kv_heads : 1;
    for (int i = 0; i < n; i++) {
        kinds[i].layers = layers_of(layers, n, i);
        TRY(make_attention(&kinds[i], heads, params, &made[i], e));
    }
    struct structure *s = arena_one(a, struct structure);
    const struct mlp none = {0};
    *s = (struct structure){
        .name = name, .family = "opaque", .vocab = 1, .act = "", .position = POSITION_ALIBI};
    structure_init(s, a, layers);
    projections_add(&s->outside, "embed_tokens", CUT_ROWS, 1, 1, 1, false); /* there is one */
    for (int64_t i = 0; i < layers; i++)
        if (!structure_set_layer(s, i, &made[i % n], &none))
            err_bug("kinds of an opaque model", __FILE__, __LINE__);
    *out = (struct model){.name = name,
                          .family = MODEL_OTHER,
                          .structure = s,
                          .opaque = arena_copy(a, sizes, sizeof *sizes),
                          .layered = true,
                          .position = POSITION_ALIBI,
                          .layers = layers,
                          .kv_heads = heads,
                          .vocab = 1,
                          .tied = true,
                          .bos_id = -1,
                          .kv = PRECISION_INT8};
    return ST_OK;
}

enum st opaque_check_shards(const struct model *m, int64_t tp, int64_t pp, int64_t ep,
                            struct err *e)
{
    const struct opaque *s = m->opaque;
    if (ep > 1)
        return err_set(e, ST_USAGE, "parallel.ep: the sizes of %s say nothing of experts", m->name);
    if (tp > 1 && !s->kv_heads && (s->kv_bytes || s->window_kv_bytes)) {
        err_set(e, ST_USAGE,
                "parallel.tp: model.kv_heads is not set: how %lld shards share keys and values of "
                "%s is not known",
                (long long)tp, m->name);
        return err_hint(e, "model.kv_heads=1 where each holds all of them, as of latent attention");
    }
    if (pp > 1 && !s->layers)
        return err_set(e, ST_USAGE,
                       "parallel.pp: model.layers is not set: how %lld stages share those of %s is "
                       "not known",
                       (long long)pp, m->name);
    if (pp > m->layers)
        return err_set(e, ST_USAGE, "parallel.pp: %lld stages for the %lld layers of %s",
                       (long long)pp, (long long)m->layers, m->name);
    return ST_OK;
}

/* ---- what it is ------------------------------------------------------------------------------ */

static const double GIB = 1024.0 * 1024 * 1024, KIB = 1024;

void opaque_describe(struct arena *a, const struct model *m, struct buf *out)
{
    const struct opaque *s = m->opaque;
    (void)a;
    buf_printf(out, "%s: known by its sizes alone; operators, parameters and FLOPs are not known\n",
               m->name);
    buf_printf(out, "weights             %.4g GiB\n", s->weight_bytes / GIB);
    if (s->kv_bytes)
        buf_printf(out, "KV cache per token  %.4g KiB\n", (double)s->kv_bytes / KIB);
    if (s->window_kv_bytes)
        buf_printf(out, "%s %.4g KiB in layers with a window of %lld tokens\n",
                   s->kv_bytes ? "                   " : "KV cache per token ",
                   (double)s->window_kv_bytes / KIB, (long long)s->window);
    if (s->state_bytes)
        buf_printf(out, "state per sequence  %.4g KiB\n", (double)s->state_bytes / KIB);
    if (s->kv_heads)
        buf_printf(out, "KV heads            %lld\n", (long long)s->kv_heads);
    if (s->workspace_bytes > 0)
        buf_printf(out, "workspace           %.4g GiB of each GPU\n", s->workspace_bytes / GIB);
}

static struct node *bytes_node(struct arena *a, double bytes)
{
    return bytes > 0 ? node_int(a, (int64_t)bytes) : node_new(a, NODE_NULL);
}

struct node *opaque_describe_node(struct arena *a, const struct model *m)
{
    const struct opaque *s = m->opaque;
    struct node *n = node_new(a, NODE_MAP);
    node_set(a, n, SV("model"), node_str(a, m->name));
    node_set(a, n, SV("family"), node_new(a, NODE_NULL));
    node_set(a, n, SV("parameters"), node_new(a, NODE_NULL));
    node_set(a, n, SV("stored_bytes"), bytes_node(a, s->weight_bytes));
    node_set(a, n, SV("stored_kv_bytes_per_token"), bytes_node(a, (double)s->kv_bytes));
    node_set(a, n, SV("window"), bytes_node(a, (double)s->window));
    node_set(a, n, SV("window_kv_bytes_per_token"), bytes_node(a, (double)s->window_kv_bytes));
    node_set(a, n, SV("state_bytes_per_sequence"), bytes_node(a, (double)s->state_bytes));
    node_set(a, n, SV("kv_heads"), bytes_node(a, (double)s->kv_heads));
    node_set(a, n, SV("workspace_bytes"), bytes_node(a, s->workspace_bytes));
    return n;
}
