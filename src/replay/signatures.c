/* Times copies, sets and matrix products by their signatures. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "gpu/matmul.h"
#include "replay/replay.h"

struct replay_session {
    struct arena *a;
    const struct replay_params *p;
    struct gpu g;
    struct timer timer;
    struct gpu_watch *watch;
    struct gpu_blas blas;
    const char *no_blas; /* why there is none; NULL = not opened yet, or open */
    bool has_blas;
};

/* Half of what is free: the other half is room for what the libraries load. */
static bool fits(const struct replay_session *s, double bytes)
{
    return bytes <= (double)s->g.free_bytes / 2;
}

static const char *too_large(struct replay_session *s, double bytes)
{
    char wanted[STR_BYTES_MAX], free_text[STR_BYTES_MAX];
    str_from_bytes(wanted, bytes < 9e18 ? (int64_t)bytes : INT64_MAX);
    str_from_bytes(free_text, (int64_t)s->g.free_bytes);
    return arena_printf(s->a, "it needs %s of device memory, and %s are free", wanted, free_text);
}

static enum st time_both(struct replay_session *s, timer_step *step, void *self,
                         struct timing *warm, struct timing *cold, struct err *e)
{
    TRY(timer_warm(&s->timer, step, self, 1, warm, e));
    return s->p->cold ? timer_cold(&s->timer, step, self, 1, cold, e) : ST_OK;
}

/* ---- copies and sets ------------------------------------------------------------------------- */

enum copy_kind { TO_DEVICE, TO_HOST, ON_DEVICE, SET, UNKNOWN };

/* Names that tracers give; the first that is part of the name counts. */
static const struct {
    const char *part;
    enum copy_kind kind;
} copy_names[] = {
    {"HtoD", TO_DEVICE}, {"Host-to-Device", TO_DEVICE},
    {"DtoH", TO_HOST},   {"Device-to-Host", TO_HOST},
    {"DtoD", ON_DEVICE}, {"Device-to-Device", ON_DEVICE},
    {"Memset", SET},     {"memset", SET},
    {"MEMSET", SET},
};

static enum copy_kind kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof copy_names / sizeof *copy_names; i++)
        if (strstr(name, copy_names[i].part))
            return copy_names[i].kind;
    return UNKNOWN;
}

struct copy {
    struct replay_session *s;
    enum copy_kind kind;
    size_t bytes;
    CUdeviceptr to, from;
    void *host;
};

static enum st step_copy(void *self, int64_t i, CUstream stream, struct err *e)
{
    const struct copy *c = self;
    const struct gpu *g = &c->s->g;
    (void)i;
    switch (c->kind) {
    case TO_DEVICE:
        return gpu_upload(g, c->to, c->host, c->bytes, stream, e);
    case TO_HOST:
        return gpu_download(g, c->host, c->from, c->bytes, stream, e);
    case ON_DEVICE:
        return gpu_copy(g, c->to, c->from, c->bytes, stream, e);
    case SET:
    case UNKNOWN:
        break;
    }
    return gpu_fill(g, c->to, 0, c->bytes, stream, e);
}

static enum st time_copy(struct replay_session *s, struct copy *c, struct replay_kernel *k,
                         struct err *e)
{
    const struct gpu *g = &s->g;
    const bool to = c->kind != TO_HOST, from = c->kind == TO_HOST || c->kind == ON_DEVICE;
    TRY(gpu_alloc(g, to ? c->bytes : 0, "the buffer to copy to", &c->to, e));
    TRY(gpu_alloc(g, from ? c->bytes : 0, "the buffer to copy from", &c->from, e));
    if (c->kind == TO_DEVICE || c->kind == TO_HOST) {
        TRY(gpu_host_alloc(g, c->bytes, "the host's buffer of copies", &c->host, e));
        memset(c->host, 1, c->bytes);
    }
    return time_both(s, step_copy, c, &k->warm, &k->cold, e);
}

static enum st measure_copy(struct replay_session *s, const struct replay_signature *from,
                            struct replay_kernel *k, struct err *e)
{
    struct copy c = {.s = s, .kind = kind_of(from->name), .bytes = (size_t)from->bytes};
    if (c.kind == UNKNOWN) {
        k->why = "the direction of the copy is not known from its name";
        return ST_OK;
    }
    if (from->bytes == 0) {
        k->why = "its size is not known";
        return ST_OK;
    }
    if (!fits(s, 2.0 * (double)from->bytes)) {
        k->why = too_large(s, 2.0 * (double)from->bytes);
        return ST_OK;
    }
    const enum st st = time_copy(s, &c, k, e);
    gpu_free(&s->g, &c.to);
    gpu_free(&s->g, &c.from);
    gpu_host_free(&s->g, &c.host);
    return st;
}

