/* What a kernel computes in a transformer, by its name: for sums over operators of engines that
 * mark none with ranges.
 *
 * Names are those of PyTorch, cuBLAS, CUTLASS, FlashAttention, FlashInfer, Triton's and Inductor's
 * kernels, vLLM, SGLang and TensorRT-LLM. A name of which nothing is known is CLASS_OTHER, as are
 * elementwise kernels: activations, rotary embeddings, casts. */
#ifndef KERNELS_CLASSES_H
#define KERNELS_CLASSES_H

#include <stdint.h>

#include "kernels/kernels.h"

enum kernels_operator {
    CLASS_ATTENTION, /* with what stores keys and values, and what schedules its blocks */
    CLASS_PRODUCTS,  /* dense matrix products */
    CLASS_EXPERTS,   /* grouped products of experts */
    CLASS_ROUTING,   /* which experts, sorting tokens by them, adding up their answers */
    CLASS_NORMS,
    CLASS_SAMPLING,
    CLASS_COLLECTIVES,
    CLASS_COPIES, /* copies and sets */
    CLASS_OTHER,
    KERNELS_CLASSES
};
const char *kernels_class_name(unsigned c); /* "attention"; NULL beyond the last */

enum kernels_operator kernels_class_of(uint8_t kind, const char *full_name, const char *short_name);

/* [k->n_names], in a. */
uint8_t *kernels_classes_of(struct arena *a, const struct kernels *k);

#endif
