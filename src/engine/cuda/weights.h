/* A model's weights in the memory of a GPU: one allocation, float32, float16 or bfloat16, laid out
 * as model/layout.h says; every matrix and vector begins at a multiple of 256 bytes.
 *
 * From safetensors, mapped and sharded or not: pieces are converted by all cores into page-locked
 * buffers, while the piece before is on its way. Tensors that hold the matrices of all experts, in
 * features first, are turned and their columns of gate and up put in order there. Or seeded random
 * weights, made by the GPU, which are those of model/random.h after rounding, bit for bit. */
#ifndef ENGINE_CUDA_WEIGHTS_H
#define ENGINE_CUDA_WEIGHTS_H

#include "gpu/device.h"
#include "model/layout.h"

struct cuda_weights {
    enum dtype dtype;
    struct weight_layer *layers; /* addresses are CUdeviceptr */
    struct weight_norm emb_norm, final_norm;
    CUdeviceptr embedding; /* [vocab, hidden]; of a tied model lm_head.data */
    struct weight_matrix lm_head;
    CUdeviceptr base;
    size_t bytes; /* all of the above */
    struct arena *arena;
};

/* Bytes of device memory that the weights take. */
size_t cuda_weights_bytes(const struct model *m, enum dtype dtype);

/* Elements first .. first + n - 1 of a tensor, to `to`. With a width they are a matrix of that many
 * columns, and what is written is the matrix turned; with pairs its rows of even columns in front
 * of those of odd ones. */
struct cuda_random_piece {
    CUdeviceptr to;
    int64_t first, n, width;
    bool pairs;
};
/* Writes a piece of the seeded random tensor t (name and shape) on the stream, in that type. */
struct cuda_random {
    enum st (*make)(void *self, const struct tensor *t, uint64_t seed, enum dtype dtype,
                    const struct cuda_random_piece *piece, CUstream stream, struct err *e);
    void *self;
};

struct cuda_weights_params {
    const struct gpu *g;
    const struct model *model;
    enum dtype dtype;
    const char *dir; /* folder with safetensors; NULL = random from seed */
    uint64_t seed;
    const struct cuda_random *random; /* where dir is NULL; NULL as well: they are zeros */
    int threads;                      /* that convert; 0 = all cores */
};

/* Returns when everything is there. ST_INPUT names the tensor that is missing or has another shape;
 * ST_DEVICE: no room, with what was wanted and what there is. On failure *out is zeroed. */
enum st cuda_weights_load(const struct cuda_weights_params *p, struct cuda_weights *out,
                          struct err *e);
void cuda_weights_free(const struct gpu *g, struct cuda_weights *w); /* zeroed is fine */

#endif
