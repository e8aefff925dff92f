/* Number formats of a model: from config.json, or given.
 *
 * dtype, torch_dtype: of activations; float32 counts as float16, which servers make of it.
 * quantization_config, by quant_method:
 *
 *     fp8, fbgemm_fp8      weights and products in fp8
 *     modelopt             quant_algo FP8: the same; NVFP4: fp4, a scale byte per 16 weights
 *     compressed-tensors   weights.num_bits and type of the first config group; products in that
 *                          format where input_activations has as few bits, else in dtype
 *     mxfp4                fp4 weights, a scale byte per 32; products in dtype
 *     gptq, awq            int4 or int8 weights, 2 scale bytes per group (awq 2.5); products in
 *                          dtype
 *
 * kv_cache_scheme and kv_cache_quant_algo: of the KV cache. Modules that are left out (ignore) are
 * taken to be the LM head, the router and the embedding, which stay in dtype. */
#ifndef MODEL_FORMATS_H
#define MODEL_FORMATS_H

#include "model/model.h"

/* ST_INPUT, at its place, for a quantisation that is not in the list. */
enum st formats_from_config(const struct node *config, struct model *m, struct err *e);

/* Instead of these: NULL = as they are. dtype: bf16, fp16, fp32 of everything; fp8, fp4, int8 of
 * the layers' weights and products (fp4 with a scale byte per 16), int4 of weights alone. ST_USAGE
 * for other words. */
enum st formats_set(struct model *m, const char *dtype, const char *kv_dtype, struct err *e);

bool formats_quantised(const struct model *m);
/* "bf16", "fp8 weights, fp8 KV cache": for people. */
const char *formats_words(struct arena *a, const struct model *m);

#endif
