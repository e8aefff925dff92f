/* What every family has: sizes, embedding, head, and a walk over the layers. */
#include <math.h>
#include <string.h>

#include "model/families/family.h"

bool family_is(struct reading *r, const char *condition)
{
    static const char yes[] = "=true";
    if (!condition)
        return false;
    if (strcmp(condition, "true") == 0)
        return true;
    size_t n = strlen(condition), m = sizeof yes - 1;
    bool fallback = n > m && strcmp(condition + n - m, yes) == 0;
    const char *key = fallback ? arena_strn(r->a, condition, n - m) : condition;
    return read_flag(r, key, fallback);
}

int64_t family_norm_params(const struct reading *r)
{
    static const int64_t vectors[] = {
        [FAMILY_NORM_SCALE] = 1, [FAMILY_NORM_SCALE_BIAS] = 2, [FAMILY_NORM_PLAIN] = 0};
    return vectors[r->family->norm] * r->s->hidden;
}

int64_t family_heads(struct reading *r)
{
    return read_int(r, "num_attention_heads|n_head|n_heads|num_heads", 1, MAX_HEADS, READ_REQUIRED);
}

/* multi_query: one for all, unless a count is given. Without one that of the class, unless heads of
 * that number cannot share so many; as many as there are heads where it is null. */
int64_t family_kv_heads(struct reading *r)
{
    const char *const names = "num_key_value_heads|num_kv_heads|n_head_kv|multi_query_group_num";
    const bool one = read_flag(r, "multi_query", false);
    const int64_t heads = family_heads(r), all = one ? 1 : heads;
    int64_t own;
    if (read_stands(r, names))
        return read_int(r, names, 1, MAX_HEADS, all);
    return family_class_size(r->sizes, names, &own) && heads % own == 0 ? own : all;
}

int64_t family_head_dim(struct reading *r)
{
    const int64_t heads = family_heads(r);
    const int64_t dim = read_int(r, "head_dim|kv_channels|attention_head_dim", 1, MAX_HEAD_DIM, 0);
    if (dim != 0)
        return dim;
    if (r->s->hidden % heads != 0)
        reading_fail(r, read_node(r, "num_attention_heads|n_head|n_heads|num_heads"),
                     "num_attention_heads: the hidden size %lld is not divisible by %lld heads",
                     (long long)r->s->hidden, (long long)heads);
    return r->st == ST_OK ? r->s->hidden / heads : 1;
}

/* A part of it, given as a fraction or a number. */
int64_t family_rotary_dim(struct reading *r, int64_t head_dim)
{
    const char *const names = "partial_rotary_factor|rotary_pct|rope_pct";
    const struct node *map = read_node(r, "rope_parameters");
    double part = read_double(r, names, 0, 1, 1);
    if (!read_has(r, names) && map && map->kind == NODE_MAP &&
        node_find(map, "partial_rotary_factor") && r->st == ST_OK)
        r->st = node_get_double(map, "partial_rotary_factor", 0, 1, &part, r->e);
    const int64_t given = read_int(r, "rotary_dim", 0, MAX_HEAD_DIM, 0);
    return given > 0 && given <= head_dim ? given : (int64_t)(part * (double)head_dim);
}

const char *family_layer_word(const struct layers *l, int64_t layer)
{
    return l->words ? l->words[layer] : "";
}

/* ---- windows --------------------------------------------------------------------------------- */

static const bool *windows_from(struct reading *r, int64_t first)
{
    bool *out = arena_array(r->a, bool, r->s->layers);
    for (int64_t i = first; i < r->s->layers; i++)
        out[i] = true;
    return out;
}

static const bool *windows_but_every(struct reading *r, int64_t pattern, enum family_full full)
{
    const int64_t layers = r->s->layers;
    bool *out = arena_array(r->a, bool, layers);
    for (int64_t i = 0; i < layers; i++) {
        const int64_t at = full == FULL_LAST ? i + 1 : full == FULL_FIRST ? i : layers - 1 - i;
        out[i] = at % pattern != 0;
    }
    return out;
}

