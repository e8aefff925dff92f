/* Roofs of a GPU. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/log.h"
#include "doctor/roofs.h"
#include "gpu/cache.h"
#include "gpu/compile.h"
#include "gpu/library.h"
#include "gpu/matmul.h"
#include "gpu/module.h"
#include "gpu/stream.h"

/* As in kernels/roofs.cu. */
enum { THREADS = 512, PER_THREAD = 8, BLOCK_BYTES = THREADS * PER_THREAD * 16 };
enum { LAUNCHES = 1000, MAX_REPEATS = 1000, ATTEMPTS = 3 };

enum kernel { READ, WRITE, RANDOM, NOTHING, READ_L2, FMA_F64, FMA_F32, FMA_F16, KERNELS };
static const char *const kernel_names[KERNELS] = {"roof_read",    "roof_write",   "roof_random",
                                                  "roof_nothing", "roof_read_l2", "roof_fma_f64",
                                                  "roof_fma_f32", "roof_fma_f16"};

struct roofs_bench {
    const struct roofs_params *p;
    struct roofs *out;
    struct arena *a;
    struct gpu g;
    struct gpu_watch *watch;
    struct gpu_compiler *compiler;
    CUmodule module;
    struct gpu_kernel kernel[KERNELS];
    CUstream stream;
    CUevent start, end;
    struct progress progress;
};

/* ---- sampling -------------------------------------------------------------------------------- */

/* The work that is timed, once. */
typedef enum st step_fn(struct roofs_bench *b, void *ctx, struct err *e);

static enum st time_steps(struct roofs_bench *b, step_fn *step, void *ctx, int repeats,
                          double *device_s, double *host_s, struct err *e)
{
    const int64_t start_ns = clock_mono_ns();
    TRY(gpu_event_record(&b->g, b->start, b->stream, e));
    for (int i = 0; i < repeats; i++)
        TRY(step(b, ctx, e));
    TRY(gpu_event_record(&b->g, b->end, b->stream, e));
    TRY(gpu_event_wait(&b->g, b->end, e));
    *host_s = ns_to_s(clock_mono_ns() - start_ns);
    return gpu_event_s(&b->g, b->start, b->end, device_s, e);
}

/* Runs the work until the clocks had time to rise, and says how often it fits into one sample. */
static enum st warm_up(struct roofs_bench *b, step_fn *step, void *ctx, int *repeats, struct err *e)
{
    double device_s, host_s;
    const int64_t start_ns = clock_mono_ns();
    TRY(time_steps(b, step, ctx, 1, &device_s, &host_s, e)); /* loads what is loaded late */
    do
        TRY(time_steps(b, step, ctx, 1, &device_s, &host_s, e));
    while (ns_to_s(clock_mono_ns() - start_ns) < (b->p->warm_up_s > 0 ? b->p->warm_up_s : 0.2));
    const double fit = (b->p->sample_s > 0 ? b->p->sample_s : 0.02) / host_s;
    *repeats = fit < 1 ? 1 : fit > MAX_REPEATS ? MAX_REPEATS : (int)fit;
    return ST_OK;
}

/* Keeps samples if the clocks were not held down by heat or the hardware. */
static bool keep(struct roofs_bench *b, struct roof *r, double *samples)
{
    r->gpu = true;
    r->under = gpu_watch_take(b->watch);
    if (!gpu_reasons_reject(r->under.reasons)) {
        roof_set(r, samples, ROOF_SAMPLES);
        r->why = NULL;
        return true;
    }
    r->rejected += ROOF_SAMPLES;
    r->why =
        arena_printf(b->a, "clocks were held down: %s", gpu_reason_words(b->a, r->under.reasons));
    return false;
}

