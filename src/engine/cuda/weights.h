/* A model's weights in the memory of a GPU: one allocation, float32, float16 or bfloat16, every
 * projection one matrix [out features, in features].
 *
 * qkv rows: [heads of q | kv_heads of k | kv_heads of v] * head_dim; BLOOM's, which run
 * [head][q, k, v], are put in that order once. up rows: [gate | up]. A tied model has no embedding
 * of its own: its lm_head is the embedding. Every matrix and vector begins at a multiple of 256
 * bytes, in the order of use.
 *
 * From safetensors, mapped and sharded or not: pieces are converted by all cores into page-locked
 * buffers, while the piece before is on its way. Or seeded random weights, made by the GPU, which
 * are those of model/random.h after rounding, bit for bit. */
#ifndef ENGINE_CUDA_WEIGHTS_H
#define ENGINE_CUDA_WEIGHTS_H

#include "gpu/device.h"
#include "model/weights.h"

struct cuda_matrix {
    CUdeviceptr data; /* [m, k] */
    CUdeviceptr bias; /* [m], 0 = none */
    int64_t m, k;
};
struct cuda_norm {
    CUdeviceptr w; /* scale */
    CUdeviceptr b; /* bias; 0: RMS norm */
};
struct cuda_layer {
    struct cuda_norm input_norm, post_norm;
    struct cuda_matrix qkv, out, up, down;
    CUdeviceptr q_norm, k_norm; /* [head_dim], 0 = none */
};
struct cuda_weights {
    enum dtype dtype;
    struct cuda_layer *layers;
    struct cuda_norm emb_norm, final_norm; /* emb_norm.w 0 = none */
    CUdeviceptr embedding;                 /* [vocab, hidden]; of a tied model lm_head.data */
    struct cuda_matrix lm_head;
    CUdeviceptr base;
    size_t bytes; /* all of the above */
    struct arena *arena;
};

/* Bytes of device memory that the weights take. */
size_t cuda_weights_bytes(const struct model *m, enum dtype dtype);

/* Writes element 0 .. n-1 of the seeded random tensor t (name and shape) to `to` on the stream, in
 * that type. */
struct cuda_random {
    enum st (*make)(void *self, const struct tensor *t, uint64_t seed, enum dtype dtype,
                    CUdeviceptr to, CUstream stream, struct err *e);
    void *self;
};

struct cuda_weights_params {
    const struct gpu *g;
    const struct model *model;
    enum dtype dtype;
    const char *dir; /* folder with safetensors; NULL = random from seed */
    uint64_t seed;
    const struct cuda_random *random; /* needed when dir is NULL */
    int threads;                      /* that convert; 0 = all cores */
};

/* Returns when everything is there. ST_INPUT names the tensor that is missing or has another shape;
 * ST_DEVICE: no room, with what was wanted and what there is. On failure *out is zeroed. */
enum st cuda_weights_load(const struct cuda_weights_params *p, struct cuda_weights *out,
                          struct err *e);
void cuda_weights_free(const struct gpu *g, struct cuda_weights *w); /* zeroed is fine */

#endif
