/* Families of models: from the keys of a config.json to a structure (model/structure.h).
 *
 * A family is a row of families.c. Most are decoders, which differ in where they have biases and
 * norms, in what their keys are called, and in which layers have experts or windows: their row says
 * so, and decoder.c reads them. What has parts of its own has a function for these.
 *
 * Facts are those of the models' public code in transformers 5.17 and vLLM 0.33; parameters of
 * every family are held against transformers' own count (tests/unit/model/families_test.c).
 *
 * Conditions in a row: NULL = never, "true" = always, "key" = as the configuration says, else not,
 * "key=true" = as it says, else yes. */
#ifndef MODEL_FAMILIES_FAMILY_H
#define MODEL_FAMILIES_FAMILY_H

#include "model/families/reading.h"

enum family_norm { FAMILY_NORM_SCALE, FAMILY_NORM_SCALE_BIAS, FAMILY_NORM_PLAIN };

/* Which layers slide where no key lists them and there is no pattern. */
enum family_windows {
    WINDOWS_LATE,  /* Qwen's: from layer max_window_layers on, where use_sliding_window is set */
    WINDOWS_ALL,   /* all that have a sliding_window, unless use_sliding_window is false */
    WINDOWS_ASKED, /* all, where use_sliding_window is set */
    WINDOWS_NONE,
    WINDOWS_LISTED, /* none; refused where use_sliding_window is set */
};

/* The layer of a pattern that is full. */
enum family_full { FULL_LAST, FULL_FIRST, FULL_FROM_END /* the model's last, counted back */ };

/* What changes from layer to layer, found once. */
struct layers {
    const char *const *words; /* layer_types; NULL = all are alike */
    const bool *sparse;       /* has experts; NULL = none */
    const bool *window;       /* without words; NULL = none */
};

struct family {
    const char *types; /* of model_type: "llama|arcee" */

    /* ---- of decoders ---- */
    enum family_norm norm;
    const char *qkv_bias, *o_bias, *mlp_bias, *head_bias, *router_bias, *expert_bias;
    const char *ungated;       /* the MLP has no gate */
    const char *qk_norm;       /* q and k are normed, each head alike */
    const char *qk_norm_width; /* each element with a weight of its own */
    const char *tied;       /* where tie_word_embeddings is not there; "never" = whatever it says */
    const char *one_norm;   /* attention and MLP read the same normed input */
    const char *post_norms; /* norms behind attention and MLP as well */
    const char *gate;       /* the attention's output is gated: rows of q */
    const char *sinks;      /* a logit a head */
    int64_t positions;      /* rows that a table of learned positions has besides; -1 = no table */
    const char *position_names; /* key of its length */
    const char *interior;       /* "intermediate_size|ffn_dim" where it is called otherwise */
    const char *dense_interior, *expert_interior, *shared_interior;
    int64_t interior_times;  /* hidden x that, where the key is not there; 0 = required */
    const char *shared_gate; /* a gate on the shared expert */
    bool shared_dense;       /* the shared expert is as wide as the dense MLP */
    bool listed;             /* layer_types must be there */
    enum family_windows windows;
    int64_t window_pattern; /* every so manieth layer is full; 0 = by the keys */
    enum family_full full;  /* which one of these */

    /* What changes numbers and no shapes (structure.h): of families that engines compute. */
    const char *act;              /* where no key says it */
    const char *clamped;          /* MLP_ACT_CLAMPED, within swiglu_limit */
    const char *scaled_embedding; /* by the root of the hidden size */
    enum router_type router;
    const char *norm_topk;
    double theta, local_theta; /* of positions where the keys are not there; of layers that slide,
                                  0 = the same */
    double eps;                /* of norms where the key is not there */
    double norm_offset;
    double query_scalar; /* scores are divided by the root of query_pre_attn_scalar, which is this
                            where the key is not there; 0 = of head_dim */

    bool needs_rope_map; /* without rope_scaling and rope_parameters its class has a map of its own,
                            which is not read here */
    enum model_position position;
    const char *alibi; /* POSITION_ALIBI where it holds */
    const char *plain; /* keys that change no shape of this family */

    /* ---- parts of its own ---- */
    void (*attention)(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out);
    void (*mlp)(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out);
    void (*outside)(struct reading *r); /* besides embedding, norm and head */
};

/* The row of a model_type; NULL = none. */
const struct family *family_find(const char *type);
/* "afmoe, apertus, ..." */
const char *family_names(struct arena *a);

/* Reads config.json. `as`: the row to take instead of that of its model_type; NULL = that. ST_INPUT
 * for families that have no row, for keys that are not known, and for shapes that do not fit. */
enum st family_read(struct arena *a, const char *name, const struct node *config, const char *as,
                    struct structure *out, struct err *e);

/* Whether the type is one of "llama|arcee". */
bool family_among(const char *types, const char *type);

