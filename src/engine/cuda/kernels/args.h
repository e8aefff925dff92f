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
};

/* Consecutive tokens of one sequence: chunks first, then one token per decode row. */
struct cuda_segment {
    int first, tokens, kv_before;
    int table; /* index in cuda_batch.blocks of the sequence's block table */
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
    int *last; /* [slots] token that the slot emitted last; written by sampling */
};

/* x[t] = table[id(t)] */
struct cuda_embed_args {
    struct cuda_batch batch;
    const void *table; /* elem [vocab, hidden] */
    void *x;
    int hidden;
};

/* Row r of *count: s = x[g] + add[g], g = gather ? gather[r] : r; sum[g] = s where sum is given;
 * out[r] = s / rms(s) * weight, or with a bias the layer norm. s is rounded to elem first. */
struct cuda_norm_args {
    const int *count;          /* rows: &step->n_tokens or &step->n_rows */
    const int *gather;         /* NULL = rows in order */
    const void *x, *add;       /* add NULL = 0 */
    void *sum;                 /* may be x; NULL = not kept */
    const void *weight, *bias; /* bias NULL = RMS norm */
    void *out;                 /* may be x where gather is NULL */
    int width;
    float eps;
};

/* Of each token: q and k normed per head (q_norm not NULL), rotated (cosine not NULL); q stays in
 * qkv, k and v go to the cache. Each of the two steps rounds to elem. */
struct cuda_rope_args {
    struct cuda_batch batch;
    void *qkv;
    const void *q_norm, *k_norm; /* elem [head_dim] */
    const float *cosine, *sine;  /* [positions, head_dim / 2] */
    void *k, *v;
    int heads, kv_heads, head_dim, block_size;
    float eps;
};

enum { CUDA_ACT_NONE, CUDA_ACT_SILU_GATED, CUDA_ACT_GELU_TANH };

/* out[t, i] = act(up[t, i] + bias[i]), gated: silu(up[t, i]) * up[t, width + i]. */
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
 * (attention_any) over keys 0 .. position of each token's sequence.
 *
 * attention_decode with fuse: qkv is raw; the kernel does the work of `rope` for the decode rows
 * too, so that none needs to run before. */
struct cuda_attention_args {
    struct cuda_batch batch;
    const void *qkv;
    void *out, *k, *v;
    const float *slopes; /* [heads] ALiBi; NULL = none */
    int heads, kv_heads, head_dim, block_size;
    float scale; /* of q . k: 1 / sqrt(head_dim) */
    int fuse;
    const void *q_norm, *k_norm;
    const float *cosine, *sine;
    float eps;
    /* decode: keys of a sequence are cut into at most `splits` parts of 64 keys or more. */
    int splits;
    float *partial;    /* [decode rows, heads, splits * (head_dim + 2)], 8-byte aligned */
    int *counters;     /* [decode rows, head tiles of all KV heads], 0 before and after */
    const void *ahead; /* weights of the next matmul: fetched into L2; NULL = none */
    long long ahead_bytes;
};

/* Warps of a block, and blocks that a multiprocessor holds. */
enum { CUDA_MATMUL_WARPS = 8, CUDA_MATMUL_PER_SM = 2 };

/* out[r] = act(norm(x[g]) weight^T + bias) + residual[r] for the rows of *count, at most 8
 * (matmul_few) or 16 (matmul_some). With norm the input is RMS-normed on the fly; with
 * CUDA_ACT_SILU_GATED weight is [2 outs, in], gate first. */
struct cuda_matmul_args {
    const int *count;
    const int *gather;                               /* NULL = rows in order */
    const void *x, *weight, *bias, *norm, *residual; /* the last three may be NULL */
    void *out;                                       /* elem [rows, outs]; may be residual */
    int in, outs, act;                               /* in a multiple of 16 bytes */
    int out_float;                                   /* out is float32 */
    float eps;
    const void *ahead; /* as above */
    long long ahead_bytes;
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

/* The random weights of model/random.h: element i of a tensor, rounded to elem. A thread draws
 * CUDA_RANDOM_DRAWS numbers of four elements each; its state is that of the stream after the draws
 * before, reached by the matrices of cuda_random_jumps. */
enum { CUDA_RANDOM_DRAWS = 1024, CUDA_RANDOM_JUMPS = 24, CUDA_RANDOM_JUMP_WORDS = 256 * 4 };
struct cuda_random_args {
    void *out;
    long long n;
    unsigned long long state[4];     /* of the stream at element 0 */
    const float *quantiles;          /* [65536] */
    const unsigned long long *jumps; /* [CUDA_RANDOM_JUMPS][256][4] */
};

/* out[i] = value: norm weights and biases */
struct cuda_fill_args {
    void *out;
    long long n;
    float value;
};

#endif
