/* What the cases of `gpu_bench check` share; every row of the table against its twin, on random
 * data and sizes around the edges. */
#ifndef BENCH_GPU_CASES_H
#define BENCH_GPU_CASES_H

#include "gpu/bench.h"
#include "gpu/world.h"

struct case_run {
    struct world w;
    struct cuda_sizes most;
    int cases, failed, seen;
    struct check_scope scope;
    double worst[CUDA_KERNELS][CUDA_DTYPES];
    int counts[CUDA_KERNELS][CUDA_DTYPES];
};

/* Whether this case of the row is one of those to check; asked once, before its buffers are made.
 */
bool case_wanted(struct case_run *r, enum cuda_kernel_id id);
/* Of the sizes in `args`; pointers to numbers that are not sizes may be missing yet. */
bool case_too_large(const struct case_run *r, enum cuda_kernel_id id, enum cuda_dtype t,
                    const void *args);
/* Kernel against twin; counts, and prints what fails. */
void case_check(struct case_run *r, enum cuda_kernel_id id, enum cuda_dtype t, int head_dim,
                const void *args, const char *what);
int case_sms(const struct case_run *r);
int case_below(struct world *w, int n);
/* Memory with the number n, and sizes for so many tokens. */
int *case_count(struct case_run *r, int n);

/* Sequences of a batch: (cached tokens, new tokens), chunks first. */
struct case_shape {
    const char *name;
    int n_chunks, n_decodes;
    int before[48], tokens[48];
};
struct case_dims {
    int heads, kv_heads, head_dim, block_size;
};
struct cuda_batch case_batch(struct case_run *r, const struct case_shape *s, int block_size,
                             int *n_blocks);
/* Of every position in the batch. */
void case_angles(struct world *w, const struct case_shape *shape, int half, const float **c,
                 const float **s);
/* Keys and values past what sequences hold are NaN: nothing may read them into a result. */
void case_forget_unused(const struct cuda_batch *b, const struct case_dims *d, enum cuda_dtype t,
                        int n_blocks, void *k, void *v);

/* The cases of one type: cases_attention.c, cases_experts.c. */
void case_attention(struct case_run *r, enum cuda_dtype t);
void case_experts(struct case_run *r, enum cuda_dtype t);

#endif
