/* What the kernels of this engine reach at most, for roofs. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/pages.h"
#include "engine/cpu/stream.h"
#include "engine/engine.h"

enum st cpu_measure_read(int threads, size_t bytes, int n, double *pass_s, struct err *e)
{
    struct stream *s = NULL;
    TRY(stream_open(threads, bytes, &s, e));
    stream_pass_s(s); /* wakes the threads */
    for (int i = 0; i < n; i++)
        pass_s[i] = stream_pass_s(s);
    stream_close(&s);
    return ST_OK;
}

struct cpu_product {
    const struct cpu_kernels *kn;
    struct pool *pool;
    struct pages pages;
    struct matrix w;
    float *x, *y;
    int64_t rows, ldx;
};

static enum st open_product(struct cpu_product *p, int threads, int64_t rows, int64_t size,
                            struct err *e)
{
    size_t usable;
    p->kn = kernels_usable(&usable)[0];
    p->rows = rows;
    p->ldx = gemm_ld(size);
    const size_t w = gemm_data_floats(p->kn, size, size);
    const size_t x = (size_t)(rows * p->ldx) + KERNELS_SLACK, y = (size_t)(rows * size);
    TRY(pool_open(threads, &p->pool, e));
    TRY(pages_alloc(&p->pages, w + x + y + KERNELS_SLACK, "the product to time", e));
    struct rng r = rng_stream(1, "roofs");
    float *base = (float *)p->pages.base;
    for (size_t i = 0; i < w + x; i++)
        base[i] = (float)rng_unit(&r) - 0.5f;
    p->w = (struct matrix){.m = size, .k = size, .data = base};
    p->x = base + w;
    p->y = p->x + x;
    return ST_OK;
}

static double product_s(struct cpu_product *p)
{
    const int64_t start_ns = clock_mono_ns();
    gemm_run(p->pool, p->kn, &p->w, p->rows, p->x, p->ldx, p->y);
    return ns_to_s(clock_mono_ns() - start_ns);
}

enum st cpu_measure_gemm(int threads, int64_t rows, int64_t size, int n, double *pass_s,
                         struct err *e)
{
    struct cpu_product p = {0};
    enum st st = open_product(&p, threads, rows, size, e);
    if (st == ST_OK) {
        product_s(&p);
        for (int i = 0; i < n; i++)
            pass_s[i] = product_s(&p);
    }
    pool_close(&p.pool);
    pages_free(&p.pages);
    return st;
}