/* ---- products -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum gpu_matmul_type type;
} dtypes[] = {
    {"c10::BFloat16", GPU_MATMUL_BF16},
    {"bfloat16", GPU_MATMUL_BF16},
    {"bf16", GPU_MATMUL_BF16},
    {"torch.bfloat16", GPU_MATMUL_BF16},
    {"c10::Half", GPU_MATMUL_F16},
    {"float16", GPU_MATMUL_F16},
    {"half", GPU_MATMUL_F16},
    {"fp16", GPU_MATMUL_F16},
    {"f16", GPU_MATMUL_F16},
    {"torch.float16", GPU_MATMUL_F16},
    {"float", GPU_MATMUL_F32},
    {"float32", GPU_MATMUL_F32},
    {"fp32", GPU_MATMUL_F32},
    {"f32", GPU_MATMUL_F32},
    {"torch.float32", GPU_MATMUL_F32},
    {"tf32", GPU_MATMUL_TF32},
};

static bool type_of(const char *dtype, enum gpu_matmul_type *out)
{
    for (size_t i = 0; dtype && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtype, dtypes[i].name) == 0) {
            *out = dtypes[i].type;
            return true;
        }
    return false;
}

struct timed_product {
    struct replay_session *s;
    struct gpu_matmul m;
    struct gpu_matmul_buffers at;
};

static enum st step_product(void *self, int64_t i, CUstream stream, struct err *e)
{
    struct timed_product *p = self;
    (void)i;
    return gpu_matmul_run(&p->s->blas, &p->m, &p->at, stream, e);
}

/* Numbers between -1 and 1 of all magnitudes that matter: how much power a product draws, and under
 * a power cap how long it takes, depends on its data. */
static enum st fill_numbers(struct replay_session *s, CUdeviceptr at, size_t bytes,
                            enum gpu_matmul_type type, struct err *e)
{
    enum { TILE = 1 << 20 };
    unsigned char *tile = arena_alloc(s->a, TILE);
    uint32_t state = 1;
    for (size_t i = 0; i < TILE; i += 4) {
        state = state * 1664525u + 1013904223u;
        const float v = (float)(state >> 8) / 8388608.0f - 1.0f;
        uint32_t bits;
        memcpy(&bits, &v, 4);
        if (type == GPU_MATMUL_BF16)
            bits = bits >> 16 | (bits & 0xffff0000u);
        else if (type == GPU_MATMUL_F16) /* 1/8 to 2, either sign */
            bits = (state & 0x8fff8fffu) | 0x30003000u;
        memcpy(tile + i, &bits, 4);
    }
    for (size_t done = 0; done < bytes; done += TILE) {
        const size_t n = bytes - done < TILE ? bytes - done : TILE;
        TRY(gpu_upload(&s->g, at + done, tile, n, s->timer.stream, e));
    }
    return gpu_stream_wait(&s->g, s->timer.stream, e);
}

static enum st time_product(struct timed_product *p, const struct gpu_matmul_shape *shape,
                            struct timing *warm, struct timing *cold, struct err *e)
{
    struct replay_session *s = p->s;
    const size_t element = gpu_matmul_type_bytes(shape->type);
    const size_t w = (size_t)(shape->m * shape->k) * element;
    const size_t x = (size_t)(shape->rows * shape->k) * element;
    TRY(gpu_alloc(&s->g, w, "the factors of a product", &p->at.w, e));
    TRY(gpu_alloc(&s->g, x, "the factors of a product", &p->at.x, e));
    TRY(gpu_alloc(&s->g, (size_t)(shape->rows * shape->m) * element, "a product", &p->at.y, e));
    TRY(fill_numbers(s, p->at.w, w, shape->type, e));
    TRY(fill_numbers(s, p->at.x, x, shape->type, e));
    TRY(gpu_matmul_tune(&s->blas, &p->m, &p->at, NULL, s->timer.stream, e));
    return time_both(s, step_product, p, warm, cold, e);
}

/* *why is set instead where cuBLASLt does not do this product. */
static enum st measure_product(struct replay_session *s, const struct replay_product *from,
                               struct timing *warm, struct timing *cold, const char **why,
                               struct err *e)
{
    struct timed_product p = {.s = s};
    struct gpu_matmul_shape shape = {.rows = from->m, .m = from->n, .k = from->k};
    if (!type_of(from->dtype, &shape.type)) {
        *why = from->dtype ? arena_printf(s->a, "products of type %s are not measured", from->dtype)
                           : "its type is not known";
        return ST_OK;
    }
    if (from->batch != 1) {
        *why = "products in batches are not measured";
        return ST_OK;
    }
    const double elements = (double)from->m * (double)from->k + (double)from->n * (double)from->k +
                            (double)from->m * (double)from->n;
    const double bytes = elements * (double)gpu_matmul_type_bytes(shape.type);
    if (!fits(s, bytes)) {
        *why = too_large(s, bytes);
        return ST_OK;
    }
    if (gpu_matmul_open(&s->blas, &shape, &p.m, e) != ST_OK) {
        *why = arena_str(s->a, err_cause(e, 0));
        err_clear(e);
        return ST_OK;
    }
    const enum st st = time_product(&p, &shape, warm, cold, e);
    gpu_free(&s->g, &p.at.w);
    gpu_free(&s->g, &p.at.x);
    gpu_free(&s->g, &p.at.y);
    gpu_matmul_close(&s->blas, &p.m);
    return st;
}

