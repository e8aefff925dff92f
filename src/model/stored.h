/* What is stored: the number format of each projection of each layer, and the bytes of all weights.
 *
 * Read from quantization_config or compression_config, of the root or of the part that makes text,
 * by quant_method:
 *
 *     fp8                 fp8 with a scale per block of weight_block_size (float32; one byte where
 *                         scale_fmt is ue8m0), else per tensor; not of modules_to_not_convert or
 *                         ignored_layers. expert_dtype fp4: experts in mxfp4. quantized_layers: of
 *                         other formats (ModelOpt)
 *     fbgemm_fp8          fp8 with a float32 scale per row; modules_to_not_convert
 *     modelopt            quant_algo FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, W4A16_NVFP4,
 *                         MXFP8, W4A16_AWQ or W4A8_AWQ, of all but exclude_modules or ignore;
 *                         MIXED_PRECISION: of quantized_layers, each with its own
 *     compressed-tensors  the first of config_groups that names the module in targets, else one of
 *                         "Linear"; not of ignore
 *     mxfp4               experts alone; not of modules_to_not_convert
 *     gptq                bits, group_size and zero points; dynamic: by pattern, lm_head as it says
 *     awq                 the same; not of modules_to_not_convert
 *
 * and from hf_quant_config.json beside it (ModelOpt), where config.json states no scheme. Where
 * both state one, config.json counts, as in vLLM; `note` says where they differ.
 *
 * Lists are matched by model/module_names.h. Embedding, LM head, routers, and what no quantiser
 * takes (hyper-connections, compressors, norms, biases) stay in the model's type unless they are
 * named. Entries that speak of nothing in the text part are fine: encoders, MTP layers.
 *
 *     format   bits  scales
 *     fp8      8     as above
 *     nvfp4    4     fp8 per 16 of a row, float32 per tensor
 *     mxfp4    4     one byte per 32
 *     mxfp8    8     one byte per 32
 *     int4     4     2 bytes per group; zero points of as many bits (gptq, awq)
 *     int8     8     the same
 *
 * Bytes are those of the files: input scales, which are a few bytes a matrix, and paddings of a
 * server are not counted. */
#ifndef MODEL_STORED_H
#define MODEL_STORED_H

#include "model/precision.h"
#include "model/structure.h"
#include "text/node.h"

struct stored_format {
    const char *name;                  /* "nvfp4" */
    enum precision weights, multiply;  /* multiply: what products are in */
    int32_t bits;                      /* of an element */
    int64_t block_rows, block_columns; /* that share a scale; 0 = all */
    double scale_bytes;                /* of each; 0 = none */
    double matrix_bytes;               /* besides, of a matrix */
    double column_bytes;               /* besides, of each in feature */
};

enum { STORED_FORMATS = 24 };

/* Where a projection stands. */
enum stored_of { STORED_ATTENTION, STORED_MLP, STORED_OUTSIDE };

/* Of a projection of one kind of attention or MLP, over the layers of that kind. */
struct stored_part {
    enum stored_of of;
    int32_t kind; /* place in structure's list */
    const struct projection *w;
    int64_t copies[STORED_FORMATS]; /* matrices in each format, of all layers */
    int64_t layers[STORED_FORMATS]; /* that have some */
    int64_t elements;               /* of all layers, without biases */
    double bytes;
};

struct stored {
    struct stored_format formats[STORED_FORMATS]; /* 0: the model's type */
    int32_t n_formats;
    struct stored_part *parts;
    int32_t n_parts;
    double bytes;      /* of all weights, biases and vectors included */
    bool kv_stated;    /* the file states a format of keys and values */
    enum precision kv; /* that */
    const char *note;  /* where the two files differ; NULL = nowhere */
};

/* config: of config.json; side: of hf_quant_config.json, or NULL. dtype: the model's type.
 * ST_INPUT, at its place, for a scheme, an algorithm or a pattern that is not understood. */
enum st stored_read(struct arena *a, const struct node *config, const struct node *side,
                    const struct structure *s, enum precision dtype, struct stored *out,
                    struct err *e);

double stored_element_bytes(const struct stored_part *p); /* mean */
bool stored_quantised(const struct stored *s);
/* The format of most elements of the layers' matrices. */
const struct stored_format *stored_main(const struct stored *s);
/* Whether the layers' matrices, routers left out, are of more than one format. */
bool stored_mixed(const struct stored *s);

/* ST_USAGE, with the sizes, where tensor parallelism cuts a block of scales in two: in features of
 * any matrix, out features of experts and of layers of one matrix, as vLLM refuses them
 * (validate_fp8_block_shape and validate_fp8_block_shape_moe of its fp8_utils.py). For experts vLLM
 * 0.33 can turn to slower kernels with finer blocks instead, which are not modelled here.
 * whole_experts: devices share the experts instead of cutting them. */
enum st stored_check_shards(const struct stored *s, const struct structure *t, int64_t tp,
                            bool whole_experts, struct err *e);

/* "nvfp4 experts, fp8 attention, bf16 rest" */
const char *stored_words(struct arena *a, const struct stored *s);
/* [{of, kind, module, elements, bytes, element_bytes, formats{nvfp4: layers}}] */
struct node *stored_node(struct arena *a, const struct stored *s);

#endif