/* A rate: `amount` of one step over its seconds. */
static enum st sample_rate(struct roofs_bench *b, enum roof_id id, step_fn *step, void *ctx,
                           double amount, struct err *e)
{
    double samples[ROOF_SAMPLES];
    int repeats;
    progress_at(&b->progress, id, roof_name(id));
    TRY(roofs_stopped(b->p, e));
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        TRY(warm_up(b, step, ctx, &repeats, e));
        gpu_watch_take(b->watch);
        for (int i = 0; i < ROOF_SAMPLES; i++) {
            double device_s, host_s;
            TRY(time_steps(b, step, ctx, repeats, &device_s, &host_s, e));
            samples[i] = amount * repeats / device_s;
        }
        if (keep(b, &b->out->roof[id], samples))
            break;
    }
    return ST_OK;
}

static enum st launch(struct roofs_bench *b, enum kernel k, unsigned blocks, void **params,
                      struct err *e)
{
    const struct gpu_launch l = {.grid.x = blocks, .block.x = THREADS};
    return gpu_launch(&b->g, &b->kernel[k], &l, params, b->stream, e);
}

/* ---- device memory --------------------------------------------------------------------------- */

struct buffers {
    CUdeviceptr a, b, sums;
    unsigned blocks; /* a and b are of so many * BLOCK_BYTES */
    unsigned factor;
};

static enum st step_read(struct roofs_bench *b, void *ctx, struct err *e)
{
    struct buffers *m = ctx;
    void *params[] = {&m->a, &m->sums};
    return launch(b, READ, m->blocks, params, e);
}

static enum st step_write(struct roofs_bench *b, void *ctx, struct err *e)
{
    struct buffers *m = ctx;
    void *params[] = {&m->a, &m->factor};
    return launch(b, WRITE, m->blocks, params, e);
}

static enum st step_copy(struct roofs_bench *b, void *ctx, struct err *e)
{
    struct buffers *m = ctx;
    return gpu_copy(&b->g, m->b, m->a, (size_t)m->blocks * BLOCK_BYTES, b->stream, e);
}

/* Word i of a buffer that was written or copied is i * factor: do the words add up? */
static enum st check_sum(struct roofs_bench *b, struct buffers *m, CUdeviceptr at, const char *what,
                         struct err *e)
{
    const uint64_t n = (uint64_t)m->blocks * BLOCK_BYTES / 4;
    const uint32_t expected = (uint32_t)((n % 2 ? (n - 1) / 2 * n : n / 2 * (n - 1)) * m->factor);
    uint32_t sum = 0, *sums = arena_array(b->a, uint32_t, m->blocks);
    void *params[] = {&at, &m->sums};
    TRY(gpu_fill(&b->g, m->sums, 0, m->blocks * sizeof *sums, b->stream, e));
    TRY(launch(b, READ, m->blocks, params, e));
    TRY(gpu_download(&b->g, sums, m->sums, m->blocks * sizeof *sums, b->stream, e));
    TRY(gpu_stream_wait(&b->g, b->stream, e));
    for (unsigned i = 0; i < m->blocks; i++)
        sum += sums[i];
    if (sum == expected)
        return ST_OK;
    return err_set(e, ST_DEVICE, "%s: the words add up to %u, not to %u", what, sum, expected);
}

static enum st measure_buffers(struct roofs_bench *b, struct buffers *m, struct err *e)
{
    static const struct {
        enum roof_id id;
        step_fn *step;
        int times; /* that a byte of the buffer is moved */
    } rows[] = {{ROOF_GPU_WRITE, step_write, 1},
                {ROOF_GPU_READ, step_read, 1},
                {ROOF_GPU_COPY, step_copy, 2}};
    const size_t bytes = (size_t)m->blocks * BLOCK_BYTES;
    TRY(gpu_alloc(&b->g, bytes, "the buffer to read and write", &m->a, e));
    TRY(gpu_alloc(&b->g, bytes, "the buffer to copy to", &m->b, e));
    TRY(gpu_alloc(&b->g, m->blocks * sizeof(uint32_t), "the sums", &m->sums, e));
    TRY(gpu_fill(&b->g, m->b, 0xff, bytes, b->stream, e));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct roof *r = &b->out->roof[rows[i].id];
        TRY(sample_rate(b, rows[i].id, rows[i].step, m, (double)bytes * rows[i].times, e));
        r->buffer_bytes = (double)bytes;
        TRY(check_sum(b, m, rows[i].id == ROOF_GPU_COPY ? m->b : m->a, roof_name(rows[i].id), e));
    }
    return ST_OK;
}

