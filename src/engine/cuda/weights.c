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

/* A tensor's rows on their way, or those of one expert's piece of it. */
struct target {
    struct weight_target to;
    struct weight_place place;
    int64_t first; /* element of the whole tensor that it begins with */
    int64_t n;     /* elements */
};

static struct target target_of(const struct weight_layout *l, const struct tensor *t,
                               const struct weight_place *p, int64_t piece, struct tensor *one)
{
    struct target x = {0};
    *one = weight_piece(t, p, piece, &x.place, &x.first);
    x.to = weight_target_of(l, one, &x.place);
    x.n = tensor_elements(one);
    return x;
}

/* Whether the columns of a row are rows of the matrix; a bias is one such row. */
static bool is_turned(const struct target *x)
{
    return x->place.transposed || x->place.part == WEIGHT_GATE_UP;
}

/* Columns of such a row: out features. */
static int64_t columns_of(const struct target *x)
{
    return x->place.transposed ? x->to.width : x->n;
}

static bool is_paired(const struct target *x)
{
    return x->place.part == WEIGHT_GATE_UP;
}

static int64_t place_of(const struct model *m, const struct target *x, int64_t r)
{
    return x->to.matrix.m ? weight_row(m, &x->place, r) : r;
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

struct weights_loader {
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
    int64_t column, columns, rows, of; /* turned: columns from `column` on, of rows of `of` */
    bool pairs;
};

enum { SHARE = 1 << 16 }; /* elements that a thread converts at a time */

static void convert_share(void *ctx, int64_t item, int thread)
{
    const struct weights_loader *l = ctx;
    const size_t at = (size_t)item * SHARE, left = l->n - at;
    (void)thread;
    tensor_convert(l->t, l->first + at, left < SHARE ? left : SHARE, l->p->dtype,
                   l->out + at * dtype_bytes(l->p->dtype));
}

/* Rows [r, r + rows) of the buffer's piece to their places. */
static enum st send_rows(struct weights_loader *l, const struct target *x, int64_t r, int64_t rows,
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

static enum st load_tensor(struct weights_loader *l, const struct tensor *t, const struct target *x,
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

/* ---- turned ---------------------------------------------------------------------------------- */

enum { TURN = 64 }; /* columns that a thread turns at a time */

/* Column c of the columns under way is row turned_row(c) of the buffer. */
static int64_t turned_row(const struct weights_loader *l, int64_t c)
{
    return l->pairs ? c % 2 * (l->columns / 2) + c / 2 : c;
}

static void turn_share(void *ctx, int64_t item, int thread)
{
    const struct weights_loader *l = ctx;
    const size_t element = dtype_bytes(l->p->dtype);
    const int64_t c0 = item * TURN, n = l->columns - c0 < TURN ? l->columns - c0 : TURN;
    char row[TURN * sizeof(float)];
    (void)thread;
    for (int64_t r = 0; r < l->rows; r++) {
        tensor_convert(l->t, (size_t)(r * l->of + l->column + c0), (size_t)n, l->p->dtype, row);
        for (int64_t c = 0; c < n; c++)
            memcpy(l->out + (size_t)(turned_row(l, c0 + c) * l->rows + r) * element,
                   row + (size_t)c * element, element);
    }
}

/* The columns under way, which stand in the buffer as rows: of pairs in two runs. */
static enum st send_turned(struct weights_loader *l, const struct target *x, struct err *e)
{
    const size_t row = (size_t)l->rows * dtype_bytes(l->p->dtype);
    const int64_t runs = l->pairs ? 2 : 1, n = l->columns / runs;
    for (int64_t i = 0; i < runs; i++) {
        const int64_t to = weight_row(l->p->model, &x->place, l->column + i);
        TRY(gpu_upload(l->p->g, x->to.at + (size_t)to * row, l->out + (size_t)(i * n) * row,
                       (size_t)n * row, l->stream, e));
    }
    return ST_OK;
}

static enum st load_turned(struct weights_loader *l, const struct tensor *t, const struct target *x,
                           struct err *e)
{
    const int64_t of = columns_of(x), rows = x->n / of;
    const size_t row = (size_t)rows * dtype_bytes(l->p->dtype);
    const int64_t fit = (int64_t)(buffer_bytes / row) / 2 * 2;
    ASSERT(fit > 0 && (!is_paired(x) || of % 2 == 0));
    for (int64_t c = 0; c < of; c += fit) {
        const int b = l->next++ % BUFFERS;
        TRY(gpu_event_wait(l->p->g, l->sent[b], e));
        l->t = t;
        l->out = l->buffer[b];
        l->column = c;
        l->columns = of - c < fit ? of - c : fit;
        l->rows = rows;
        l->of = of;
        l->pairs = is_paired(x);
        pool_run(l->pool, (l->columns + TURN - 1) / TURN, turn_share, l);
        TRY(send_turned(l, x, e));
        TRY(gpu_event_record(l->p->g, l->sent[b], l->stream, e));
    }
    return ST_OK;
}

/* ---- random ---------------------------------------------------------------------------------- */

/* whole: the tensor that x is a piece of. */
static enum st make_tensor(struct weights_loader *l, const struct tensor *whole,
                           const struct target *x, struct err *e)
{
    const struct cuda_random *make = l->p->random;
    struct cuda_random_piece piece = {.to = x->to.at, .first = x->first, .n = x->n};
    int64_t to;
    if (is_turned(x)) {
        piece.width = columns_of(x);
        piece.pairs = is_paired(x);
        return make->make(make->self, whole, l->p->seed, l->p->dtype, &piece, l->stream, e);
    }
    const bool together = run_of(l->p->model, x, 0, x->to.rows, &to) == x->to.rows;
    const size_t row = (size_t)x->to.width * dtype_bytes(l->p->dtype);
    piece.to = together ? x->to.at + (size_t)to * row : l->scratch;
    TRY(make->make(make->self, whole, l->p->seed, l->p->dtype, &piece, l->stream, e));
    return together ? ST_OK : send_rows(l, x, 0, x->to.rows, NULL, l->scratch, e);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* found: of the file; NULL = random. */
static enum st take_tensor(struct weights_loader *l, const struct tensor *want,
                           const struct tensor *found, const struct weight_place *place,
                           struct err *e)
{
    for (int64_t i = 0; i < place->pieces; i++) {
        struct tensor one;
        const struct target x = target_of(&l->layout, found ? found : want, place, i, &one);
        if (!found)
            TRY(make_tensor(l, want, &x, e));
        else if (is_turned(&x))
            TRY(load_turned(l, &one, &x, e));
        else
            TRY(load_tensor(l, &one, &x, e));
    }
    return ST_OK;
}

static enum st load_all(struct weights_loader *l, const struct weights *file, struct err *e)
{
    size_t n;
    struct weight_place *places;
    const struct tensor *tensors = model_tensors(l->w->arena, l->p->model, &places, &n), *found;
    for (size_t i = 0; file && i < n; i++) /* a file that lacks something is refused at once */
        TRY(weights_require(file, &tensors[i], &found, e));
    /* gaps between matrices are never read; equal in every start all the same */
    TRY(gpu_fill(l->p->g, l->w->base, 0, l->w->bytes, l->stream, e));
    for (size_t i = 0; i < n && (file || l->p->random); i++) {
        found = NULL;
        if (file)
            TRY(weights_require(file, &tensors[i], &found, e));
        TRY(take_tensor(l, &tensors[i], found, &places[i], e));
    }
    return gpu_stream_wait(l->p->g, l->stream, e);
}

/* Room for the largest row of any tensor, where that is more than the usual buffer. */
static size_t room(const struct model *m, enum dtype dtype)
{
    int64_t widest = m->hidden;
    for (int64_t i = 0; i < m->layers; i++)
        widest = model_intermediate(m, i) > widest ? model_intermediate(m, i) : widest;
    const size_t row = (size_t)widest * dtype_bytes(dtype);
    return row > buffer_bytes ? row : buffer_bytes;
}

static enum st open_loader(struct weights_loader *l, struct err *e)
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

static void close_loader(struct weights_loader *l)
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
    struct weights_loader l = {.p = p, .w = w};
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
