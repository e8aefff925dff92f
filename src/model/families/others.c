/* Families whose layers differ in a way of their own. */
#include <string.h>

#include "model/families/family.h"

/* ---- llama 4: every fourth layer sees all and has no positions, the others a piece ----------- */

void llama4_attention(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out)
{
    const int64_t interval = read_int(r, "no_rope_layer_interval", 1, MAX_LAYERS, 4);
    const struct node *rotated = read_node(r, "no_rope_layers"); /* 1 = rotated */
    const struct layers alike = {0};
    read_ignore(r, "use_qk_norm|attention_chunk_size|for_llm_compressor|no_rope_layers");
    if (l->words) {
        attention_decoder(r, l, layer, out);
        return;
    }
    bool whole = (layer + 1) % interval == 0;
    if (rotated && rotated->kind == NODE_LIST && rotated->n > 0) {
        const bool *flags = read_layer_flags(r, "no_rope_layers");
        whole = flags && !flags[layer];
    }
    attention_decoder(r, &alike, layer, out);
    if (!whole && read_has(r, "attention_chunk_size"))
        attention_window(r, ATTENTION_CHUNKED,
                         read_int(r, "attention_chunk_size", 1, MAX_POSITIONS, READ_REQUIRED), out);
}

/* ---- MiMo V2: heads of other widths in layers with a window ---------------------------------- */

void mimo_v2_attention(struct reading *r, const struct layers *l, int64_t layer,
                       struct attention *out)
{
    const bool *pattern = l->words ? NULL : read_layer_flags(r, "hybrid_layer_pattern");
    const bool window =
        l->words ? strcmp(l->words[layer], "sliding_attention") == 0 : pattern && pattern[layer];
    const bool window_sink = read_flag(r, "add_swa_attention_sink_bias", true);
    const bool full_sink = read_flag(r, "add_full_attention_sink_bias", false);
    const int64_t heads = family_heads(r), kv = family_kv_heads(r), dim = family_head_dim(r);
    const int64_t v_dim = read_int(r, "v_head_dim", 1, MAX_HEAD_DIM, dim);
    const int64_t swa_heads = read_int(r, "swa_num_attention_heads", 1, MAX_HEADS, heads);
    const int64_t swa_kv =
        read_int(r, "swa_num_key_value_heads", 1, MAX_HEADS,
                 window && !read_has(r, "per_layer_config") ? READ_REQUIRED : kv);
    const int64_t swa_dim = read_int(r, "swa_head_dim", 1, MAX_HEAD_DIM, dim);
    const int64_t swa_v = read_int(r, "swa_v_head_dim", 1, MAX_HEAD_DIM, v_dim);
    read_ignore(r, "attention_chunk_size|attention_projection_layout|hybrid_layer_pattern|"
                   "per_layer_config");
    if (!l->words && !pattern)
        reading_fail(r, r->c, "hybrid_layer_pattern: missing");
    attention_heads(r, read_of_layer(r, layer, "num_attention_heads", window ? swa_heads : heads),
                    read_of_layer(r, layer, "num_key_value_heads", window ? swa_kv : kv),
                    read_of_layer(r, layer, "head_dim", window ? swa_dim : dim),
                    read_of_layer(r, layer, "v_head_dim", window ? swa_v : v_dim), out);
    if (window ? window_sink : full_sink)
        out->weights.vectors += out->heads;
    if (window)
        attention_window(
            r, ATTENTION_WINDOW,
            read_int(r, "sliding_window|sliding_window_size", 1, MAX_POSITIONS, READ_REQUIRED),
            out);
}

/* ---- MiniMax M3: an index selects blocks of keys --------------------------------------------- */

static int64_t sparse_size(struct reading *r, const struct node *map, const char *key,
                           const char *flat)
{
    int64_t v = 1;
    if (map && node_find(map, key)) {
        if (r->st == ST_OK)
            r->st = node_get_int(map, key, 1, MAX_POSITIONS, &v, r->e);
        return v;
    }
    return read_int(r, flat, 1, MAX_POSITIONS, READ_REQUIRED);
}

