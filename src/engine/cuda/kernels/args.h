/* Arguments of the CUDA kernels: read by the host's compiler and, as the first lines of every
 * program, by NVRTC, so this file includes nothing. Sizes are ints; products of sizes are formed in
 * 64 bits. Pointers are the device's; on the fake device and in a twin, the host's.
 *
 * Everything that changes from step to step stands in device memory behind struct cuda_batch. What
 * stands in the arguments themselves is frozen when a graph is captured.
 *
 *   elem       element of the program: float32, float16 or bfloat16
 *   x, sum     [tokens, hidden]
 *   qkv        [tokens, heads + 2 kv_heads, head_dim]
 *   out of attention [tokens, heads, head_dim]
 *   up         [tokens, 2 intermediate] gate first, or [tokens, intermediate]
 *   k, v cache [blocks, kv_heads, block_size, head_dim] of one layer
 *   logits     [rows, vocab] float32, whatever elem is
 *   weights    [out features, in features] */
#ifndef ENGINE_CUDA_KERNELS_ARGS_H
#define ENGINE_CUDA_KERNELS_ARGS_H

/* Sizes of a step. Rows, segments and their order are those of engine/rows.h. */
struct cuda_step {
    int n_tokens, n_rows, n_chunks, n_decodes;
    int n_parts, n_runs; /* of attention_decode; of its longest list */
};

/* Consecutive tokens of one sequence: chunks first, then one token per decode row. */
struct cuda_segment {
    int first, tokens, kv_before;
    int table; /* index in cuda_batch.blocks of the sequence's block table */
};

/* Keys are dealt out in stripes: a page of 16 for each of the 4 warps of a block. A decode row has
 * at most so many parts. */
enum { CUDA_STRIPE_KEYS = 64, CUDA_ROW_PARTS = 64 };

/* Query heads of one KV head that a block handles at most. */
enum { CUDA_TILE_HEADS = 8 };

/* Lists of parts that a batch brings at most: one for each span of keys that a kind of attention
 * sees. */
enum { CUDA_SPANS = 4 };

/* What a block of attention_decode reads for a head tile at a time: stripes from .. to - 1 of a
 * decode row's keys. The first three members are those of the row's segment, so that a block finds
 * its keys by one load. Parts of a row stand one behind the other in the list, in the order of
 * their keys. */
struct cuda_part {
    int row;      /* token in the batch */
    int position; /* of that token: there are position + 1 keys */
    int table;    /* as in cuda_segment */
    int seq;      /* among the decode rows */
    int from, to;
    int first; /* place in the list of the row's first part */
    int parts; /* of the row */
};

/* A step in device memory; what the pointers name is rewritten before the step's first kernel. */
struct cuda_batch {
    const struct cuda_step *step;
    const int *ids;       /* [n_tokens] token id; -1 - slot = the slot's last token, see last */
    const int *positions; /* [n_tokens] in the sequence */
    const int *kv_at;     /* [n_tokens] block * block_size + offset */
    const int *row_token; /* [n_rows] */
    const int *row_slot;  /* [n_rows] */
    const struct cuda_segment *segments; /* [n_chunks + n_decodes] */
    const int *blocks;                   /* block tables */
    /* Of the decode rows, for the span of the kernel that takes it: engine/cuda/parts.h */
    const struct cuda_part *parts; /* [n_parts] */
    const int *runs; /* [rows of blocks + 1] parts that each row of blocks begins with */
    int *last;       /* [slots] token that the slot emitted last; written by sampling */
};

/* x[t] = table[id(t)], times scale unless it is 0 */
struct cuda_embed_args {
    struct cuda_batch batch;
    const void *table; /* elem [vocab, hidden] */
    void *x;
    int hidden;
    float scale;
};

/* Row r of *count: s = x[g] + add[g], g = gather ? gather[r] : r; sum[g] = s where sum is given;
 * n[r] = s / rms(s) * (weight + offset), or with a bias the layer norm. s is rounded to elem first.
 * out[r] = n[r], or residual[r] + n[r], of which n is rounded first. */
struct cuda_norm_args {
    const int *count;          /* rows: &step->n_tokens or &step->n_rows */
    const int *gather;         /* NULL = rows in order */
    const void *x, *add;       /* add NULL = 0 */
    void *sum;                 /* may be x; NULL = not kept */
    const void *weight, *bias; /* bias NULL = RMS norm */
    const void *residual;      /* NULL = 0 */
    void *out;                 /* may be x where gather is NULL, and residual */
    int width;
    float eps, offset;
};

/* Of each token: q and k normed per head (q_norm not NULL; weights + offset), rotated (cosine not
 * NULL); q stays in qkv, k and v go to the cache. Each of the two steps rounds to elem. */
