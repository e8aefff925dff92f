/* Weights: safetensors files read in place and written, a sharded index, seeded random weights.
 *
 * Format: https://huggingface.co/docs/safetensors (8-byte little-endian header length, JSON header,
 * data). The reader checks that offsets are inside the file, do not overlap, and match dtype x
 * shape; shard names in the index cannot leave the folder. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "model/model.h"

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I64, DTYPE_I32, DTYPE_U8 };
size_t dtype_bytes(enum dtype t);
const char *dtype_name(enum dtype t); /* "F32" */

enum { TENSOR_MAX_DIMS = 4 };

struct tensor {
    const char *name;
    enum dtype dtype;
    int n_dims;
    int64_t dims[TENSOR_MAX_DIMS];
    const void *data; /* inside the mapping */
    size_t bytes;
};

struct weights; /* one file or all shards of an index, mapped */

/* path: a .safetensors file, a .safetensors.index.json, or a directory holding model.safetensors or
 * model.safetensors.index.json. */
enum st weights_open(const char *path, struct weights **out, struct err *e);
void weights_close(struct weights **w);
size_t weights_count(const struct weights *w);
const struct tensor *weights_at(const struct weights *w, size_t i); /* in file order */
const struct tensor *weights_find(const struct weights *w, const char *name);

/* n values of t from element `first` as float32. dtype must be F32, F16 or BF16. */
void tensor_to_f32(const struct tensor *t, size_t first, size_t n, float *out);

/* Write tensors (data of dtype as given) to path atomically; metadata {"format": "pt"}. */
enum st weights_write(const char *path, const struct tensor *tensors, size_t n, struct err *e);

/* ---- the tensors of a model -------------------------------------------------------------- */

/* Hugging Face names and shapes of every tensor of the model, in order of use. data is NULL. */
struct tensor *model_tensors(struct arena *a, const struct model *m, size_t *n);

/* Seeded random weights of that tensor, float32: normal with standard deviation 0.02 (norm weights
 * 1, biases 0), each from a stream named after the tensor, so tensors can be made in any order. */
void model_random_tensor(const struct tensor *t, uint64_t seed, float *out);

/* `model init`: writes config.json, model.safetensors and copies the tokenizer files of from_dir
 * (NULL = none) into dir (absent or empty). */
enum st model_init(const struct model *m, const struct node *config, const char *from_dir,
                   uint64_t seed, const char *dir, struct err *e);

#endif
