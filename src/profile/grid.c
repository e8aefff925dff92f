#include "profile/grid.h"

#include <stdlib.h>

#include "base/vec.h"
#include "profile/read/seen.h"

struct knot {
    int64_t v;
    int level;
};

typedef VEC(struct knot) knots;

/* Knots 1 .. max: powers of two, and between p and 2 p `parts` - 1 more. */
static void doubling(knots *out, int64_t max, int64_t fine_until, int parts)
{
    int exponent = 0;
    for (int64_t p = 1; p <= max; p *= 2, exponent++) {
        vec_push(out, (struct knot){p, exponent % 2});
        int64_t cuts = p <= fine_until ? parts : 2;
        for (int64_t i = 1; i < cuts; i++)
            if (p * i % cuts == 0 && p + p * i / cuts <= max)
                vec_push(out, (struct knot){p + p * i / cuts, 2});
    }
}

static void end_with(knots *k, int64_t max)
{
    if (max <= 0)
        return;
    if (k->n && vec_last(k).v == max)
        vec_last(k).level = 0;
    else
        vec_push(k, (struct knot){max, 0});
}

static int64_t at_least(int64_t v, int64_t low)
{
    return v > low ? v : low;
}

enum point_group point_group(const struct point *p)
{
    return p->kind == POINT_DECODE ? GROUP_DECODE : GROUP_PROMPT;
}

int64_t point_tokens(const struct point *p)
{
    return p->x;
}

int64_t point_kv(const struct point *p)
{
    return p->kind == POINT_PROMPTS ? 0 : p->kv;
}

int64_t point_chunks(const struct point *p, const struct grid_limits *l)
{
    if (p->kind == POINT_PROMPTS)
        return p->x / p->kv;
    return p->kind == POINT_DECODE ? 0 : (p->kv + p->x + l->max_kv - 1) / l->max_kv;
}

int64_t point_rows(const struct point *p, const struct grid_limits *l)
{
    return p->kind == POINT_DECODE ? p->x : point_chunks(p, l);
}

int64_t point_blocks(const struct point *p, const struct grid_limits *l)
{
    int64_t tokens = p->kv + (p->kind == POINT_DECODE ? 1 : p->x);
    if (p->kind == POINT_PROMPTS)
        tokens = p->kv;
    if (tokens > l->max_kv)
        tokens = l->max_kv;
    return (tokens + l->block_size - 1) / l->block_size;
}

int64_t point_row_kv(const struct point *p, const struct grid_limits *l, int64_t row)
{
    const struct seen_rows rows = {l->max_kv, l->block_size};
    if (p->kind != POINT_DECODE || l->n_padded == 0)
        return point_kv(p);
    return seen_row_kv(&rows, p->kv, p->x, row);
}

typedef VEC(struct point) points;

static void add(points *out, struct point_list *list, const struct grid_limits *l, struct point p)
{
    int64_t rows = point_rows(&p, l);
    if (rows > l->max_batch || rows * point_blocks(&p, l) > l->num_blocks)
        list->dropped++;
    else
        vec_push(out, p);
}

static int worse(int a, int b)
{
    return a > b ? a : b;
}

/* Cache lengths of few rows: attention over them is short, and its time goes up and down with how
 * keys are cut into parts. Every 64 tokens, later 128 and 256. */
static void short_rows_kv(knots *out, int64_t longest)
{
    for (int64_t kv = 64; kv < longest; kv += kv < 1024 ? 64 : kv < 2048 ? 128 : 256)
        vec_push(out, (struct knot){kv, 0});
}