static bool is_sparse(struct reading *r, const struct layers *l, int64_t layer,
                      const struct node *map)
{
    const struct node *list = map ? node_find(map, "sparse_attention_freq") : NULL;
    if (l->words)
        return strcmp(l->words[layer], "minimax_m3_sparse") == 0;
    if (!list || list->kind != NODE_LIST || list->n < r->s->layers) {
        reading_fail(r, map ? map : r->c,
                     "sparse_attention_config.sparse_attention_freq: 0 or 1 for each layer");
        return false;
    }
    return list->items[layer]->kind == NODE_INT && list->items[layer]->i != 0;
}

void minimax_m3_attention(struct reading *r, const struct layers *l, int64_t layer,
                          struct attention *out)
{
    const struct node *map = read_node(r, "sparse_attention_config");
    const struct layers alike = {0};
    read_ignore(r, "attention_output_gate|qk_norm_type|use_gemma_norm|use_routing_bias|"
                   "index_block_size|index_local_blocks|index_head_dim|index_n_heads|"
                   "index_topk_blocks");
    attention_decoder(r, &alike, layer, out);
    if (!is_sparse(r, l, layer, map))
        return;
    const int64_t dim = sparse_size(r, map, "sparse_index_dim", "index_head_dim");
    const int64_t heads = sparse_size(r, map, "sparse_num_index_heads", "index_n_heads");
    out->top_k = sparse_size(r, map, "sparse_topk_blocks", "index_topk_blocks") *
                 sparse_size(r, map, "sparse_block_size", "index_block_size");
    projections_add(&out->weights, "self_attn.indexer.q_proj", CUT_ROWS, heads * dim, r->s->hidden,
                    1, false);
    projections_add(&out->weights, "self_attn.indexer.k_proj", CUT_NONE, dim, r->s->hidden, 1,
                    false);
    out->weights.vectors += 2 * dim;
    attention_cache(out, (struct cache){.elements = dim, .whole = true});
}

/* ---- Nemotron NAS: each layer as its search left it ------------------------------------------ */

static const struct node *block(struct reading *r, int64_t layer, const char *part)
{
    const struct node *list = read_node(r, "block_configs");
    if (!list || list->kind != NODE_LIST || list->n < r->s->layers) {
        reading_fail(r, list ? list : r->c, "block_configs: an entry for each of %lld layers",
                     (long long)r->s->layers);
        return NULL;
    }
    const struct node *b = node_find(list->items[layer], part);
    if (!b)
        reading_fail(r, list->items[layer], "block_configs.%s: missing", part);
    return b;
}

static bool is_on(const struct node *map, const char *key)
{
    const struct node *v = node_find(map, key);
    return v && v->kind == NODE_BOOL && v->b;
}

void nemotron_nas_attention(struct reading *r, const struct layers *l, int64_t layer,
                            struct attention *out)
{
    const struct node *b = block(r, layer, "attention");
    int64_t group = 1;
    (void)l;
    attention_none(out);
    if (!b || is_on(b, "no_op"))
        return;
    if (is_on(b, "replace_with_linear")) {
        out->weights.vectors = family_norm_params(r);
        projections_add(&out->weights, "self_attn.linear_attn", CUT_NONE, r->s->hidden,
                        r->s->hidden, 1, false);
        return;
    }
    const int64_t heads = family_heads(r), dim = family_head_dim(r);
    if (r->st == ST_OK)
        r->st = node_get_int(b, "n_heads_in_group", 1, heads, &group, r->e);
    attention_heads(r, heads, heads / group, dim, dim, out);
    const struct node *window = node_find(b, "window_length");
    if (window && window->kind == NODE_INT && window->i > 0)
        attention_window(r, ATTENTION_WINDOW, window->i, out);
}

