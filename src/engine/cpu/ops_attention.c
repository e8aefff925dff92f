#include <math.h>
#include <string.h>

#include "engine/cpu/forward.h"

/* Attention over the paged cache, for prefill chunks and decode rows alike.
 *
 * The query rows of a segment and a KV head are its tokens times the heads that share that KV head,
 * row = token * sharing + head, cut into items of ATTENTION_ROWS. An item goes through the keys
 * that its rows see in steps that end at multiples of ATTENTION_KEYS, and keeps a running maximum
 * and sum per row (Milakov and Gimelshein 2018). Each row takes only keys up to its own, and from
 * where its window begins: others get a weight of 0, which adds nothing. So a row's result does not
 * depend on how the prompt was cut. A sink is where a row's maximum and sum begin: a score without
 * a value. */
enum { ATTENTION_ROWS = 28, ATTENTION_KEYS = 256 };
enum { WIDEST = 16 };         /* floats of the widest vector, and of a cache line */
enum { FETCH_FLOATS = 2048 }; /* of a page; the hardware prefetcher covers the rest */

struct attention_scratch {
    float largest[ATTENTION_ROWS], sum[ATTENTION_ROWS];
    float scores[ATTENTION_ROWS][ATTENTION_KEYS + KERNELS_SLACK];
    float rows[]; /* q [ATTENTION_ROWS, head_dim], out [ATTENTION_ROWS, padded head_dim] */
};

static int64_t padded(int64_t d)
{
    return (d + WIDEST - 1) / WIDEST * WIDEST;
}

size_t attention_scratch_bytes(const struct model *m)
{
    const size_t rows = (size_t)(ATTENTION_ROWS * (m->head_dim + padded(m->head_dim)));
    return sizeof(struct attention_scratch) + (rows + KERNELS_SLACK) * sizeof(float);
}

struct item {
    const struct forward *f;
    struct attention_scratch *s;
    float *q, *out;
    const struct segment *seg;
    const float *k, *v; /* of the layer */
    const struct attention *kind;
    const float *sinks; /* [heads]; NULL = none */
    int64_t kv_head, sharing;
    int64_t row0;
    int rows;
};

static int64_t row_position(const struct item *it, int r)
{
    return it->seg->kv_before + (it->row0 + r) / it->sharing;
}

/* First position that the row sees. */
static int64_t row_begin(const struct item *it, int r)
{
    const int64_t window = it->kind->window, at = row_position(it, r);
    return window > 0 && at >= window ? at - window + 1 : 0;
}

static int64_t row_head(const struct item *it, int r)
{
    return it->kv_head * it->sharing + (it->row0 + r) % it->sharing;
}

static int64_t row_token(const struct item *it, int r)
{
    return it->seg->first + (it->row0 + r) / it->sharing;
}

/* Any number of rows and columns of a product, in tiles. */
static void product(const struct cpu_kernels *kn, int rows, int64_t columns, struct tile t)
{
    const float *a = t.a, *init = t.init;
    float *c = t.c;
    for (int64_t j = 0; j < columns; j += kn->panel) {
        const int vecs = columns - j > kn->lanes ? 2 : 1;
        for (int r = 0; r < rows; r += kn->max_rows) {
            t.a = a + (size_t)r * t.lda;
            t.c = c + (size_t)r * t.ldc + j;
            t.init = init ? init + (size_t)r * t.ld_init + j : NULL;
            kn->tile(rows - r < kn->max_rows ? rows - r : kn->max_rows, vecs, &t);
        }
        t.b += kn->panel;
    }
}

/* Prefetches the next page, which the hardware prefetcher cannot predict, while this one is
 * processed. */
static void fetch_page(const struct item *it, const float *cache, int64_t p, int64_t end)
{
    const int64_t floats = it->f->m->head_dim * it->f->block_size;
    if (p >= end)
        return;
    const float *page =
        cache +
        (it->seg->blocks[p / it->f->block_size] * it->f->m->kv_heads + it->kv_head) * floats;
    for (int64_t i = 0; i < floats && i < FETCH_FLOATS; i += WIDEST)
        __builtin_prefetch(page + i);
}

/* Page of the keys from position p on, and how many of them, at most `most`, are contiguous. */
static int64_t page_run(const struct item *it, int64_t p, int64_t most, int64_t *page,
                        int64_t *offset)
{
    const int64_t size = it->f->block_size;
    *offset = p % size;
    *page = it->seg->blocks[p / size] * it->f->m->kv_heads + it->kv_head;
    return size - *offset < most ? size - *offset : most;
}

/* scores[r, i] = q[r] . key[p0 + i]. A run is stored in whole vectors; the excess is overwritten by
 * the next run or never read. */
