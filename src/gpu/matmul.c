#include "gpu/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gpu/cache.h"
#include "gpu/library.h"
#include "gpu/stream.h"

static const struct {
    const char *name;
    size_t bytes;
    cudaDataType data;
    cublasComputeType_t compute;
} types[GPU_MATMUL_TYPES] = {
    [GPU_MATMUL_F32] = {"f32", 4, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    [GPU_MATMUL_TF32] = {"tf32", 4, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
    [GPU_MATMUL_F16] = {"f16", 2, CUDA_R_16F, CUBLAS_COMPUTE_32F},
    [GPU_MATMUL_BF16] = {"bf16", 2, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
};

const char *gpu_matmul_type_name(enum gpu_matmul_type t)
{
    return types[t].name;
}

size_t gpu_matmul_type_bytes(enum gpu_matmul_type t)
{
    return types[t].bytes;
}

static enum st check(const struct gpu_blas *b, cublasStatus_t status, const char *call,
                     struct err *e)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return ST_OK;
    const char *text =
        b->lt.cublasLtGetStatusString ? b->lt.cublasLtGetStatusString(status) : "an error";
    err_set(e, ST_DEVICE, "%s: %s (%d)", call, text, (int)status);
    if (status == CUBLAS_STATUS_NOT_INITIALIZED)
        err_hint(e, "cuBLASLt %zu and the driver may not fit together: %s", b->lt.version,
                 b->lt.path);
    return ST_DEVICE;
}

#define CHECK(call, ...) check(b, b->lt.call(__VA_ARGS__), #call, e)

/* ---- open, close ----------------------------------------------------------------------------- */

static enum st open_blas(struct gpu_blas *b, struct err *e)
{
    TRY(gpu_cublaslt_open(b->arena, b->g->driver_version, &b->lt, e));
    TRY(CHECK(cublasLtCreate, &b->handle));
    b->workspace_bytes = gpu_matmul_workspace_bytes;
    if (b->workspace_bytes > b->g->total_bytes / 16) /* small devices */
        b->workspace_bytes = b->g->total_bytes / 16;
    return gpu_alloc(b->g, b->workspace_bytes, "the workspace of matrix products", &b->workspace,
                     e);
}

enum st gpu_blas_open(const struct gpu *g, const char *cache, struct gpu_blas *out, struct err *e)
{
    *out = (struct gpu_blas){.g = g, .arena = arena_new()};
    out->cache = cache ? arena_str(out->arena, cache) : NULL;
    if (open_blas(out, e) == ST_OK)
        return ST_OK;
    gpu_blas_close(out);
    return e->st;
}

void gpu_blas_close(struct gpu_blas *b)
{
    if (b->workspace)
        gpu_free(b->g, &b->workspace);
    if (b->handle)
        b->lt.cublasLtDestroy(b->handle);
    arena_free(&b->arena);
    *b = (struct gpu_blas){0};
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* cuBLASLt's matrices are column-major: w is its [k, m] and taken transposed, x its [k, rows], y
 * its [m, rows]. */
static enum st lay_out_rows(struct gpu_blas *b, struct gpu_matmul *p, int64_t rows, struct err *e)
{
    const struct gpu_matmul_shape *s = &p->shape;
    const cudaDataType in = types[s->type].data, out = s->f32_out ? CUDA_R_32F : in;
    TRY(CHECK(cublasLtMatrixLayoutCreate, &p->x, in, (uint64_t)s->k, (uint64_t)rows, s->k));
    return CHECK(cublasLtMatrixLayoutCreate, &p->y, out, (uint64_t)s->m, (uint64_t)rows, s->m);
}

static enum st describe(struct gpu_blas *b, struct gpu_matmul *p, struct err *e)
{
    const struct gpu_matmul_shape *s = &p->shape;
    const cudaDataType in = types[s->type].data;
    const int transposed = CUBLAS_OP_T, bias = CUBLASLT_EPILOGUE_BIAS;
    TRY(CHECK(cublasLtMatmulDescCreate, &p->desc, types[s->type].compute, CUDA_R_32F));
    TRY(CHECK(cublasLtMatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
              sizeof transposed));
    if (s->bias)
        TRY(CHECK(cublasLtMatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias,
                  sizeof bias));
    TRY(CHECK(cublasLtMatrixLayoutCreate, &p->w, in, (uint64_t)s->k, (uint64_t)s->m, s->k));
    return lay_out_rows(b, p, s->rows, e);
}

static enum st propose(struct gpu_blas *b, struct gpu_matmul *p, struct err *e)
{
    cublasLtMatmulPreference_t preference = NULL;
    TRY(CHECK(cublasLtMatmulPreferenceCreate, &preference));
    enum st st = CHECK(cublasLtMatmulPreferenceSetAttribute, preference,
                       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &b->workspace_bytes,
                       sizeof b->workspace_bytes);
    if (st == ST_OK)
        st = CHECK(cublasLtMatmulAlgoGetHeuristic, b->handle, p->desc, p->w, p->x, p->y, p->y,
                   preference, GPU_MATMUL_CANDIDATES, p->candidates, &p->n);
    b->lt.cublasLtMatmulPreferenceDestroy(preference);
    if (st == ST_OK && p->n == 0)
        st = err_set(e, ST_DEVICE, "cuBLASLt proposes no algorithm");
    return st;
}

static void make_key(const struct gpu_blas *b, const struct gpu_matmul_shape *s, struct buf *key)
{
    const struct gpu_device *d = &b->g->facts;
    buf_printf(key, "matmul cublaslt %zu driver %d sm %u.%u sms %u workspace %zu ", b->lt.version,
               b->g->driver_version, d->major, d->minor, d->sms, b->workspace_bytes);
    gpu_cache_key_add(key, d->name);
    buf_printf(key, "%s rows %lld m %lld k %lld bias %d f32_out %d add %d", types[s->type].name,
               (long long)s->rows, (long long)s->m, (long long)s->k, s->bias, s->f32_out, s->add);
}

/* The algorithm that an earlier start found best, if this cuBLASLt still takes it: it then is the
 * only candidate. */
static void recall(struct gpu_blas *b, struct gpu_matmul *p)
{
    struct arena *a = arena_new();
    struct buf key = {0};
    struct sv bytes;
    cublasLtMatmulAlgo_t algo;
    cublasLtMatmulHeuristicResult_t result;
    make_key(b, &p->shape, &key);
    if (gpu_cache_get(a, b->cache, &key, "matmul", &bytes) && bytes.n == sizeof algo) {
        memcpy(&algo, bytes.p, sizeof algo);
        if (b->lt.cublasLtMatmulAlgoCheck(b->handle, p->desc, p->w, p->x, p->y, p->y, &algo,
                                          &result) == CUBLAS_STATUS_SUCCESS &&
            result.workspaceSize <= b->workspace_bytes) {
            result.algo = algo;
            p->candidates[0] = result;
            p->n = 1;
            p->chosen = true;
            b->from_cache++;
        }
    }
    buf_free(&key);
    arena_free(&a);
}

static enum st open_plan(struct gpu_blas *b, struct gpu_matmul *p, struct err *e)
{
    TRY(describe(b, p, e));
    recall(b, p);
    return p->chosen ? ST_OK : propose(b, p, e);
}

enum st gpu_matmul_open(struct gpu_blas *b, const struct gpu_matmul_shape *s,
                        struct gpu_matmul *out, struct err *e)
{
    *out = (struct gpu_matmul){.shape = *s};
    if (open_plan(b, out, e) == ST_OK)
        return ST_OK;
    gpu_matmul_close(b, out);
    return err_add(e, "cannot plan the %s product [%lld, %lld] x [%lld, %lld]", types[s->type].name,
                   (long long)s->rows, (long long)s->k, (long long)s->k, (long long)s->m);
}

static void close_layout(const struct gpu_blas *b, cublasLtMatrixLayout_t *l)
{
    if (*l)
        b->lt.cublasLtMatrixLayoutDestroy(*l);
    *l = NULL;
}

void gpu_matmul_close(struct gpu_blas *b, struct gpu_matmul *m)
{
    close_layout(b, &m->w);
    close_layout(b, &m->x);
    close_layout(b, &m->y);
    if (m->desc)
        b->lt.cublasLtMatmulDescDestroy(m->desc);
    *m = (struct gpu_matmul){0};
}

/* ---- running --------------------------------------------------------------------------------- */

static void *pointer(CUdeviceptr at)
{
    return (void *)(uintptr_t)at;
}

static enum st run(struct gpu_blas *b, const struct gpu_matmul *m, int candidate,
                   const struct gpu_matmul_buffers *at, CUstream stream, struct err *e)
{
    const float one = 1, zero = 0;
    const void *bias = pointer(at->bias);
    if (m->shape.bias)
        TRY(CHECK(cublasLtMatmulDescSetAttribute, m->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                  sizeof bias));
    return CHECK(cublasLtMatmul, b->handle, m->desc, &one, pointer(at->w), m->w, pointer(at->x),
                 m->x, m->shape.add ? &one : &zero, pointer(at->y), m->y, pointer(at->y), m->y,
                 &m->candidates[candidate].algo, pointer(b->workspace), b->workspace_bytes, stream);
}

enum st gpu_matmul_run(struct gpu_blas *b, const struct gpu_matmul *m,
                       const struct gpu_matmul_buffers *at, CUstream stream, struct err *e)
{
    return run(b, m, m->best, at, stream, e);
}

/* The choice among the candidates, if cuBLASLt takes it for these rows, else a proposal of theirs.
 */
static enum st choose_for(struct gpu_blas *b, struct gpu_matmul *m, struct err *e)
{
    cublasLtMatmulHeuristicResult_t result;
    const cublasLtMatmulAlgo_t *algo = &m->candidates[m->best].algo;
    if (b->lt.cublasLtMatmulAlgoCheck(b->handle, m->desc, m->w, m->x, m->y, m->y, algo, &result) ==
            CUBLAS_STATUS_SUCCESS &&
        result.workspaceSize <= b->workspace_bytes)
        return ST_OK;
    m->best = 0;
    return propose(b, m, e);
}

enum st gpu_matmul_run_rows(struct gpu_blas *b, const struct gpu_matmul *m, int64_t rows,
                            const struct gpu_matmul_buffers *at, CUstream stream, struct err *e)
{
    const struct gpu_matmul_shape *s = &m->shape;
    struct gpu_matmul of_rows = *m;
    if (rows == s->rows)
        return gpu_matmul_run(b, m, at, stream, e);
    of_rows.x = of_rows.y = NULL;
    enum st st = lay_out_rows(b, &of_rows, rows, e);
    if (st == ST_OK)
        st = choose_for(b, &of_rows, e);
    if (st == ST_OK)
        st = gpu_matmul_run(b, &of_rows, at, stream, e);
    close_layout(b, &of_rows.x);
    close_layout(b, &of_rows.y);
    return st;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static const struct gpu_matmul_search thorough = {
    .candidates = GPU_MATMUL_CANDIDATES, .rounds = 5, .repeats = 4};

/* A choice under way. */
struct algorithm_search {
    const struct gpu_matmul_search *how;
    const struct gpu_matmul_buffers *at;
    CUstream stream;
    CUevent start, end;
    int64_t turn; /* products so far */
};

static enum st run_times(struct gpu_blas *b, const struct gpu_matmul *m, int candidate, int times,
                         struct algorithm_search *s, struct err *e)
{
    for (int i = 0; i < times; i++) {
        struct gpu_matmul_buffers at = *s->at;
        if (s->how->copies > 0)
            at.w += (size_t)(s->turn++ % s->how->copies) * s->how->stride;
        TRY(run(b, m, candidate, &at, s->stream, e));
    }
    return ST_OK;
}

static enum st time_one(struct gpu_blas *b, const struct gpu_matmul *m, int candidate,
                        struct algorithm_search *search, double *best_s, struct err *e)
{
    TRY(run_times(b, m, candidate, 1, search, e)); /* loads the kernel */
    for (int round = 0; round < search->how->rounds; round++) {
        double s;
        TRY(gpu_event_record(b->g, search->start, search->stream, e));
        TRY(run_times(b, m, candidate, search->how->repeats, search, e));
        TRY(gpu_event_record(b->g, search->end, search->stream, e));
        TRY(gpu_event_wait(b->g, search->end, e));
        TRY(gpu_event_s(b->g, search->start, search->end, &s, e));
        if (round == 0 || s < *best_s)
            *best_s = s;
    }
    return ST_OK;
}

static void remember(struct gpu_blas *b, const struct gpu_matmul *m)
{
    struct err e = {0};
    struct buf key = {0};
    if (!b->cache)
        return;
    make_key(b, &m->shape, &key);
    const struct sv bytes = {(const char *)&m->candidates[m->best].algo,
                             sizeof m->candidates[m->best].algo};
    if (gpu_cache_put(b->cache, &key, "matmul", bytes, &e) != ST_OK)
        log_debug("choices of matrix products are not kept: %s", err_cause(&e, 0));
    buf_free(&key);
}

static enum st choose(struct gpu_blas *b, struct gpu_matmul *m, struct algorithm_search *search,
                      struct err *e)
{
    double best_s = 0, s = 0;
    int timed = 0;
    const int n = m->n < search->how->candidates ? m->n : search->how->candidates;
    for (int i = 0; i < n; i++) {
        /* an algorithm that is proposed and then refused is passed over, unless it is the last hope
         */
        if (time_one(b, m, i, search, &s, e) != ST_OK) {
            struct err lost = {0};
            if (gpu_wait(b->g, &lost) != ST_OK || (timed == 0 && i == n - 1))
                return e->st;
            err_clear(e);
            continue;
        }
        if (timed++ == 0 || s < best_s) {
            best_s = s;
            m->best = i;
        }
    }
    m->chosen = true;
    b->tuned++;
    remember(b, m);
    return ST_OK;
}

enum st gpu_matmul_tune(struct gpu_blas *b, struct gpu_matmul *m,
                        const struct gpu_matmul_buffers *at, const struct gpu_matmul_search *how,
                        CUstream stream, struct err *e)
{
    struct algorithm_search s = {.how = how ? how : &thorough, .at = at, .stream = stream};
    if (m->chosen)
        return ST_OK;
    enum st st = gpu_event_open(b->g, true, &s.start, e);
    if (st == ST_OK)
        st = gpu_event_open(b->g, true, &s.end, e);
    if (st == ST_OK)
        st = choose(b, m, &s, e);
    gpu_event_close(b->g, &s.start);
    gpu_event_close(b->g, &s.end);
    return st;
}
