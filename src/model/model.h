/* A model as twinfer sees it: dimensions read from a Hugging Face config.json, and the list of
 * operators one forward pass consists of.
 *
 * This is the one place where "Qwen3 has q/k norms" is written down: the engine executes the list,
 * the profiler measures it, the simulator sums it. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "model/precision.h"
#include "model/spans.h"
#include "text/node.h"

/* Families whose tensors engines know. MODEL_LLAMA covers InternLM's first version, Mistral and
 * Qwen2 too: Llama with optional biases. */
enum model_family {
    MODEL_QWEN3,
    MODEL_LLAMA,
    MODEL_BLOOM,
    MODEL_QWEN,
    MODEL_PHI,
    MODEL_MIXTRAL,
    MODEL_QWEN3_MOE,
    MODEL_GPT_OSS,
    MODEL_GEMMA3,
    MODEL_PHI3,
    MODEL_OTHER, /* structure->family */
};

/* The dimensions below say all of a model whose layers are alike: attention to the whole sequence,
 * and either a dense MLP or experts. Of any other, layered is set and only structure describes it.
 */
struct op_format; /* below */
struct stored;    /* model/stored.h */
struct opaque;    /* model/opaque.h */

struct model {
    const char *name;
    const char *source; /* "ORG/NAME@COMMIT" of the hub's cache; NULL = a folder or a group */
    enum model_family family;
    const struct structure *structure; /* NULL: made from dimensions */
    const struct opaque
        *opaque; /* known by its sizes alone, structure stands for them; NULL = not */
    bool layered;
    enum model_norm norm;
    enum model_act act;
    enum model_position position;
    int64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
    int64_t max_positions;
    int64_t experts;           /* 0 = none; intermediate is then that of one expert */
    int64_t experts_per_token; /* experts each token goes through */
    double rope_theta, norm_eps;
    bool qk_norm;   /* RMS norm of each q and k head before rope (Qwen3) */
    bool qkv_bias;  /* biases on q, k, v alone */
    bool attn_bias; /* biases on q, k, v and o */
    bool mlp_bias, head_bias;
    bool parallel_block; /* attention and MLP read the same normed input (phi): one norm a layer */
    int64_t rotary_dim;  /* of each head; 0 = all of it */
    bool emb_norm;       /* layer norm after the embedding (BLOOM) */
    bool tied;           /* lm_head shares the embedding */
    int64_t bos_id, eos_ids[8], n_eos; /* bos_id -1 = none */

    /* Formats. Norms, embedding, router and LM head are of dtype even where the GEMMs of the layers
     * are quantised, unless op_formats says otherwise. */
    enum precision dtype;    /* activations, and weights that are not quantised */
    enum precision weights;  /* of the layers' GEMMs */
    enum precision multiply; /* what these multiply in: dtype where only weights are quantised */
    enum precision kv;       /* keys and values in the cache */
    double scale_bytes;      /* quantisation scales per such weight; 0 = none */
    const struct stored *stored;        /* as the files have it; NULL = these formats were given */
    const struct op_format *op_formats; /* [OP_KINDS], where formats differ; NULL = they do not */
};

/* The eos_token_id of a generation_config.json, one or a list, beside those the model has. */
enum st model_add_eos(struct model *m, const struct node *generation_config, struct err *e);

/* From a config.json tree (or a configuration map with the same keys): its family's structure
 * (families/family.h) and, where layers are alike, dimensions. Families without a row, keys that
 * are not known and may change shapes, and unknown quantisation are ST_INPUT, by name. Dimensions
 * are checked: positive, heads divisible by kv_heads, sizes that fit memory sums. */
enum st model_from_config(struct arena *a, const char *name, const struct node *config,
                          struct model *out, struct err *e);
/* side: hf_quant_config.json beside it, or NULL (model/formats.h). */
enum st model_from_files(struct arena *a, const char *name, const struct node *config,
                         const struct node *side, struct model *out, struct err *e);
/* Read as that family instead of the one of its model_type; NULL = that. Its name is then
 * "<name>_as_<family>", wherever it is shown, compared or looked up. */
enum st model_read_as(struct arena *a, const char *name, const struct node *config,
                      const struct node *side, const char *as, struct model *out, struct err *e);
/* The folder's own name, resolved for "." and "models/x/": default name of a model. */
const char *model_folder_name(struct arena *a, const char *dir);
/* dir/config.json and hf_quant_config.json */
enum st model_load(struct arena *a, const char *dir, struct model *out, struct err *e);