/* Width: 2 ffn_mult hidden / 3, up to a multiple of 256. */
void nemotron_nas_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    const struct node *b = block(r, layer, "ffn");
    double times = 0;
    (void)l;
    memset(out, 0, sizeof *out);
    if (!b || is_on(b, "no_op"))
        return;
    if (is_on(b, "replace_with_linear")) {
        out->weights.vectors = family_norm_params(r);
        projections_add(&out->weights, "mlp.linear_mlp", CUT_NONE, r->s->hidden, r->s->hidden, 1,
                        false);
        return;
    }
    if (r->st == ST_OK)
        r->st = node_get_double(b, "ffn_mult", 1e-3, 1e3, &times, r->e);
    const int64_t width = (int64_t)(2 * times * (double)r->s->hidden / 3);
    mlp_dense(r, (width + 255) / 256 * 256, out);
}

/* ---- Laguna: heads per layer, a gate a head or an element
 * ---------------------------------------------------
 */

void laguna_attention(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out)
{
    const int64_t *heads = read_layer_ints(r, "num_attention_heads_per_layer", MAX_HEADS);
    const bool gate = read_flag(r, "gating", true);
    const int64_t dim = family_head_dim(r), n = heads ? heads[layer] : family_heads(r);
    attention_heads(r, n, family_kv_heads(r), dim, dim, out);
    projections_add(&out->weights, "self_attn.g_proj", CUT_ROWS, gate ? n : n * dim, r->s->hidden,
                    1, false);
    if (strcmp(family_layer_word(l, layer), "sliding_attention") == 0)
        attention_window(r, ATTENTION_WINDOW,
                         read_int(r, "sliding_window", 1, MAX_POSITIONS, READ_REQUIRED), out);
    read_ignore(r, "num_attention_heads");
}

/* ---- Falcon ---------------------------------------------------------------------------------- */

void falcon_attention(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out)
{
    const bool grouped = read_flag(r, "new_decoder_architecture", false);
    const bool one = read_flag(r, "multi_query", false),
               parallel = read_flag(r, "parallel_attn", true);
    const int64_t heads = family_heads(r), dim = family_head_dim(r);
    const int64_t kv = read_int(r, "num_kv_heads|n_head_kv", 1, MAX_HEADS, heads);
    const int64_t norms = read_int(r, "num_ln_in_parallel_attn", 1, 2, grouped ? 2 : 1);
    (void)l;
    (void)layer;
    read_ignore(r, "alibi");
    attention_heads(r, heads, grouped || !one ? kv : 1, dim, dim, out);
    out->weights.vectors += (parallel && norms == 1 ? 0 : 1) * family_norm_params(r);
}

void falcon_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    mlp_decoder(r, l, layer, out);
    out->weights.vectors = 0; /* its norms are counted with the attention */
}

/* ---- GPT-Neo: window by word ----------------------------------------------------------------- */

void gpt_neo_attention(struct reading *r, const struct layers *l, int64_t layer,
                       struct attention *out)
{
    const char *const *words = read_layer_words(r, "attention_layers");
    const int64_t dim = family_head_dim(r), heads = family_heads(r);
    (void)l;
    read_ignore(r, "attention_types");
    if (!words)
        reading_fail(r, r->c, "attention_layers: missing");
    attention_heads(r, heads, heads, dim, dim, out);
    if (words && strcmp(words[layer], "local") == 0)
        attention_window(r, ATTENTION_WINDOW,
                         read_int(r, "window_size", 1, MAX_POSITIONS, READ_REQUIRED), out);
    read_ignore(r, "window_size");
}

/* ---- models of states alone ------------------------------------------------------------------ */

void mamba_attention(struct reading *r, const struct layers *l, int64_t layer,
                     struct attention *out)
{
    read_ignore(r, "layer_norm");
    attention_mamba(r, l, layer, out);
}

void no_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    (void)r;
    (void)l;
    (void)layer;
    memset(out, 0, sizeof *out);
}

/* ---- MiniMax M2: norms of q and k as wide as all heads --------------------------------------- */

