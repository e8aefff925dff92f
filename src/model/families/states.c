/* Attentions that keep a state of fixed size for each sequence, and families that alternate them
 * with attentions over keys and values. */
#include <string.h>

#include "model/families/family.h"

/* Tokens that kernels for prompts take at once: delta rules of flash-linear-attention (chunk_size
 * of its fla/ops/gated_delta_rule and fla/ops/kda), and vLLM's lightning attention (BLOCK of
 * vllm/model_executor/layers/lightning_attn.py). */
enum { DELTA_CHUNK = 64, LIGHTNING_CHUNK = 256 };

static struct projections *begin(struct reading *r, struct attention *out)
{
    memset(out, 0, sizeof *out);
    out->type = ATTENTION_STATE;
    out->weights.vectors = family_norm_params(r);
    return &out->weights;
}

static bool is(const struct layers *l, int64_t layer, const char *word)
{
    return strcmp(family_layer_word(l, layer), word) == 0;
}

/* A short convolution over `channels`: its taps, and a bias; the last taps - 1 inputs are kept. */
static void add_convolution(struct attention *out, int64_t channels, int64_t taps, bool bias)
{
    out->weights.vectors += channels * (taps + bias);
    out->state.elements += channels * (taps - 1);
    out->state.channels = channels;
    out->state.taps = taps;
}

/* A recurrence: `heads` matrices of [k_dim, v_dim], by kernels that take `chunk` tokens at once. */
static void set_recurrence(struct attention *out, enum state_type type, int64_t heads,
                           int64_t k_dim, int64_t v_dim, int64_t chunk)
{
    struct sequence_state *s = &out->state;
    s->type = type;
    s->heads = heads;
    s->key_heads = heads;
    s->decays = heads;
    s->k_dim = k_dim;
    s->v_dim = v_dim;
    s->chunk = chunk;
}

/* ---- gated delta net (Qwen3-Next, Qwen3.5) --------------------------------------------------- */

static bool is_full(struct reading *r, const struct layers *l, int64_t layer)
{
    if (l->words)
        return !is(l, layer, "linear_attention");
    const int64_t every = read_int(r, "full_attention_interval", 1, MAX_LAYERS, READ_REQUIRED);
    return (layer + 1) % every == 0;
}

/* Value heads with a state of [key dim, value dim] each, in float32 or as the configuration says;
 * q, k and v go through one short convolution. */
void attention_delta(struct reading *r, const struct layers *l, int64_t layer,
                     struct attention *out)
{
    read_ignore(r, "attn_output_gate|full_attention_interval");
    const int64_t k_dim = read_int(r, "linear_key_head_dim", 1, MAX_HEAD_DIM, READ_REQUIRED);
    const int64_t v_dim = read_int(r, "linear_value_head_dim", 1, MAX_HEAD_DIM, READ_REQUIRED);
    const int64_t k_heads = read_int(r, "linear_num_key_heads", 1, MAX_HEADS, READ_REQUIRED);
    const int64_t v_heads = read_int(r, "linear_num_value_heads", 1, MAX_HEADS, READ_REQUIRED);
    const int64_t taps = read_int(r, "linear_conv_kernel_dim", 1, 64, READ_REQUIRED);
    if (is_full(r, l, layer)) {
        const struct layers alike = {0};
        attention_decoder(r, &alike, layer, out);
        return;
    }
    const int64_t hidden = r->s->hidden, key = k_heads * k_dim, value = v_heads * v_dim;
    struct projections *w = begin(r, out);
    out->heads = v_heads;
    out->kv_heads = k_heads;
    out->k_dim = k_dim;
    out->v_dim = v_dim;
    projections_add(w, "linear_attn.in_proj_qkv", CUT_ROWS, 2 * key + value, hidden, 1, false);
    projections_add(w, "linear_attn.in_proj_z", CUT_ROWS, value, hidden, 1, false);
    projections_add(w, "linear_attn.in_proj_b", CUT_ROWS, v_heads, hidden, 1, false);
    projections_add(w, "linear_attn.in_proj_a", CUT_ROWS, v_heads, hidden, 1, false);
    projections_add(w, "linear_attn.out_proj", CUT_COLUMNS, hidden, value, 1, false);
    w->vectors += 2 * v_heads + v_dim; /* decay and step of each head, the gated norm */
    add_convolution(out, 2 * key + value, taps, false);
    out->state.float32 = v_heads * k_dim * v_dim;
    set_recurrence(out, STATE_DELTA, v_heads, k_dim, v_dim, DELTA_CHUNK);
    out->state.key_heads = k_heads;
}

