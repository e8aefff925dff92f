#include "engine/cuda/matmul.h"

#include "gpu/cache.h"

static const enum gpu_matmul_type types[CUDA_DTYPES] = {
    [CUDA_F32] = GPU_MATMUL_F32, [CUDA_F16] = GPU_MATMUL_F16, [CUDA_BF16] = GPU_MATMUL_BF16};

enum st cuda_matmul_open(struct cuda_matmul *x, const struct gpu *gpu, enum cuda_dtype t,
                         struct err *e)
{
    struct arena *a = arena_new();
    *x = (struct cuda_matmul){.dtype = t};
    const enum st st = gpu_blas_open(gpu, gpu_cache_dir(a, "gemm"), &x->blas, e);
    arena_free(&a);
    return st;
}

void cuda_matmul_close(struct cuda_matmul *x)
{
    for (int i = 0; i < x->n; i++)
        gpu_matmul_close(&x->blas, &x->plans[i]);
    mem_free(x->plans);
    gpu_blas_close(&x->blas);
    *x = (struct cuda_matmul){0};
}

/* ---- plans ----------------------------------------------------------------------------------- */

int cuda_matmul_class(int rows)
{
    int step = 8;
    while (rows > 8 * step)
        step *= 2;
    return (rows + step - 1) / step * step;
}

static struct gpu_matmul_shape shape_of(const struct cuda_matmul *x, const struct cuda_product *p,
                                        int rows)
{
    ASSERT(!(p->out_float && (p->add || (p->weight.bias && x->dtype != CUDA_F32))) && rows > 0);
    return (struct gpu_matmul_shape){.rows = rows,
                                     .m = p->weight.m,
                                     .k = p->weight.k,
                                     .type = types[x->dtype],
                                     .bias = p->weight.bias != 0,
                                     .f32_out = p->out_float,
                                     .add = p->add};
}

/* NULL: none was prepared for it. */
static const struct gpu_matmul *find(const struct cuda_matmul *x, const struct gpu_matmul_shape *s)
{
    for (int i = 0; i < x->n; i++) {
        const struct gpu_matmul_shape *has = &x->plans[i].shape;
        if (has->m == s->m && has->k == s->k && has->bias == s->bias &&
            has->f32_out == s->f32_out && has->add == s->add &&
            cuda_matmul_class((int)has->rows) == cuda_matmul_class((int)s->rows))
            return &x->plans[i];
    }
    return NULL;
}

static void keep(struct cuda_matmul *x, const struct gpu_matmul *plan)
{
    if (x->n == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 64;
        x->plans = mem_resize(x->plans, (size_t)x->cap * sizeof *x->plans);
    }
    x->plans[x->n++] = *plan;
}

static struct gpu_matmul_buffers buffers_of(const struct cuda_product *p)
{
    return (struct gpu_matmul_buffers){
        .w = p->weight.data, .x = p->x, .y = p->out, .bias = p->weight.bias};
}

static enum st describe(struct err *e, const struct cuda_product *p, int rows)
{
    return err_add(e, "a product of %d rows with a matrix of %lld x %lld", rows,
                   (long long)p->weight.m, (long long)p->weight.k);
}

/* ---- preparing, running ---------------------------------------------------------------------- */

enum st cuda_matmul_prepare(struct cuda_matmul *x, const struct cuda_product *p, int rows,
                            int64_t layers, size_t stride, CUstream stream, struct err *e)
{
    const struct gpu_matmul_search quick = {
        .candidates = 8, .rounds = 1, .repeats = 3, .copies = layers, .stride = stride};
    const struct gpu_matmul_shape s = shape_of(x, p, rows);
    const struct gpu_matmul_buffers at = buffers_of(p);
    struct gpu_matmul plan;
    if (find(x, &s))
        return ST_OK;
    if (gpu_matmul_open(&x->blas, &s, &plan, e) != ST_OK)
        return describe(e, p, rows);
    if (gpu_matmul_tune(&x->blas, &plan, &at, &quick, stream, e) != ST_OK) {
        gpu_matmul_close(&x->blas, &plan);
        return describe(e, p, rows);
    }
    keep(x, &plan);
    return ST_OK;
}

enum st cuda_matmul_run(struct cuda_matmul *x, const struct cuda_product *p, int rows,
                        CUstream stream, struct err *e)
{
    const struct gpu_matmul_shape s = shape_of(x, p, rows);
    const struct gpu_matmul_buffers at = buffers_of(p);
    const struct gpu_matmul *prepared = find(x, &s);
    struct gpu_matmul own = {0};
    enum st st = prepared ? ST_OK : gpu_matmul_open(&x->blas, &s, &own, e);
    if (st == ST_OK)
        st = gpu_matmul_run_rows(&x->blas, prepared ? prepared : &own, rows, &at, stream, e);
    gpu_matmul_close(&x->blas, &own);
    return st == ST_OK ? ST_OK : describe(e, p, rows);
}
