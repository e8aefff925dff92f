#include "engine/cpu/weights.h"

#include <stddef.h>
#include <string.h>

#include "model/layout.h"
#include "model/random.h"

/* ---- layout ---------------------------------------------------------------------------------- */

static size_t matrix_floats(const void *kn, int64_t m, int64_t k)
{
    return gemm_data_floats(kn, m, k);
}

static size_t bias_floats(const void *kn, int64_t m)
{
    return gemm_bias_floats(kn, m);
}

static struct weight_sizes sizes_of(const struct cpu_kernels *kn)
{
    return (struct weight_sizes){.element = sizeof(float),
                                 .align = 64, /* cache lines */
                                 .matrix = matrix_floats,
                                 .bias = bias_floats,
                                 .ctx = kn};
}

size_t cpu_weights_floats(const struct cpu_kernels *kn, const struct model *m)
{
    const struct weight_sizes s = sizes_of(kn);
    return weight_layout_bytes(m, &s) / sizeof(float);
}

static float *at(uint64_t address)
{
    return (float *)(uintptr_t)address;
}

static struct matrix matrix_at(const struct weight_matrix *w)
{
    return (struct matrix){.m = w->m, .k = w->k, .data = at(w->data), .bias = at(w->bias)};
}

static struct cpu_norm norm_at(const struct weight_norm *n)
{
    return (struct cpu_norm){.w = at(n->w), .b = at(n->b)};
}

static struct matrix *experts_at(struct arena *a, const struct weight_experts *x)
{
    struct matrix *w = arena_array(a, struct matrix, x->n);
    for (int64_t i = 0; i < x->n; i++) {
        const struct weight_matrix one = weight_expert(x, i);
        w[i] = matrix_at(&one);
    }
    return w;
}

static struct cpu_layer layer_at(struct arena *a, const struct weight_layer *l)
{
    return (struct cpu_layer){.input_norm = norm_at(&l->input_norm),
                              .post_norm = norm_at(&l->post_norm),
                              .qkv = matrix_at(&l->qkv),
                              .out = matrix_at(&l->out),
                              .up = matrix_at(&l->up),
                              .down = matrix_at(&l->down),
                              .attn_out_norm = norm_at(&l->attn_out_norm),
                              .mlp_out_norm = norm_at(&l->mlp_out_norm),
                              .router = matrix_at(&l->router),
                              .expert_up = experts_at(a, &l->expert_up),
                              .expert_down = experts_at(a, &l->expert_down),
                              .q_norm = at(l->q_norm),
                              .k_norm = at(l->k_norm),
                              .sinks = at(l->sinks)};
}

static void lay_out(struct cpu_weights *w, const struct cpu_kernels *kn, const struct model *m,
                    struct weight_layout *l)
{
    const struct weight_sizes s = sizes_of(kn);
    weight_layout_make(w->arena, m, &s, (uintptr_t)w->pages.base, l);
    w->embedding = m->tied ? NULL : at(l->embedding);
    w->emb_norm = norm_at(&l->emb_norm);
    for (int64_t i = 0; i < m->layers; i++)
        w->layers[i] = layer_at(w->arena, &l->layers[i]);
    w->final_norm = norm_at(&l->final_norm);
    w->lm_head = matrix_at(&l->lm_head);
}

/* ---- moving ---------------------------------------------------------------------------------- */

enum { PIECE_FLOATS = 1 << 20 };

/* One tensor, or some of its rows, on their way. */
struct move {
    struct tensor t; /* name and shape of the model; data NULL = random */
    struct random_weights random;
    struct weight_place place;
    struct weight_target to;
    int64_t first, rows;
    int64_t piece; /* element of the whole tensor at which t begins */
};

struct weights_load {
    const struct cpu_kernels *kn;
    const struct model *m;
    uint64_t seed;
    struct weight_layout layout;
    struct move *moves; /* [n] */
    size_t n, cap;
    float **scratch; /* [threads][scratch_floats] */
};

/* Rows of a transposed tensor are columns of the matrix. */
static void put_columns(const struct weights_load *l, const struct move *mv,
                        const struct matrix *matrix, const float *from)
{
    const int64_t width = mv->to.width;
    for (int64_t c = 0; c < width; c++) {
        const int64_t row = weight_row(l->m, &mv->place, c);
        for (int64_t r = 0; r < mv->rows; r++)
            *gemm_at(l->kn, matrix, row, mv->first + r) = from[r * width + c];
    }
}

static bool is_norm(const struct weight_place *p)
{
    return !p->bias && p->op != OP_EMB && p->op != OP_ATTN_DECODE;
}

static void put_vector(const struct weights_load *l, const struct move *mv, size_t first, size_t n,
                       float *from)
{
    const float offset = l->m->structure ? (float)l->m->structure->norm_offset : 0;
    for (size_t i = 0; i < n && is_norm(&mv->place); i++)
        from[i] += offset;
    memcpy(at(mv->to.at) + first, from, n * sizeof *from);
}

