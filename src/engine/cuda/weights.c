#include "engine/cuda/weights.h"

#include <string.h>

#include "engine/cpu/pool.h"
#include "gpu/stream.h"

/* ---- layout ---------------------------------------------------------------------------------- */

static struct weight_sizes sizes_of(enum dtype dtype)
{
    return (struct weight_sizes){.element = dtype_bytes(dtype), .align = 256};
}

size_t cuda_weights_bytes(const struct model *m, enum dtype dtype)
{
    const struct weight_sizes s = sizes_of(dtype);
    return weight_layout_bytes(m, &s);
}

static void lay_out(struct cuda_weights *w, const struct model *m, struct weight_layout *l)
{
    const struct weight_sizes s = sizes_of(w->dtype);
    weight_layout_make(w->arena, m, &s, w->base, l);
    w->layers = l->layers;
    w->emb_norm = l->emb_norm;
    w->final_norm = l->final_norm;
    w->embedding = l->embedding;
    w->lm_head = l->lm_head;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A tensor's rows on their way. */
struct target {
    struct weight_target to;
    const struct weight_place *place;
};

static int64_t place_of(const struct model *m, const struct target *x, int64_t r)
{
    return x->to.matrix.m ? weight_row(m, x->place, r) : r;
}

/* How many rows from r on stay together, at most `most`; *to is where the first goes. */
static int64_t run_of(const struct model *m, const struct target *x, int64_t r, int64_t most,
                      int64_t *to)
{
    *to = place_of(m, x, r);
    int64_t n = 1;
    while (n < most && place_of(m, x, r + n) == *to + n)
        n++;
    return n;
}

/* ---- loading --------------------------------------------------------------------------------- */

enum { BUFFERS = 2 };
static const size_t buffer_bytes = 32 << 20;

struct loader {
    const struct cuda_weights_params *p;
    struct cuda_weights *w;
    struct weight_layout layout;
    CUstream stream;
    struct pool *pool;
    void *buffer[BUFFERS]; /* page-locked */
    CUevent sent[BUFFERS]; /* its last copy */
    int next;
    CUdeviceptr scratch; /* random rows that are moved afterwards */
    size_t scratch_bytes;
    const struct tensor *t; /* that is converted */
    size_t first, n;
    char *out;
};

enum { SHARE = 1 << 16 }; /* elements that a thread converts at a time */

static void convert_share(void *ctx, int64_t item, int thread)
{
    const struct loader *l = ctx;
    const size_t at = (size_t)item * SHARE, left = l->n - at;
    (void)thread;
    tensor_convert(l->t, l->first + at, left < SHARE ? left : SHARE, l->p->dtype,
                   l->out + at * dtype_bytes(l->p->dtype));
}

/* Rows [r, r + rows) of the buffer's piece to their places. */
static enum st send_rows(struct loader *l, const struct target *x, int64_t r, int64_t rows,
                         const char *from, CUdeviceptr from_device, struct err *e)
{
    const size_t row = (size_t)x->to.width * dtype_bytes(l->p->dtype);
    for (int64_t i = 0, to, n; i < rows; i += n) {
        n = run_of(l->p->model, x, r + i, rows - i, &to);
        const CUdeviceptr at = x->to.at + (size_t)to * row;
        const size_t bytes = (size_t)n * row, skip = (size_t)i * row;
        if (from)
            TRY(gpu_upload(l->p->g, at, from + skip, bytes, l->stream, e));
        else
            TRY(gpu_copy(l->p->g, at, from_device + skip, bytes, l->stream, e));
    }
    return ST_OK;
}

static enum st load_tensor(struct loader *l, const struct tensor *t, const struct target *x,
                           struct err *e)
{
    const size_t row = (size_t)x->to.width * dtype_bytes(l->p->dtype);
    const int64_t fit = row < buffer_bytes ? (int64_t)(buffer_bytes / row) : 1;
    for (int64_t r = 0; r < x->to.rows; r += fit) {
        const int64_t rows = x->to.rows - r < fit ? x->to.rows - r : fit;
        const int b = l->next++ % BUFFERS;
        TRY(gpu_event_wait(l->p->g, l->sent[b], e));
        l->t = t;
        l->first = (size_t)(r * x->to.width);
        l->n = (size_t)(rows * x->to.width);
        l->out = l->buffer[b];
        pool_run(l->pool, (int64_t)((l->n + SHARE - 1) / SHARE), convert_share, l);
        TRY(send_rows(l, x, r, rows, l->buffer[b], 0, e));
        TRY(gpu_event_record(l->p->g, l->sent[b], l->stream, e));
    }
    return ST_OK;
}

static enum st make_tensor(struct loader *l, const struct tensor *t, const struct target *x,
                           struct err *e)
{
    const struct cuda_random *make = l->p->random;
    int64_t to;
    const bool together = run_of(l->p->model, x, 0, x->to.rows, &to) == x->to.rows;
    const size_t row = (size_t)x->to.width * dtype_bytes(l->p->dtype);
    if (together)
        return make->make(make->self, t, l->p->seed, l->p->dtype, x->to.at + (size_t)to * row,
                          l->stream, e);
    TRY(make->make(make->self, t, l->p->seed, l->p->dtype, l->scratch, l->stream, e));
    return send_rows(l, x, 0, x->to.rows, NULL, l->scratch, e);
}

static enum st load_all(struct loader *l, const struct weights *file, struct err *e)
{
    size_t n;
    struct weight_place *places;
    const struct tensor *tensors = model_tensors(l->w->arena, l->p->model, &places, &n), *found;
    for (size_t i = 0; file && i < n; i++) /* a file that lacks something is refused at once */
        TRY(weights_require(file, &tensors[i], &found, e));
    /* gaps between matrices are never read; equal in every start all the same */
    TRY(gpu_fill(l->p->g, l->w->base, 0, l->w->bytes, l->stream, e));
    for (size_t i = 0; i < n && (file || l->p->random); i++) {
        const struct target x = {weight_target_of(&l->layout, &tensors[i], &places[i]), &places[i]};
        if (!file) {
            TRY(make_tensor(l, &tensors[i], &x, e));
            continue;
        }
        TRY(weights_require(file, &tensors[i], &found, e));
        TRY(load_tensor(l, found, &x, e));
    }
    return gpu_stream_wait(l->p->g, l->stream, e);
}

/* Room for the largest row of any tensor, where that is more than the usual buffer. */
static size_t room(const struct model *m, enum dtype dtype)
{
    const int64_t widest = m->hidden > m->intermediate ? m->hidden : m->intermediate;
    const size_t row = (size_t)widest * dtype_bytes(dtype);
    return row > buffer_bytes ? row : buffer_bytes;
}

static enum st open_loader(struct loader *l, struct err *e)
{
    const struct cuda_weights_params *p = l->p;
    const struct model *m = p->model;
    TRY(gpu_stream_open(p->g, &l->stream, e));
    if (!p->dir) { /* BLOOM's qkv is the only one whose rows move */
        l->scratch_bytes = (size_t)((m->heads + 2 * m->kv_heads) * m->head_dim * m->hidden) *
                           dtype_bytes(p->dtype);
        return gpu_alloc(p->g, l->scratch_bytes, "the rows of a random tensor", &l->scratch, e);
    }
    TRY(pool_open(p->threads, &l->pool, e));
    for (int b = 0; b < BUFFERS; b++) {
        TRY(gpu_host_alloc(p->g, room(m, p->dtype), "a buffer for weights", &l->buffer[b], e));
        TRY(gpu_event_open(p->g, false, &l->sent[b], e));
        TRY(gpu_event_record(p->g, l->sent[b], l->stream, e));
    }
    return ST_OK;
}

static void close_loader(struct loader *l)
{
    const struct gpu *g = l->p->g;
    struct err ignored = {0};
    if (l->stream)
        gpu_stream_wait(g, l->stream, &ignored); /* nothing is freed under a copy */
    for (int b = 0; b < BUFFERS; b++) {
        gpu_event_close(g, &l->sent[b]);
        gpu_host_free(g, &l->buffer[b]);
    }
    gpu_free(g, &l->scratch);
    gpu_stream_close(g, &l->stream);
    pool_close(&l->pool);
}

static enum st load(const struct cuda_weights_params *p, struct cuda_weights *w, struct err *e)
{
    struct loader l = {.p = p, .w = w};
    struct weights *file = NULL;
    w->bytes = cuda_weights_bytes(p->model, p->dtype);
    if (p->dir)
        TRY(weights_open(p->dir, &file, e));
    enum st st = gpu_alloc(p->g, w->bytes, "the weights", &w->base, e);
    if (st == ST_OK) {
        lay_out(w, p->model, &l.layout);
        st = open_loader(&l, e);
    }
    if (st == ST_OK)
        st = load_all(&l, file, e);
    close_loader(&l);
    weights_close(&file);
    return st;
}

enum st cuda_weights_load(const struct cuda_weights_params *p, struct cuda_weights *out,
                          struct err *e)
{
    *out = (struct cuda_weights){.dtype = p->dtype, .arena = arena_new()};
    if (load(p, out, e) == ST_OK)
        return ST_OK;
    cuda_weights_free(p->g, out);
    return p->dir ? err_add(e, "cannot load the weights in %s", p->dir)
                  : err_add(e, "cannot make random weights");
}

void cuda_weights_free(const struct gpu *g, struct cuda_weights *w)
{
    if (w->base)
        gpu_free(g, &w->base);
    arena_free(&w->arena);
    *w = (struct cuda_weights){0};
}
