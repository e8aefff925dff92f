/* Where a model's weights stand in the memory of an engine: one walk over the model for all of
 * them.
 *
 * Every projection is one matrix [out features, in features]. qkv rows: [heads of q | kv_heads of k
 * | kv_heads of v] * head_dim; BLOOM's, which run [head][q, k, v], are put in that order once. up
 * rows: [gate | up], of experts too. A tied model has no embedding of its own: it is lm_head's
 * matrix. Pieces stand in the order of use, so that a forward pass reads the memory from end to
 * end.
 *
 * What an engine decides is how much memory a matrix takes and where pieces begin. Addresses are
 * numbers: the engine's memory may be that of a GPU. */
#ifndef MODEL_LAYOUT_H
#define MODEL_LAYOUT_H

#include "model/weights.h"

struct weight_matrix {
    uint64_t data; /* [m, k] */
    uint64_t bias; /* [m], 0 = none */
    int64_t m, k;
};
struct weight_norm {
    uint64_t w; /* scale; 0 = the model has no such norm */
    uint64_t b; /* bias; 0: RMS norm */
};
/* Matrices of one shape, one behind the other, and then their biases. */
struct weight_experts {
    struct weight_matrix first;    /* of expert 0; m = 0: a dense MLP */
    uint64_t data_step, bias_step; /* bytes from one expert's to the next's */
    int64_t n;
};
struct weight_layer {
    struct weight_norm input_norm, post_norm;
    struct weight_norm attn_out_norm, mlp_out_norm; /* of the outputs; w 0 = none */
    struct weight_matrix qkv, out, up, down;        /* up, down: of a dense MLP, else m = 0 */
    uint64_t q_norm, k_norm;                        /* [head_dim], 0 = none */
    uint64_t sinks;                                 /* [heads], 0 = none */
    struct weight_matrix router;                    /* [experts, hidden] */
    struct weight_experts expert_up, expert_down;
};
struct weight_layout {
    struct weight_layer *layers;
    struct weight_norm emb_norm, final_norm;
    uint64_t embedding; /* [vocab, hidden]; of a tied model lm_head.data */
    struct weight_matrix lm_head;
    uint64_t bytes; /* from the base to the end of all of the above */
};

/* How an engine holds them. */
struct weight_sizes {
    size_t element; /* bytes */
    size_t align;   /* bytes; every piece begins at a multiple of it, counted from the base */
    /* Elements that a matrix and its bias take; NULL = m k and m. */
    size_t (*matrix)(const void *ctx, int64_t m, int64_t k), (*bias)(const void *ctx, int64_t m);
    const void *ctx;
};

/* base: address of the memory, not 0. Layers live in the arena. */
void weight_layout_make(struct arena *a, const struct model *m, const struct weight_sizes *s,
                        uint64_t base, struct weight_layout *out);
struct weight_matrix weight_expert(const struct weight_experts *x, int64_t expert);
/* Bytes of the memory it wants. */
uint64_t weight_layout_bytes(const struct model *m, const struct weight_sizes *s);

/* Where a tensor of model_tensors goes; of those of several experts, one expert's piece
 * (weight_piece). Vectors, as norms, are rows of one element, and so are the biases of matrices. */
struct weight_target {
    struct weight_matrix matrix; /* row r of the tensor is row weight_row(r) of this matrix, or of
                                    its bias, and of a transposed one column r, with element c in
                                    row weight_row(c); m = 0: row r of what stands at `at` */
    uint64_t at;                 /* row 0: the matrix, its bias, or the vector or table */
    int64_t rows, width;         /* of the tensor; elements in a row */
};
struct weight_target weight_target_of(const struct weight_layout *l, const struct tensor *t,
                                      const struct weight_place *p);

#endif