static void many_rows_kv(knots *out, int64_t longest)
{
    static const struct knot some[] = {{64, 1},  {128, 1},  {256, 0},  {384, 1},  {512, 1},
                                       {768, 1}, {1024, 0}, {1536, 1}, {2048, 1}, {3072, 1}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (some[i].v < longest)
            vec_push(out, some[i]);
    for (int64_t kv = 4096; kv < longest; kv *= 2)
        vec_push(out, (struct knot){kv, 1});
}

/* Both ends of every step of padded batches: the upper one over all cache lengths, the lower one,
 * whose rows alone are fewer, at two. */
static void padded_points(points *out, struct point_list *list, const struct grid_limits *l)
{
    enum { FEW = 8, FEWER = 4, STEP_KV = 256, SECOND_KV = 1024 };
    const int64_t longest = at_least(l->max_kv - 1, 1);
    knots few = {0}, many = {0};
    vec_push(&few, (struct knot){1, 0});
    short_rows_kv(&few, longest);
    end_with(&few, longest);
    vec_push(&many, (struct knot){1, 0});
    many_rows_kv(&many, longest);
    end_with(&many, longest);
    for (int64_t i = 0, before = 0; i < l->n_padded; before = l->padded[i++]) {
        const int64_t to = l->padded[i];
        const knots *kv = to <= FEW ? &few : &many;
        int64_t p = 1;
        while (p < to)
            p *= 4;
        const int level = to <= FEWER || p == to || to == l->max_batch ? 0 : 1;
        for (size_t k = 0; k < kv->n; k++) {
            const struct knot *q = &kv->p[k];
            const int both = q->v == STEP_KV ? 0 : worse(level, q->level);
            add(out, list, l, (struct point){POINT_DECODE, to, q->v, both});
            if (to > before + 1 && (q->v == STEP_KV || q->v == SECOND_KV))
                add(out, list, l,
                    (struct point){POINT_DECODE, before + 1, q->v, q->v == STEP_KV ? 0 : 1});
        }
    }
    vec_free(&few);
    vec_free(&many);
}

static void decode_points(points *out, struct point_list *list, const struct grid_limits *l)
{
    knots batch = {0}, kv = {0};
    if (l->n_padded) {
        padded_points(out, list, l);
        return;
    }
    doubling(&batch, l->max_batch, 0, 2);
    end_with(&batch, l->max_batch);
    vec_push(&kv, (struct knot){1, 0});
    knots all = {0};
    doubling(&all, l->max_kv - 1, 0, 2);
    for (size_t i = 0; i < all.n; i++)
        if (all.p[i].v >= 16)
            vec_push(&kv, all.p[i]);
    end_with(&kv, at_least(l->max_kv - 1, 1));
    for (size_t i = 0; i < batch.n; i++)
        for (size_t j = 0; j < kv.n; j++)
            add(out, list, l,
                (struct point){POINT_DECODE, batch.p[i].v, kv.p[j].v,
                               worse(batch.p[i].level, kv.p[j].level)});
    vec_free(&batch);
    vec_free(&kv);
    vec_free(&all);
}

static int by_tokens(const void *pa, const void *pb)
{
    const struct knot *a = pa, *b = pb;
    if (a->v != b->v)
        return a->v < b->v ? -1 : 1;
    return a->level - b->level;
}

/* A GPU's blocks take some queries of a head each, all as long where many keys are cached before.
 * A chunk that has a few more of them than run at once takes another turn: on an H200 (132
 * multiprocessors, 16 heads) 1,130 tokens behind 2,048 took 1.4 times the line from 1,024 to 2,048.
 */
static void turn_knots(knots *chunk, int64_t longest)
{
    for (int64_t p = 256; p + p / 8 <= longest; p *= 2)
        vec_push(chunk, (struct knot){p + p / 8, 1});
    qsort(chunk->p, chunk->n, sizeof *chunk->p, by_tokens);
}

static void prefill_points(points *out, struct point_list *list, const struct grid_limits *l)
{
    int64_t longest = l->max_tokens < l->max_kv ? l->max_tokens : l->max_kv;
    knots chunk = {0}, kv = {0};
    doubling(&chunk, longest, 0, 2);
    end_with(&chunk, longest);
    if (l->n_padded)
        turn_knots(&chunk, longest);
    doubling(&kv, l->max_kv, 0, 2);
    for (size_t i = 0; i < chunk.n; i++) {
        int64_t c = chunk.p[i].v, room = l->max_kv - c, last = 0;
        add(out, list, l, (struct point){POINT_PREFILL, c, 0, chunk.p[i].level});
        for (size_t j = 0; j < kv.n && kv.p[j].v <= room; j++) {
            if (kv.p[j].v < 64)
                continue;
            last = kv.p[j].v;
            add(out, list, l,
                (struct point){POINT_PREFILL, c, last, worse(chunk.p[i].level, kv.p[j].level)});
        }
        if (room > last + last / 8) /* the edge of the triangle */
            add(out, list, l, (struct point){POINT_PREFILL, c, room, chunk.p[i].level});
    }
    vec_free(&chunk);
    vec_free(&kv);
}

static bool measured_as_prefill(const points *all, int64_t tokens, int level)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct point *p = &all->p[i];
        if (p->kind == POINT_PREFILL && p->kv == 0 && p->x == tokens && p->level <= level)
            return true;
    }
    return false;
}