/* Of a model_type (defaults.c): published files leave out what their class has anyway, as Gemma 3's
 * do. "head_dim=128 sliding_window=4096 ..."; "" = of no class. */
const char *family_class_sizes(const char *type);
/* Of the first of the names that is among these. False: none is. */
bool family_class_size(const char *sizes, const char *names, int64_t *out);

/* ---- for what families consist of ------------------------------------------------------------ */

bool family_is(struct reading *r, const char *condition);
int64_t family_norm_params(const struct reading *r); /* of the hidden size */
int64_t family_heads(struct reading *r);
int64_t family_kv_heads(struct reading *r);
int64_t family_head_dim(struct reading *r);
int64_t family_rotary_dim(struct reading *r, int64_t head_dim);
const char *family_layer_word(const struct layers *l, int64_t layer); /* "" = without words */
void family_read_ropes(struct reading *r);                            /* rope.c */

/* Attentions (attention.c, states.c). */
void attention_heads(struct reading *r, int64_t heads, int64_t kv_heads, int64_t k_dim,
                     int64_t v_dim, struct attention *out);
void attention_decoder(struct reading *r, const struct layers *l, int64_t layer,
                       struct attention *out);
void attention_latent(struct reading *r, const struct layers *l, int64_t layer,
                      struct attention *out);
void attention_window(struct reading *r, enum attention_type type, int64_t tokens,
                      struct attention *out);
void attention_none(struct attention *out);

/* MLPs (mlp.c). */
const bool *mlp_sparse_layers(struct reading *r);
void mlp_dense(struct reading *r, int64_t intermediate, struct mlp *out);
void mlp_experts(struct reading *r, int64_t intermediate, int64_t shared, struct mlp *out);
/* Experts work on an input of that width: a projection down to it and back stands around them. */
void mlp_narrow_experts(struct reading *r, int64_t latent, struct mlp *out);
void mlp_decoder(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out);

/* Parts of single families: states.c, gemma.c, compressed.c, others.c. */
#define FAMILY_ATTENTION(name) \
    void name(struct reading *r, const struct layers *l, int64_t layer, struct attention *out)
#define FAMILY_MLP(name) \
    void name(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
FAMILY_ATTENTION(attention_delta);       /* gated delta net */
FAMILY_ATTENTION(attention_kda);         /* Kimi delta attention, and latent attention */
FAMILY_ATTENTION(attention_mamba);       /* state spaces, first version */
FAMILY_ATTENTION(attention_mamba2);      /* the second */
FAMILY_ATTENTION(attention_lightning);   /* MiniMax's linear attention */
FAMILY_ATTENTION(attention_convolution); /* LFM2's */
FAMILY_ATTENTION(attention_rg_lru);      /* Griffin's recurrence */
FAMILY_ATTENTION(jamba_attention);
FAMILY_ATTENTION(bamba_attention);
FAMILY_ATTENTION(falcon_h1_attention);
FAMILY_ATTENTION(nemotron_h_attention);
FAMILY_MLP(nemotron_h_mlp);
FAMILY_ATTENTION(mamba_attention);
FAMILY_MLP(no_mlp);
FAMILY_MLP(lfm2_mlp);
FAMILY_ATTENTION(gemma3n_attention);
FAMILY_MLP(gemma3n_mlp);
void gemma3n_outside(struct reading *r);
FAMILY_ATTENTION(gemma4_attention);
FAMILY_MLP(gemma4_mlp);
void gemma4_outside(struct reading *r);
FAMILY_ATTENTION(compressed_attention);
FAMILY_MLP(compressed_mlp);
void compressed_outside(struct reading *r);
FAMILY_ATTENTION(hy_v4_attention);
FAMILY_MLP(hy_v4_mlp);
FAMILY_ATTENTION(glm5_next_attention);
FAMILY_MLP(glm5_next_mlp);
FAMILY_ATTENTION(llama4_attention);
FAMILY_ATTENTION(mimo_v2_attention);
FAMILY_ATTENTION(minimax_m2_attention);
FAMILY_ATTENTION(minimax_m3_attention);
FAMILY_ATTENTION(nemotron_nas_attention);
FAMILY_MLP(nemotron_nas_mlp);
FAMILY_ATTENTION(laguna_attention);
FAMILY_ATTENTION(falcon_attention);
FAMILY_MLP(falcon_mlp);
FAMILY_ATTENTION(gpt_neo_attention);
FAMILY_ATTENTION(olmo_hybrid_attention);
FAMILY_ATTENTION(qwen_attention);
FAMILY_MLP(qwen_mlp);
FAMILY_MLP(kimi_mlp);
void opt_outside(struct reading *r);
void bloom_outside(struct reading *r);
FAMILY_ATTENTION(gpt_bigcode_attention);
FAMILY_ATTENTION(helium_attention);
#undef FAMILY_ATTENTION
#undef FAMILY_MLP

#endif