/* ---- Kimi delta attention -------------------------------------------------------------------- */

/* As Kimi Linear lists its layers, from 1 on; GLM from 0. */
static bool is_kda(struct reading *r, const struct layers *l, int64_t layer,
                   const struct node *config)
{
    const struct node *ids = node_find(config, "kda_layers");
    if (l->words)
        return is(l, layer, "linear_attention");
    for (uint32_t i = 0; ids && ids->kind == NODE_LIST && i < ids->n; i++)
        if (ids->items[i]->kind == NODE_INT && ids->items[i]->i == layer + 1)
            return true;
    if (!ids)
        reading_fail(r, r->c, "linear_attn_config.kda_layers: missing");
    return false;
}

static int64_t kda_size(struct reading *r, const struct node *config, const char *key,
                        const char *flat, int64_t max)
{
    int64_t v = 1;
    if (config && node_find(config, key)) {
        if (r->st == ST_OK)
            r->st = node_get_int(config, key, 1, max, &v, r->e);
        read_ignore(r, flat);
        return r->st == ST_OK ? v : 1;
    }
    return read_int(r, flat, 1, max, READ_REQUIRED);
}

/* Heads with a state of [dim, dim] each; q, k and v go through short convolutions; the rate of
 * decay is of a low rank, and so is the output's gate, unless it is said to be of full rank. */
void attention_kda(struct reading *r, const struct layers *l, int64_t layer, struct attention *out)
{
    const struct node *config = read_node(r, "linear_attn_config");
    const int64_t heads = kda_size(r, config, "num_heads", "linear_num_heads", MAX_HEADS);
    const int64_t dim = kda_size(r, config, "head_dim", "linear_head_dim", MAX_HEAD_DIM);
    const int64_t taps =
        kda_size(r, config, "short_conv_kernel_size", "linear_conv_kernel_dim", 64);
    const struct node *full_rank = config ? node_find(config, "use_full_rank_gate") : NULL;
    read_ignore(r, "model_max_length|moe_layer_freq");
    if (!is_kda(r, l, layer, config)) {
        attention_latent(r, l, layer, out);
        return;
    }
    read_ignore(r, "q_lora_rank|kv_lora_rank|qk_nope_head_dim|qk_rope_head_dim|v_head_dim|"
                   "qk_head_dim|head_dim|num_attention_heads|num_key_value_heads");
    const int64_t hidden = r->s->hidden, width = heads * dim;
    struct projections *w = begin(r, out);
    out->heads = out->kv_heads = heads;
    out->k_dim = out->v_dim = dim;
    projections_add(w, "self_attn.q_proj", CUT_ROWS, width, hidden, 1, false);
    projections_add(w, "self_attn.k_proj", CUT_ROWS, width, hidden, 1, false);
    projections_add(w, "self_attn.v_proj", CUT_ROWS, width, hidden, 1, false);
    projections_add(w, "self_attn.f_a_proj", CUT_NONE, dim, hidden, 1, false);
    projections_add(w, "self_attn.f_b_proj", CUT_ROWS, width, dim, 1, false);
    projections_add(w, "self_attn.b_proj", CUT_ROWS, heads, hidden, 1, false);
    if (full_rank && full_rank->kind == NODE_BOOL && full_rank->b) {
        projections_add(w, "self_attn.g_proj", CUT_ROWS, width, hidden, 1, false);
    } else {
        projections_add(w, "self_attn.g_a_proj", CUT_NONE, dim, hidden, 1, false);
        projections_add(w, "self_attn.g_b_proj", CUT_ROWS, width, dim, 1, false);
    }
    projections_add(w, "self_attn.o_proj", CUT_COLUMNS, hidden, width, 1, false);
    w->vectors += heads + width + dim; /* decay, its step, the gated norm */
    add_convolution(out, 3 * width, taps, false);
    out->state.float32 = heads * dim * dim;
    set_recurrence(out, STATE_DELTA, heads, dim, dim, DELTA_CHUNK);
    out->state.decays = width;
}

/* ---- state spaces ---------------------------------------------------------------------------- */

