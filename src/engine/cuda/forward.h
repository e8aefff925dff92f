/* One forward pass on the GPU: the model's operator list (model/model.h), each operator carried by
 * a kernel row (engine/cuda/kernels.h) or a matrix product (engine/cuda/matmul.h).
 *
 * A table of rules (forward.c) says which: a rule takes one or several operators that follow each
 * other, under conditions on the pass, and names the kernel that carries them out. So with few
 * tokens the norm, the projection and the activation behind it are one kernel, and a residual
 * addition always is part of the projection in front of it.
 *
 * Buffers, elements of the dtype where nothing else is said, without gaps; T tokens, R rows whose
 * logits are needed:
 *
 *   x    [T, hidden]      residual stream
 *   h    [T, hidden]      normed input of a projection; [R, hidden] of lm_head
 *   qkv  [T, heads + 2 kv_heads, head_dim]
 *   att  [T, heads, head_dim]
 *   up   [T, 2 intermediate] gated, [T, intermediate] otherwise
 *   act  [T, intermediate]
 *   y    [T, hidden]      of a projection whose output is normed before it is added
 *   logits [R, vocab] float32, ids [R]
 *
 * Of layers with experts, P = T experts_per_token pairs of a token and an expert (kernels/args.h):
 *
 *   gate   [T, experts] float32
 *   expert [P], weight [P] float32, order [P], tiles and their number
 *   act    [P, intermediate], y [P, hidden]
 *
 * Keys and values stand in engine/cuda/kv.h. Kinds of attention differ in the span of keys that
 * they see, their rotation and sinks; MLPs in their width and experts. */
#ifndef ENGINE_CUDA_FORWARD_H
#define ENGINE_CUDA_FORWARD_H

#include "engine/cuda/charges.h"
#include "engine/cuda/kv.h"
#include "engine/cuda/matmul.h"
#include "engine/cuda/step.h"
#include "engine/cuda/weights.h"

/* Up to so many rows the matrix products are kernels of our own. */
enum { CUDA_FEW_ROWS = 16 };

struct cuda_forward_params {
    const struct model *model;
    struct cuda_sizes most; /* of any pass */
    int64_t block_size, num_blocks;
    int64_t slots;        /* sequences at once */
    int64_t sample_vocab; /* ids from here on are never sampled */
    bool fused;           /* decode_step where model and GPU allow it; not with check */
    bool stamps;          /* decode_step notes when each phase ends */
    bool check;           /* wait behind every kernel: a fault is that of the kernel named */
};

struct cuda_forward {
    struct cuda_forward_params p;
    const struct model *m;
    const struct gpu *gpu;
    const struct cuda_programs *programs;
    struct cuda_matmul *matmul;
    const struct cuda_weights *w;
    struct arena *arena;
    const struct structure *s; /* of the model, made of its dimensions where it has none */
    struct model_steps steps;
    bool fits; /* attention has the kernels for its shape */
    int64_t max_position;
    int step_rows; /* decode rows up to which a pass is one kernel, decode_step; 0 = never */

    CUdeviceptr buffers;
    size_t buffer_bytes;
    struct cuda_kv kv;
    CUdeviceptr x, h, qkv, att, up, act, y, logits, ids;
    CUdeviceptr cosine[STRUCTURE_ROPES], sine[STRUCTURE_ROPES], slopes; /* 0 = none */
    CUdeviceptr gate, expert, weight, order, tiles, n_tiles;            /* of experts */
    CUdeviceptr partial, counters;                                      /* of attention_decode */
    CUdeviceptr best, best_counters;                                    /* of argmax */
    CUdeviceptr sync, exchange, stamps; /* of decode_step; stamps: 0 = not kept */
    CUdeviceptr last;                   /* [slots] */
    struct cuda_charges *charges;       /* a pass that runs appends its kernels here; NULL = not */
    uint64_t only; /* bit k: a pass runs only what is charged to operator row k; 0 = all */
};

/* What a pass computes: arrays in device memory, and the largest sizes they may have. */
struct cuda_pass {
    struct cuda_sizes sizes;
    struct cuda_batch batch;
    bool sampled; /* some row is not greedy */
    const struct cuda_sampling *sampling;
    const int *draw_at;
};

/* Bytes of the buffers: for plans. */
size_t cuda_forward_buffer_bytes(const struct cuda_forward_params *p, enum cuda_dtype t);
/* Positions that the model and its cache allow. */
int64_t cuda_forward_max_position(const struct cuda_forward_params *p);

enum dtype cuda_plain_dtype(enum cuda_dtype t); /* DTYPE_BF16 */

/* The spans of keys that the model's kinds of attention see, into s->spans and s->windows, and that
 * of a kind. */
void cuda_forward_spans(const struct model *m, struct cuda_sizes *s);
int cuda_forward_span(const struct structure *s, int32_t attention);

/* ST_USAGE: a shape that the kernels do not take, by name. For plans too. */
enum st cuda_forward_check(const struct model *m, enum cuda_dtype t, struct err *e);

/* Allocates and clears buffers and cache. All but p->model and the pieces are copied; those are
 * borrowed until close. Close in any case. */
enum st cuda_forward_open(struct cuda_forward *f, const struct cuda_forward_params *p,
                          const struct cuda_programs *programs, struct cuda_matmul *matmul,
                          const struct cuda_weights *w, CUstream stream, struct err *e);
void cuda_forward_close(struct cuda_forward *f); /* zeroed is fine */

/* Chooses the matrix algorithms of passes of up to p.most sizes. */
enum st cuda_forward_prepare(struct cuda_forward *f, CUstream stream, struct err *e);

/* Gives the pass to the stream, or to the graph it captures: writes the cache, logits, ids and
 * last. Errors name the operators and the layer. */
enum st cuda_forward_run(struct cuda_forward *f, const struct cuda_pass *p, CUstream stream,
                         struct err *e);

/* Seconds of each phase of the last step in one kernel, summed over the layers, in the order of a
 * layer, lm_head last; cuda_decode_step_phase names them. False: no such step was, or p.stamps is
 * off. The stream must be idle. */
bool cuda_forward_phases(const struct cuda_forward *f, CUstream stream, double s[CUDA_STEP_PHASES]);

/* Name of what carries the operator out in such a pass; NULL = the model has no such operator.
 * charged: the operator that has its time (rule_charged); may be NULL. */
const char *cuda_forward_carrier(const struct cuda_forward *f, const struct cuda_pass *p,
                                 enum op_kind op, enum op_kind *charged);

#endif