/* Both sides of the sizes at which kernels change, where batches are padded. Large ones are on the
 * coarsest level: of a 7B model on an H200, which had no time for another, batches of 257 to 320
 * tokens took 1.16 times what a line from 256 to 1,024 says, and others up to 1,600 1.0 to 1.2. */
static void step_knots(knots *out, const struct grid_limits *l)
{
    enum { CUTS = 4, LARGE = 256 };
    for (int i = 0; i < l->n_padded; i++)
        vec_push(out, (struct knot){l->padded[i] + 1, 1});
    for (int64_t p = 64; p <= l->max_tokens; p *= 2)
        for (int64_t i = 0; i < CUTS; i++) {
            vec_push(out, (struct knot){p + p * i / CUTS, p < LARGE});
            vec_push(out, (struct knot){p + p * i / CUTS + 1, p < LARGE});
        }
    qsort(out->p, out->n, sizeof *out->p, by_tokens);
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++)
        if (out->p[i].v <= l->max_tokens && (n == 0 || out->p[i].v != out->p[n - 1].v))
            out->p[n++] = out->p[i];
    out->n = n;
}

/* Prompts of powers of two, as many as fit, where they make at least half of the largest batch. */
static void prompt_points(points *out, struct point_list *list, const struct grid_limits *l)
{
    const int64_t longest = l->max_tokens < l->max_kv ? l->max_tokens : l->max_kv;
    int level = 0;
    for (int64_t c = 16; l->n_padded && c <= longest; c *= 2, level = !level) {
        int64_t n = l->max_tokens / c < l->max_batch ? l->max_tokens / c : l->max_batch;
        const int64_t each = (c + l->block_size - 1) / l->block_size;
        n = n * each > l->num_blocks ? l->num_blocks / each : n;
        if (n > 1 && 2 * n * c >= l->max_tokens)
            add(out, list, l, (struct point){POINT_PROMPTS, n * c, c, level});
    }
}

static void token_points(points *out, struct point_list *list, const struct grid_limits *l)
{
    knots tokens = {0};
    doubling(&tokens, l->max_tokens, 32, 8);
    end_with(&tokens, l->max_tokens);
    if (l->n_padded)
        step_knots(&tokens, l);
    for (size_t i = 0; i < tokens.n; i++) {
        struct knot *k = &tokens.p[i];
        if (!measured_as_prefill(out, k->v, k->level))
            add(out, list, l, (struct point){POINT_TOKENS, k->v, 0, k->level});
    }
    vec_free(&tokens);
}

static int in_order(const void *pa, const void *pb)
{
    const struct point *a = pa, *b = pb;
    int64_t d = a->level - b->level;
    if (d == 0)
        d = (int64_t)a->kind - (int64_t)b->kind;
    if (d == 0)
        d = a->x - b->x;
    if (d == 0)
        d = a->kv - b->kv;
    return (d > 0) - (d < 0);
}

void profile_grid(struct arena *a, const struct grid_limits *l, struct point_list *out)
{
    *out = (struct point_list){0};
    points all = {0};
    decode_points(&all, out, l);
    prefill_points(&all, out, l);
    token_points(&all, out, l);
    prompt_points(&all, out, l);
    if (all.n > 0)
        qsort(all.p, all.n, sizeof *all.p, in_order);
    out->p = arena_copy(a, all.p, all.n * sizeof *all.p);
    out->n = (int64_t)all.n;
    vec_free(&all);
}