/* Mamba: each of `inner` channels has a state of its own; the step is of a low rank. */
void attention_mamba(struct reading *r, const struct layers *l, int64_t layer,
                     struct attention *out)
{
    const int64_t hidden = r->s->hidden;
    const int64_t expand = read_int(r, "mamba_expand|expand", 1, 64, 2);
    const bool alone = r->family->mlp == no_mlp; /* elsewhere that key is the MLP's */
    const int64_t inner =
        alone ? read_int(r, "intermediate_size", 1, MAX_WIDTH, expand * hidden) : expand * hidden;
    const int64_t state = read_int(r, "mamba_d_state|state_size", 1, MAX_HEAD_DIM, 16);
    const int64_t taps = read_int(r, "mamba_d_conv|conv_kernel", 1, 64, 4);
    const int64_t rank =
        read_int(r, "mamba_dt_rank|time_step_rank", 1, MAX_WIDTH, (hidden + 15) / 16);
    const bool bias = read_flag(r, "mamba_proj_bias|use_bias", false);
    const bool taps_bias = read_flag(r, "mamba_conv_bias|use_conv_bias", true);
    struct projections *w = begin(r, out);
    (void)l;
    (void)layer;
    out->k_dim = state;
    out->v_dim = inner;
    projections_add(w, "mamba.in_proj", CUT_ROWS, 2 * inner, hidden, 1, bias);
    projections_add(w, "mamba.x_proj", CUT_COLUMNS, rank + 2 * state, inner, 1, false);
    projections_add(w, "mamba.dt_proj", CUT_ROWS, inner, rank, 1, true);
    projections_add(w, "mamba.out_proj", CUT_COLUMNS, hidden, inner, 1, bias);
    w->vectors += inner * (state + 1); /* A, D */
    add_convolution(out, inner, taps, taps_bias);
    out->state.elements += inner * state;
    set_recurrence(out, STATE_MAMBA, inner, state, 1, 1);
}

/* Mamba 2: heads of `dim` channels with a state of [dim, state] each; B and C are shared by the
 * heads of a group. */
void attention_mamba2(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out)
{
    const int64_t hidden = r->s->hidden;
    const int64_t heads =
        read_int(r, "mamba_n_heads|mamba_num_heads|num_heads", 1, MAX_HEADS, READ_REQUIRED);
    const bool alone = r->family->mlp == no_mlp; /* elsewhere head_dim is attention's */
    const int64_t dim = read_int(r, alone ? "head_dim" : "mamba_d_head|mamba_head_dim", 1,
                                 MAX_HEAD_DIM, READ_REQUIRED);
    const int64_t groups = read_int(r, "mamba_n_groups|n_groups", 1, MAX_HEADS, READ_REQUIRED);
    const int64_t state =
        read_int(r, "mamba_d_state|ssm_state_size|state_size", 1, MAX_HEAD_DIM, READ_REQUIRED);
    const int64_t taps = read_int(r, "mamba_d_conv|conv_kernel", 1, 64, READ_REQUIRED);
    const bool bias = read_flag(r, "mamba_proj_bias|use_bias", false);
    const bool taps_bias = read_flag(r, "mamba_conv_bias|use_conv_bias", true);
    const int64_t inner = heads * dim, channels = inner + 2 * groups * state;
    const int64_t chunk = read_int(r, "mamba_chunk_size|chunk_size", 1, MAX_POSITIONS, 256);
    read_ignore(r, "mamba_expand|expand|time_step_rank|rms_norm|mamba_d_ssm|"
                   "mamba_norm_before_gate|norm_before_gate");
    struct projections *w = begin(r, out);
    (void)l;
    (void)layer;
    out->heads = heads;
    out->kv_heads = groups;
    out->k_dim = state;
    out->v_dim = dim;
    projections_add(w, "mamba.in_proj", CUT_ROWS, inner + channels + heads, hidden, 1, bias);
    projections_add(w, "mamba.out_proj", CUT_COLUMNS, hidden, inner, 1, bias);
    w->vectors += 3 * heads; /* A, D, the step's bias */
    if (read_flag(r, "mamba_rms_norm", true))
        w->vectors += inner;
    add_convolution(out, channels, taps, taps_bias);
    /* vLLM keeps the states of this family in float32 unless the configuration says another type
     * (model_executor/models/config.py, NemotronHForCausalLMConfig) */
    const char *type = strcmp(r->s->family, "nemotron_h") == 0
                           ? read_word(r, "mamba_ssm_cache_dtype", "float32")
                           : "auto";
    *(strcmp(type, "float32") == 0 ? &out->state.float32 : &out->state.elements) += inner * state;
    set_recurrence(out, STATE_MAMBA2, heads, state, dim, chunk);
    out->state.key_heads = groups;
}

/* ---- others ---------------------------------------------------------------------------------- */

/* Every other layer, the second first, unless a list says which: 1 = softmax. */
static bool is_lightning(struct reading *r, const struct layers *l, int64_t layer)
{
    const bool *softmax = read_layer_flags(r, "attn_type_list");
    if (l->words)
        return is(l, layer, "linear_attention");
    return softmax ? !softmax[layer] : layer % 2 == 1;
}