static void score_keys(const struct item *it, int64_t p0, int64_t p1)
{
    const struct forward *f = it->f;
    const int64_t d = f->m->head_dim, size = f->block_size;
    int64_t page, offset, run;
    for (int64_t p = p0; p < p1; p += run) {
        run = page_run(it, p, p1 - p, &page, &offset);
        fetch_page(it, it->k, p + run, p1);
        product(f->kn, it->rows, run,
                (struct tile){.k = (size_t)d,
                              .a = it->q,
                              .lda = (size_t)d,
                              .b = it->k + page * d * size + offset,
                              .ldb = (size_t)size,
                              .c = it->s->scores[0] + (p - p0),
                              .ldc = ATTENTION_KEYS + KERNELS_SLACK});
    }
}

/* Turns scores into weights exp(score - largest), and rescales sums and outputs so far. A row sees
 * keys from..n - 1 of the step. */
static void softmax_step(const struct item *it, int64_t p0, int64_t p1)
{
    const struct cpu_kernels *kn = it->f->kn;
    const int64_t width = padded(it->f->m->head_dim);
    for (int r = 0; r < it->rows; r++) {
        int64_t n = row_position(it, r) + 1 - p0, from = row_begin(it, r) - p0;
        n = n < 0 ? 0 : n > p1 - p0 ? p1 - p0 : n;
        from = from < 0 ? 0 : from > n ? n : from;
        float *const s = it->s->scores[r] + from;
        if (n > from) {
            const size_t seen = (size_t)(n - from);
            if (it->f->slopes)
                kn->ramp(seen, s, it->f->slopes[row_head(it, r)],
                         (float)(p0 + from - row_position(it, r)));
            const float top = kn->max(seen, s);
            if (top > it->s->largest[r]) {
                if (it->s->sum[r] > 0) {
                    const float by = expf(it->s->largest[r] - top);
                    it->s->sum[r] *= by;
                    kn->scale((size_t)width, it->out + r * width, by);
                }
                it->s->largest[r] = top;
            }
            it->s->sum[r] += kn->exp_sum(seen, s, it->s->largest[r]);
        }
        memset(it->s->scores[r], 0, (size_t)from * sizeof *s);
        memset(it->s->scores[r] + n, 0, (size_t)(p1 - p0 - n) * sizeof *s);
    }
}

/* out[r] += sum of weight[r, i] * value[p0 + i] */
static void add_values(const struct item *it, int64_t p0, int64_t p1)
{
    const struct forward *f = it->f;
    const int64_t d = f->m->head_dim, size = f->block_size, width = padded(d);
    int64_t page, offset, run;
    for (int64_t p = p0; p < p1; p += run) {
        run = page_run(it, p, p1 - p, &page, &offset);
        fetch_page(it, it->v, p + run, p1);
        product(f->kn, it->rows, d,
                (struct tile){.k = (size_t)run,
                              .a = it->s->scores[0] + (p - p0),
                              .lda = ATTENTION_KEYS + KERNELS_SLACK,
                              .b = it->v + (page * size + offset) * d,
                              .ldb = (size_t)d,
                              .c = it->out,
                              .ldc = (size_t)width,
                              .init = it->out,
                              .ld_init = (size_t)width});
    }
}

static void attend(const struct item *it)
{
    const struct model *m = it->f->m;
    const int64_t d = m->head_dim, width = padded(d), row_floats = (m->heads + 2 * m->kv_heads) * d;
    const double given = it->kind->score_scale;
    const float scale = (float)(given > 0 ? given : 1.0 / sqrt((double)d));
    for (int r = 0; r < it->rows; r++) {
        const float *q = it->f->qkv + row_token(it, r) * row_floats + row_head(it, r) * d;
        memcpy(it->q + r * d, q, (size_t)d * sizeof *q);
        it->f->kn->scale((size_t)d, it->q + r * d, scale);
        it->s->largest[r] = it->sinks ? it->sinks[row_head(it, r)] : -INFINITY;
        it->s->sum[r] = it->sinks ? 1 : 0;
    }
    memset(it->out, 0, (size_t)(it->rows * width) * sizeof *it->out);

    const int64_t end = row_position(it, it->rows - 1) + 1;
    for (int64_t p0 = row_begin(it, 0), p1; p0 < end; p0 = p1) {
        p1 = (p0 / ATTENTION_KEYS + 1) * ATTENTION_KEYS;
        p1 = p1 < end ? p1 : end;
        score_keys(it, p0, p1);
        softmax_step(it, p0, p1);
        add_values(it, p0, p1);
    }
    for (int r = 0; r < it->rows; r++) {
        float *out = it->f->att + row_token(it, r) * it->f->att_ld + row_head(it, r) * d;
        it->f->kn->scale((size_t)d, it->out + r * width, 1.0F / it->s->sum[r]);
        memcpy(out, it->out + r * width, (size_t)d * sizeof *out);
    }
}

