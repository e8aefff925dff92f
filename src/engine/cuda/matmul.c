#include "engine/cuda/matmul.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "gpu/cache.h"
#include "gpu/stream.h"

enum { CANDIDATES = 8, RUNS = 3 };
enum { FLAG_ADD = 1, FLAG_BIAS = 2, FLAG_FLOAT = 4 };

struct cuda_matmul_row {
    int64_t m, k;
    int rows, flags, dtype;
    double s; /* that it takes; 0 = not measured */
    cublasLtMatmulAlgo_t algo;
};

static enum st check(const struct cuda_matmul *x, cublasStatus_t status, const char *call,
                     struct err *e)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return ST_OK;
    return err_set(e, ST_DEVICE, "%s: %s (%d)", call, x->lt.cublasLtGetStatusString(status),
                   (int)status);
}

#define CHECK(x, call, ...) check(x, (x)->lt.call(__VA_ARGS__), #call, e)

/* ---- one product ----------------------------------------------------------------------------- */

static cudaDataType type_of(enum cuda_dtype t)
{
    return t == CUDA_F32 ? CUDA_R_32F : t == CUDA_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

/* cuBLASLt's matrices are column by column: the weight is [k, m] and transposed, x is [k, rows],
 * out [m, rows]. */
struct call {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
};

static enum st begin(struct cuda_matmul *x, const struct cuda_product *p, int rows, struct call *c,
                     struct err *e)
{
    const cudaDataType in = type_of(x->dtype), out = p->out_float ? CUDA_R_32F : in;
    const uint64_t m = (uint64_t)p->weight.m, k = (uint64_t)p->weight.k;
    *c = (struct call){.desc = p->weight.bias ? x->biased : x->plain};
    ASSERT(!(p->add && p->out_float) && rows > 0);
    if (p->weight.bias) {
        const void *bias = (const void *)(uintptr_t)p->weight.bias;
        TRY(CHECK(x, cublasLtMatmulDescSetAttribute, c->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                  &bias, sizeof bias));
    }
    TRY(CHECK(x, cublasLtMatrixLayoutCreate, &c->a, in, k, m, (int64_t)k));
    TRY(CHECK(x, cublasLtMatrixLayoutCreate, &c->b, in, k, (uint64_t)rows, (int64_t)k));
    return CHECK(x, cublasLtMatrixLayoutCreate, &c->d, out, m, (uint64_t)rows, (int64_t)m);
}

static void end(const struct cuda_matmul *x, struct call *c)
{
    cublasLtMatrixLayout_t *const all[] = {&c->a, &c->b, &c->d};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (*all[i])
            x->lt.cublasLtMatrixLayoutDestroy(*all[i]);
}

static enum st multiply(struct cuda_matmul *x, const struct cuda_product *p, const struct call *c,
                        const cublasLtMatmulAlgo_t *algo, CUstream stream, struct err *e)
{
    const float one = 1, zero = 0;
    void *out = (void *)(uintptr_t)p->out;
    return CHECK(x, cublasLtMatmul, x->handle, c->desc, &one, (void *)(uintptr_t)p->weight.data,
                 c->a, (void *)(uintptr_t)p->x, c->b, p->add ? &one : &zero, out, c->d, out, c->d,
                 algo, (void *)(uintptr_t)x->workspace, CUDA_MATMUL_WORKSPACE, stream);
}

/* ---- which algorithm ------------------------------------------------------------------------- */

int cuda_matmul_class(int rows)
{
    int step = 8;
    while (rows > 8 * step)
        step *= 2;
    return (rows + step - 1) / step * step;
}

static int flags_of(const struct cuda_product *p)
{
    return (p->add ? FLAG_ADD : 0) | (p->weight.bias ? FLAG_BIAS : 0) |
           (p->out_float ? FLAG_FLOAT : 0);
}

static const struct cuda_matmul_row *find(const struct cuda_matmul *x, const struct cuda_product *p,
                                          int rows)
{
    const int class = cuda_matmul_class(rows), flags = flags_of(p);
    for (int i = 0; i < x->n; i++) {
        const struct cuda_matmul_row *r = &x->rows[i];
        if (r->m == p->weight.m && r->k == p->weight.k && r->rows == class && r->flags == flags &&
            r->dtype == (int)x->dtype)
            return r;
    }
    return NULL;
}

static void add_row(struct cuda_matmul *x, const struct cuda_matmul_row *r)
{
    if (x->n == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 64;
        x->rows = mem_resize(x->rows, (size_t)x->cap * sizeof *x->rows);
    }
    x->rows[x->n++] = *r;
}

static enum st heuristics(struct cuda_matmul *x, const struct call *c,
                          cublasLtMatmulHeuristicResult_t out[CANDIDATES], int *n, struct err *e)
{
    *n = 0;
    TRY(CHECK(x, cublasLtMatmulAlgoGetHeuristic, x->handle, c->desc, c->a, c->b, c->d, c->d,
              x->preference, CANDIDATES, out, n));
    if (*n == 0)
        return err_set(e, ST_DEVICE, "cuBLASLt has no algorithm for it");
    return ST_OK;
}

static enum st describe(struct err *e, const struct cuda_product *p, int rows)
{
    return err_add(e, "a product of %d rows with a matrix of %lld x %lld", rows,
                   (long long)p->weight.m, (long long)p->weight.k);
}

enum st cuda_matmul_run(struct cuda_matmul *x, const struct cuda_product *p, int rows,
                        CUstream stream, struct err *e)
{
    const struct cuda_matmul_row *chosen = find(x, p, rows);
    cublasLtMatmulHeuristicResult_t own[CANDIDATES], checked;
    struct call c;
    int n;
    enum st st = begin(x, p, rows, &c, e);
    if (st == ST_OK && chosen && rows != chosen->rows &&
        x->lt.cublasLtMatmulAlgoCheck(x->handle, c.desc, c.a, c.b, c.d, c.d, &chosen->algo,
                                      &checked) != CUBLAS_STATUS_SUCCESS)
        chosen = NULL;
    if (st == ST_OK && !chosen)
        st = heuristics(x, &c, own, &n, e);
    if (st == ST_OK)
        st = multiply(x, p, &c, chosen ? &chosen->algo : &own[0].algo, stream, e);
    end(x, &c);
    return st == ST_OK ? ST_OK : describe(e, p, rows);
}

/* ---- measuring ------------------------------------------------------------------------------- */

struct rotation {
    int64_t layers, next;
    size_t stride;
};

static enum st run_times(struct cuda_matmul *x, const struct cuda_product *p, const struct call *c,
                         const cublasLtMatmulAlgo_t *algo, struct rotation *r, int times,
                         CUstream stream, struct err *e)
{
    for (int i = 0; i < times; i++) {
        struct cuda_product one = *p;
        one.weight.data += (size_t)(r->next++ % r->layers) * r->stride;
        TRY(multiply(x, &one, c, algo, stream, e));
    }
    return ST_OK;
}

static enum st time_one(struct cuda_matmul *x, const struct cuda_product *p, const struct call *c,
                        const cublasLtMatmulAlgo_t *algo, struct rotation *r, CUstream stream,
                        double *s, struct err *e)
{
    TRY(run_times(x, p, c, algo, r, 1, stream, e));
    TRY(gpu_event_record(x->gpu, x->begin, stream, e));
    TRY(run_times(x, p, c, algo, r, RUNS, stream, e));
    TRY(gpu_event_record(x->gpu, x->end, stream, e));
    TRY(gpu_event_wait(x->gpu, x->end, e));
    return gpu_event_s(x->gpu, x->begin, x->end, s, e);
}

static enum st choose(struct cuda_matmul *x, const struct cuda_product *p, const struct call *c,
                      struct rotation *r, CUstream stream, struct cuda_matmul_row *best,
                      struct err *e)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int n;
    TRY(heuristics(x, c, found, &n, e));
    for (int i = 0; i < n; i++) {
        double s;
        if (found[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        TRY(time_one(x, p, c, &found[i].algo, r, stream, &s, e));
        if (best->s > 0 && s >= best->s)
            continue;
        best->s = s;
        best->algo = found[i].algo;
    }
    if (best->s <= 0)
        return err_set(e, ST_DEVICE, "cuBLASLt has no algorithm for it");
    best->s /= RUNS;
    return ST_OK;
}

enum st cuda_matmul_prepare(struct cuda_matmul *x, const struct cuda_product *p, int rows,
                            int64_t layers, size_t stride, CUstream stream, struct err *e)
{
    struct cuda_matmul_row row = {.m = p->weight.m,
                                  .k = p->weight.k,
                                  .rows = cuda_matmul_class(rows),
                                  .flags = flags_of(p),
                                  .dtype = (int)x->dtype};
    struct rotation r = {.layers = layers > 0 ? layers : 1, .stride = stride};
    struct call c;
    if (find(x, p, rows))
        return ST_OK;
    enum st st = begin(x, p, rows, &c, e);
    if (st == ST_OK)
        st = choose(x, p, &c, &r, stream, &row, e);
    end(x, &c);
    if (st != ST_OK)
        return describe(e, p, rows);
    add_row(x, &row);
    x->measured++;
    return ST_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

enum { WORDS = 8 };
static const char suffix[] = "txt";

/* Of this GPU, driver and cuBLASLt. */
static void make_key(const struct cuda_matmul *x, struct buf *key)
{
    char versions[64];
    snprintf(versions, sizeof versions, "gemm 1, driver %d, cuBLASLt %zu", x->gpu->driver_version,
             x->lt.version);
    gpu_cache_key_add(key, versions);
    gpu_cache_key_add(key, x->gpu->facts.name);
}

static bool read_row(const char *line, struct cuda_matmul_row *r)
{
    long long m, k;
    unsigned long long w[WORDS];
    if (sscanf(line, "%d %lld %lld %d %d %lf %llx %llx %llx %llx %llx %llx %llx %llx", &r->dtype,
               &m, &k, &r->rows, &r->flags, &r->s, &w[0], &w[1], &w[2], &w[3], &w[4], &w[5], &w[6],
               &w[7]) != 6 + WORDS)
        return false;
    r->m = m;
    r->k = k;
    for (int i = 0; i < WORDS; i++)
        r->algo.data[i] = w[i];
    return true;
}

static void read_rows(struct cuda_matmul *x)
{
    struct buf key = {0};
    struct sv text;
    make_key(x, &key);
    if (gpu_cache_get(x->arena, x->cache, &key, suffix, &text))
        for (const char *p = text.p; p && *p; p = strchr(p, '\n')) {
            struct cuda_matmul_row r;
            p += *p == '\n';
            if (read_row(p, &r))
                add_row(x, &r);
        }
    buf_free(&key);
}

void cuda_matmul_save(struct cuda_matmul *x)
{
    struct buf text = {0}, key = {0};
    struct err e = {0};
    if (x->measured == 0 || !x->cache)
        return;
    for (int i = 0; i < x->n; i++) {
        const struct cuda_matmul_row *r = &x->rows[i];
        buf_printf(&text, "%d %lld %lld %d %d %.9g", r->dtype, (long long)r->m, (long long)r->k,
                   r->rows, r->flags, r->s);
        for (int w = 0; w < WORDS; w++)
            buf_printf(&text, " %llx", (unsigned long long)r->algo.data[w]);
        buf_putc(&text, '\n');
    }
    make_key(x, &key);
    if (gpu_cache_put(x->cache, &key, suffix, (struct sv){text.p, text.n}, &e) != ST_OK)
        log_debug("the choice of matrix algorithms is not kept: %s", err_cause(&e, 0));
    x->measured = 0;
    buf_free(&text);
    buf_free(&key);
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum st open_desc(struct cuda_matmul *x, cublasLtEpilogue_t epilogue,
                         cublasLtMatmulDesc_t *out, struct err *e)
{
    const cublasOperation_t transposed = CUBLAS_OP_T;
    TRY(CHECK(x, cublasLtMatmulDescCreate, out, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY(CHECK(x, cublasLtMatmulDescSetAttribute, *out, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
              sizeof transposed));
    return CHECK(x, cublasLtMatmulDescSetAttribute, *out, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                 sizeof epilogue);
}

enum st cuda_matmul_open(struct cuda_matmul *x, const struct gpu *gpu, enum cuda_dtype t,
                         struct err *e)
{
    const size_t room = CUDA_MATMUL_WORKSPACE;
    *x = (struct cuda_matmul){.gpu = gpu, .dtype = t, .arena = arena_new()};
    TRY(gpu_cublaslt_open(x->arena, gpu->driver_version, &x->lt, e));
    TRY(CHECK(x, cublasLtCreate, &x->handle));
    TRY(open_desc(x, CUBLASLT_EPILOGUE_DEFAULT, &x->plain, e));
    TRY(open_desc(x, CUBLASLT_EPILOGUE_BIAS, &x->biased, e));
    TRY(CHECK(x, cublasLtMatmulPreferenceCreate, &x->preference));
    TRY(CHECK(x, cublasLtMatmulPreferenceSetAttribute, x->preference,
              CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
    TRY(gpu_alloc(gpu, room, "cuBLASLt's workspace", &x->workspace, e));
    TRY(gpu_event_open(gpu, true, &x->begin, e));
    TRY(gpu_event_open(gpu, true, &x->end, e));
    x->cache = gpu_cache_dir(x->arena, "gemm");
    read_rows(x);
    return ST_OK;
}

void cuda_matmul_close(struct cuda_matmul *x)
{
    if (x->preference)
        x->lt.cublasLtMatmulPreferenceDestroy(x->preference);
    if (x->plain)
        x->lt.cublasLtMatmulDescDestroy(x->plain);
    if (x->biased)
        x->lt.cublasLtMatmulDescDestroy(x->biased);
    if (x->handle)
        x->lt.cublasLtDestroy(x->handle);
    if (x->gpu) {
        gpu_free(x->gpu, &x->workspace);
        gpu_event_close(x->gpu, &x->begin);
        gpu_event_close(x->gpu, &x->end);
    }
    mem_free(x->rows);
    arena_free(&x->arena);
    *x = (struct cuda_matmul){0};
}