struct cuda_rope_args {
    struct cuda_batch batch;
    void *qkv;
    const void *q_norm, *k_norm; /* elem [head_dim] */
    const float *cosine, *sine;  /* [positions, head_dim / 2] */
    void *k, *v;
    int heads, kv_heads, head_dim, block_size;
    float eps, norm_offset;
};

/* act(v, u): v, v sigmoid(v) u, gelu(v), gelu(v) u; clamped: v = min(v, limit), u within +-limit,
 * then v sigmoid(alpha v) (u + 1). gelu by tanh. */
enum {
    CUDA_ACT_NONE,
    CUDA_ACT_SILU_GATED,
    CUDA_ACT_GELU_TANH,
    CUDA_ACT_GELU_GATED,
    CUDA_ACT_CLAMPED_GATED
};
#define CUDA_ACT_IS_GATED(act)                                       \
    ((act) == CUDA_ACT_SILU_GATED || (act) == CUDA_ACT_GELU_GATED || \
     (act) == CUDA_ACT_CLAMPED_GATED)

/* out[t, i] = act(up[t, i] + bias[i]), gated: with u = up[t, width + i]. Not the clamped one. */
struct cuda_act_args {
    const int *count;
    const void *up, *bias; /* bias NULL = 0; elem [width], gated [2 width] */
    void *out;
    int width, act;
};

/* x[t, i] += bias[i] */
struct cuda_bias_args {
    const int *count;
    void *x;
    const void *bias;
    int width;
};

/* Attention of decode rows (attention_decode), of chunks (attention_prefill) or of all tokens
 * (attention_any) over keys 0 .. position of each token's sequence, with a window over the last
 * `window` of them. A sink is one more score of a query head: it takes its share of the weights and
 * has no value.
 *
 * attention_decode with fuse: qkv is raw; the kernel does the work of `rope` for the decode rows
 * too, so that none needs to run before. */
struct cuda_attention_args {
    struct cuda_batch batch;
    const void *qkv;
    void *out, *k, *v;
    const float *slopes; /* [heads] ALiBi; NULL = none */
    const void *sinks;   /* elem [heads], scores as they are; NULL = none */
    int heads, kv_heads, head_dim, block_size;
    float scale; /* of q . k: 1 / sqrt(head_dim) */
    int window;  /* keys that a query sees, its own included; 0 = all */
    int fuse;
    const void *q_norm, *k_norm;
    const float *cosine, *sine;
    float eps, norm_offset; /* of q and k */
    int splits;             /* of decode_step: a row's keys are cut into at most so many parts */
    float *partial; /* [parts, heads, head_dim + 2] values, largest score, sum; 8-byte aligned */
    int *counters;  /* [decode rows, head tiles of all KV heads], 0 before and after */
};

/* ---- experts --------------------------------------------------------------------------------
 *
 * A token goes through k of the experts. Pair t k + j is token t's j-th expert; what belongs to a
 * pair stands at its number, and kernels find the pairs of one expert by `order`. */

enum { CUDA_EXPERTS_MOST = 1024, CUDA_EXPERTS_PICKED = 32 };

/* Each token's k experts: those with the largest logits + bias, the largest first, of equal ones
 * the first. Weights are softmax over all experts, or over those taken. */
struct cuda_route_args {
    const int *count;    /* tokens */
    const float *logits; /* [tokens, experts] */
    const void *bias;    /* elem [experts]; NULL = 0 */
    int *expert;         /* [pairs] */
    float *weight;       /* [pairs] */
    int experts, k;
    int over_all;
};

/* What a block of a grouped product takes: n pairs of one expert, from place `first` of the order
 * on. */
struct cuda_tile {
    int expert, first, n;
};

/* Puts the pairs in the order of their experts, those of one expert as they come, and cuts each
 * expert's into tiles of `rows`. */
struct cuda_group_args {
    const int *count;  /* tokens */
    const int *expert; /* [pairs] */
    int *order;        /* [pairs] */
    struct cuda_tile *tiles;
    int *n_tiles;
    int experts, k, rows;
};

/* Pairs of a tile: of few pairs an expert, and of many. */
enum { CUDA_TILE_FEW = 16, CUDA_TILE_MANY = 64 };

/* out[p] = act(x[p / share] weight[e]^T + bias[e]) for each pair p, of expert e. share: k where
 * the k pairs of a token have one input, else 1. Gated: weight[e] is [2 outs, in], gate first. */
struct cuda_experts_args {
    const int *n_tiles;
    const struct cuda_tile *tiles;
    const int *order;
    const void *x, *weight, *bias;    /* bias NULL = 0 */
    void *out;                        /* elem [pairs, outs] */
    long long weight_step, bias_step; /* elements from one expert's to the next's */
    int experts, k, share;
    int in, outs, act; /* in and outs multiples of 16 bytes */
    float alpha, limit;
};