static void add_weighted(struct timing *sum, const struct timing *t, double weight)
{
    sum->n = sum->n == 0 || t->n < sum->n ? t->n : sum->n;
    sum->runs += t->runs;
    sum->median_s += weight * t->median_s;
    sum->low_s += weight * t->low_s;
    sum->high_s += weight * t->high_s;
    sum->min_s += weight * t->min_s;
    sum->max_s += weight * t->max_s;
    if (sum->start_wall_ns == 0)
        sum->start_wall_ns = t->start_wall_ns;
    sum->end_wall_ns = t->end_wall_ns;
}

static void open_blas(struct replay_session *s, struct err *e)
{
    if (s->has_blas || s->no_blas)
        return;
    s->has_blas = gpu_blas_open(&s->g, NULL, &s->blas, e) == ST_OK;
    if (!s->has_blas) {
        s->no_blas = arena_str(s->a, err_cause(e, 0));
        log_warn("matrix products are not measured: %s", s->no_blas);
        err_clear(e);
    }
}

/* A kernel that does products of several shapes: the mean of one, by their counts. */
static enum st measure_products(struct replay_session *s, const struct replay_signature *from,
                                struct replay_kernel *k, struct err *e)
{
    struct timing warm = {0}, cold = {0};
    double all = 0;
    for (size_t i = 0; i < from->n_products; i++)
        all += (double)from->products[i].count;
    if (from->n_products == 0) {
        k->why = "the shape of its product is not known";
        return ST_OK;
    }
    open_blas(s, e);
    k->why = s->no_blas;
    for (size_t i = 0; i < from->n_products && !k->why; i++) {
        const struct replay_product *p = &from->products[i];
        struct timing w = {0}, c = {0};
        TRY(measure_product(s, p, &w, &c, &k->why, e));
        add_weighted(&warm, &w, (double)p->count / all);
        if (s->p->cold)
            add_weighted(&cold, &c, (double)p->count / all);
    }
    if (!k->why) {
        k->warm = warm;
        k->cold = cold;
    }
    return ST_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

static enum st measure(struct replay_session *s, const struct replay_signature *from,
                       struct replay_kernel *k, struct err *e)
{
    switch (from->tier) {
    case 1:
        return measure_copy(s, from, k, e);
    case 2:
        return measure_products(s, from, k, e);
    default:
        k->why = "what a kernel of tier 3 computes is not in its signature";
        return ST_OK;
    }
}

static enum st measure_all(struct replay_session *s, const struct replay_signatures *in,
                           struct replay_outcome *out, struct err *e)
{
    struct progress progress;
    enum st st = ST_OK;
    progress_begin(&progress, "replay", "kernels", (int64_t)in->n);
    for (size_t i = 0; st == ST_OK && i < in->n; i++) {
        const struct replay_signature *from = &in->p[i];
        struct replay_kernel *k = &out->kernels.p[i];
        progress_at(&progress, (int64_t)i, from->name);
        if ((st = measure(s, from, k, e)) != ST_OK) {
            k->warm = k->cold = (struct timing){0};
            k->why = st == ST_INTERRUPTED ? "interrupted" : "the GPU failed";
            if (st != ST_INTERRUPTED)
                err_add(e, "cannot time kernel %zu, %s", i + 1, from->name);
        }
    }
    progress_end(&progress);
    return st;
}

enum st replay_signatures(struct arena *a, const struct replay_signatures *in,
                          const struct replay_params *p, struct replay_outcome *out, struct err *e)
{
    struct replay_session s = {.a = a, .p = p};
    char uuid[GPU_UUID_TEXT];
    *out = (struct replay_outcome){0};
    out->kernels.n = in->n;
    out->kernels.p = arena_array(a, struct replay_kernel, in->n);
    for (size_t i = 0; i < in->n; i++)
        out->kernels.p[i] = (struct replay_kernel){.name = in->p[i].name,
                                                   .tier = in->p[i].tier,
                                                   .count = in->p[i].count,
                                                   .bytes = in->p[i].bytes,
                                                   .first = -1,
                                                   .in_context_s = NAN,
                                                   .as_launched_s = NAN,
                                                   .alone_s = NAN,
                                                   .app_s = in->p[i].app_s};
    TRY(gpu_open(p->gpu, &s.g, e));
    out->gpu = s.g.facts;
    gpu_uuid_text(s.g.facts.uuid, uuid);
    gpu_watch_open(uuid, 20, &s.watch);
    enum st st = timer_open(&s.g, &p->timer, &s.timer, e);
    if (st == ST_OK)
        st = measure_all(&s, in, out, e);
    out->under = gpu_watch_take(s.watch);
    gpu_watch_close(&s.watch);
    if (s.has_blas)
        gpu_blas_close(&s.blas);
    timer_close(&s.timer);
    gpu_close(&s.g);
    return st;
}