/* MiniMax's lightning attention: a state of [dim, dim] for each head, a gate as wide as the heads,
 * and a norm over them. */
void attention_lightning(struct reading *r, const struct layers *l, int64_t layer,
                         struct attention *out)
{
    const int64_t heads = family_heads(r), dim = family_head_dim(r), width = heads * dim;
    const int64_t hidden = r->s->hidden;
    read_ignore(r, "block_size|full_attn_alpha_factor|full_attn_beta_factor|"
                   "linear_attn_alpha_factor|linear_attn_beta_factor|mlp_alpha_factor|"
                   "mlp_beta_factor|layernorm_full_attention_alpha|layernorm_full_attention_beta|"
                   "layernorm_linear_attention_alpha|layernorm_linear_attention_beta|"
                   "layernorm_mlp_alpha|layernorm_mlp_beta|postnorm");
    if (!is_lightning(r, l, layer)) {
        attention_decoder(r, l, layer, out);
        return;
    }
    struct projections *w = begin(r, out);
    out->heads = out->kv_heads = heads;
    out->k_dim = out->v_dim = dim;
    projections_add(w, "self_attn.qkv_proj", CUT_ROWS, 3 * width, hidden, 1, false);
    projections_add(w, "self_attn.output_gate", CUT_ROWS, width, hidden, 1, false);
    projections_add(w, "self_attn.out_proj", CUT_COLUMNS, hidden, width, 1, false);
    w->vectors += width;
    out->state.float32 = heads * dim * dim;
    set_recurrence(out, STATE_LIGHTNING, heads, dim, dim, LIGHTNING_CHUNK);
}

/* LFM2's gated short convolution over the hidden size. */
void attention_convolution(struct reading *r, const struct layers *l, int64_t layer,
                           struct attention *out)
{
    const int64_t hidden = r->s->hidden;
    const int64_t taps = read_int(r, "conv_L_cache", 1, 64, READ_REQUIRED);
    const bool bias = read_flag(r, "conv_bias", false);
    read_ignore(r, "full_attn_idxs");
    if (!is(l, layer, "conv")) {
        attention_decoder(r, l, layer, out);
        return;
    }
    struct projections *w = begin(r, out);
    projections_add(w, "conv.in_proj", CUT_ROWS, 3 * hidden, hidden, 1, bias);
    projections_add(w, "conv.out_proj", CUT_COLUMNS, hidden, hidden, 1, bias);
    add_convolution(out, hidden, taps, bias);
    out->state.type = STATE_CONVOLUTION;
}

/* Griffin's recurrent block: two branches, a short convolution, and a gated linear recurrence whose
 * gates are block-diagonal, a block a head. */
void attention_rg_lru(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out)
{
    const struct node *types = read_node(r, "block_types|_block_types");
    const int64_t width = read_int(r, "lru_width", 1, MAX_WIDTH, r->s->hidden);
    const int64_t heads = family_heads(r), taps = read_int(r, "conv1d_width", 1, 64, READ_REQUIRED);
    const int64_t hidden = r->s->hidden;
    if (!types || types->kind != NODE_LIST || types->n == 0) {
        reading_fail(r, r->c, "block_types: missing");
        return;
    }
    const struct node *type = types->items[layer % types->n];
    if (type->kind == NODE_STR && sv_eq(type->s, "attention")) {
        const struct layers alike = {0};
        attention_decoder(r, &alike, layer, out);
        attention_window(r, ATTENTION_WINDOW,
                         read_int(r, "attention_window_size", 1, MAX_POSITIONS, READ_REQUIRED),
                         out);
        return;
    }
    read_ignore(r, "attention_window_size");
    (void)l;
    struct projections *w = begin(r, out);
    out->heads = heads;
    projections_add(w, "temporal_block.linear_x", CUT_ROWS, width, hidden, 1, true);
    projections_add(w, "temporal_block.linear_y", CUT_ROWS, width, hidden, 1, true);
    projections_add(w, "temporal_block.linear_out", CUT_COLUMNS, hidden, width, 1, true);
    projections_add(w, "temporal_block.rg_lru", CUT_ROWS, width / heads, width / heads, 2 * heads,
                    true);
    w->vectors += width; /* rates of decay */
    add_convolution(out, width, taps, true);
    out->state.float32 = width;
    set_recurrence(out, STATE_RG_LRU, width, 1, 1, 1);
}
