/* Number formats of a model: from its files, or given.
 *
 * dtype, torch_dtype: of activations; float32 counts as float16, which servers make of it.
 * quantization_config, hf_quant_config.json and the like: by projection, as model/stored.h has it.
 *
 * model.h's weights, multiply and scale_bytes are those of the format that most elements of the
 * layers' matrices have. Where these are of several formats, or the LM head is quantised,
 * op_formats has the mean bytes of each operator's matrices and what most of them multiply in. */
#ifndef MODEL_FORMATS_H
#define MODEL_FORMATS_H

#include "model/model.h"
#include "model/stored.h"

/* Of m->structure. side: hf_quant_config.json, or NULL. ST_INPUT, at its place, for a quantisation
 * that is not understood. */
enum st formats_from_config(struct arena *a, const struct node *config, const struct node *side,
                            struct model *m, struct err *e);
/* dir/hf_quant_config.json; NULL = there is none. */
enum st formats_load_side(struct arena *a, const char *dir, struct node **out, struct err *e);

/* Instead of these: NULL = as they are. dtype: bf16, fp16, fp32 of everything; fp8, fp4, int8 of
 * the layers' weights and products (fp4 with a scale byte per 16), int4 of weights alone. ST_USAGE
 * for other words. A dtype takes the
 * place of what the files say, by operator as well. */
enum st formats_set(struct model *m, const char *dtype, const char *kv_dtype, struct err *e);

bool formats_quantised(const struct model *m); /* any matrix */
/* "bf16", "fp8 weights, fp8 KV cache": for people. */
const char *formats_words(struct arena *a, const struct model *m);

#endif