const char *model_family_name(const struct model *m); /* "phi" */
/* "phi"; "llama, asked for: its model_type is gpt9" */
const char *model_family_words(struct arena *a, const struct model *m);
/* ST_INPUT for layers that no costs are known of: with numbers of experts that differ, or more
 * spans than there is room for. */
enum st model_check_modelled(const struct model *m, struct err *e);
/* ST_INPUT where layers differ: for what computes only models whose layers are alike. */
enum st model_check_uniform(const struct model *m, struct err *e);
/* ST_INPUT for more than so many rows, at most OP_ROWS: for what holds times by row. */
enum st model_check_rows(const struct model *m, int32_t most, struct err *e);
/* ST_USAGE for an opaque model, where `what` ("predictor roofline") goes by operators. */
enum st model_check_described(const struct model *m, const char *what, struct err *e);
/* ST_INPUT for what can be described and predicted but no engine here computes, by name: families,
 * types of rotary positions, activations and routers, kinds of attention with heads of their own,
 * quantised weights. What one engine lacks besides, it refuses itself. */
enum st model_check_computed(const struct model *m, struct err *e);

/* ---- layers, as engines compute them ----------------------------------------------------------
 *
 * All kinds of attention of a model that engines compute have the heads, KV heads and head_dim of
 * struct model; its MLPs may differ in width. What else they compute is in the structure. */

/* m->structure, or one made from the dimensions: one kind of each, without projections. */
const struct structure *model_structure(struct arena *a, const struct model *m);
/* Kinds of a layer: places in the structure's lists. 0 where layers are alike. */
int32_t model_attention_of(const struct model *m, int64_t layer);
int32_t model_mlp_of(const struct model *m, int64_t layer);
/* Width of a layer's MLP or of one of its experts, and whether it has a gate: its first product has
 * 2 or 1 times the width rows. */
int64_t model_intermediate(const struct model *m, int64_t layer);
bool model_gated(const struct model *m);
int64_t model_experts(const struct model *m, int64_t layer); /* 0 = a dense MLP */
struct rope model_rope(const struct model *m, int32_t i);    /* structure.ropes[i] */

/* ---- operators --------------------------------------------------------------------------- */

/* Order is the order of execution; names are Vidur's columns where Vidur has the operator. */
enum op_kind {
    OP_EMB,            /* out[t] = E[id[t]]                                                   */
    OP_EMB_NORM,       /* BLOOM's layer norm after the embedding                              */
    OP_INPUT_NORM,     /* input_layernorm                                                     */
    OP_ATTN_PRE_PROJ,  /* qkv GEMM: [T, hidden] x [hidden, (heads + 2 kv_heads) head_dim]     */
    OP_QK_NORM,        /* attn_qk_norm (ours)                                                 */
    OP_ROPE,           /* attn_rope                                                           */
    OP_KV_SAVE,        /* attn_kv_cache_save: k, v rows of the T tokens into the paged cache  */
    OP_INDEX_PREFILL,  /* scores of an index, and its choice of keys (DeepSeek V3.2)          */
    OP_INDEX_DECODE,   /* the same of the decode rows                                         */
    OP_ATTN_PREFILL,   /* attention of the prefill chunks                                     */
    OP_ATTN_DECODE,    /* attention of the decode rows                                        */
    OP_STATE_PREFILL,  /* short convolution and recurrence of a state (Mamba), prefill chunks */
    OP_STATE_DECODE,   /* the same of the decode rows                                         */
    OP_ATTN_POST_PROJ, /* [T, heads head_dim] x [heads head_dim, hidden]                      */
    OP_ATTN_OUT_NORM,  /* of the attention's output, before it is added (Gemma 3)             */
    OP_POST_ATTN_NORM, /* post_attention_layernorm                                            */
    OP_MLP_UP_PROJ,    /* gate and up together: [T, hidden] x [hidden, 2 intermediate]        */
    OP_MLP_ACT,
    OP_MLP_DOWN_PROJ,
    OP_MOE_ROUTER,  /* instead of the MLP: [T, hidden] x [hidden, experts], top k          */
    OP_MOE_UP_PROJ, /* gate and up of each token's experts, one GEMM per expert            */
    OP_MOE_ACT,
    OP_MOE_DOWN_PROJ,
    OP_MOE_COMBINE,  /* weighted sum of each token's experts                                */
    OP_MLP_OUT_NORM, /* of the MLP's output, before it is added                             */
    OP_ADD,          /* both residual additions of a layer, as Vidur counts them            */
    OP_FINAL_NORM,   /* final_layernorm (ours), rows that are sampled only                  */
    OP_LM_HEAD,      /* lm_head (ours): [rows, hidden] x [hidden, vocab]                    */
    OP_SAMPLE,       /* sample (ours): greedy argmax over [rows, vocab]                     */
    OP_GAP,          /* gap (ours): between kernels, no work of the model: never in its list */
    OP_KINDS,
};

