/* The inner kernels of the CPU engine: one source (kernels.inc.h), compiled once per instruction
 * set, chosen at run time.
 *
 * A row's result is bitwise independent of the other rows and of the thread: sums run over the
 * inner dimension in ascending order, one accumulator per output. The engine's results therefore do
 * not depend on batch composition, chunking or thread count. */
#ifndef ENGINE_CPU_KERNELS_H
#define ENGINE_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Floats that may be read (never kept) behind the end of an operand: whole vectors are loaded. */
enum { KERNELS_SLACK = 64 };

/* c[r, j] = init[r, j] + sum over i < k of a[r, i] b[i, j]. Leading dimensions in floats. init NULL
 * = 0; ld_init 0 = the same row for all (a bias); init == c accumulates. */
struct tile {
    size_t k;
    const float *a;
    size_t lda;
    const float *b;
    size_t ldb;
    float *c;
    size_t ldc;
    const float *init;
    size_t ld_init;
};

struct cpu_kernels {
    const char *name; /* "portable", "avx2", "avx512" */
    int lanes;        /* floats in a vector */
    int panel;        /* 2 * lanes: columns of a weight panel, see gemm.h */
    int max_rows;     /* most rows of a tile */

    /* One tile of 1 <= rows <= max_rows and vecs (1 or 2) vectors of columns. */
    void (*tile)(int rows, int vecs, const struct tile *t);
    /* n whole weight panels: b of panel p at b + p * b_step, c and init at + p * panel. Fetches
     * ahead, and takes few rows through several panels at once, because one row alone cannot hide
     * the latency of an FMA. */
    void (*panels)(int rows, int64_t n, size_t b_step, const struct tile *t);

    void (*add)(size_t n, float *x, const float *y);                  /* x += y */
    void (*add_scaled)(size_t n, float *x, const float *y, float by); /* x += by y */
    void (*rms_norm)(size_t n, const float *x, const float *w, float eps, float *out);
    void (*layer_norm)(size_t n, const float *x, const float *w, const float *b, float eps,
                       float *out);
    void (*silu_mul)(size_t n, const float *gate, const float *up, float *out);
    void (*gelu_tanh)(size_t n, const float *x, float *out);
    void (*gelu_tanh_mul)(size_t n, const float *gate, const float *up, float *out);
    /* MLP_ACT_CLAMPED of model/structure.h. */
    void (*clamped_mul)(size_t n, const float *gate, const float *up, float alpha, float limit,
                        float *out);
    /* Rotates (x[i], x[half + i]) by the angles whose cosines and sines are given; in place. */
    void (*rope)(size_t half, const float *cosine, const float *sine, float *x);

    void (*scale)(size_t n, float *x, float by);
    void (*ramp)(size_t n, float *x, float slope, float first); /* x[i] += slope * (first + i) */
    float (*max)(size_t n, const float *x);                     /* n >= 1 */
    float (*exp_sum)(size_t n, float *x, float max); /* x = exp(x - max); returns their sum */
    size_t (*argmax)(size_t n, const float *x);      /* first largest; NaN never wins; n >= 1 */

    float (*sum)(size_t n, const float *x); /* reads memory as fast as it can */
};

extern const struct cpu_kernels kernels_portable;
#if defined(__x86_64__)
extern const struct cpu_kernels kernels_avx2, kernels_avx512;
#endif

/* The sets this machine can run, best first; *n of them. */
const struct cpu_kernels *const *kernels_usable(size_t *n);

#endif
