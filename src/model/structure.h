/* What a model consists of, layer by layer: which matrices it holds, and what a token leaves in the
 * cache. Made from the config.json of any family (families/family.h); the base of parameter counts,
 * bytes and memory.
 *
 * A layer is an attention and an MLP, either of which may be absent. Layers that are alike share a
 * kind: attention_of[layer] and mlp_of[layer] are places in the two lists of kinds, which hold each
 * kind once, in the order of their first layer.
 *
 * What is cached (struct cache) belongs to the attention: keys and values of a token, a state that
 * does not grow with the sequence, or nothing. A window bounds how many tokens a query sees, and so
 * how many need to stay. */
#ifndef MODEL_STRUCTURE_H
#define MODEL_STRUCTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum model_norm { NORM_RMS, NORM_LAYER };
enum model_act { ACT_SILU_GATED, ACT_GELU_TANH };
enum model_position { POSITION_ROPE, POSITION_ALIBI, POSITION_TABLE };

/* How tensor parallelism cuts a matrix [rows, columns]. */
enum projection_cut {
    CUT_NONE,    /* every shard holds all of it */
    CUT_ROWS,    /* out features */
    CUT_KV,      /* out features by KV heads, of which a shard holds one at least */
    CUT_COLUMNS, /* in features: outputs are partial sums */
    CUT_EXPERT_ROWS,
    CUT_EXPERT_COLUMNS, /* of each expert, or the experts are shared out whole */
};

/* A matrix, or several of one shape. */
struct projection {
    const char *module; /* its name in the model's files, below the layer: "self_attn.q_proj" */
    enum projection_cut cut;
    bool bias;             /* [rows] for each copy */
    int64_t rows, columns; /* out and in features */
    int64_t copies;        /* experts, heads with a matrix of their own; else 1 */
};

enum { PROJECTIONS_MOST = 20 };
struct projections {
    struct projection w[PROJECTIONS_MOST];
    int32_t n;
    int64_t vectors; /* parameters beside the matrices: norms, sinks, rates of decay, short
                        convolutions */
};

/* ---- how numbers are made --------------------------------------------------------------------
 *
 * Shapes say what a model holds; these say what it computes. Engines take them from here: a family
 * reads them from the configuration (families/family.h), and where it does not know one,
 * model_check_computed refuses. */

/* Angle of pair i of D rotated dimensions at position p: p f(i), with f(i) = theta^(-2 i / D) or
 * that changed as engine/positions.h says. */
enum rope_type {
    ROPE_PLAIN,
    ROPE_LINEAR, /* f / factor */
    ROPE_LLAMA3, /* f / factor where waves are long, f where they are short */
    ROPE_YARN,   /* the same by the number of rotations, and cosines and sines are scaled */
    ROPE_OTHER,  /* not computed; name says which */
};
struct rope {
    const char *name; /* as the configuration calls it: "yarn"; NULL = plain */
    double theta, factor;
    double original;  /* positions that the model was first trained with */
    double low, high; /* llama3: low_freq_factor and high_freq_factor; yarn: beta_slow, beta_fast */
    double attention; /* cosines and sines are multiplied by that; 1 = not */
    int32_t type;     /* enum rope_type */
    int32_t whole;    /* yarn: the borders of its ramp are rounded to whole pairs ("truncate") */
};

/* What an MLP does between its two products, of g = gate, u = up. */
enum mlp_act {
    MLP_ACT_OTHER,     /* not computed; structure.act says which */
    MLP_ACT_SILU,      /* silu(g) u; without a gate silu(u) */
    MLP_ACT_GELU_TANH, /* gelu(g) u, by tanh; without a gate gelu(u) */
    MLP_ACT_CLAMPED,   /* gpt-oss: g' = min(g, limit), u' = u within +-limit;
                          g' sigmoid(alpha g') (u' + 1) */
};

/* How a token's experts and their weights come from the router's logits. */
enum router_type {
    ROUTER_OTHER,       /* not computed */
    ROUTER_SOFTMAX,     /* softmax over all; the largest are taken, and sum to 1 with norm_topk */
    ROUTER_TOP_SOFTMAX, /* the largest logits are taken; softmax over these */
};

/* ---- attention ------------------------------------------------------------------------------- */