static enum st measure_memory(struct roofs_bench *b, struct err *e)
{
    size_t bytes = (size_t)4 << 30;
    if (bytes > b->g.free_bytes / 4)
        bytes = b->g.free_bytes / 4;
    struct buffers m = {.blocks = (unsigned)(bytes / BLOCK_BYTES), .factor = 3};
    if (m.blocks == 0)
        return err_set(e, ST_DEVICE, "GPU %d has too little free memory to measure", b->g.ordinal);
    enum st st = measure_buffers(b, &m, e);
    gpu_free(&b->g, &m.a);
    gpu_free(&b->g, &m.b);
    gpu_free(&b->g, &m.sums);
    return st;
}

/* ---- the L2 cache ---------------------------------------------------------------------------- */

enum { BLOCKS_OF_SM = 4 }; /* that fill it: THREADS each */

struct cached {
    CUdeviceptr at, sums;
    unsigned blocks, pieces, rounds;
};

static enum st step_cached(struct roofs_bench *b, void *ctx, struct err *e)
{
    struct cached *c = ctx;
    void *params[] = {&c->at, &c->sums, &c->pieces, &c->rounds};
    return launch(b, READ_L2, c->blocks, params, e);
}

/* One launch more, whose sum is known: word i of the memory is i * factor. */
static enum st check_cached(struct roofs_bench *b, struct cached *c, unsigned factor, struct err *e)
{
    const uint64_t words = BLOCK_BYTES / 4;
    uint32_t sum = 0, expected = 0, *sums = arena_array(b->a, uint32_t, c->blocks);
    for (unsigned block = 0; block < c->blocks; block++)
        for (unsigned round = 0; round < c->rounds; round++) {
            const uint64_t first = (block + round) % c->pieces * words;
            expected += (uint32_t)((words * first + words * (words - 1) / 2) * factor);
        }
    TRY(gpu_fill(&b->g, c->sums, 0, c->blocks * sizeof *sums, b->stream, e));
    TRY(step_cached(b, c, e));
    TRY(gpu_download(&b->g, sums, c->sums, c->blocks * sizeof *sums, b->stream, e));
    TRY(gpu_stream_wait(&b->g, b->stream, e));
    for (unsigned i = 0; i < c->blocks; i++)
        sum += sums[i];
    if (sum == expected)
        return ST_OK;
    return err_set(e, ST_DEVICE, "%s: the words add up to %u, not to %u",
                   roof_name(ROOF_GPU_READ_L2), sum, expected);
}

static enum st sample_cached(struct roofs_bench *b, struct cached *c, struct err *e)
{
    unsigned factor = 3;
    const size_t bytes = (size_t)c->pieces * BLOCK_BYTES;
    TRY(gpu_alloc(&b->g, bytes, "the memory of the L2", &c->at, e));
    TRY(gpu_alloc(&b->g, c->blocks * sizeof(uint32_t), "the sums", &c->sums, e));
    TRY(gpu_fill(&b->g, c->sums, 0, c->blocks * sizeof(uint32_t), b->stream, e));
    void *params[] = {&c->at, &factor};
    TRY(launch(b, WRITE, c->pieces, params, e));
    TRY(sample_rate(b, ROOF_GPU_READ_L2, step_cached, c,
                    (double)c->blocks * c->rounds * BLOCK_BYTES, e));
    b->out->roof[ROOF_GPU_READ_L2].buffer_bytes = (double)bytes;
    return check_cached(b, c, factor, e);
}

