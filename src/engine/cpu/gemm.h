/* Matrix products with packed weights: y[r, j] = bias[j] + sum over i of x[r, i] W[j, i].
 *
 * W [m, k] (out features, in features) is stored in panels of `panel` out features, for each of
 * them k rows of one float per out feature: data[(j / panel) * k + i][j % panel]. The last panel is
 * filled up with zeros. So one row streams the weights in order from end to end, many rows work on
 * panels that stay in the cache, and nothing is packed at run time: one code path for any number of
 * rows, with the same sums. */
#ifndef ENGINE_CPU_GEMM_H
#define ENGINE_CPU_GEMM_H

#include <stdint.h>

#include "engine/cpu/kernels.h"
#include "engine/cpu/pool.h"

struct matrix {
    int64_t m, k;
    float *data; /* [ceil(m / panel), k, panel] */
    float *bias; /* [ceil(m / panel) * panel], NULL = none */
};

/* Floats of data and of bias for a matrix of that size. */
size_t gemm_data_floats(const struct cpu_kernels *kn, int64_t m, int64_t k);
size_t gemm_bias_floats(const struct cpu_kernels *kn, int64_t m);

/* Row j of W from k floats, and back. Rows may be put by different threads at once. */
void gemm_put_row(const struct cpu_kernels *kn, const struct matrix *w, int64_t j,
                  const float *row);
void gemm_get_row(const struct cpu_kernels *kn, const struct matrix *w, int64_t j, float *row);

float *gemm_at(const struct cpu_kernels *kn, const struct matrix *w, int64_t j,
               int64_t i); /* W[j, i] */

/* x [rows, k] with ldx floats from row to row, y [rows, m] without gaps. KERNELS_SLACK floats may
 * be read behind x. Rows a multiple of 4 KiB apart fall into the same sets of the first cache:
 * gemm_ld() is a distance that avoids it. */
void gemm_run(struct pool *pool, const struct cpu_kernels *kn, const struct matrix *w, int64_t rows,
              const float *x, int64_t ldx, float *y);
int64_t gemm_ld(int64_t width);

/* Products of several matrices of one shape, each with rows of its own: rows first .. first + rows
 * - 1 of x and y. The threads share all of them, so that many small ones are as quick as a large
 * one.
 */
struct gemm_group {
    const struct matrix *w;
    int64_t first, rows;
};
void gemm_run_groups(struct pool *pool, const struct cpu_kernels *kn,
                     const struct gemm_group *groups, int64_t n, const float *x, int64_t ldx,
                     float *y);

#endif