enum attention_type {
    ATTENTION_NONE,
    ATTENTION_FULL,    /* keys of the whole sequence */
    ATTENTION_WINDOW,  /* of the last `window` tokens */
    ATTENTION_CHUNKED, /* of the present piece of `window` tokens */
    ATTENTION_LATENT,  /* MLA: keys and values are made of one latent vector a token */
    ATTENTION_STATE,   /* a state of fixed size: linear attention, state spaces, convolutions */
    ATTENTION_TYPES,
};
const char *attention_type_name(enum attention_type t);

/* What a token leaves in one layer, all heads; some attentions keep several such lists. */
struct cache {
    int64_t elements; /* of keys and values, a token, in the format of the cache */
    int64_t bytes;    /* besides, in a format of its own: keys of an index with their scale */
    /* Bytes of all of it in a cache of that format, where kernels keep scales and rotated parts in
     * another one beside (vLLM's fp8_ds_mla, nvfp4_ds_mla); 0 = its elements in that format. */
    int64_t packed_fp8, packed_fp4;
    int64_t ratio;  /* tokens that share one entry; 1 = each has its own */
    int64_t window; /* only the last so many tokens are needed; 0 = all */
    bool whole;     /* every shard of tensor parallelism holds all of it */
};

/* How a layer advances a state by a token (layered_ops.c has what each costs). */
enum state_type {
    STATE_NONE,
    STATE_DELTA,       /* gated delta net, and Kimi delta attention */
    STATE_MAMBA,       /* selective state space, a state for each channel */
    STATE_MAMBA2,      /* the second version, a state for each head */
    STATE_LIGHTNING,   /* linear attention with a rate of decay for each head */
    STATE_CONVOLUTION, /* a gated short convolution and nothing else */
    STATE_RG_LRU,      /* Griffin's recurrence, a number for each channel */
    STATE_TYPES,
};

/* What a sequence leaves in one layer, however long it is. */
struct sequence_state {
    int64_t elements;     /* in the model's type: inputs of short convolutions, and states */
    int64_t float32;      /* elements in float32, or what the configuration says */
    int64_t heads;        /* matrices of [k_dim, v_dim] that the recurrence advances; channels of
                             MAMBA and RG_LRU, of v_dim 1 */
    int64_t k_dim, v_dim; /* 0 = none */
    int64_t key_heads;    /* that heads share the keys of */
    int64_t decays;       /* rates of decay of a token: one a head, or one an element of its key */
    int64_t channels;     /* of the short convolution; 0 = none */
    int64_t taps;
    int64_t chunk; /* tokens that kernels for prompts take at once */
    enum state_type type;
};

enum { ATTENTION_CACHES = 3 };

struct attention {
    enum attention_type type;
    int64_t heads, kv_heads;            /* 0 where the type has none */
    int64_t k_dim, v_dim;               /* of a head; of a latent attention as it multiplies them */
    int64_t prompt_k_dim, prompt_v_dim; /* as prompts multiply them: a latent attention's heads */
    int64_t window;                     /* tokens that a query sees; 0 = no bound */
    int64_t top_k;      /* keys that an index selects for a query; 0 = all are read */
    int64_t rotary_dim; /* of a head's k_dim; 0 = positions are not rotated */
    bool qk_norm;       /* of each head, before the rotation */
    bool shared_cache;  /* reads another layer's keys and values, and caches none */
    bool sinks;    /* a logit a head stands beside the scores in the softmax, without a value */
    bool out_norm; /* its output is normed before it is added to the stream */
    int32_t rope;  /* place in structure.ropes */
    double score_scale; /* q k is multiplied by that; 0 = 1 / sqrt(k_dim) */
    struct cache caches[ATTENTION_CACHES];
    int32_t n_caches;
    struct sequence_state state;
    struct projections weights;
};

/* ---- MLP ------------------------------------------------------------------------------------- */

struct mlp {
    int64_t intermediate; /* of the dense MLP, or of one expert; 0 = no MLP */
    int64_t experts, experts_per_token;
    int64_t shared; /* width of the experts that every token goes through, together; 0 = none */
    bool gated;     /* up and gate */
    bool out_norm;  /* its output is normed before it is added to the stream */
    bool norm_topk; /* weights of a token's experts are made to sum to 1 */
    bool router_bias, expert_bias;
    enum mlp_act act;
    enum router_type router;
    double act_alpha, act_limit; /* of MLP_ACT_CLAMPED */
    struct projections weights;
};