static enum st measure_l2(struct roofs_bench *b, struct err *e)
{
    size_t bytes = (size_t)b->g.facts.l2_bytes / 4;
    if (bytes > b->g.free_bytes / 4)
        bytes = b->g.free_bytes / 4;
    struct cached c = {.blocks = BLOCKS_OF_SM * (unsigned)b->g.facts.sms,
                       .pieces = (unsigned)(bytes / BLOCK_BYTES),
                       .rounds = 64};
    if (!c.pieces || !c.blocks) {
        b->out->roof[ROOF_GPU_READ_L2].why = "the driver says nothing of an L2 cache, or it is "
                                             "too small";
        return ST_OK;
    }
    enum st st = sample_cached(b, &c, e);
    gpu_free(&b->g, &c.at);
    gpu_free(&b->g, &c.sums);
    return st;
}

/* ---- multiply-adds --------------------------------------------------------------------------- */

struct fma {
    enum kernel kernel;
    CUdeviceptr right;
    unsigned blocks;
    int rounds;
};

static enum st step_fma(struct roofs_bench *b, void *ctx, struct err *e)
{
    struct fma *f = ctx;
    unsigned one = 1;
    void *params[] = {&f->right, &f->rounds, &one, &one};
    return launch(b, f->kernel, f->blocks, params, e);
}

static enum st check_fma(struct roofs_bench *b, struct fma *f, struct err *e)
{
    uint32_t *right = arena_array(b->a, uint32_t, f->blocks), all = 0;
    TRY(gpu_fill(&b->g, f->right, 0, f->blocks * sizeof *right, b->stream, e));
    TRY(step_fma(b, f, e));
    TRY(gpu_download(&b->g, right, f->right, f->blocks * sizeof *right, b->stream, e));
    TRY(gpu_stream_wait(&b->g, b->stream, e));
    for (unsigned i = 0; i < f->blocks; i++)
        all += right[i];
    if (all == f->blocks * THREADS)
        return ST_OK;
    return err_set(e, ST_DEVICE, "%s: the sums of %u of %u threads are right",
                   kernel_names[f->kernel], all, f->blocks * THREADS);
}

static enum st measure_fma(struct roofs_bench *b, struct err *e)
{
    enum { LANES = 16, ROUNDS = 2048 }; /* as in kernels/roofs.cu; enough to end at 2 */
    static const struct {
        enum roof_id id;
        enum kernel kernel;
        double flop; /* of one instruction of a thread */
    } rows[] = {{ROOF_GPU_FMA_F64, FMA_F64, 2},
                {ROOF_GPU_FMA_F32, FMA_F32, 2},
                {ROOF_GPU_FMA_F16, FMA_F16, 4}};
    struct fma f = {.blocks = BLOCKS_OF_SM * (unsigned)b->g.facts.sms, .rounds = ROUNDS};
    if (!f.blocks)
        return err_set(e, ST_DEVICE, "GPU %d has no multiprocessors", b->g.ordinal);
    TRY(gpu_alloc(&b->g, f.blocks * sizeof(uint32_t), "the results", &f.right, e));
    enum st st = gpu_fill(&b->g, f.right, 0, f.blocks * sizeof(uint32_t), b->stream, e);
    for (size_t i = 0; st == ST_OK && i < sizeof rows / sizeof *rows; i++) {
        f.kernel = rows[i].kernel;
        st = sample_rate(b, rows[i].id, step_fma, &f,
                         rows[i].flop * LANES * ROUNDS * THREADS * f.blocks, e);
        if (st == ST_OK)
            st = check_fma(b, &f, e);
    }
    gpu_free(&b->g, &f.right);
    return st;
}

/* ---- products -------------------------------------------------------------------------------- */

struct roofs_product {
    struct gpu_blas blas;
    struct gpu_matmul m;
    struct gpu_matmul_buffers at;
    int64_t size;
};

static enum st step_product(struct roofs_bench *b, void *ctx, struct err *e)
{
    struct roofs_product *p = ctx;
    return gpu_matmul_run(&p->blas, &p->m, &p->at, b->stream, e);
}

static enum st fill_random(struct roofs_bench *b, CUdeviceptr at, uint64_t n, unsigned seed,
                           enum gpu_matmul_type t, struct err *e)
{
    int type = t == GPU_MATMUL_F16 ? 1 : t == GPU_MATMUL_BF16 ? 2 : 0;
    void *params[] = {&at, &n, &seed, &type};
    return launch(b, RANDOM, (unsigned)((n + THREADS - 1) / THREADS), params, e);
}