/* x[t] += sum over j of weight[p] y[p], p = t k + j; in float32, rounded once. */
struct cuda_combine_args {
    const int *count; /* tokens */
    const void *y;    /* elem [pairs, width] */
    const float *weight;
    void *x;
    int width, k;
};

/* Warps of a block, and blocks that a multiprocessor holds. */
enum { CUDA_MATMUL_WARPS = 8, CUDA_MATMUL_PER_SM = 2 };

/* out[r] = act(norm(x[g]) weight^T + bias) + residual[r] for the rows of *count, at most one
 * (matmul_one), 8 (matmul_few) or 16 (matmul_some). With norm the input is RMS-normed on the fly;
 * with CUDA_ACT_SILU_GATED weight is [2 outs, in], gate first. */
struct cuda_matmul_args {
    const int *count;
    const int *gather;                               /* NULL = rows in order */
    const void *x, *weight, *bias, *norm, *residual; /* the last three may be NULL */
    void *out;                                       /* elem [rows, outs]; may be residual */
    int in, outs, act;                               /* in a multiple of 16 bytes */
    int out_float;                                   /* out is float32 */
    float eps;
};

/* A whole step of decode rows: all layers and lm_head, of models with RMS norms, gated SiLU and no
 * biases. Weights of layer l stand l * layer_bytes behind those named, its cache l * cache_bytes.
 * x, qkv and act are the twin's: it leaves there what the kernels of the single operators would. */
struct cuda_decode_step_args {
    struct cuda_attention_args attention; /* of layer 0; fuse 1; out, partial, counters not used */
    const void *table;                    /* elem [vocab, hidden] */
    const void *input_norm, *qkv_weight, *out_weight, *post_norm, *up_weight, *down_weight;
    long long layer_bytes, cache_bytes;
    const void *final_norm, *lm_head;
    void *x, *qkv, *act; /* attention.qkv is qkv */
    float *logits;
    int layers, hidden, intermediate, vocab;
    int least_pages;              /* of a part: pages of 16 keys */
    unsigned long long *exchange; /* cuda_decode_step_words: what blocks hand to each other */
    unsigned *sync; /* [2] layers computed so far, and 0; clear it with exchange, once */
    unsigned long long *stamps; /* [5 layers + 2] ns: begin, end of each phase; NULL = not kept */
};

/* Of decode_step: warps that compute, beside one that finishes and two that copy; rows at most;
 * parts that a row's keys are cut into at most; copies of words that all blocks read; bytes of
 * shared memory for the input of a product; of all of it. */
enum {
    CUDA_DECODE_STEP_WARPS = 8,
    CUDA_DECODE_STEP_ROWS = 4,
    CUDA_DECODE_STEP_PARTS = 16,
    CUDA_DECODE_STEP_COPIES = 4,
    CUDA_DECODE_STEP_INPUT_BYTES = 45312,
    CUDA_DECODE_STEP_SHARED_BYTES = 227 * 1024
};

/* ids[r] = index of the first largest of logits[r, 0 .. sample_vocab); NaN never wins, without a
 * number it is 0. */
struct cuda_argmax_args {
    struct cuda_batch batch;
    const float *logits;
    int vocab, sample_vocab;
    int *ids;                    /* [rows] */
    unsigned long long *partial; /* [rows] 0 before and after */
    int *counters;               /* [rows] 0 before and after */
};

/* model/sampling.h in the device's memory. */
struct cuda_sampling {
    float temperature; /* 0 = greedy: the row is left to argmax */
    float min_p, top_p;
    int top_k;
    unsigned long long seed;
};

/* Draws a token for every row that is not greedy, over what argmax wrote. Weights are 40-bit fixed
 * point, so that sums do not depend on their order: exp((logit - best) / temperature) * 2^40. */
struct cuda_sample_args {
    struct cuda_batch batch;
    const float *logits;
    int vocab, sample_vocab;
    const struct cuda_sampling *sampling; /* [rows] */
    const int *positions;                 /* [rows] of the token that is drawn */
    int *ids;
};

/* The random weights of model/random.h: elements first .. first + n - 1 of a tensor, rounded to
 * elem. A thread makes the CUDA_RANDOM_PER_BLOCK elements of a block of Philox. With a width they
 * are a matrix of that many columns and out is that matrix turned, [width, n / width]; with pairs
 * its rows of even columns stand in front of those of odd ones. */
enum { CUDA_RANDOM_PER_BLOCK = 8 };
struct cuda_random_args {
    void *out;
    long long n, first;
    unsigned key[2], stream[2]; /* of the tensor */
    const float *quantiles;     /* [65536] */
    int width, pairs;
};

/* out[i] = value: norm weights and biases */
struct cuda_fill_args {
    void *out;
    long long n;
    float value;
};

#endif