static void move_rows(void *ctx, int64_t item, int thread)
{
    const struct weights_load *l = ctx;
    const struct move *mv = &l->moves[item];
    const int64_t k = mv->to.width;
    const size_t first = (size_t)(mv->first * k), n = (size_t)(mv->rows * k);
    float *from = l->scratch[thread];
    if (mv->t.data)
        tensor_to_f32(&mv->t, first, n, from);
    else
        random_weights_get(&mv->random, mv->piece + (int64_t)first, n, from);
    if (mv->to.matrix.m == 0) {
        put_vector(l, mv, first, n, from);
        return;
    }
    const struct matrix matrix = matrix_at(&mv->to.matrix);
    if (mv->place.transposed) {
        put_columns(l, mv, &matrix, from);
        return;
    }
    for (int64_t r = 0; r < mv->rows; r++) {
        const int64_t to = weight_row(l->m, &mv->place, mv->first + r);
        if (mv->place.bias)
            matrix.bias[to] = from[r];
        else
            gemm_put_row(l->kn, &matrix, to, from + r * k);
    }
}

/* Tensors are cut into pieces, so that the threads share the large ones. Returns the scratch floats
 * a thread needs. */
static size_t plan_moves(struct weights_load *l, struct arena *a, const struct move *whole,
                         size_t n)
{
    size_t largest = 0;
    for (int pass = 0; pass < 2; pass++) {
        l->n = 0;
        for (size_t i = 0; i < n; i++) {
            const int64_t rows = whole[i].to.rows, k = whole[i].to.width;
            int64_t step = PIECE_FLOATS / k;
            step = step < 1 ? 1 : step;
            for (int64_t r = 0; r < rows; r += step, l->n++) {
                const int64_t left = rows - r, take = left < step ? left : step;
                largest = (size_t)(take * k) > largest ? (size_t)(take * k) : largest;
                if (!pass)
                    continue;
                l->moves[l->n] = whole[i];
                l->moves[l->n].first = r;
                l->moves[l->n].rows = take;
            }
        }
        if (!pass)
            l->moves = arena_array(a, struct move, l->n);
    }
    return largest;
}

static enum st load_all(struct cpu_weights *w, struct weights_load *l, struct pool *pool,
                        const struct weights *file, struct err *e)
{
    size_t n;
    struct weight_place *places;
    const struct tensor *tensors = model_tensors(w->arena, l->m, &places, &n), *found;
    size_t n_pieces = 0, k = 0;
    for (size_t i = 0; i < n; i++)
        n_pieces += (size_t)places[i].pieces;
    struct move *whole = arena_array(w->arena, struct move, n_pieces);
    for (size_t i = 0; i < n; i++) {
        found = &tensors[i];
        if (file)
            TRY(weights_require(file, &tensors[i], &found, e));
        const struct random_weights random = random_weights_of(&tensors[i], l->seed);
        for (int64_t p = 0; p < places[i].pieces; p++, k++) {
            struct move *mv = &whole[k];
            mv->random = random;
            mv->t = weight_piece(found, &places[i], p, &mv->place, &mv->piece);
            mv->to = weight_target_of(&l->layout, &mv->t, &mv->place);
        }
    }
    const size_t floats = plan_moves(l, w->arena, whole, n_pieces);
    const int threads = pool_threads(pool);
    l->scratch = arena_array(w->arena, float *, threads);
    for (int t = 0; t < threads; t++)
        l->scratch[t] = mem_alloc((floats + 1) * sizeof(float));
    pool_run(pool, (int64_t)l->n, move_rows, l);
    for (int t = 0; t < threads; t++)
        mem_free(l->scratch[t]);
    return ST_OK;
}

enum st cpu_weights_load(struct cpu_weights *w, const struct cpu_kernels *kn, struct pool *pool,
                         const struct model *m, const char *dir, uint64_t seed, struct err *e)
{
    *w = (struct cpu_weights){.arena = arena_new(), .floats = cpu_weights_floats(kn, m)};
    w->layers = arena_array(w->arena, struct cpu_layer, m->layers);
    TRY(pages_alloc(&w->pages, w->floats, "weights", e));
    pages_touch(&w->pages, pool);
    struct weights_load l = {.kn = kn, .m = m, .seed = seed};
    lay_out(w, kn, m, &l.layout);

    struct weights *file = NULL;
    if (dir && weights_open(dir, &file, e) != ST_OK)
        return e->st;
    enum st st = load_all(w, &l, pool, file, e);
    if (st != ST_OK)
        err_add(e, "cannot load the weights in %s", dir);
    weights_close(&file);
    return st;
}

void cpu_weights_free(struct cpu_weights *w)
{
    pages_free(&w->pages);
    arena_free(&w->arena);
    *w = (struct cpu_weights){0};
}