/* Element i of memory that was downloaded. */
static double element(const void *p, size_t i, enum gpu_matmul_type t)
{
    uint16_t half;
    uint32_t bits;
    float f;
    if (gpu_matmul_type_bytes(t) == 4) {
        memcpy(&f, (const char *)p + 4 * i, 4);
        return (double)f;
    }
    memcpy(&half, (const char *)p + 2 * i, 2);
    if (t == GPU_MATMUL_BF16) {
        bits = (uint32_t)half << 16;
        memcpy(&f, &bits, 4);
        return (double)f;
    }
    const int exponent = half >> 10 & 31, mantissa = half & 1023;
    const double v = exponent ? ldexp(mantissa + 1024, exponent - 25) : ldexp(mantissa, -24);
    return half & 0x8000 ? -v : v;
}

/* A few elements of y against sums in double precision. */
static enum st check_product(struct roofs_bench *b, struct roofs_product *p, enum gpu_matmul_type t,
                             struct err *e)
{
    enum { SOME = 4 };
    const size_t bytes = gpu_matmul_type_bytes(t), row = (size_t)p->size * bytes;
    char *w = arena_alloc(b->a, SOME * row), *x = arena_alloc(b->a, SOME * row);
    char *y = arena_alloc(b->a, SOME * row);
    double off = 0, all = 0;
    const int64_t step = p->size / SOME;
    for (int i = 0; i < SOME; i++) {
        const size_t at = (size_t)(i * step) * row;
        TRY(gpu_download(&b->g, w + (size_t)i * row, p->at.w + at, row, b->stream, e));
        TRY(gpu_download(&b->g, x + (size_t)i * row, p->at.x + at, row, b->stream, e));
        TRY(gpu_download(&b->g, y + (size_t)i * row, p->at.y + at, row, b->stream, e));
    }
    TRY(gpu_stream_wait(&b->g, b->stream, e));
    for (int i = 0; i < SOME; i++)
        for (int j = 0; j < SOME; j++) {
            double sum = 0;
            for (int64_t k = 0; k < p->size; k++)
                sum += element(x + (size_t)i * row, (size_t)k, t) *
                       element(w + (size_t)j * row, (size_t)k, t);
            const double d = element(y + (size_t)i * row, (size_t)(j * step), t) - sum;
            off += d * d;
            all += sum * sum;
        }
    if (off <= 1e-4 * all) /* 1e-2 of the norm; NaN is more */
        return ST_OK;
    return err_set(e, ST_DEVICE, "%s products are wrong: %.2g of their norm off",
                   gpu_matmul_type_name(t), sqrt(off / all));
}

static enum st measure_product(struct roofs_bench *b, struct roofs_product *p,
                               enum gpu_matmul_type t, enum roof_id id, struct err *e)
{
    const uint64_t n = (uint64_t)(p->size * p->size);
    const struct gpu_matmul_shape shape = {.rows = p->size, .m = p->size, .k = p->size, .type = t};
    TRY(fill_random(b, p->at.w, n, 1, t, e));
    TRY(fill_random(b, p->at.x, n, 2, t, e));
    TRY(gpu_fill(&b->g, p->at.y, 0xff, n * gpu_matmul_type_bytes(t), b->stream, e));
    TRY(gpu_matmul_open(&p->blas, &shape, &p->m, e));
    TRY(gpu_matmul_tune(&p->blas, &p->m, &p->at, NULL, b->stream, e));
    const double flop = 2.0 * (double)p->size * (double)p->size * (double)p->size;
    TRY(sample_rate(b, id, step_product, p, flop, e));
    b->out->roof[id].size = (double)p->size;
    return check_product(b, p, t, e);
}