/* Without layer_types. vLLM's, where it differs from transformers (families.c). */
static const bool *window_layers(struct reading *r)
{
    const struct family *f = r->family;
    const char *const every =
        "sliding_window_pattern|global_attn_every_n_layers|_sliding_window_pattern";
    const struct node *pattern = read_node(r, every);
    const bool asked = read_flag(r, "use_sliding_window", f->windows == WINDOWS_ALL);
    const int64_t late = read_int(r, "max_window_layers", 0, MAX_LAYERS, 28); /* Qwen's */
    const bool window = read_knows(r, "sliding_window");
    if (pattern && pattern->kind != NODE_INT) /* "LLLG" */
        reading_fail(r, pattern, "sliding_window_pattern: expected an integer, got %s",
                     node_kind_name(pattern->kind));
    if (read_stands(r, "sliding_window") && !window)
        return windows_from(r, r->s->layers);
    if (f->windows == WINDOWS_LISTED && asked && window)
        reading_fail(r, read_node(r, "use_sliding_window"),
                     "use_sliding_window: which layers of %s have a window is not known without "
                     "layer_types",
                     r->s->family);
    if (read_knows(r, every))
        return windows_but_every(r, read_int(r, every, 1, MAX_LAYERS, 1), FULL_LAST);
    if (f->window_pattern)
        return windows_but_every(r, f->window_pattern, f->full);
    if (f->windows == WINDOWS_NONE || !asked || !window)
        return windows_from(r, r->s->layers);
    return windows_from(r, f->windows == WINDOWS_LATE ? late : 0);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* As many as the list of them has entries, where there is no count. */
static int64_t listed_layers(struct reading *r)
{
    const struct node *list = read_node(r, "layers_block_type|layer_types|hybrid_override_pattern");
    if (list && list->kind == NODE_STR)
        return (int64_t)list->s.n;
    return list && list->kind == NODE_LIST && list->n > 0 ? (int64_t)list->n : READ_REQUIRED;
}

static void read_sizes(struct reading *r)
{
    struct structure *s = r->s;
    s->vocab = read_int(r, "vocab_size", 1, MAX_VOCAB, READ_REQUIRED);
    s->hidden = read_int(r, "hidden_size|n_embd|d_model|n_embed", 1, MAX_WIDTH, READ_REQUIRED);
    const int64_t layers = read_int(r, "num_hidden_layers|n_layer|n_layers|num_layers", 1,
                                    MAX_LAYERS, listed_layers(r));
    structure_init(s, r->a, layers);
    s->max_positions = read_int(r,
                                "max_position_embeddings|n_positions|max_seq_len|seq_length|"
                                "max_sequence_length|n_ctx|model_max_length",
                                0, MAX_POSITIONS, 2048); /* Llama's */
    s->draft_layers = read_int(r,
                               "num_nextn_predict_layers|num_mtp_layers|mtp_num_hidden_layers|"
                               "num_mtp_modules|mtp_num_layers",
                               0, MAX_LAYERS, 0);
    read_ignore(r, "use_mtp|mtp_transformer_layers|mtp_use_dedicated_embeddings|"
                   "mtp_hybrid_override_pattern|mtp_loss_scaling_factor|mtp_layers_block_type|"
                   "mtp_local_layer_ids|mtp_hidden_states_first");
}

static void read_outside(struct reading *r)
{
    const struct family *f = r->family;
    struct structure *s = r->s;
    const bool never = f->tied && strcmp(f->tied, "never") == 0;
    s->tied = read_flag(r, "tie_word_embeddings", !never && family_is(r, f->tied)) && !never;
    projections_add(&s->outside, "embed_tokens", CUT_ROWS, s->vocab, s->hidden, 1, false);
    if (!s->tied)
        projections_add(&s->outside, "lm_head", CUT_ROWS, s->vocab, s->hidden, 1,
                        family_is(r, f->head_bias));
    s->outside.vectors = family_norm_params(r);
    if (f->position_names)
        projections_add(&s->outside, "embed_positions", CUT_NONE,
                        f->positions +
                            read_int(r, f->position_names, 1, MAX_POSITIONS, READ_REQUIRED),
                        s->hidden, 1, false);
    if (f->outside)
        f->outside(r);
}

static void read_numbers(struct reading *r)
{
    const struct family *f = r->family;
    struct structure *s = r->s;
    s->norm = f->norm == FAMILY_NORM_SCALE ? NORM_RMS : NORM_LAYER;
    s->norm_eps = read_double(r,
                              "rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_eps|"
                              "norm_epsilon|layernorm_epsilon",
                              0, 1,
                              f->eps > 0            ? f->eps
                              : s->norm == NORM_RMS ? 1e-6
                                                    : 1e-5);
    s->one_norm = family_is(r, f->one_norm);
    s->act = read_word(r, "hidden_act|activation_function|hidden_activation|activation",
                       f->act ? f->act : "");
    s->norm_offset = f->norm_offset;
    s->embedding_scale = family_is(r, f->scaled_embedding) ? sqrt((double)s->hidden) : 0;
    s->position = family_is(r, f->alibi) ? POSITION_ALIBI
                  : f->position_names    ? POSITION_TABLE
                                         : f->position;
    family_read_ropes(r);
}

static void read_layers(struct reading *r)
{
    const struct family *f = r->family;
    struct layers l = {.words = read_layer_words(r, "layer_types|layers_block_type"),
                       .sparse = mlp_sparse_layers(r)};
    read_ignore(r, "sliding_window|use_sliding_window|sliding_window_size");
    if (!l.words && f->listed)
        reading_fail(r, r->c, "layer_types: missing");
    if (l.words)
        read_ignore(r, "sliding_window_pattern|global_attn_every_n_layers|"
                       "_sliding_window_pattern|full_attention_interval|attn_layer_indices");
    else
        l.window = window_layers(r);
    for (int64_t i = 0; i < r->s->layers && r->st == ST_OK; i++) {
        struct attention attention;
        struct mlp mlp;
        (f->attention ? f->attention : attention_decoder)(r, &l, i, &attention);
        (f->mlp ? f->mlp : mlp_decoder)(r, &l, i, &mlp);
        if (r->st == ST_OK && !structure_set_layer(r->s, i, &attention, &mlp))
            reading_fail(r, r->c, "num_hidden_layers: more than %d kinds of attention or %d of MLP",
                         STRUCTURE_ATTENTIONS, STRUCTURE_MLPS);
    }
}

/* ---- wrappers -------------------------------------------------------------------------------- */

/* The part of a wrapper that makes text. */
static const struct node *text_part(const struct node *config)
{
    static const char *const names[] = {"text_config", "llm_config", "language_config"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct node *part = node_find(config, names[i]);
        if (part && part->kind == NODE_MAP && part->n > 0)
            return part;
    }
    return config;
}

static const char *encoder_of(const struct node *config)
{
    static const char *const names[] = {"vision_config", "audio_config", "vision_encoder_config",
                                        "speech_config"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct node *part = node_find(config, names[i]);
        if (part && part->kind == NODE_MAP)
            return names[i];
    }
    return NULL;
}

static const char *type_of(const struct node *map)
{
    const struct node *t = node_find(map, "model_type");
    return t && t->kind == NODE_STR ? t->s.p : NULL;
}

/* The wrapper's word counts where the part has none: transformers ties by the outer one. */
static const struct node *with_tie(struct arena *a, const struct node *config,
                                   const struct node *part)
{
    const struct node *tie = node_find(config, "tie_word_embeddings");
    const struct node *inner = node_find(part, "tie_word_embeddings");
    if (part == config || !tie || tie->kind == NODE_NULL || (inner && inner->kind != NODE_NULL))
        return part;
    struct node *copy = node_copy(a, part);
    node_put(a, copy, "tie_word_embeddings", node_copy(a, tie));
    return copy;
}

enum st family_read(struct arena *a, const char *name, const struct node *config, const char *as,
                    struct structure *out, struct err *e)
{
    if (!config || config->kind != NODE_MAP)
        return config ? node_err(config, ST_INPUT, e, "expected a map, got %s",
                                 node_kind_name(config->kind))
                      : err_set(e, ST_INPUT, "model %s has no configuration", name);
    const struct node *part = text_part(config);
    const char *inner = type_of(part), *outer = type_of(config);
    const struct family *f = as ? family_find(as) : inner ? family_find(inner) : NULL;
    if (!f && !as && outer)
        f = family_find(outer);
    if (!f) {
        const char *type = inner ? inner : outer;
        const struct node *at = node_find(inner ? part : config, "model_type");
        if (as)
            err_set(e, ST_USAGE, "model.family: there is no family '%.100s'", as);
        else if (!type)
            node_err(config, ST_INPUT, e, "model_type: missing");
        else
            node_err(at, ST_INPUT, e, "model_type: '%.100s' is not supported", type);
        return err_hint(e, "model.family=NAME reads it as one that is: %s", family_names(a));
    }
    struct reading r;
    const char *own = inner ? inner : outer ? outer : "";
    *out = (struct structure){.name = arena_str(a, name),
                              .family = arena_str(a, as                            ? as
                                                     : inner && family_find(inner) ? inner
                                                                                   : outer),
                              .own_type = as && strcmp(as, own) != 0 ? arena_str(a, own) : NULL,
                              .encoder = encoder_of(config)};
    reading_init(&r, a, with_tie(a, config, part), f, out, e);
    if (part == config)
        read_ignore(&r, "vision_config|audio_config|vision_encoder_config|speech_config");
    if (f->plain)
        read_ignore(&r, f->plain);
    read_sizes(&r);
    if (r.st == ST_OK)
        read_numbers(&r);
    if (r.st == ST_OK)
        read_outside(&r);
    if (r.st == ST_OK)
        read_layers(&r);
    return reading_done(&r);
}
