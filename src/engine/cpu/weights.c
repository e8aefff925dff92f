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

enum part { WHOLE, Q_ROWS, K_ROWS, V_ROWS, UP_ROWS, INTERLEAVED };
enum owner { MODEL, LAYER };

struct place {
    const char *name; /* after "model.", "transformer." and the layer's number */
    enum owner owner;
    enum part part;
    bool matrix;   /* a row of `struct matrix` at offset, else a float * there */
    size_t offset; /* in struct cpu_weights or struct cpu_layer */
};

#define VEC(name, owner, type, field)                           \
    {                                                           \
        name, owner, WHOLE, false, offsetof(struct type, field) \
    }
#define MAT(name, owner, type, field, part)                   \
    {                                                         \
        name, owner, part, true, offsetof(struct type, field) \
    }

static const struct place places[] = {
    VEC("embed_tokens.weight", MODEL, cpu_weights, embedding),
    VEC("norm.weight", MODEL, cpu_weights, final_norm.w),
    MAT("lm_head.weight", MODEL, cpu_weights, lm_head, WHOLE),
    VEC("input_layernorm.weight", LAYER, cpu_layer, input_norm.w),
    MAT("self_attn.q_proj.", LAYER, cpu_layer, qkv, Q_ROWS),
    MAT("self_attn.k_proj.", LAYER, cpu_layer, qkv, K_ROWS),
    MAT("self_attn.v_proj.", LAYER, cpu_layer, qkv, V_ROWS),
    VEC("self_attn.q_norm.weight", LAYER, cpu_layer, q_norm),
    VEC("self_attn.k_norm.weight", LAYER, cpu_layer, k_norm),
    MAT("self_attn.o_proj.", LAYER, cpu_layer, out, WHOLE),
    VEC("post_attention_layernorm.weight", LAYER, cpu_layer, post_norm.w),
    MAT("mlp.gate_proj.", LAYER, cpu_layer, up, WHOLE),
    MAT("mlp.up_proj.", LAYER, cpu_layer, up, UP_ROWS),
    MAT("mlp.down_proj.", LAYER, cpu_layer, down, WHOLE),
    VEC("word_embeddings.weight", MODEL, cpu_weights, embedding),
    VEC("word_embeddings_layernorm.weight", MODEL, cpu_weights, emb_norm.w),
    VEC("word_embeddings_layernorm.bias", MODEL, cpu_weights, emb_norm.b),
    VEC("input_layernorm.bias", LAYER, cpu_layer, input_norm.b),
    MAT("self_attention.query_key_value.", LAYER, cpu_layer, qkv, INTERLEAVED),
    MAT("self_attention.dense.", LAYER, cpu_layer, out, WHOLE),
    VEC("post_attention_layernorm.bias", LAYER, cpu_layer, post_norm.b),
    MAT("mlp.dense_h_to_4h.", LAYER, cpu_layer, up, WHOLE),
    MAT("mlp.dense_4h_to_h.", LAYER, cpu_layer, down, WHOLE),
    VEC("ln_f.weight", MODEL, cpu_weights, final_norm.w),
    VEC("ln_f.bias", MODEL, cpu_weights, final_norm.b),
};

