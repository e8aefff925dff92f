/* Attentions over keys and values of tokens. */
#include <math.h>
#include <string.h>

#include "model/families/family.h"

void attention_none(struct attention *out)
{
    memset(out, 0, sizeof *out);
}

void attention_window(struct reading *r, enum attention_type type, int64_t tokens,
                      struct attention *out)
{
    out->type = type;
    out->window = tokens;
    if (type == ATTENTION_WINDOW && r->s->n_ropes > 1)
        out->rope = 1;
    for (int32_t i = 0; i < out->n_caches; i++)
        out->caches[i].window = tokens;
}

/* Norms around the attention. */
static int64_t norms(struct reading *r)
{
    return (1 + family_is(r, r->family->post_norms)) * family_norm_params(r);
}

void attention_heads(struct reading *r, int64_t heads, int64_t kv_heads, int64_t k_dim,
                     int64_t v_dim, struct attention *out)
{
    const struct family *f = r->family;
    const int64_t hidden = r->s->hidden;
    const bool bias = family_is(r, f->qkv_bias), gate = family_is(r, f->gate);
    memset(out, 0, sizeof *out);
    if (kv_heads == 0 || heads % kv_heads != 0) {
        reading_fail(r, read_node(r, "num_key_value_heads|num_kv_heads"),
                     "num_key_value_heads: %lld heads are not divisible by %lld kv heads",
                     (long long)heads, (long long)kv_heads);
        return;
    }
    if (heads * k_dim > MAX_WIDTH || heads * v_dim > MAX_WIDTH) {
        reading_fail(r, r->c, "num_attention_heads: %lld heads of %lld are more than %d wide",
                     (long long)heads, (long long)(k_dim > v_dim ? k_dim : v_dim), MAX_WIDTH);
        return;
    }
    out->type = ATTENTION_FULL;
    out->heads = heads;
    out->kv_heads = kv_heads;
    out->k_dim = k_dim;
    out->v_dim = v_dim;
    out->prompt_k_dim = k_dim;
    out->prompt_v_dim = v_dim;
    attention_cache(out, (struct cache){.elements = kv_heads * (k_dim + v_dim)});
    struct projections *w = &out->weights;
    projections_add(w, "self_attn.q_proj", CUT_ROWS, heads * k_dim, hidden, 1, bias);
    projections_add(w, "self_attn.k_proj", CUT_KV, kv_heads * k_dim, hidden, 1, bias);
    projections_add(w, "self_attn.v_proj", CUT_KV, kv_heads * v_dim, hidden, 1, bias);
    if (gate)
        projections_add(w, "self_attn.gate_proj", CUT_ROWS, heads * v_dim, hidden, 1, false);
    projections_add(w, "self_attn.o_proj", CUT_COLUMNS, hidden, heads * v_dim, 1,
                    family_is(r, f->o_bias));
    w->vectors = norms(r);
    out->qk_norm = family_is(r, f->qk_norm);
    if (out->qk_norm) /* some have layer norms here */
        w->vectors += 2 * k_dim * (f->norm == FAMILY_NORM_SCALE_BIAS ? 2 : 1);
    if (r->s->position == POSITION_ROPE)
        out->rotary_dim = family_rotary_dim(r, k_dim);
    if (out->rotary_dim % 2 != 0) {
        const struct node *given = read_node(r, "head_dim");
        reading_fail(r, given ? given : read_node(r, "num_attention_heads|n_head|n_heads"),
                     "head_dim: rotary positions need an even head, got %lld",
                     (long long)out->rotary_dim);
    }
    if (family_is(r, f->qk_norm_width))
        w->vectors += (heads + kv_heads) * k_dim;
    out->sinks = family_is(r, f->sinks);
    if (out->sinks)
        w->vectors += heads;
    out->out_norm = family_is(r, f->post_norms);
    if (f->query_scalar > 0)
        out->score_scale =
            1 / sqrt(read_double(r, "query_pre_attn_scalar", 1, MAX_WIDTH, f->query_scalar));
}

