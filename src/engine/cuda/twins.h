/* The kernels in plain C, see kernels.h. One thread, host memory, arguments as the kernel's. */
#ifndef ENGINE_CUDA_TWINS_H
#define ENGINE_CUDA_TWINS_H

#include "engine/cuda/kernels.h"

/* Element i of an array, exact; and back, to nearest, ties to even. */
float twin_get(enum cuda_dtype t, const void *p, int64_t i);
void twin_put(enum cuda_dtype t, void *p, int64_t i, float v);
float twin_rounded(enum cuda_dtype t, float v);

/* twins.c */
void twin_embed(const void *args, enum cuda_dtype t);
void twin_norm(const void *args, enum cuda_dtype t);
void twin_rope(const void *args, enum cuda_dtype t);
void twin_act(const void *args, enum cuda_dtype t);
void twin_bias(const void *args, enum cuda_dtype t);
void twin_matmul(const void *args, enum cuda_dtype t); /* all matmul rows */
void twin_random(const void *args, enum cuda_dtype t);
void twin_fill(const void *args, enum cuda_dtype t);
/* The work of twin_rope for one token. */
void twin_rope_token(const struct cuda_rope_args *a, enum cuda_dtype t, int token);

/* act(v, u) of kernels/args.h. */
float twin_activated(int act, float v, float u, float alpha, float limit);

/* twins_experts.c */
void twin_route(const void *args, enum cuda_dtype t);
void twin_group(const void *args, enum cuda_dtype t);
void twin_experts(const void *args, enum cuda_dtype t);
void twin_combine(const void *args, enum cuda_dtype t);

/* twins_attention.c */
void twin_attention_decode(const void *args, enum cuda_dtype t);
void twin_attention_prefill(const void *args, enum cuda_dtype t);
void twin_attention_any(const void *args, enum cuda_dtype t);
/* What twin_attention_decode computes, of whole rows: asks for no plan of parts. */
void twin_attention_rows(const void *args, enum cuda_dtype t);

/* twins_step.c */
void twin_decode_step(const void *args, enum cuda_dtype t);

/* twins_sample.c */
void twin_argmax(const void *args, enum cuda_dtype t);
void twin_sample(const void *args, enum cuda_dtype t);

#endif
