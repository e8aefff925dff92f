/* A model's weights in the engine's layout (model/layout.h): float32, every projection one packed
 * matrix (engine/cpu/gemm.h). Of a tied model, rows of the embedding are taken out of lm_head. */
#ifndef ENGINE_CPU_WEIGHTS_H
#define ENGINE_CPU_WEIGHTS_H

#include "engine/cpu/gemm.h"
#include "engine/cpu/pages.h"
#include "model/model.h"

struct cpu_norm {
    float *w; /* scale; the model's norm_offset is added */
    float *b; /* bias; NULL: RMS norm */
};

struct cpu_layer {
    struct cpu_norm input_norm, post_norm;
    struct cpu_norm attn_out_norm, mlp_out_norm;
    struct matrix qkv, out, up, down;               /* up, down: of a dense MLP */
    struct matrix router, *expert_up, *expert_down; /* [experts] */
    float *q_norm, *k_norm;                         /* [head_dim] */
    float *sinks;                                   /* [heads], NULL = none */
};

struct cpu_weights {
    struct cpu_layer *layers;
    struct cpu_norm emb_norm, final_norm;
    float *embedding; /* [vocab, hidden], NULL = tied */
    struct matrix lm_head;
    struct pages pages;
    size_t floats; /* all of the above */
    struct arena *arena;
};

/* Floats that the weights need. */
size_t cpu_weights_floats(const struct cpu_kernels *kn, const struct model *m);

/* From dir's safetensors (F32, F16, BF16), or seeded random ones when dir is NULL. ST_INPUT names
 * the tensor that is missing or has another shape. Free with cpu_weights_free in any case. */
enum st cpu_weights_load(struct cpu_weights *w, const struct cpu_kernels *kn, struct pool *pool,
                         const struct model *m, const char *dir, uint64_t seed, struct err *e);
void cpu_weights_free(struct cpu_weights *w);

#endif
