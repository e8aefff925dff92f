/* Weights: safetensors files read in place and written, a sharded index, seeded random weights.
 *
 * Format: https://huggingface.co/docs/safetensors (8-byte little-endian header length, JSON header,
 * data). The reader checks that offsets are inside the file, cover it without overlap or hole (the
 * format's rule), and match dtype x shape; shard names in the index cannot leave the folder. Errors
 * name the file, and the place in the JSON header or index. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <signal.h>

#include "model/model.h"

enum dtype {
    DTYPE_F64,
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_BOOL,
    DTYPES,
};
size_t dtype_bytes(enum dtype t);
const char *dtype_name(enum dtype t); /* "F32" */
bool dtype_from_name(struct sv name, enum dtype *out);

enum { TENSOR_MAX_DIMS = 8 };

struct tensor {
    const char *name;
    enum dtype dtype;
    int n_dims;
    int64_t dims[TENSOR_MAX_DIMS];
    const void *data; /* inside the mapping; not aligned */
    size_t bytes;
};

int64_t tensor_elements(const struct tensor *t);
const char *tensor_shape(struct arena *a, const struct tensor *t); /* "[2, 3]" */

struct weights; /* one file or all shards of an index, mapped */

/* path: a .safetensors file, a .safetensors.index.json, or a directory holding model.safetensors or
 * model.safetensors.index.json. */
enum st weights_open(const char *path, struct weights **out, struct err *e);
void weights_close(struct weights **w);
size_t weights_count(const struct weights *w);
const struct tensor *weights_at(const struct weights *w, size_t i); /* in order of their bytes */
const struct tensor *weights_find(const struct weights *w, const char *name); /* NULL = absent */

/* The tensor that a row of model_tensors stands for: that name, or that name without its leading
 * "model." or "transformer." (files of the bare model, as BLOOM's, leave it out), or below
 * "language_model" (files of models that take images too). ST_INPUT, by name, when absent, of
 * another shape or not of a floating-point type. */
enum st weights_require(const struct weights *w, const struct tensor *want,
                        const struct tensor **out, struct err *e);

/* n values of t from element `first` as float32, of any dtype; exact where float32 holds the value,
 * else rounded to nearest. */
void tensor_to_f32(const struct tensor *t, size_t first, size_t n, float *out);
/* The same as F32, F16 or BF16, rounded to nearest even; what F16 cannot hold becomes infinite. */
void tensor_convert(const struct tensor *t, size_t first, size_t n, enum dtype to, void *out);

/* Write tensors (data of dtype as given) to path atomically, in the given order; metadata
 * {"format": "pt"}. */
enum st weights_write(const char *path, const struct tensor *tensors, size_t n, struct err *e);

/* ---- the tensors of a model -------------------------------------------------------------- */

/* Which rows of its operator's weight a tensor holds. Weights are [m, k] as in struct op: out
 * features first. */
enum weight_part {
    WEIGHT_WHOLE,
    WEIGHT_Q, /* the first heads * head_dim rows of qkv; of q/k norms: the vector of q */
    WEIGHT_K, /* the kv_heads * head_dim rows behind, or the vector of k */
    WEIGHT_V,
    WEIGHT_QKV,  /* all of them, in the order [head][q, k, v][head_dim] */
    WEIGHT_GATE, /* the first intermediate rows of [gate | up] */
    WEIGHT_UP,
    WEIGHT_GATE_UP, /* both, in the order [intermediate][gate, up] */
};

/* Place of a tensor in the model. */
struct weight_place {
    int64_t layer;   /* -1 = outside the layers */
    enum op_kind op; /* operator that reads it; OP_EMB: also read by OP_LM_HEAD of a tied model */
    enum weight_part part;
    bool bias;
    bool transposed; /* [in features, out features]: rows of the weight are its columns */
    int64_t expert;  /* whose it is; 0 where there are none */
    int64_t pieces;  /* experts that stand one behind the other in it: [pieces, ...]; else 1 */
};

/* Hugging Face names and shapes of every tensor of the model, float32, in order of use; a tied
 * lm_head is not among them. data is NULL. (*places)[i] is that of tensor i; places may be NULL. */
struct tensor *model_tensors(struct arena *a, const struct model *m, struct weight_place **places,
                             size_t *n);
/* One expert's piece of a tensor: without its first dimension, with the bytes that belong to it.
 * *first is its first element in the whole, of which random weights are drawn. The whole where
 * pieces is 1. */
struct tensor weight_piece(const struct tensor *t, const struct weight_place *p, int64_t i,
                           struct weight_place *place, int64_t *first);
/* Row of the operator's weight, or of its biases, that row r of a tensor of that place holds; of
 * transposed ones: that column r holds. */
int64_t weight_row(const struct model *m, const struct weight_place *p, int64_t r);

/* `model init`: writes config.json (with dtype float32) and model.safetensors, whose metadata says
 * which random weights they are (model/random.h), and copies the tokenizer files of from_dir, into
 * dir, which must be absent or empty. ST_IO when the disk is too small. Written in a partial folder
 * (base/partial.h) and renamed when whole: nothing is left of what fails or is stopped, which is
 * ST_INTERRUPTED. Progress goes to stderr; memory does not depend on the model's size. */
struct model_init_params {
    const struct model *model;
    const struct node *config; /* Hugging Face keys of the model */
    const char *from_dir;      /* NULL = no tokenizer */
    uint64_t seed;
    const char *dir;
    const volatile sig_atomic_t *stop; /* raised by a signal; NULL = never */
};
enum st model_init(const struct model_init_params *p, struct err *e);

#endif