/* ---- jobs -------------------------------------------------------------------------------- */

struct attention_job {
    struct forward *f;
    int64_t layer;
    const struct segment *segments;
    bool even; /* all segments have as many items as the first: decode rows */
};

static int64_t items_of(const struct forward *f, const struct segment *s)
{
    const int64_t rows = s->tokens * (f->m->heads / f->m->kv_heads);
    return (rows + ATTENTION_ROWS - 1) / ATTENTION_ROWS * f->m->kv_heads;
}

static void attention_item(void *ctx, int64_t index, int thread)
{
    const struct attention_job *j = ctx;
    const struct forward *f = j->f;
    const struct segment *seg = j->segments;
    if (j->even) {
        seg += index / items_of(f, seg);
        index %= items_of(f, seg);
    }
    while (index >= items_of(f, seg))
        index -= items_of(f, seg++);

    struct attention_scratch *s = f->scratch[thread];
    const int64_t sharing = f->m->heads / f->m->kv_heads, rows = seg->tokens * sharing;
    const int64_t row0 = index / f->m->kv_heads * ATTENTION_ROWS;
    const struct item it = {
        .f = f,
        .s = s,
        .q = s->rows,
        .out = s->rows + ATTENTION_ROWS * f->m->head_dim,
        .seg = seg,
        .k = f->k + j->layer * f->layer_floats,
        .v = f->v + j->layer * f->layer_floats,
        .kind = &f->s->attention[model_attention_of(f->m, j->layer)],
        .sinks = f->w.layers[j->layer].sinks,
        .kv_head = index % f->m->kv_heads,
        .sharing = sharing,
        .row0 = row0,
        .rows = (int)(rows - row0 < ATTENTION_ROWS ? rows - row0 : ATTENTION_ROWS),
    };
    attend(&it);
}

static void run_segments(struct forward *f, int64_t layer, const struct segment *segments,
                         int64_t n, bool even)
{
    enum { INLINE_MACS = 40000 };
    struct attention_job j = {f, layer, segments, even};
    const int64_t window = f->s->attention[model_attention_of(f->m, layer)].window;
    int64_t items = 0, macs = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t before = segments[i].kv_before;
        before = window > 0 && before > window ? window : before;
        items += items_of(f, &segments[i]);
        macs += (before + segments[i].tokens) * segments[i].tokens;
    }
    if (2 * macs * f->m->heads * f->m->head_dim > INLINE_MACS)
        pool_run(f->pool, items, attention_item, &j);
    else
        for (int64_t i = 0; i < items; i++)
            attention_item(&j, i, 0);
}

void op_attn_prefill(struct forward *f, int64_t layer)
{
    run_segments(f, layer, f->b->segments, f->b->n_chunks, false);
}

void op_attn_decode(struct forward *f, int64_t layer)
{
    run_segments(f, layer, f->b->segments + f->b->n_chunks, f->b->n_decodes, true);
}

/* ---- the cache --------------------------------------------------------------------------- */

struct save {
    struct forward *f;
    int64_t layer, per_item;
};

static void save_tokens(void *ctx, int64_t index, int thread)
{
    (void)thread;
    const struct save *s = ctx;
    const struct forward *f = s->f;
    const int64_t d = f->m->head_dim, heads = f->m->heads, kv_heads = f->m->kv_heads;
    const int64_t size = f->block_size, end = (index + 1) * s->per_item;
    for (int64_t t = index * s->per_item; t < end && t < f->b->n_tokens; t++) {
        const int64_t block = f->b->kv_at[t] / size, offset = f->b->kv_at[t] % size;
        const float *k = f->qkv + (t * (heads + 2 * kv_heads) + heads) * d;
        const float *v = k + kv_heads * d;
        for (int64_t h = 0; h < kv_heads; h++) {
            const int64_t page = s->layer * f->layer_floats + (block * kv_heads + h) * d * size;
            for (int64_t i = 0; i < d; i++)
                f->k[page + i * size + offset] = k[h * d + i];
            memcpy(f->v + page + offset * d, v + h * d, (size_t)d * sizeof *v);
        }
    }
}

void op_kv_save(struct forward *f, int64_t layer)
{
    const int64_t floats = 8 * f->m->kv_heads * f->m->head_dim;
    const int64_t per_item = 16384 / floats < 1 ? 1 : 16384 / floats;
    struct save s = {f, layer, per_item};
    pool_run(f->pool, (f->b->n_tokens + per_item - 1) / per_item, save_tokens, &s);
}
