#include "engine/cpu/weights.h"

#include <stddef.h>
#include <string.h>

#include "model/weights.h"

/* ---- layout ---------------------------------------------------------------------------------- */

/* Hands out pieces of one allocation; with base NULL it only counts. */
struct carver {
    float *base;
    size_t used;
};

static float *carve(struct carver *c, size_t floats)
{
    const size_t whole = (floats + 15) / 16 * 16; /* cache lines */
    float *p = c->base ? c->base + c->used : NULL;
    c->used += whole;
    return p;
}

static struct matrix carve_matrix(struct carver *c, const struct kernels *kn, int64_t m, int64_t k,
                                  bool bias)
{
    struct matrix w = {.m = m, .k = k};
    w.data = carve(c, gemm_data_floats(kn, m, k));
    w.bias = bias ? carve(c, gemm_bias_floats(kn, m)) : NULL;
    return w;
}

static struct cpu_norm carve_norm(struct carver *c, const struct model *m)
{
    struct cpu_norm n = {.w = carve(c, (size_t)m->hidden)};
    n.b = m->norm == NORM_LAYER ? carve(c, (size_t)m->hidden) : NULL;
    return n;
}

static struct cpu_layer carve_layer(struct carver *c, const struct kernels *kn,
                                    const struct model *m)
{
    const int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const int64_t up = m->act == ACT_SILU_GATED ? 2 * m->intermediate : m->intermediate;
    struct cpu_layer l = {0};
    l.input_norm = carve_norm(c, m);
    l.qkv = carve_matrix(c, kn, q + 2 * kv, m->hidden, m->attn_bias);
    if (m->qk_norm) {
        l.q_norm = carve(c, (size_t)m->head_dim);
        l.k_norm = carve(c, (size_t)m->head_dim);
    }
    l.out = carve_matrix(c, kn, m->hidden, q, m->attn_bias);
    l.post_norm = carve_norm(c, m);
    l.up = carve_matrix(c, kn, up, m->hidden, m->mlp_bias);
    l.down = carve_matrix(c, kn, m->hidden, m->intermediate, m->mlp_bias);
    return l;
}

/* In the order of use: one forward pass reads the memory from end to end. */
static void lay_out(struct cpu_weights *w, struct carver *c, const struct kernels *kn,
                    const struct model *m)
{
    w->embedding = m->tied ? NULL : carve(c, (size_t)(m->vocab * m->hidden));
    if (m->emb_norm)
        w->emb_norm = carve_norm(c, m);
    for (int64_t i = 0; i < m->layers; i++) {
        const struct cpu_layer l = carve_layer(c, kn, m);
        if (w->layers)
            w->layers[i] = l;
    }
    w->final_norm = carve_norm(c, m);
    w->lm_head = carve_matrix(c, kn, m->vocab, m->hidden, false);
}

size_t cpu_weights_floats(const struct kernels *kn, const struct model *m)
{
    struct cpu_weights w = {0};
    struct carver c = {0};
    lay_out(&w, &c, kn, m);
    return c.used;
}

/* ---- where each tensor goes ------------------------------------------------------------------ */

/* One tensor on its way: the source and the place it goes to. */
struct move {
    struct tensor t; /* name and shape of the model; data NULL = random */
    struct weight_place place;
    const struct matrix *matrix; /* NULL: a vector or the embedding at `to` */
    float *to;
    int64_t first, rows;
};

/* Of a layer: its matrix of that operator. */
static const struct matrix *matrix_of(const struct cpu_weights *w, const struct weight_place *p)
{
    const struct cpu_layer *l = p->layer >= 0 ? &w->layers[p->layer] : NULL;
    switch ((int)p->op) {
    case OP_EMB: /* of a tied model the head is the embedding */
        return w->embedding ? NULL : &w->lm_head;
    case OP_LM_HEAD:
        return &w->lm_head;
    case OP_ATTN_PRE_PROJ:
        return &l->qkv;
    case OP_ATTN_POST_PROJ:
        return &l->out;
    case OP_MLP_UP_PROJ:
        return &l->up;
    case OP_MLP_DOWN_PROJ:
        return &l->down;
    default:
        return NULL;
    }
}

