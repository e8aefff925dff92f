/* DeepSeek V4: keys that are values too, of one head; layers that read the last tokens exactly and
 * all earlier ones compressed, several tokens to an entry; and a residual stream of several lanes
 * (hyper-connections). */
#include <string.h>

#include "model/families/family.h"

/* Mixing of `lanes` residual streams around one part of a layer: how much of each it reads, where
 * it adds, and how they mix; each from all of them. */
static int64_t hyper_params(struct reading *r, int64_t lanes, bool mixes)
{
    const int64_t outputs = 2 * lanes + (mixes ? lanes * lanes : 0);
    return outputs * (lanes * r->s->hidden + 1) + (mixes ? 3 : 2);
}

static int64_t lanes_of(struct reading *r)
{
    return read_int(r, "hc_mult", 1, 64, READ_REQUIRED);
}

/* Before the final norm the lanes become one. */
void compressed_outside(struct reading *r)
{
    const int64_t lanes = lanes_of(r);
    r->s->outside.vectors += lanes * (lanes * r->s->hidden + 1) + 1;
    r->s->lanes = lanes;
    r->s->lanes_mix = r->family->attention != hy_v4_attention;
}

/* Tokens to an entry: 0, 4 (overlapping, with an index over the entries) or 128. */
static int64_t ratio_of(struct reading *r, const struct layers *l, int64_t layer)
{
    const struct node *ratios = read_node(r, "compress_ratios");
    const struct node *rates = read_node(r, "compress_rates");
    const char *word = family_layer_word(l, layer);
    if (l->words) {
        int64_t v = 0;
        if (strcmp(word, "sliding_attention") == 0)
            return 0;
        if (rates && node_find(rates, word) && r->st == ST_OK)
            r->st = node_get_int(rates, word, 1, MAX_POSITIONS, &v, r->e);
        else
            reading_fail(r, read_node(r, "layer_types"),
                         "layer_types: '%.60s' has no rate in compress_rates", word);
        return v;
    }
    if (!ratios)
        reading_fail(r, r->c, "compress_ratios: missing");
    const int64_t *list = read_layer_ints(r, "compress_ratios", MAX_POSITIONS);
    return list ? list[layer] : 0;
}

/* FlashMLA's layout, of heads of 512 alone: the rotated part of 64 in 16 bits, the rest in FP8 with
 * a scale of a byte for 64, and a byte that fills up (vllm/v1/attention/backends/mla/
 * flashmla_sparse.py). */
static int64_t packed_bytes(int64_t dim)
{
    enum { ROTATED = 64, GROUP = 64 };
    return dim == 512 ? dim - ROTATED + 2 * ROTATED + (dim - ROTATED) / GROUP + 1 : 0;
}

static bool has_index(const struct layers *l, int64_t layer, int64_t ratio)
{
    return l->words ? strcmp(l->words[layer], "compressed_sparse_attention") == 0
                    : ratio > 0 && ratio < 128;
}