static enum st measure_each(struct roofs_bench *b, struct roofs_product *p, struct err *e)
{
    static const struct {
        enum gpu_matmul_type type;
        enum roof_id id;
    } rows[] = {{GPU_MATMUL_BF16, ROOF_GPU_GEMM_BF16},
                {GPU_MATMUL_F16, ROOF_GPU_GEMM_F16},
                {GPU_MATMUL_TF32, ROOF_GPU_GEMM_TF32},
                {GPU_MATMUL_F32, ROOF_GPU_GEMM_F32}};
    const size_t bytes = (size_t)(p->size * p->size) * 4;
    CUdeviceptr *at[] = {&p->at.w, &p->at.x, &p->at.y};
    for (int i = 0; i < 3; i++)
        TRY(gpu_alloc(&b->g, bytes, "the matrices of a product", at[i], e));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum st st = measure_product(b, p, rows[i].type, rows[i].id, e);
        gpu_matmul_close(&p->blas, &p->m);
        TRY(st);
    }
    return ST_OK;
}

/* Without cuBLASLt the other roofs are measured all the same. */
static enum st measure_products(struct roofs_bench *b, struct err *e)
{
    struct roofs_product p = {.size = 8192};
    while ((size_t)(p.size * p.size) * 4 > b->g.free_bytes / 32)
        p.size /= 2;
    if (gpu_blas_open(&b->g, NULL, &p.blas, e) != ST_OK) {
        const char *why = arena_str(b->a, err_cause(e, 0));
        for (int id = ROOF_GPU_GEMM_BF16; id <= ROOF_GPU_GEMM_F32; id++)
            b->out->roof[id].why = why;
        err_clear(e);
        return ST_OK;
    }
    const size_t v = p.blas.lt.version;
    b->out->gpu.cublaslt =
        arena_printf(b->a, "%zu.%zu.%zu, %s", v / 10000, v / 100 % 100, v % 100, p.blas.lt.path);
    enum st st = measure_each(b, &p, e);
    gpu_free(&b->g, &p.at.w);
    gpu_free(&b->g, &p.at.x);
    gpu_free(&b->g, &p.at.y);
    gpu_blas_close(&p.blas);
    return st;
}

/* ---- the link -------------------------------------------------------------------------------- */

struct host_link {
    CUdeviceptr device;
    void *host;
    size_t bytes;
};

static enum st step_to_device(struct roofs_bench *b, void *ctx, struct err *e)
{
    struct host_link *l = ctx;
    return gpu_upload(&b->g, l->device, l->host, l->bytes, b->stream, e);
}

static enum st step_to_host(struct roofs_bench *b, void *ctx, struct err *e)
{
    struct host_link *l = ctx;
    return gpu_download(&b->g, l->host, l->device, l->bytes, b->stream, e);
}

static enum st measure_both_ways(struct roofs_bench *b, struct host_link *l, struct err *e)
{
    TRY(gpu_alloc(&b->g, l->bytes, "the buffer of copies", &l->device, e));
    TRY(gpu_host_alloc(&b->g, l->bytes, "the buffer of copies", &l->host, e));
    memset(l->host, 1, l->bytes);
    TRY(sample_rate(b, ROOF_GPU_TO_DEVICE, step_to_device, l, (double)l->bytes, e));
    memset(l->host, 2, l->bytes);
    TRY(sample_rate(b, ROOF_GPU_TO_HOST, step_to_host, l, (double)l->bytes, e));
    for (size_t i = 0; i < l->bytes; i += 4096 - 1)
        if (((const char *)l->host)[i] != 1)
            return err_set(e, ST_DEVICE, "byte %zu did not come back from the GPU", i);
    b->out->roof[ROOF_GPU_TO_DEVICE].buffer_bytes = b->out->roof[ROOF_GPU_TO_HOST].buffer_bytes =
        (double)l->bytes;
    return ST_OK;
}

static enum st measure_link(struct roofs_bench *b, struct err *e)
{
    struct host_link l = {.bytes = (size_t)256 << 20};
    if (l.bytes > b->g.free_bytes / 8)
        l.bytes = b->g.free_bytes / 8;
    enum st st = measure_both_ways(b, &l, e);
    gpu_free(&b->g, &l.device);
    gpu_host_free(&b->g, &l.host);
    return st;
}

