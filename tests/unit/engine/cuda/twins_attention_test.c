/* Attention of decode rows by the parts of a plan against that of whole rows, as the fake device
 * runs it: any lengths, shapes and plans. */
#include <math.h>

#include "base/rng.h"
#include "engine/cuda/parts.h"
#include "engine/cuda/twins.h"
#include "support/support.h"

enum { BLOCK = 16, MOST_ROWS = 40, LONGEST = 900, POSITIONS = 1000, POISON = 0x7fc0 };

struct shape {
    int heads, kv_heads, head_dim;
    bool alibi, fuse;
};

struct batch {
    struct arena *a;
    enum cuda_dtype t;
    struct cuda_step step;
    struct cuda_segment segments[MOST_ROWS + 1];
    int positions[MOST_ROWS + 1], kv_at[MOST_ROWS + 1];
    struct cuda_attention_args args;
    int64_t qkv_elems, cache_elems, out_elems;
    int tiles;
};

static void *elems(struct batch *b, int64_t n)
{
    return arena_alloc(b->a, (size_t)n * (size_t)cuda_dtype_bytes(b->t));
}

static void *random_elems(struct batch *b, struct rng *r, int64_t n)
{
    void *p = elems(b, n);
    for (int64_t i = 0; i < n; i++)
        twin_put(b->t, p, i, (float)rng_normal(r));
    return p;
}

static float *random_floats(struct batch *b, struct rng *r, int64_t n)
{
    float *p = arena_array(b->a, float, n);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)rng_unit(r);
    return p;
}

/* n decode rows behind a chunk of 3 tokens, whose row attention_decode leaves alone. */
static void make_batch(struct batch *b, struct arena *a, enum cuda_dtype t, const struct shape *s,
                       int n, uint64_t seed)
{
    struct rng r = rng_stream(seed, "batch");
    const int64_t width = (int64_t)(s->heads + 2 * s->kv_heads) * s->head_dim;
    int blocks = 1;
    *b = (struct batch){.a = a, .t = t};
    int *table = arena_array(a, int, (MOST_ROWS + 1) * (LONGEST / BLOCK + 1));
    b->segments[0] = (struct cuda_segment){0, 3, 0, 0};
    for (int i = 0; i < n; i++) {
        const bool is_long = rng_below(&r, 4) == 0;
        const int before = (int)rng_below(&r, is_long ? LONGEST : 140), at = 3 + i;
        b->segments[1 + i] = (struct cuda_segment){at, 1, before, blocks};
        b->positions[at] = before;
        blocks += before / BLOCK + 1;
    }
    for (int i = 0; i < blocks; i++)
        table[i] = (i * 7919 + 5) % blocks;
    for (int i = 0; i < n; i++) {
        const struct cuda_segment *g = &b->segments[1 + i];
        b->kv_at[3 + i] = table[g->table + g->kv_before / BLOCK] * BLOCK + g->kv_before % BLOCK;
    }
    b->step = (struct cuda_step){.n_tokens = 3 + n, .n_rows = 1 + n, .n_chunks = 1, .n_decodes = n};
    b->qkv_elems = (3 + n) * width;
    b->cache_elems = (int64_t)blocks * s->kv_heads * BLOCK * s->head_dim;
    b->out_elems = (int64_t)(3 + n) * s->heads * s->head_dim;
    b->tiles = cuda_attention_head_tiles(s->heads, s->kv_heads);
    b->args = (struct cuda_attention_args){.batch = {.step = &b->step,
                                                     .positions = b->positions,
                                                     .kv_at = b->kv_at,
                                                     .segments = b->segments,
                                                     .blocks = table},
                                           .qkv = random_elems(b, &r, b->qkv_elems),
                                           .k = random_elems(b, &r, b->cache_elems),
                                           .v = random_elems(b, &r, b->cache_elems),
                                           .heads = s->heads,
                                           .kv_heads = s->kv_heads,
                                           .head_dim = s->head_dim,
                                           .block_size = BLOCK,
                                           .scale = (float)(1 / sqrt(s->head_dim)),
                                           .fuse = s->fuse,
                                           .eps = 1e-6F};
    if (s->alibi)
        b->args.slopes = random_floats(b, &r, s->heads);
    if (s->fuse) {
        b->args.q_norm = random_elems(b, &r, s->head_dim);
        b->args.k_norm = random_elems(b, &r, s->head_dim);
        b->args.cosine = random_floats(b, &r, POSITIONS * s->head_dim / 2);
        b->args.sine = random_floats(b, &r, POSITIONS * s->head_dim / 2);
    }
}