void minimax_m2_attention(struct reading *r, const struct layers *l, int64_t layer,
                          struct attention *out)
{
    const struct node *types = read_node(r, "attn_type_list"); /* 1 = softmax */
    read_only(r, "qk_norm_type", "per_layer");
    if (types && !read_layer_flags(r, "attn_type_list"))
        return;
    if (types && !read_layer_flags(r, "attn_type_list")[layer])
        reading_fail(r, types, "attn_type_list: only 1 is supported for %s", r->s->family);
    attention_decoder(r, l, layer, out);
}

/* ---- Kimi: experts may work on a narrower input -----------------------------------------------
 */

void kimi_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    const int64_t latent = read_int(r, "routed_expert_hidden_size", 0, MAX_WIDTH, 0);
    const bool norm = read_flag(r, "latent_moe_use_norm", false);
    mlp_decoder(r, l, layer, out);
    if (latent == 0 || out->experts == 0)
        return;
    mlp_narrow_experts(r, latent, out);
    if (norm)
        out->weights.vectors += latent;
}

/* ---- Qwen's first version: its intermediate_size counts gate and up together ------------------
 */

void qwen_attention(struct reading *r, const struct layers *l, int64_t layer, struct attention *out)
{
    (void)l;
    (void)layer;
    const int64_t heads = family_heads(r), dim = family_head_dim(r);
    attention_heads(r, heads, heads, dim, dim, out);
}

void qwen_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    const int64_t both = read_int(r, "intermediate_size", 1, MAX_INTERMEDIATE, READ_REQUIRED);
    (void)l;
    (void)layer;
    if (both % 2 != 0)
        reading_fail(r, read_node(r, "intermediate_size"),
                     "intermediate_size: gate and up are two equal halves, got %lld",
                     (long long)both);
    mlp_dense(r, both / 2, out);
}

/* ---- OPT: the embedding may be narrower than the layers ---------------------------------------
 */

void opt_outside(struct reading *r)
{
    const int64_t width = read_int(r, "word_embed_proj_dim", 1, MAX_WIDTH, r->s->hidden);
    if (width != r->s->hidden)
        reading_fail(r, read_node(r, "word_embed_proj_dim"),
                     "word_embed_proj_dim: only the hidden size, %lld, is supported for %s",
                     (long long)r->s->hidden, r->s->family);
}

/* ---- BLOOM: a norm behind the embedding; n_inner is not heeded --------------------------------
 */

void bloom_outside(struct reading *r)
{
    const int64_t inner = 4 * r->s->hidden;
    const struct node *given = read_node(r, "n_inner");
    if (given && read_int(r, "n_inner", 1, MAX_INTERMEDIATE, inner) != inner)
        reading_fail(r, given, "n_inner: BLOOM's is 4 x the hidden size = %lld, got %lld",
                     (long long)inner,
                     (long long)read_int(r, "n_inner", 1, MAX_INTERMEDIATE, inner));
    read_only(r, "apply_residual_connection_post_layernorm", "false");
    r->s->emb_norm = true;
    r->s->outside.vectors += family_norm_params(r);
}

/* ---- StarCoder's first: one KV head or as many as heads ---------------------------------------
 */

void gpt_bigcode_attention(struct reading *r, const struct layers *l, int64_t layer,
                           struct attention *out)
{
    const bool one = read_flag(r, "multi_query", false);
    const int64_t heads = family_heads(r), dim = family_head_dim(r);
    (void)l;
    (void)layer;
    read_ignore(r, "num_key_value_heads");
    attention_heads(r, heads, one ? 1 : heads, dim, dim, out);
}

/* ---- Helium: its output projection is square --------------------------------------------------
 */

void helium_attention(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out)
{
    attention_decoder(r, l, layer, out);
    if (out->heads * out->v_dim != r->s->hidden)
        reading_fail(r, read_node(r, "head_dim"),
                     "head_dim: %lld heads of %lld are not the hidden size %lld",
                     (long long)out->heads, (long long)out->v_dim, (long long)r->s->hidden);
}