/* ---- launches -------------------------------------------------------------------------------- */

static enum st launch_nothing(struct roofs_bench *b, int n, struct err *e)
{
    const struct gpu_launch l = {.grid.x = 1, .block.x = 32};
    for (int i = 0; i < n; i++)
        TRY(gpu_launch(&b->g, &b->kernel[NOTHING], &l, NULL, b->stream, e));
    return ST_OK;
}

/* One sample of `ids`: device seconds of a launch or node, and the host's seconds of the call. */
static enum st sample_launches(struct roofs_bench *b, CUgraphExec graph, double *device_s,
                               double *host_s, struct err *e)
{
    TRY(gpu_stream_wait(&b->g, b->stream, e));
    TRY(gpu_event_record(&b->g, b->start, b->stream, e));
    const int64_t start_ns = clock_mono_ns();
    if (graph)
        TRY(gpu_graph_launch(&b->g, graph, b->stream, e));
    else
        TRY(launch_nothing(b, LAUNCHES, e));
    *host_s = ns_to_s(clock_mono_ns() - start_ns) / (graph ? 1 : LAUNCHES);
    TRY(gpu_event_record(&b->g, b->end, b->stream, e));
    TRY(gpu_event_wait(&b->g, b->end, e));
    TRY(gpu_event_s(&b->g, b->start, b->end, device_s, e));
    *device_s /= LAUNCHES;
    return ST_OK;
}

static enum st sample_both(struct roofs_bench *b, CUgraphExec graph, enum roof_id device,
                           enum roof_id host, struct err *e)
{
    double device_s[ROOF_SAMPLES], host_s[ROOF_SAMPLES];
    progress_at(&b->progress, device, roof_name(device));
    TRY(roofs_stopped(b->p, e));
    for (int i = -3; i < ROOF_SAMPLES; i++) /* three to warm up */
        TRY(sample_launches(b, graph, &device_s[i < 0 ? 0 : i], &host_s[i < 0 ? 0 : i], e));
    roof_set(&b->out->roof[device], device_s, ROOF_SAMPLES);
    roof_set(&b->out->roof[host], host_s, ROOF_SAMPLES);
    b->out->roof[device].size = b->out->roof[host].size = LAUNCHES;
    return ST_OK;
}

static enum st measure_launches(struct roofs_bench *b, struct err *e)
{
    CUgraphExec graph = NULL;
    TRY(sample_both(b, NULL, ROOF_GPU_LAUNCH, ROOF_GPU_LAUNCH_HOST, e));
    TRY(gpu_capture_begin(&b->g, b->stream, e));
    enum st st = launch_nothing(b, LAUNCHES, e);
    struct err ended = {0};
    enum st end = gpu_capture_end(&b->g, b->stream, &graph, NULL, &ended);
    if (st == ST_OK && end != ST_OK) {
        *e = ended;
        st = end;
    }
    if (st == ST_OK)
        st = sample_both(b, graph, ROOF_GPU_GRAPH_NODE, ROOF_GPU_GRAPH_LAUNCH, e);
    gpu_graph_close(&b->g, &graph);
    return st;
}

/* ---- all ------------------------------------------------------------------------------------- */

static enum st open_kernels(struct roofs_bench *b, struct err *e)
{
    const struct embed_file *file = embed_find(embed_doctor, "roofs.cu");
    const struct gpu_source source = {.name = "roofs.cu", .text = file->bytes};
    const int64_t start_ns = clock_mono_ns();
    struct gpu_nvrtc nvrtc;
    struct sv image;
    char arch[GPU_ARCH_MAX];
    TRY(gpu_nvrtc_open(b->a, b->g.driver_version, &nvrtc, e));
    gpu_compiler_open(&nvrtc, b->p->cache, &b->compiler);
    b->out->gpu.nvrtc = arena_printf(b->a, "%d.%d, %s", nvrtc.major, nvrtc.minor, nvrtc.path);
    if (!gpu_compile_arch(b->compiler, b->g.facts.major, b->g.facts.minor, arch))
        return err_set(e, ST_DEVICE, "NVRTC %d.%d knows no GPU of compute capability %u.%u",
                       nvrtc.major, nvrtc.minor, b->g.facts.major, b->g.facts.minor);
    TRY(gpu_compile(b->compiler, b->a, &source, arch, &image, e));
    TRY(gpu_module_load(&b->g, image, source.name, &b->module, e));
    for (int k = 0; k < KERNELS; k++)
        TRY(gpu_kernel_find(&b->g, b->module, kernel_names[k], 0, &b->kernel[k], e));
    const struct gpu_compile_stats s = gpu_compile_stats(b->compiler);
    b->out->gpu.kernels_compiled = s.compiled;
    b->out->gpu.kernels_from_cache = s.from_cache;
    b->out->gpu.kernels_s = ns_to_s(clock_mono_ns() - start_ns);
    return ST_OK;
}