void compressed_attention(struct reading *r, const struct layers *l, int64_t layer,
                          struct attention *out)
{
    const int64_t hidden = r->s->hidden, heads = family_heads(r), dim = family_head_dim(r);
    const int64_t q_rank = read_int(r, "q_lora_rank", 1, MAX_WIDTH, READ_REQUIRED);
    const int64_t o_rank = read_int(r, "o_lora_rank", 1, MAX_WIDTH, READ_REQUIRED);
    const int64_t groups = read_int(r, "o_groups", 1, MAX_HEADS, READ_REQUIRED);
    const int64_t window = read_int(r, "sliding_window", 1, MAX_POSITIONS, READ_REQUIRED);
    const int64_t index_dim = read_int(r, "index_head_dim", 1, MAX_HEAD_DIM, READ_REQUIRED);
    const int64_t index_heads = read_int(r, "index_n_heads", 1, MAX_HEADS, READ_REQUIRED);
    const int64_t top_k = read_int(r, "index_topk", 1, MAX_POSITIONS, READ_REQUIRED);
    const int64_t ratio = ratio_of(r, l, layer);
    const bool index = has_index(l, layer, ratio);
    read_ignore(r, "num_hash_layers|qk_rope_head_dim|num_key_value_heads");
    memset(out, 0, sizeof *out);
    if (heads * dim % groups != 0) {
        reading_fail(r, read_node(r, "o_groups"), "o_groups: %lld do not divide %lld heads of %lld",
                     (long long)groups, (long long)heads, (long long)dim);
        return;
    }
    struct projections *w = &out->weights;
    out->type = ratio ? ATTENTION_FULL : ATTENTION_WINDOW;
    out->heads = heads;
    out->kv_heads = 1;
    out->k_dim = out->v_dim = dim;
    out->window = ratio ? 0 : window;
    attention_cache(out, (struct cache){.elements = dim,
                                        .window = window,
                                        .whole = true,
                                        .packed_fp8 = packed_bytes(dim)});
    projections_add(w, "self_attn.q_a_proj", CUT_NONE, q_rank, hidden, 1, false);
    projections_add(w, "self_attn.q_b_proj", CUT_ROWS, heads * dim, q_rank, 1, false);
    projections_add(w, "self_attn.kv_proj", CUT_NONE, dim, hidden, 1, false);
    projections_add(w, "self_attn.o_a_proj", CUT_ROWS, o_rank, heads * dim / groups, groups, false);
    projections_add(w, "self_attn.o_b_proj", CUT_COLUMNS, hidden, groups * o_rank, 1, false);
    w->vectors = family_norm_params(r) + q_rank + dim + heads + hyper_params(r, lanes_of(r), true);
    if (ratio == 0)
        return;
    /* overlapping entries are made of two halves */
    const int64_t wide = index ? 2 * dim : dim;
    attention_cache(
        out, (struct cache){
                 .elements = dim, .ratio = ratio, .whole = true, .packed_fp8 = packed_bytes(dim)});
    projections_add(w, "self_attn.compressor.kv_proj", CUT_NONE, wide, hidden, 1, false);
    projections_add(w, "self_attn.compressor.gate_proj", CUT_NONE, wide, hidden, 1, false);
    w->vectors += dim + ratio * wide;
    if (!index)
        return;
    out->top_k = top_k;
    attention_cache(
        out,
        (struct cache){.bytes = index_dim + (int64_t)sizeof(float), .ratio = ratio, .whole = true});
    projections_add(w, "self_attn.indexer.kv_proj", CUT_NONE, 2 * index_dim, hidden, 1, false);
    projections_add(w, "self_attn.indexer.gate_proj", CUT_NONE, 2 * index_dim, hidden, 1, false);
    projections_add(w, "self_attn.indexer.q_b_proj", CUT_NONE, index_heads * index_dim, q_rank, 1,
                    false);
    projections_add(w, "self_attn.indexer.weights_proj", CUT_NONE, index_heads, hidden, 1, false);
    w->vectors += index_dim + ratio * 2 * index_dim;
}

void compressed_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    (void)l;
    (void)layer;
    const int64_t width = read_int(r, "moe_intermediate_size", 1, MAX_INTERMEDIATE, READ_REQUIRED);
    read_only(r, "n_shared_experts", "1");
    read_ignore(r, "expert_dtype|mlp_layer_types|mlp_bias");
    mlp_experts(r, width, width, out);
    out->weights.vectors += hyper_params(r, lanes_of(r), true);
}

/* ---- others with lanes ----------------------------------------------------------------------- */

/* Hunyuan's: lanes do not mix. */
void hy_v4_attention(struct reading *r, const struct layers *l, int64_t layer,
                     struct attention *out)
{
    attention_latent(r, l, layer, out);
    out->weights.vectors += hyper_params(r, lanes_of(r), false);
}

void hy_v4_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    mlp_decoder(r, l, layer, out);
    out->weights.vectors += hyper_params(r, lanes_of(r), false);
}

/* GLM 5 next: Kimi's delta attention and sparse latent attention in turn. */
void glm5_next_attention(struct reading *r, const struct layers *l, int64_t layer,
                         struct attention *out)
{
    read_ignore(r, "mhc|index_kpool|index_kpool_compress|index_kpool_always_select_tail");
    attention_kda(r, l, layer, out);
    out->weights.vectors += hyper_params(r, lanes_of(r), true);
}

void glm5_next_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    mlp_decoder(r, l, layer, out);
    out->weights.vectors += hyper_params(r, lanes_of(r), true);
}