/* s behind prefix, or NULL. */
static const char *behind(const char *s, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

/* Takes "model.layers.12." or "transformer.h.12." off; *layer -1 = a tensor of the whole model. */
static const char *local_name(const char *name, int64_t *layer)
{
    static const char *const roots[] = {"model.", "transformer."};
    static const char *const lists[] = {"layers.", "h."};
    const char *s = name;
    *layer = -1;
    for (int i = 0; i < 2; i++)
        s = behind(s, roots[i]) ? behind(s, roots[i]) : s;
    for (int i = 0; i < 2; i++) {
        const char *digits = behind(s, lists[i]);
        if (!digits)
            continue;
        int64_t n = 0;
        for (s = digits; *s >= '0' && *s <= '9'; s++)
            n = n * 10 + (*s - '0');
        *layer = n;
        return s + 1;
    }
    return s;
}

/* One tensor on its way: the source and the place it goes to. */
struct move {
    struct tensor t;             /* name and shape of the model; data NULL = random */
    const struct matrix *matrix; /* NULL: a vector or the embedding at `to` */
    float *to;
    enum part part;
    bool bias; /* of the matrix */
    int64_t first, rows;
};

static void find_place(struct cpu_weights *w, const struct model *m, struct move *mv)
{
    int64_t layer;
    const char *local = local_name(mv->t.name, &layer);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const struct place *p = &places[i];
        const char *rest = behind(local, p->name);
        if (!rest || (p->owner == LAYER) != (layer >= 0))
            continue;
        char *owner = layer >= 0 ? (char *)&w->layers[layer] : (char *)w;
        mv->part = p->part;
        mv->bias = strcmp(rest, "bias") == 0;
        if (p->matrix)
            mv->matrix = (const struct matrix *)(void *)(owner + p->offset);
        else
            memcpy(&mv->to, owner + p->offset, sizeof mv->to);
        if (!mv->matrix && !mv->to) { /* tied: the embedding is the head */
            ASSERT(m->tied && p->offset == offsetof(struct cpu_weights, embedding));
            mv->matrix = &w->lm_head;
        }
        return;
    }
    err_bug("a tensor without a place", __FILE__, __LINE__);
}

/* Row of the packed matrix that row r of the tensor becomes. */
static int64_t packed_row(const struct model *m, enum part part, int64_t r)
{
    const int64_t d = m->head_dim, q = m->heads * d, kv = m->kv_heads * d;
    switch (part) {
    case WHOLE:
    case Q_ROWS:
        return r;
    case K_ROWS:
        return q + r;
    case V_ROWS:
        return q + kv + r;
    case UP_ROWS:
        return m->intermediate + r;
    case INTERLEAVED: { /* [head][q, k, v][head_dim] */
        const int64_t head = r / (3 * d), which = r / d % 3;
        return which * q + head * d + r % d;
    }
    }
    return r;
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
        const int64_t to = packed_row(l->m, mv->part, mv->first + r);
        if (mv->bias)
            mv->matrix->bias[to] = from[r];
        else
            gemm_put_row(l->kn, mv->matrix, to, from + r * k);
    }
}

static void shape_text(const struct tensor *t, char out[200])
{
    size_t n = 0;
    out[n++] = '[';
    for (int i = 0; i < t->n_dims && n < 170; i++)
        n += (size_t)snprintf(out + n, 200 - n, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    snprintf(out + n, 200 - n, "]");
}

/* The file's tensor of that name; published BLOOM files leave "transformer." out. */
static enum st find_tensor(const struct weights *file, struct tensor *t, struct err *e)
{
    const struct tensor *found = weights_find(file, t->name);
    const char *bare = behind(t->name, "transformer.");
    if (!found && bare)
        found = weights_find(file, bare);
    if (!found)
        return err_set(e, ST_INPUT, "%s: not in the file", t->name);
    bool same = found->n_dims == t->n_dims;
    for (int i = 0; same && i < t->n_dims; i++)
        same = found->dims[i] == t->dims[i];
    if (!same) {
        char want[200], have[200];
        shape_text(t, want);
        shape_text(found, have);
        return err_set(e, ST_INPUT, "%s: expected %s, found %s", t->name, want, have);
    }
    if (found->dtype != DTYPE_F32 && found->dtype != DTYPE_F16 && found->dtype != DTYPE_BF16)
        return err_set(e, ST_INPUT, "%s: dtype %s, weights are F32, F16 or BF16", t->name,
                       dtype_name(found->dtype));
    t->dtype = found->dtype;
    t->data = found->data;
    t->bytes = found->bytes;
    return ST_OK;
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
    struct tensor *tensors = model_tensors(w->arena, l->m, &n);
    struct move *whole = arena_array(w->arena, struct move, n);
    for (size_t i = 0; i < n; i++) {
        whole[i].t = tensors[i];
        whole[i].t.data = NULL;
        if (file)
            TRY(find_tensor(file, &whole[i].t, e));
        find_place(w, l->m, &whole[i]);
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