static void fill_facts(struct roofs_bench *b)
{
    const struct gpu_device *d = &b->g.facts;
    const struct gpu_limits l = gpu_watch_limits(b->watch);
    char uuid[GPU_UUID_TEXT];
    gpu_uuid_text(d->uuid, uuid);
    b->out->has_gpu = true;
    b->out->gpu = (struct roofs_gpu){
        .name = arena_str(b->a, d->name),
        .uuid = arena_str(b->a, uuid),
        .compute_capability = arena_printf(b->a, "%u.%u", d->major, d->minor),
        .driver = l.driver[0] ? arena_str(b->a, l.driver) : NULL,
        .cuda = arena_printf(b->a, "%d.%d", b->g.driver_version / 1000,
                             b->g.driver_version % 1000 / 10),
        .sms = d->sms,
        .memory_bytes = (int64_t)b->g.total_bytes,
        .l2_bytes = d->l2_bytes,
        .power_limit_w = l.power_limit_w,
        .max_sm_mhz = l.max_sm_mhz,
        .max_memory_mhz = l.max_memory_mhz,
        .mig = l.mig,
    };
}

static enum st measure(struct roofs_bench *b, struct err *e)
{
    TRY(gpu_stream_open(&b->g, &b->stream, e));
    TRY(gpu_event_open(&b->g, true, &b->start, e));
    TRY(gpu_event_open(&b->g, true, &b->end, e));
    TRY(open_kernels(b, e));
    TRY(measure_memory(b, e));
    TRY(measure_l2(b, e));
    TRY(measure_fma(b, e));
    TRY(measure_products(b, e));
    TRY(measure_link(b, e));
    /* read now: the link slows down while it is idle */
    const struct gpu_limits l = gpu_watch_limits(b->watch);
    b->out->gpu.pcie_generation = l.pcie_generation;
    b->out->gpu.pcie_lanes = l.pcie_lanes;
    return measure_launches(b, e);
}

enum st roofs_measure_gpu(struct arena *a, const struct roofs_params *p, struct roofs *out,
                          struct err *e)
{
    struct roofs_bench b = {.p = p, .out = out, .a = a};
    char uuid[GPU_UUID_TEXT];
    if (gpu_open(p->gpu, &b.g, e) != ST_OK) {
        int last = 0;
        while (err_cause(e, last + 1))
            last++;
        out->no_gpu = arena_str(a, err_cause(e, last));
        err_clear(e);
        return ST_OK;
    }
    gpu_uuid_text(b.g.facts.uuid, uuid);
    gpu_watch_open(uuid, 20, &b.watch);
    fill_facts(&b);
    progress_begin(&b.progress, "doctor", "roofs", ROOF_COUNT);
    enum st st = measure(&b, e);
    progress_end(&b.progress);
    gpu_module_close(&b.g, &b.module);
    gpu_compiler_close(&b.compiler);
    gpu_event_close(&b.g, &b.start);
    gpu_event_close(&b.g, &b.end);
    gpu_stream_close(&b.g, &b.stream);
    gpu_watch_close(&b.watch);
    gpu_close(&b.g);
    return st == ST_OK ? st : err_add(e, "cannot measure GPU %d", p->gpu);
}