/* A layer slides where its word says so, or the list of the decoder's keys. */
static void bound(struct reading *r, const struct layers *l, int64_t layer, struct attention *out)
{
    const char *word = family_layer_word(l, layer);
    if (strcmp(word, "chunked_attention") == 0)
        attention_window(r, ATTENTION_CHUNKED,
                         read_int(r, "attention_chunk_size", 1, MAX_POSITIONS, READ_REQUIRED), out);
    else if (strcmp(word, "sliding_attention") == 0 || strcmp(word, "local_attention") == 0 ||
             (l->window && l->window[layer]))
        attention_window(r, ATTENTION_WINDOW,
                         read_int(r,
                                  "sliding_window|sliding_window_size|attention_window_size|"
                                  "window_size",
                                  1, MAX_POSITIONS, READ_REQUIRED),
                         out);
    else if (*word && strcmp(word, "full_attention") != 0 && strcmp(word, "attention") != 0 &&
             strcmp(word, "global_attention") != 0)
        reading_fail(r, read_node(r, "layer_types|layers_block_type"),
                     "layer_types: '%.60s' is not known for %s", word, r->s->family);
}

void attention_decoder(struct reading *r, const struct layers *l, int64_t layer,
                       struct attention *out)
{
    const int64_t dim = family_head_dim(r);
    attention_heads(r, family_heads(r), family_kv_heads(r), dim, dim, out);
    bound(r, l, layer, out);
}

/* ---- latent ---------------------------------------------------------------------------------- */

/* The index of DeepSeek's sparse attention: a key of index_head_dim a token, of which index_n_heads
 * queries select index_topk tokens. Its keys are cached in fp8, with a float32 scale each. */
static void add_index(struct reading *r, int64_t q_rank, struct attention *out)
{
    const int64_t dim = read_int(r, "index_head_dim", 1, MAX_HEAD_DIM, READ_REQUIRED);
    const int64_t heads = read_int(r, "index_n_heads", 1, MAX_HEADS, READ_REQUIRED);
    struct projections *w = &out->weights;
    out->top_k = read_int(r, "index_topk", 1, MAX_POSITIONS, READ_REQUIRED);
    projections_add(w, "self_attn.indexer.wq_b", CUT_NONE, heads * dim, q_rank, 1, false);
    projections_add(w, "self_attn.indexer.wk", CUT_NONE, dim, r->s->hidden, 1, false);
    projections_add(w, "self_attn.indexer.weights_proj", CUT_NONE, heads, r->s->hidden, 1, false);
    w->vectors += 2 * dim; /* a norm with bias */
    attention_cache(out, (struct cache){.bytes = dim + (int64_t)sizeof(float), .whole = true});
}

/* What FlashMLA's sparse kernels read (vllm/v1/attention/backends/mla/flashmla_sparse.py): the
 * latent vector in FP8 with a float32 scale for 128 elements and the rotated part in 16 bits, or in
 * FP4 with an FP8 scale for 16 and the rotated part in FP8. 656 and 352 bytes of 512 + 64; without
 * a rotated part its place stays. */
static void pack(struct cache *c, int64_t rank)
{
    enum { ROTATED = 64, FP8_GROUP = 128, FP4_GROUP = 16 };
    c->packed_fp8 = rank + rank / FP8_GROUP * (int64_t)sizeof(float) + 2 * ROTATED;
    c->packed_fp4 = rank / 2 + rank / FP4_GROUP + ROTATED;
}

/* Whether the layer takes another one's selection: as listed, by "FSSF", or but every so manieth.
 */