/* The quantity that an operator's cost depends on. */
enum op_axis {
    AXIS_TOKENS,  /* T = all tokens of the batch */
    AXIS_ROWS,    /* R = rows whose logits are needed: one per sequence that emits a token */
    AXIS_PREFILL, /* (kv tokens before, chunk tokens) of each prefill chunk */
    AXIS_DECODE,  /* (sequences, kv tokens) */
};

/* Position of an operator in the pass. */
enum op_where { OP_BEFORE_LAYERS, OP_IN_LAYER, OP_AFTER_LAYERS };

/* Work of an operator of one kind of layer, beside reading its weight matrices; 0 where it has
 * none. FLOP and elements, of one repeat. */
struct op_line {
    bool set;
    double token_flop, token_elements; /* of a token, or of a row */
    double token_bytes;                /* beside the elements, in formats of their own */
    double fixed_elements;             /* norm weights and biases */
    uint32_t spans;                    /* attention: its keys and pairs are those of these spans */
    double pair_flop, pair_bytes;      /* of a query and a key */
    double key_flop;                   /* prompts: of a key that was in the cache before */
    double key_elements, key_bytes, query_elements;
    /* A state: of each decode row, and of each chunk of a prompt, read and written. */
    double state_elements, state_bytes;
};

/* Rows: what operator times, columns and tables are indexed by. The row of an operator of the first
 * kind of layer that has it is its op_kind, so a model whose layers are alike has OP_KINDS rows;
 * those of further kinds follow from OP_KINDS on, in the order of the list. */
enum {
    OP_NAME_MOST = 48,
    OP_ROWS = 64, /* rows that times and tables have room for; a set of rows is a uint64_t */
};

struct op {
    enum op_kind kind;
    int32_t part;            /* of models whose layers differ: kind of attention or MLP; else 0 */
    int32_t row;             /* unique in a list; may be OP_ROWS and above */
    struct op_line line;     /* set where layers differ */
    char name[OP_NAME_MOST]; /* column stem, unique in a list: op_name(kind); of further kinds of
                                layer with the kind behind it, "attn_decode_window" */
    enum op_axis axis;
    enum op_where where;
    int32_t repeat;        /* times per forward: layers, or 1 */
    int64_t m;             /* out features of the weight [m, k]; 0 = no GEMM */
    int64_t k;             /* in features */
    int64_t matrix_params; /* elements of the weight matrices, of one expert; m k where it is one */
    int64_t experts;       /* weights of that shape, each token going through some; 0 = one */
    int64_t weight_params; /* of one repeat, biases and norm weights included; a tied lm_head reads
                              the embedding and counts it again */
};

/* Load of a batch, as the cost formulas take it. */
struct op_load {
    int64_t tokens;    /* T = prefill chunks' tokens + seqs */
    int64_t rows;      /* R */
    int64_t seqs;      /* decode sequences */
    int64_t kv_tokens; /* decode: keys read, summed over sequences, the new token's included */
    int64_t kv_tokens_prefill; /* sum over chunks of chunk * kv_before */
    int64_t chunk_sq;          /* prefill: sum over chunks of chunk * (chunk + 1) / 2 */
    int64_t kv_read_tokens;    /* prefill: sum over chunks of kv_before + chunk */
    int64_t chunks;            /* prefill: their number */
    int64_t longest_chunk;     /* prefill: tokens of the longest */

    /* Of a model with spans (spans.h), the same sums of the keys that its queries see. */
    int32_t n_spans;
    struct span_load {
        int64_t kv_tokens; /* decode: as the last query of each sequence sees them */
        int64_t pairs;     /* prefill: of a query and a key */
        int64_t keys;      /* prefill: read */
    } spans[SPANS_MOST];
};

/* Adds a chunk of tokens after `before` cached ones to the sums of prefill; tokens and rows are the
 * caller's. Sums of absurd prompts end at the largest number. spans: the model's, or NULL. */
void op_load_add_chunk(struct op_load *load, const struct key_spans *spans, int64_t before,
                       int64_t tokens);
/* Adds decode rows whose last query sees so many tokens, its own included. */
void op_load_add_keys(struct op_load *load, const struct key_spans *spans, int64_t tokens);

