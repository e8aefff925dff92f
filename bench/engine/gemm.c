#include <cblas.h>
#include <stdio.h>

#include "base/clock.h"
#include "engine/bench.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/pages.h"

void openblas_set_num_threads(int n); /* not in every cblas.h */

struct shape {
    const char *what;
    int64_t m, k;
};

/* CPU time of the process: at one thread that is the product, however busy the machine is. */
static double own_s(struct pool *pool, const struct cpu_kernels *kn, const struct matrix *w,
                    int64_t rows, const float *x, float *y)
{
    const int64_t start_ns = clock_cpu_ns();
    gemm_run(pool, kn, w, rows, x, gemm_ld(w->k), y);
    return ns_to_s(clock_cpu_ns() - start_ns);
}

static double openblas_s(const struct matrix *w, int64_t rows, const float *x, float *y)
{
    const int64_t start_ns = clock_cpu_ns();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)w->m, (int)w->k, 1, x,
                (int)w->k, w->data, (int)w->k, 0, y, (int)w->m);
    return ns_to_s(clock_cpu_ns() - start_ns);
}

static int shape_rows(struct pool *pool, const struct cpu_kernels *kn, const struct shape *s)
{
    enum { MOST = 512, ROUNDS = 7 };
    struct err e = {0};
    struct pages pages = {0};
    const size_t data = gemm_data_floats(kn, s->m, s->k);
    const size_t x = (size_t)(MOST * gemm_ld(s->k)), y = (size_t)(MOST * s->m);
    if (pages_alloc(&pages, data + x + y, "gemm", &e) != ST_OK)
        return 3;
    float *p = pages.base;
    for (size_t i = 0; i < data + x; i++)
        p[i] = (float)(i % 17) * 0.01F;
    const struct matrix w = {.m = s->m, .k = s->k, .data = p};
    static const int64_t rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double own[ROUNDS], blas[ROUNDS];
        for (int r = 0; r < ROUNDS; r++) {
            own[r] = own_s(pool, kn, &w, rows[i], p + data, p + data + x);
            blas[r] = openblas_s(&w, rows[i], p + data, p + data + x);
        }
        const double gflop = 2e-9 * (double)(rows[i] * s->m * s->k);
        const double a = spread_of(own, ROUNDS).median, b = spread_of(blas, ROUNDS).median;
        printf("%-10s %5lld x %5lld %5lld %8.1f %8.1f %8.2f\n", s->what, (long long)s->m,
               (long long)s->k, (long long)rows[i], gflop / a, gflop / b, b / a);
    }
    pages_free(&pages);
    return 0;
}

int bench_gemm(const struct options *o)
{
    static const struct shape shapes[] = {
        {"demo up", 1536, 256}, {"qkv", 5120, 3072}, {"up", 16384, 3072}, {"down", 3072, 8192}};
    struct err e = {0};
    struct pool *pool;
    size_t n;
    if (pool_open(1, &pool, &e) != ST_OK)
        return 3;
    (void)o;
    openblas_set_num_threads(1);
    printf("one thread, GFLOP/s of CPU time, medians of 7\n");
    printf("%-10s %13s %5s %8s %8s %8s\n", "matrix", "m x k", "rows", "own", "OpenBLAS", "ratio");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shape_rows(pool, kernels_usable(&n)[0], &shapes[i]) != 0)
            return 3;
    pool_close(&pool);
    return 0;
}