static float *vector_of(const struct cpu_weights *w, const struct weight_place *p)
{
    const struct cpu_layer *l = p->layer >= 0 ? &w->layers[p->layer] : NULL;
    const struct cpu_norm *norm = NULL;
    switch ((int)p->op) {
    case OP_EMB:
        return w->embedding;
    case OP_QK_NORM:
        return p->part == WEIGHT_Q ? l->q_norm : l->k_norm;
    case OP_EMB_NORM:
        norm = &w->emb_norm;
        break;
    case OP_INPUT_NORM:
        norm = &l->input_norm;
        break;
    case OP_POST_ATTN_NORM:
        norm = &l->post_norm;
        break;
    case OP_FINAL_NORM:
        norm = &w->final_norm;
        break;
    default:
        err_bug("a tensor without a place", __FILE__, __LINE__);
    }
    return p->bias ? norm->b : norm->w;
}

/* ---- moving ---------------------------------------------------------------------------------- */

enum { PIECE_FLOATS = 1 << 20 };

struct load {
    const struct kernels *kn;
    const struct model *m;
    uint64_t seed;
    struct move *moves; /* [n] */
    size_t n, cap;
    float **scratch; /* [threads][scratch_floats] */
};

static int64_t row_floats(const struct tensor *t)
{
    return t->n_dims == 2 ? t->dims[1] : 1;
}

/* A vector counts as one row; a bias as one row per output, for they are permuted as rows are. */
static void move_rows(void *ctx, int64_t item, int thread)
{
    const struct load *l = ctx;
    const struct move *mv = &l->moves[item];
    const int64_t k = row_floats(&mv->t);
    float *from = l->scratch[thread];
    if (mv->t.data)
        tensor_to_f32(&mv->t, (size_t)(mv->first * k), (size_t)(mv->rows * k), from);
    else
        model_random_tensor(&mv->t, l->seed, from);
    if (!mv->matrix) {
        memcpy(mv->to + mv->first * k, from, (size_t)(mv->rows * k) * sizeof *from);
        return;
    }
    for (int64_t r = 0; r < mv->rows; r++) {
        const int64_t to = weight_row(l->m, mv->place.part, mv->first + r);
        if (mv->place.bias)
            mv->matrix->bias[to] = from[r];
        else
            gemm_put_row(l->kn, mv->matrix, to, from + r * k);
    }
}

/* A file's tensors are cut into pieces, so that the threads share the large ones; random ones come
 * whole. Returns the scratch floats a thread needs. */
static size_t plan_moves(struct load *l, struct arena *a, const struct move *whole, size_t n)
{
    size_t largest = 0;
    for (int pass = 0; pass < 2; pass++) {
        l->n = 0;
        for (size_t i = 0; i < n; i++) {
            const int64_t rows = whole[i].t.dims[0], k = row_floats(&whole[i].t);
            int64_t step = whole[i].t.data ? PIECE_FLOATS / k : rows;
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

static enum st load_all(struct cpu_weights *w, struct load *l, struct pool *pool,
                        const struct weights *file, struct err *e)
{
    size_t n;
    struct weight_place *places;
    const struct tensor *tensors = model_tensors(w->arena, l->m, &places, &n), *found;
    struct move *whole = arena_array(w->arena, struct move, n);
    for (size_t i = 0; i < n; i++) {
        found = &tensors[i];
        if (file)
            TRY(weights_require(file, &tensors[i], &found, e));
        whole[i].t = *found;
        whole[i].place = places[i];
        whole[i].matrix = matrix_of(w, &places[i]);
        whole[i].to = whole[i].matrix ? NULL : vector_of(w, &places[i]);
    }
    const size_t floats = plan_moves(l, w->arena, whole, n);
    const int threads = pool_threads(pool);
    l->scratch = arena_array(w->arena, float *, threads);
    for (int t = 0; t < threads; t++)
        l->scratch[t] = mem_alloc((floats + 1) * sizeof(float));
    pool_run(pool, (int64_t)l->n, move_rows, l);
    for (int t = 0; t < threads; t++)
        mem_free(l->scratch[t]);
    return ST_OK;
}

enum st cpu_weights_load(struct cpu_weights *w, const struct kernels *kn, struct pool *pool,
                         const struct model *m, const char *dir, uint64_t seed, struct err *e)
{
    *w = (struct cpu_weights){.arena = arena_new(), .floats = cpu_weights_floats(kn, m)};
    w->layers = arena_array(w->arena, struct cpu_layer, m->layers);
    TRY(pages_alloc(&w->pages, w->floats, "weights", e));
    pages_touch(&w->pages, pool);
    lay_out(w, &(struct carver){.base = w->pages.base}, kn, m);

    struct weights *file = NULL;
    if (dir && weights_open(dir, &file, e) != ST_OK)
        return e->st;
    struct load l = {.kn = kn, .m = m, .seed = seed};
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