/* ---- the whole ------------------------------------------------------------------------------- */

enum { STRUCTURE_ATTENTIONS = 32, STRUCTURE_MLPS = 64, STRUCTURE_ROPES = 4 };

struct structure {
    const char *name, *family; /* family: model_type of the part that makes text */
    const char *own_type; /* its model_type where it was read as another family's, which was asked
                             for; "" = it has none. NULL = family is its own */
    int64_t layers, hidden, vocab, max_positions;
    struct attention attention[STRUCTURE_ATTENTIONS];
    struct mlp mlp[STRUCTURE_MLPS];
    int32_t n_attentions, n_mlps;
    uint8_t *attention_of, *mlp_of; /* [layers] */
    struct projections outside;     /* embeddings, final norm, LM head unless it is the embedding */
    bool tied;                      /* the LM head is the embedding */
    enum model_norm norm;
    double norm_eps;
    bool one_norm;   /* attention and MLP of a layer read the same normed input */
    bool emb_norm;   /* a norm behind the embedding */
    const char *act; /* as the configuration calls it: "silu"; "" = the family's */
    enum model_position position;
    int64_t lanes;  /* residual streams that layers read and write; 0 = one (DeepSeek V4) */
    bool lanes_mix; /* and that layers mix with each other */
    double rope_theta;
    const char *rope_scaling;           /* "llama3", "yarn"; NULL = positions as they are */
    struct rope ropes[STRUCTURE_ROPES]; /* each once; the first is that of rope_theta */
    int32_t n_ropes;
    double norm_offset;     /* is added to the weights of RMS norms (Gemma: 1) */
    double embedding_scale; /* of what comes from the embedding; 0 = as it is */
    const char *uncomputed; /* a key that changes numbers and that the family does not read; NULL =
                               none */
    int64_t draft_layers;   /* layers that only draft tokens (MTP); not counted anywhere here */
    const char *encoder;    /* "vision_config": weights besides, not counted; NULL = none */
};

/* ---- making one ------------------------------------------------------------------------------ */

void structure_init(struct structure *s, struct arena *a, int64_t layers);
/* Layer i is of these kinds. False when there are more kinds than have room. */
bool structure_set_layer(struct structure *s, int64_t i, const struct attention *attention,
                         const struct mlp *mlp);
void attention_cache(struct attention *a, struct cache c);
/* Appends a matrix; none where rows, columns or copies are 0. */
void projections_add(struct projections *w, const char *module, enum projection_cut cut,
                     int64_t rows, int64_t columns, int64_t copies, bool bias);

/* The list in a->caches that holds the keys of an index, which chooses top_k of the others; -1 = it
 * has none: it may take what another layer's chose. */
int32_t attention_index_cache(const struct attention *a);
int64_t attention_index_width(const struct attention *a); /* of its queries, all heads */
/* Elements of a token, or of an entry, in a list that queries attend to. */
int64_t attention_key_elements(const struct attention *a);
/* Bytes of an entry, with so many an element of keys and values: 1 is FP8, less FP4. */
double cache_entry_bytes(const struct cache *c, double element_bytes);

/* Layers first .. first + n - 1 of s, with the kinds of s: the lists are s's, and kinds may have no
 * layers. */
void structure_stage(const struct structure *s, int64_t first, int64_t n, struct structure *out);
/* One shard of tensor parallelism: rows, columns and heads divided, KV heads at least one. */
void structure_shard(const struct structure *s, int64_t tp, struct structure *out);

/* ---- sums ------------------------------------------------------------------------------------ */

int64_t projections_params(const struct projections *w);
int64_t structure_layers_of_attention(const struct structure *s, int32_t kind);
int64_t structure_layers_of_mlp(const struct structure *s, int32_t kind);
/* A tied LM head is counted once; draft layers and encoders are not. */
int64_t structure_params(const struct structure *s);
int64_t structure_expert_params(const struct structure *s);
/* Parameters that a token goes through. */
int64_t structure_active_params(const struct structure *s);

#endif