struct op_cost {
    double flop;  /* of all repeats */
    double bytes; /* of all repeats: weights once, activations read and written */
};

/* The same by what is moved, for formats of different size. Elements of all repeats. */
struct op_traffic {
    double flop;
    double weights;   /* of the operator's weight matrices */
    double kv;        /* keys and values, read or saved */
    double others;    /* activations; norm weights and biases */
    double id_bytes;  /* bytes */
    double own_bytes; /* bytes, in formats of their own: an index's keys and scores, states */
};

enum { OPS_MOST = 640 };
struct op_list {
    struct op ops[OPS_MOST];
    int n;
    int32_t rows; /* one more than the largest row that is possible: OP_KINDS and those beyond */
};

const char *op_name(enum op_kind k);
bool op_kind_from_name(struct sv name, enum op_kind *out);
void model_ops(const struct model *m, struct op_list *out);
/* Appends OP_GAP, for what measures or holds it: once per pass, over tokens. */
void op_list_add_gap(struct op_list *l);
/* Gives each operator of a list whose parts are those of s its row and name (op_rows.c). */
void op_list_number(struct op_list *l, const struct structure *s);
/* Whether an operator of the layers is the MLP's; others are the attention's, but OP_ADD. */
bool op_is_of_mlp(enum op_kind k);
/* The row of that operator in that kind of attention or MLP; the operator's first row where the
 * list tells no parts of it apart. */
int32_t op_list_row(const struct op_list *l, enum op_kind k, int32_t part);
/* Place of a row in the list; NULL = the model has no such operator. */
const struct op *op_list_at(const struct op_list *l, int32_t row);

/* Operators in order of execution. kinds stands apart, because rules are found by it. */
struct op_steps {
    enum op_kind kinds[OP_KINDS + 1];
    int32_t rows[OP_KINDS + 1]; /* op.row: where its time belongs */
    int n;
};
enum { LAYER_KINDS_MOST = 8 };
/* The list as steps: OP_ADD, listed once a layer, is executed after each of the two parts whose
 * output it adds to the residual stream. Layers of the same kinds of attention and MLP share their
 * steps; model_check_computed refuses more than LAYER_KINDS_MOST pairs. */
struct model_steps {
    struct op_steps before, after;
    struct op_steps layers[LAYER_KINDS_MOST];
    int32_t attentions[LAYER_KINDS_MOST], mlps[LAYER_KINDS_MOST]; /* their kinds */
    int32_t n_layers;
};
void model_steps(const struct model *m, struct model_steps *out);
const struct op_steps *model_layer_steps(const struct model_steps *s, const struct model *m,
                                         int64_t layer);

/* Formulas stand above the function in ops.c. element_bytes: 4 float32, 2 bfloat16. */
struct op_cost op_cost(const struct model *m, const struct op *op, const struct op_load *load,
                       int element_bytes);

struct op_traffic op_traffic(const struct model *m, const struct op *op,
                             const struct op_load *load);
/* Of an operator's matrices where those of the layers are stored in several formats. */
struct op_format {
    double bytes;            /* of an element, scales included; 0 = no matrices */
    enum precision multiply; /* what its products are in */
};
/* Bytes of an element of the operator's weight matrices, scales included. */
double op_weight_bytes(const struct model *m, enum op_kind k);
enum precision op_multiply(const struct model *m, enum op_kind k); /* what its products are in */

/* Experts that at least one of so many tokens goes through, in the mean, when each token draws
 * experts_per_token of them with equal chance: E (1 - (1 - k/E)^tokens). So many experts' weights
 * are read; the tokens of one are tokens k / that. */
double model_experts_hit(const struct model *m, double tokens);
/* What its queries see, beside all. */
struct key_spans model_spans(const struct model *m);
/* Rows of a model whose layers differ, which model_check_modelled takes: one for each operator of
 * each kind of attention and MLP (layered_ops.c). s: its structure, or that of a shard. */
void layered_ops(const struct structure *s, struct op_list *out);
bool op_is_expert(enum op_kind k); /* executed by the devices that hold the experts */

int64_t model_params(const struct model *m); /* tied weights counted once */
int64_t model_kv_bytes_per_token(const struct model *m, int element_bytes);
/* The same of an engine that keeps what a window no longer shows: caches of every layer. */
int64_t model_kv_bytes_held(const struct model *m, int element_bytes);
double model_kv_bytes(const struct model *m); /* of a token, in the model's format */

#endif
