/* Families that alternate states with attention over keys and values. */
#include <string.h>

#include "model/families/family.h"

/* Its width is two thirds of the given one, rounded up, unless that is switched off. */
void lfm2_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    const bool adjust = read_flag(r, "block_auto_adjust_ff_dim", false);
    const double times = read_double(r, "block_ffn_dim_multiplier", 1e-3, 1e3, 1);
    const int64_t multiple = read_int(r, "block_multiple_of", 1, MAX_WIDTH, 256);
    mlp_decoder(r, l, layer, out);
    if (!adjust || out->experts || r->st != ST_OK)
        return;
    int64_t width = (int64_t)(times * (double)(2 * out->intermediate / 3));
    mlp_dense(r, (width + multiple - 1) / multiple * multiple, out);
}

/* ---- jamba ---- */

void jamba_attention(struct reading *r, const struct layers *l, int64_t layer,
                     struct attention *out)
{
    const int64_t period = read_int(r, "attn_layer_period", 1, MAX_LAYERS, READ_REQUIRED);
    const int64_t offset = read_int(r, "attn_layer_offset", 0, MAX_LAYERS, READ_REQUIRED);
    attention_mamba(r, l, layer, out);
    /* norms of the step, B and C */
    out->weights.vectors +=
        read_int(r, "mamba_dt_rank|time_step_rank", 1, MAX_WIDTH, (r->s->hidden + 15) / 16) +
        2 * out->k_dim;
    if (layer % period == offset) {
        const struct layers alike = {0};
        attention_decoder(r, &alike, layer, out);
    }
}

/* ---- bamba, granite 4 ---- */

void bamba_attention(struct reading *r, const struct layers *l, int64_t layer,
                     struct attention *out)
{
    const bool *ids = l->words ? NULL : read_layer_ids(r, "attn_layer_indices", 0);
    const char *word = family_layer_word(l, layer);
    const bool full = (ids && ids[layer]) || strcmp(word, "attention") == 0 ||
                      strcmp(word, "full_attention") == 0;
    const struct layers alike = {0};
    struct attention state, keys;
    attention_mamba2(r, &alike, layer, &state);
    attention_decoder(r, &alike, layer, &keys);
    memcpy(out, full ? &keys : &state, sizeof *out);
}

/* ---- nemotron_h: a layer is one of mamba, attention, MLP, experts, under one norm ---- */

static char nemotron_h_part(struct reading *r, const struct layers *l, int64_t layer)
{
    static const struct {
        const char *word;
        char part;
    } words[] = {{"mamba", 'M'},     {"linear_attention", 'M'},
                 {"attention", '*'}, {"full_attention", '*'},
                 {"mlp", '-'},       {"moe", 'E'}};
    if (l->words) {
        read_ignore(r, "hybrid_override_pattern");
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strcmp(l->words[layer], words[i].word) == 0)
                return words[i].part;
        reading_fail(r, read_node(r, "layers_block_type|layer_types"),
                     "layers_block_type: '%.60s' is not known for %s", l->words[layer],
                     r->s->family);
        return 'M';
    }
    const char *pattern = read_word(r, "hybrid_override_pattern", "");
    if (strlen(pattern) <= (size_t)layer || !strchr("M*-E", pattern[layer])) {
        reading_fail(r, read_node(r, "hybrid_override_pattern"),
                     "hybrid_override_pattern: M, *, - or E for each of %lld layers",
                     (long long)r->s->layers);
        return 'M';
    }
    return pattern[layer];
}

void nemotron_h_attention(struct reading *r, const struct layers *l, int64_t layer,
                          struct attention *out)
{
    const char part = nemotron_h_part(r, l, layer);
    const struct layers alike = {0};
    struct attention state, full;
    attention_mamba2(r, &alike, layer, &state);
    attention_decoder(r, &alike, layer, &full);
    attention_none(out);
    if (part == 'M')
        memcpy(out, &state, sizeof state);
    if (part == '*')
        memcpy(out, &full, sizeof full);
}

/* Experts may work on a narrower input: a projection down to it and back stands around them. */
void nemotron_h_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    const char part = nemotron_h_part(r, l, layer);
    const int64_t latent = read_int(r, "moe_latent_size", 0, MAX_WIDTH, 0);
    const int64_t dense =
        read_int(r, "intermediate_size", 0, MAX_INTERMEDIATE, part == '-' ? READ_REQUIRED : 0);
    const int64_t expert = read_int(r, "moe_intermediate_size", 0, MAX_INTERMEDIATE, 0);
    const int64_t shared =
        read_int(r, "moe_shared_expert_intermediate_size", 0, MAX_INTERMEDIATE, 0);
    read_only(r, "n_shared_experts", "1"); /* vLLM multiplies by it, transformers does not */
    read_ignore(r, "moe_shared_expert_overlap|mlp_bias");
    memset(out, 0, sizeof *out);
    if (part == '-')
        mlp_dense(r, dense, out);
    if (part != 'E')
        return;
    mlp_experts(r, expert, shared, out);
    if (latent)
        mlp_narrow_experts(r, latent, out);
}

/* ---- falcon h1: attention and a state beside each other in every layer ---- */

void falcon_h1_attention(struct reading *r, const struct layers *l, int64_t layer,
                         struct attention *out)
{
    const struct layers alike = {0};
    struct attention state;
    (void)l;
    read_ignore(r, "mamba_d_ssm|mamba_use_mlp|attn_layer_indices|projectors_bias");
    attention_mamba2(r, &alike, layer, &state);
    attention_decoder(r, &alike, layer, out);
    for (int32_t i = 0; i < state.weights.n; i++) {
        const struct projection *w = &state.weights.w[i];
        projections_add(&out->weights, w->module, w->cut, w->rows, w->columns, w->copies, w->bias);
    }
    out->weights.vectors += state.weights.vectors - family_norm_params(r); /* one norm for both */
    out->state = state.state;
}

/* ---- olmo hybrid ---- */

void olmo_hybrid_attention(struct reading *r, const struct layers *l, int64_t layer,
                           struct attention *out)
{
    read_ignore(r, "linear_allow_neg_eigval|linear_a_log_min|linear_a_log_max|linear_dt_min|"
                   "linear_dt_max|linear_dt_init_floor|linear_use_gate");
    attention_delta(r, l, layer, out);
}
