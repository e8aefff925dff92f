/* libcublasLt.so.13: matrix products in plain C, in the order of their stream. Three algorithms,
 * which differ in virtual time: the second is the fastest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cublaslt.h"
#include "support/fake_gpu/fake_gpu.h"

#define X(name, arguments, needed) FAKE_EXPORT cublasStatus_t name arguments;
GPU_CUBLASLT_LIST(X)
#undef X
FAKE_EXPORT size_t cublasLtGetVersion(void);
FAKE_EXPORT const char *cublasLtGetStatusString(cublasStatus_t status);

struct cublasLtContext {
    int unused;
};

/* What the opaque structures hold here; each is at most as large as theirs. */
struct desc {
    int compute, op_a, op_b, epilogue;
    const void *bias;
};
struct layout {
    int type;
    uint64_t rows, cols;
    int64_t ld;
};
_Static_assert(sizeof(struct desc) <= sizeof(cublasLtMatmulDescOpaque_t), "");
_Static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "");

enum { ALGOS = 3 };
static const double algo_factor[ALGOS] = {1.3, 1.0, 1.6};
static const size_t algo_workspace[ALGOS] = {0, 16 << 10, 4096};

size_t cublasLtGetVersion(void)
{
    return (size_t)fake_script_number("cublaslt", 130000);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                           : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    const int error = fake_script_fail("cublasLtCreate");
    if (error)
        return (cublasStatus_t)error;
    *handle = calloc(1, sizeof **handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType scale)
{
    if (scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = calloc(1, sizeof **out);
    const struct desc d = {.compute = (int)compute, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    memcpy(*out, &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    struct desc d;
    memcpy(&d, desc, sizeof d);
    void *at = NULL;
    size_t want = sizeof(int);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
        at = &d.op_a;
    else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
        at = &d.op_b;
    else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
        at = &d.epilogue;
    else if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
        at = &d.bias, want = sizeof d.bias;
    if (!at || bytes != want)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(at, value, bytes);
    memcpy(desc, &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *out = calloc(1, sizeof **out);
    const struct layout l = {(int)type, rows, cols, ld};
    memcpy(*out, &l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = calloc(1, sizeof **out);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || bytes != sizeof(size_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(preference->data, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

struct product {
    size_t bytes; /* of this struct: fake_gpu_enqueue */
    struct desc d;
    struct layout a, b, c;
    const void *a_at, *b_at, *c_at;
    void *d_at;
    float alpha, beta;
    int algo;
};

static bool takes(const struct product *p, const struct layout *d)
{
    const bool ta = p->d.op_a == CUBLAS_OP_T, tb = p->d.op_b == CUBLAS_OP_T;
    const uint64_t m = ta ? p->a.cols : p->a.rows, k = ta ? p->a.rows : p->a.cols;
    const uint64_t n = tb ? p->b.rows : p->b.cols, k2 = tb ? p->b.cols : p->b.rows;
    return k == k2 && m == d->rows && n == d->cols && p->a.type == p->b.type &&
           p->a.ld >= (int64_t)p->a.rows && p->b.ld >= (int64_t)p->b.rows &&
           d->ld >= (int64_t)d->rows && p->c.rows == d->rows && p->c.cols == d->cols;
}

static bool read_shapes(struct product *p, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                        cublasLtMatrixLayout_t d)
{
    struct layout out;
    memcpy(&p->d, desc, sizeof p->d);
    memcpy(&p->a, a, sizeof p->a);
    memcpy(&p->b, b, sizeof p->b);
    memcpy(&p->c, c, sizeof p->c);
    memcpy(&out, d, sizeof out);
    if (!takes(p, &out))
        return false;
    p->c = out;
    return true;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int want,
                                              cublasLtMatmulHeuristicResult_t *results, int *n)
{
    const int error = fake_script_fail("cublasLtMatmulAlgoGetHeuristic");
    struct product p;
    size_t room;
    (void)handle;
    if (error)
        return (cublasStatus_t)error;
    if (!read_shapes(&p, desc, a, b, c, d))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&room, preference->data, sizeof room);
    *n = 0;
    for (int i = 0; i < ALGOS && *n < want; i++)
        if (algo_workspace[i] <= room) {
            results[*n] = (cublasLtMatmulHeuristicResult_t){.algo.data[0] = (uint64_t)i + 1,
                                                            .workspaceSize = algo_workspace[i]};
            *n += 1;
        }
    return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    struct product p;
    (void)handle;
    if (!read_shapes(&p, desc, a, b, c, d) || algo->data[0] < 1 || algo->data[0] > ALGOS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *result = (cublasLtMatmulHeuristicResult_t){.algo = *algo,
                                                .workspaceSize = algo_workspace[algo->data[0] - 1]};
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static float load(const void *p, int type, size_t i)
{
    uint16_t h;
    uint32_t bits;
    float f;
    if (type == CUDA_R_32F)
        return ((const float *)p)[i];
    h = ((const uint16_t *)p)[i];
    if (type == CUDA_R_16BF) {
        bits = (uint32_t)h << 16;
        memcpy(&f, &bits, 4);
        return f;
    }
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    f = exponent == 0    ? ldexpf((float)mantissa, -24)
        : exponent == 31 ? (mantissa ? NAN : INFINITY)
                         : ldexpf((float)(mantissa + 1024), exponent - 25);
    return h & 0x8000 ? -f : f;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (f != f)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_f16(float f)
{
    const uint16_t sign = signbit(f) ? 0x8000 : 0;
    int e;
    f = fabsf(f);
    if (f != f)
        return 0x7fff;
    if (f >= 65520)
        return sign | 0x7c00;
    frexpf(f, &e); /* f = m * 2^e, m in [0.5, 1) */
    if (e < -13)   /* subnormal: multiples of 2^-24 */
        return (uint16_t)(sign | (int)nearbyintf(ldexpf(f, 24)));
    const int m = (int)nearbyintf(ldexpf(f, 11 - e)); /* 1024 .. 2048 */
    return (uint16_t)(sign | (((e + 14) << 10) + m - 1024));
}

static void store(void *p, int type, size_t i, float f)
{
    if (type == CUDA_R_32F)
        ((float *)p)[i] = f;
    else
        ((uint16_t *)p)[i] = type == CUDA_R_16BF ? to_bf16(f) : to_f16(f);
}

/* op(matrix) with its inner dimension together, in float32: [n][k]. */
static float *unpack(const void *at, const struct layout *l, bool inner_is_rows, uint64_t n,
                     uint64_t k)
{
    float *out = malloc((size_t)(n * k) * sizeof *out);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t x = 0; x < k; x++)
            out[i * k + x] =
                load(at, l->type,
                     (size_t)(inner_is_rows ? x + i * (uint64_t)l->ld : i + x * (uint64_t)l->ld));
    return out;
}

static void multiply(void *ctx)
{
    const struct product *p = ctx;
    const bool ta = p->d.op_a == CUBLAS_OP_T, tb = p->d.op_b == CUBLAS_OP_T;
    const uint64_t m = p->c.rows, n = p->c.cols, k = ta ? p->a.rows : p->a.cols;
    float *a = unpack(p->a_at, &p->a, ta, m, k), *b = unpack(p->b_at, &p->b, !tb, n, k);
    for (uint64_t j = 0; j < n; j++)
        for (uint64_t i = 0; i < m; i++) {
            const size_t at = (size_t)(i + j * (uint64_t)p->c.ld);
            float sum = 0;
            for (uint64_t x = 0; x < k; x++)
                sum += a[i * k + x] * b[j * k + x];
            sum *= p->alpha;
            if (p->beta != 0)
                sum += p->beta * load(p->c_at, p->c.type, at);
            if (p->d.epilogue == CUBLASLT_EPILOGUE_BIAS)
                sum += load(p->d.bias, p->c.type, i);
            store(p->d_at, p->c.type, at, sum);
        }
    free(a);
    free(b);
    fake_gpu_spend_s(2.0 * (double)m * (double)n * (double)k / 3e12 * algo_factor[p->algo]);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, CUstream stream)
{
    const int error = fake_script_fail("cublasLtMatmul");
    struct product p = {.bytes = sizeof p, .a_at = a, .b_at = b, .c_at = c, .d_at = d};
    (void)handle;
    if (error)
        return (cublasStatus_t)error;
    if (!read_shapes(&p, desc, a_layout, b_layout, c_layout, d_layout))
        return CUBLAS_STATUS_INVALID_VALUE;
    p.algo = algo ? (int)algo->data[0] - 1 : 0;
    if (p.algo < 0 || p.algo >= ALGOS || algo_workspace[p.algo] > workspace_bytes ||
        (algo_workspace[p.algo] > 0 && !workspace))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    struct product *ctx = malloc(sizeof *ctx);
    *ctx = p;
    fake_gpu_enqueue(stream, multiply, ctx);
    return CUBLAS_STATUS_SUCCESS;
}
