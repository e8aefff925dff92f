/* Gemma 3n and 4: heads of two widths, layers that read the keys and values of earlier ones, and a
 * second, small embedding for each layer. */
#include <string.h>

#include "model/families/family.h"

/* The last so many layers cache nothing. */
static bool shares(struct reading *r, int64_t layer)
{
    const int64_t shared = read_int(r, "num_kv_shared_layers", 0, MAX_LAYERS, 0);
    return layer >= r->s->layers - shared && shared > 0;
}

static void drop(struct projections *w, const char *module)
{
    for (int32_t i = 0; i < w->n; i++) {
        if (strcmp(w->w[i].module, module) != 0)
            continue;
        w->n--;
        memmove(&w->w[i], &w->w[i + 1], (size_t)(w->n - i) * sizeof *w->w);
        memset(&w->w[w->n], 0, sizeof *w->w);
        return;
    }
}

static void share(struct attention *out)
{
    drop(&out->weights, "self_attn.k_proj");
    drop(&out->weights, "self_attn.v_proj");
    out->weights.vectors -= out->k_dim; /* the norm of k */
    out->shared_cache = true;
    memset(out->caches, 0, sizeof out->caches);
    out->n_caches = 0;
}

/* What each layer adds to the stream from its own embedding of the token. */
static void add_layer_input(struct reading *r, struct attention *out)
{
    const int64_t width = read_int(r, "hidden_size_per_layer_input", 0, MAX_WIDTH, 0);
    const int64_t hidden = r->s->hidden;
    if (width == 0)
        return;
    projections_add(&out->weights, "per_layer_input_gate", CUT_NONE, width, hidden, 1, false);
    projections_add(&out->weights, "per_layer_projection", CUT_NONE, hidden, width, 1, false);
    out->weights.vectors += family_norm_params(r);
}

void gemma4_attention(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out)
{
    /* whatever the list says, the last layer sees all */
    const bool full =
        layer == r->s->layers - 1 || (l->words ? strcmp(l->words[layer], "full_attention") == 0
                                               : !(l->window && l->window[layer]));
    const int64_t dim = family_head_dim(r), kv = family_kv_heads(r);
    const int64_t wide = read_has(r, "per_layer_config")
                             ? dim
                             : read_int(r, "global_head_dim", 1, MAX_HEAD_DIM, dim);
    const int64_t few = read_int(r, "num_global_key_value_heads", 1, MAX_HEADS, kv);
    const bool same = read_flag(r, "attention_k_eq_v", false);
    const int64_t own_dim = read_of_layer(r, layer, "head_dim", full ? wide : dim);
    const int64_t own_kv = read_of_layer(r, layer, "num_key_value_heads", full && same ? few : kv);
    read_ignore(r, "use_bidirectional_attention");
    attention_heads(r, family_heads(r), own_kv, own_dim, own_dim, out);
    if (!full)
        attention_window(r, ATTENTION_WINDOW,
                         read_int(r, "sliding_window", 1, MAX_POSITIONS, READ_REQUIRED), out);
    if (full && same) /* values are the keys, before their norm */
        drop(&out->weights, "self_attn.v_proj");
    if (shares(r, layer))
        share(out);
    add_layer_input(r, out);
}

/* Experts stand beside the dense MLP, with norms of their own. */
void gemma4_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    const bool experts = read_flag(r, "enable_moe_block", false);
    const bool twice = read_flag(r, "use_double_wide_mlp", false) && shares(r, layer);
    const int64_t dense = read_int(r, "intermediate_size", 1, MAX_INTERMEDIATE, READ_REQUIRED);
    (void)l;
    if (!experts) {
        read_ignore(r, "num_experts|top_k_experts|moe_intermediate_size|"
                       "expert_intermediate_size");
        mlp_dense(r, dense * (1 + twice), out);
        return;
    }
    mlp_experts(r,
                read_int(r, "moe_intermediate_size|expert_intermediate_size", 1, MAX_INTERMEDIATE,
                         READ_REQUIRED),
                dense, out);
    out->weights.vectors += 4 * r->s->hidden + out->experts;
}

static void layer_embeddings(struct reading *r)
{
    const int64_t width = read_int(r, "hidden_size_per_layer_input", 0, MAX_WIDTH, 0);
    const int64_t vocab = read_int(r, "vocab_size_per_layer_input", 1, MAX_VOCAB, r->s->vocab);
    struct projections *w = &r->s->outside;
    if (width == 0)
        return;
    if (width * r->s->layers > MAX_INTERMEDIATE) {
        reading_fail(r, read_node(r, "hidden_size_per_layer_input"),
                     "hidden_size_per_layer_input: %lld in %lld layers is more than %d wide",
                     (long long)width, (long long)r->s->layers, MAX_INTERMEDIATE);
        return;
    }
    projections_add(w, "embed_tokens_per_layer", CUT_ROWS, vocab, width * r->s->layers, 1, false);
    projections_add(w, "per_layer_model_projection", CUT_NONE, width * r->s->layers, r->s->hidden,
                    1, false);
    w->vectors += width;
}

void gemma4_outside(struct reading *r)
{
    layer_embeddings(r);
}

/* ---- 3n -------------------------------------------------------------------------------------- */

/* AltUp keeps `inputs` streams of the hidden size; Laurel is a branch of a low rank. */
void gemma3n_attention(struct reading *r, const struct layers *l, int64_t layer,
                       struct attention *out)
{
    const int64_t hidden = r->s->hidden;
    const int64_t streams = read_int(r, "altup_num_inputs", 1, 64, READ_REQUIRED);
    const int64_t rank = read_int(r, "laurel_rank", 1, MAX_WIDTH, READ_REQUIRED);
    const bool scale = read_flag(r, "altup_correct_scale", true);
    read_ignore(r, "altup_active_idx|altup_coef_clip|altup_lr_multiplier");
    attention_decoder(r, l, layer, out);
    if (shares(r, layer))
        share(out);
    add_layer_input(r, out);
    struct projections *w = &out->weights;
    projections_add(w, "altup.correction_coefs", CUT_NONE, streams, streams, 1, false);
    projections_add(w, "altup.prediction_coefs", CUT_NONE, streams * streams, streams, 1, false);
    projections_add(w, "altup.modality_router", CUT_NONE, streams, hidden, 1, false);
    projections_add(w, "laurel.linear_left", CUT_NONE, rank, hidden, 1, false);
    projections_add(w, "laurel.linear_right", CUT_NONE, hidden, rank, 1, false);
    w->vectors += (2 + scale) * hidden;
}

void gemma3n_mlp(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    const struct node *width = read_node(r, "intermediate_size");
    (void)l;
    if (width && width->kind == NODE_LIST) {
        const int64_t *each = read_layer_ints(r, "intermediate_size", MAX_INTERMEDIATE);
        mlp_dense(r, each ? each[layer] : 1, out);
        return;
    }
    mlp_dense(r, read_int(r, "intermediate_size", 1, MAX_INTERMEDIATE, READ_REQUIRED), out);
}

void gemma3n_outside(struct reading *r)
{
    const int64_t streams = read_int(r, "altup_num_inputs", 1, 64, READ_REQUIRED);
    const int64_t hidden = r->s->hidden;
    layer_embeddings(r);
    projections_add(&r->s->outside, "altup_projections", CUT_NONE, hidden, hidden, streams - 1,
                    false);
    projections_add(&r->s->outside, "altup_unembed_projections", CUT_NONE, hidden, hidden,
                    streams - 1, false);
}