static bool shares_index(struct reading *r, int64_t layer)
{
    const char *const *types = read_layer_words(r, "indexer_types");
    const struct node *pattern = read_node(r, "index_topk_pattern");
    const int64_t every = read_int(r, "index_topk_freq", 1, MAX_LAYERS, 1);
    const int64_t offset = read_int(r, "index_skip_topk_offset", 0, MAX_LAYERS, 2);
    read_ignore(r, "index_share_for_mtp_iteration");
    if (types)
        return strcmp(types[layer], "shared") == 0;
    if (pattern && pattern->kind != NODE_STR)
        reading_fail(r, pattern, "index_topk_pattern: expected a string, got %s",
                     node_kind_name(pattern->kind));
    if (pattern)
        return (size_t)layer < pattern->s.n && pattern->s.p[layer] == 'S';
    return layer + 1 > offset && (layer + 1 - offset) % every != 0;
}

/* MLA: q of a low rank, or not; keys and values of one latent vector, to which each head's part of
 * kv_b_proj is applied, and a rotated part that all heads share. What is cached is that latent
 * vector and the rotated part: one head for all, so every shard holds it. */
void attention_latent(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out)
{
    const int64_t hidden = r->s->hidden, heads = family_heads(r);
    const int64_t q_rank = read_int(r, "q_lora_rank", 0, MAX_WIDTH, 0);
    const int64_t rank = read_int(r, "kv_lora_rank", 1, MAX_WIDTH, READ_REQUIRED);
    const int64_t nope = read_int(r, "qk_nope_head_dim", 0, MAX_HEAD_DIM, READ_REQUIRED);
    const int64_t rope = read_int(r, "qk_rope_head_dim", 0, MAX_HEAD_DIM, READ_REQUIRED);
    const int64_t v_dim = read_int(r, "v_head_dim", 1, MAX_HEAD_DIM, READ_REQUIRED);
    const bool bias = family_is(r, r->family->qkv_bias);
    read_ignore(r, "num_key_value_heads|head_dim|qk_head_dim|mla_use_nope");
    memset(out, 0, sizeof *out);
    struct projections *w = &out->weights;
    out->type = ATTENTION_LATENT;
    out->heads = heads;
    out->kv_heads = 1;
    out->k_dim = rank + rope;
    out->v_dim = rank;
    out->prompt_k_dim = nope + rope;
    out->prompt_v_dim = v_dim;
    out->rotary_dim = rope;
    attention_cache(out, (struct cache){.elements = rank + rope, .whole = true});
    if (heads * (nope + v_dim) > MAX_WIDTH) {
        reading_fail(r, r->c, "num_attention_heads: %lld heads of %lld are more than %d wide",
                     (long long)heads, (long long)(nope + v_dim), MAX_WIDTH);
        return;
    }
    if (q_rank) {
        projections_add(w, "self_attn.q_a_proj", CUT_NONE, q_rank, hidden, 1, bias);
        projections_add(w, "self_attn.q_b_proj", CUT_ROWS, heads * (nope + rope), q_rank, 1, false);
    } else {
        projections_add(w, "self_attn.q_proj", CUT_ROWS, heads * (nope + rope), hidden, 1, false);
    }
    projections_add(w, "self_attn.kv_a_proj_with_mqa", CUT_NONE, rank + rope, hidden, 1, bias);
    projections_add(w, "self_attn.kv_b_proj", CUT_ROWS, heads * (nope + v_dim), rank, 1, false);
    if (family_is(r, r->family->gate))
        projections_add(w, "self_attn.gate_proj", CUT_ROWS, heads * v_dim, hidden, 1, false);
    projections_add(w, "self_attn.o_proj", CUT_COLUMNS, hidden, heads * v_dim, 1,
                    family_is(r, r->family->o_bias));
    w->vectors = norms(r) + q_rank + rank;
    if (family_is(r, r->family->sinks))
        w->vectors += heads;
    const bool shared = shares_index(r, layer);
    const bool sparse = strcmp(family_layer_word(l, layer), "full_attention") != 0;
    if (!read_knows(r, "index_topk") || !sparse)
        return;
    pack(&out->caches[0], rank);
    if (shared) {
        out->top_k = read_int(r, "index_topk", 1, MAX_POSITIONS, READ_REQUIRED);
        read_ignore(r, "index_head_dim|index_n_heads");
    } else {
        add_index(r, q_rank ? q_rank : hidden, out);
    }
}