/* What attention wrote: the row of the chunk keeps its filling. */
static void *run_copy(const struct batch *b, void (*twin)(const void *, enum cuda_dtype))
{
    struct cuda_attention_args a = b->args;
    const size_t e = (size_t)cuda_dtype_bytes(b->t);
    a.qkv = arena_copy(b->a, a.qkv, (size_t)b->qkv_elems * e);
    a.k = arena_copy(b->a, a.k, (size_t)b->cache_elems * e);
    a.v = arena_copy(b->a, a.v, (size_t)b->cache_elems * e);
    a.out = arena_alloc(b->a, (size_t)b->out_elems * e);
    memset(a.out, 0x11, (size_t)b->out_elems * e);
    twin(&a, b->t);
    return a.out;
}

static double error_of(const struct batch *b, const void *got, const void *want)
{
    const int64_t first = 3 * (int64_t)b->args.heads * b->args.head_dim;
    double difference = 0, norm = 0;
    assert_memory_equal(got, want, (size_t)first * (size_t)cuda_dtype_bytes(b->t));
    for (int64_t i = first; i < b->out_elems; i++) {
        const double g = (double)twin_get(b->t, got, i), w = (double)twin_get(b->t, want, i);
        difference += (g - w) * (g - w);
        norm += w * w;
    }
    return sqrt(difference / norm);
}

/* A plan of at most `most` runs: as near to whole rows as the kernel must be to its twin; the
 * counters are 0 again, `partial` is written within the plan's parts, and a second run gives the
 * same bytes. */
static void check_parts(struct batch *b, enum cuda_deal deal, int most)
{
    const int n = b->step.n_decodes, row = b->args.heads * (b->args.head_dim + 2),
              room = cuda_parts_room(most, n);
    const struct cuda_parts_limits limits = {deal, most, most, 0};
    struct cuda_part *parts = arena_array(b->a, struct cuda_part, room);
    int *runs = arena_array(b->a, int, most + 1);
    int *counters = arena_array(b->a, int, n * b->tiles);
    float *partial = arena_array(b->a, float, room *row + 8);
    const void *want = run_copy(b, twin_attention_rows);
    cuda_parts_plan(b->segments + 1, n, &limits, parts, runs, &b->step);
    b->args.batch.parts = parts;
    b->args.batch.runs = runs;
    b->args.counters = counters;
    b->args.partial = partial;
    for (int i = 0; i < room * row + 8; i++)
        partial[i] = POISON;
    const void *got = run_copy(b, twin_attention_decode);
    assert_true(error_of(b, got, want) <= cuda_kernels[CUDA_ATTENTION_DECODE].tolerance[b->t]);
    assert_memory_equal(run_copy(b, twin_attention_decode), got,
                        (size_t)b->out_elems * (size_t)cuda_dtype_bytes(b->t));
    for (int i = 0; i < n * b->tiles; i++)
        assert_int_equal(counters[i], 0);
    for (int i = b->step.n_parts * row; i < room * row + 8; i++)
        assert_true(partial[i] == (float)POISON);
}

static const struct shape shapes[] = {
    {4, 4, 16, false, false},
    {8, 2, 16, true, false},
    {12, 1, 8, false, true}, /* 2 head tiles */
    {24, 2, 8, true, true},
};

static void parts_are_whole_rows(void **state)
{
    (void)state;
    for (int t = 0; t < CUDA_DTYPES; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct arena *a = arena_new();
            struct batch b;
            const int n = i == 1 ? 33 : 1 + 2 * (int)i;
            make_batch(&b, a, (enum cuda_dtype)t, &shapes[i], n, 10 + i);
            const int heads = shapes[i].heads, kv = shapes[i].kv_heads;
            check_parts(&b, CUDA_DEAL_SMALLEST, n); /* none is cut */
            check_parts(&b, CUDA_DEAL_SMALLEST,
                        cuda_parts_most(CUDA_DEAL_SMALLEST, n, heads, kv, 132));
            check_parts(&b, CUDA_DEAL_SMALLEST,
                        cuda_parts_most(CUDA_DEAL_SMALLEST, n, heads, kv, 2));
            for (int most = 1; most < 3 * n; most = 2 * most + 1)
                check_parts(&b, CUDA_DEAL_RUNS, most);
            arena_free(&a);
        }
}

/* A part too few, and a result is wrong: the comparison can fail. */
static void a_missing_part_is_seen(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct batch b;
    struct cuda_part parts[40];
    make_batch(&b, a, CUDA_F32, &shapes[0], 3, 5);
    const void *want = run_copy(&b, twin_attention_rows);
    const struct cuda_parts_limits limits = {CUDA_DEAL_SMALLEST, 3, 0, 0};
    int runs[4];
    cuda_parts_plan(b.segments + 1, 3, &limits, parts, runs, &b.step);
    b.step.n_runs--;
    b.args.batch.parts = parts;
    b.args.batch.runs = runs;
    assert_true(error_of(&b, run_copy(&b, twin_attention_decode), want) > 0.1);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parts_are_whole_rows),
        TEST(a_missing_part_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
