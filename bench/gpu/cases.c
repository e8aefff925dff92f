/* Every row of the table on the GPU against its twin, on random data and sizes around the edges. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/twins.h"
#include "gpu/bench.h"
#include "gpu/world.h"
#include "model/random.h"

struct run {
    struct world w;
    struct cuda_sizes most;
    int cases, failed, seen, every; /* every: one case in so many */
    const char *only;               /* name of a row; NULL = all */
    double worst[CUDA_KERNELS][CUDA_DTYPES];
    int counts[CUDA_KERNELS][CUDA_DTYPES];
};

static void check(struct run *r, enum cuda_kernel_id id, enum cuda_dtype t, int head_dim,
                  const void *args, const char *what)
{
    const struct cuda_kernel *k = &cuda_kernels[id];
    if (r->only && strcmp(r->only, k->name) != 0)
        return;
    if (r->seen++ % r->every != 0)
        return;
    const double error = world_check(&r->w, k, t, head_dim, args, &r->most, what);
    const bool bad = !(error <= k->tolerance[t]);
    r->cases++;
    r->failed += bad;
    r->counts[id][t]++;
    if (!(error <= r->worst[id][t]))
        r->worst[id][t] = error;
    if (bad)
        printf("FAIL %s_%s %s: error %.3g, tolerance %.3g\n", k->name, cuda_dtype_name(t), what,
               error, k->tolerance[t]);
}

static int sms_of(const struct run *r)
{
    return r->w.gpu ? r->w.gpu->sms : 132;
}

static int below(struct world *w, int n)
{
    return (int)rng_below(&w->rng, (uint64_t)n);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Sequences of a batch: (cached tokens, new tokens), chunks first. */
struct shape {
    const char *name;
    int n_chunks, n_decodes;
    int before[20], tokens[20];
};

static const struct shape shapes[] = {
    {"1 decode, first token", 0, 1, {0}, {1}},
    {"1 decode at 15", 0, 1, {15}, {1}},
    {"1 decode at 16", 0, 1, {16}, {1}},
    {"1 decode at 1023", 0, 1, {1023}, {1}},
    {"1 decode at 8191", 0, 1, {8191}, {1}},
    {"7 decodes", 0, 7, {3, 64, 63, 65, 500, 1, 2047}, {1, 1, 1, 1, 1, 1, 1}},
    {"chunk of 1", 1, 0, {0}, {1}},
    {"chunk of 17", 1, 0, {0}, {17}},
    {"chunk of 64 behind 16", 1, 0, {16}, {64}},
    {"chunk of 129 behind 100", 1, 0, {100}, {129}},
    {"3 chunks", 3, 0, {0, 33, 5}, {65, 15, 200}},
    {"mixed", 2, 5, {0, 130, 40, 17, 300, 0, 15}, {70, 31, 1, 1, 1, 1, 1}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

struct dims {
    int heads, kv_heads, head_dim, block_size;
};

static struct cuda_batch make_batch(struct run *r, const struct shape *s, int block_size,
                                    int *n_blocks)
{
    struct world *w = &r->w;
    struct cuda_step *step = world_take(w, sizeof *step);
    const int n = s->n_chunks + s->n_decodes;
    int tokens = 0, blocks = 0, used = 0;
    for (int i = 0; i < n; i++) {
        tokens += s->tokens[i];
        blocks += (s->before[i] + s->tokens[i] + block_size - 1) / block_size;
    }
    *step = (struct cuda_step){tokens, n, s->n_chunks, s->n_decodes};
    int *kv_at = world_ints(w, tokens), *positions = world_ints(w, tokens);
    int *table = world_ints(w, blocks), *row_token = world_ints(w, n), *slot = world_ints(w, n);
    struct cuda_segment *segments = world_take(w, (size_t)n * sizeof *segments);
    *n_blocks = blocks + 3;
    for (int i = 0; i < blocks; i++) /* a permutation with gaps */
        table[i] = i + 2;
    for (int i = blocks - 1; i > 0; i--) {
        const int j = below(w, i + 1), other = table[j];
        table[j] = table[i];
        table[i] = other;
    }
    for (int i = 0, at = 0; i < n; i++) {
        segments[i] = (struct cuda_segment){at, s->tokens[i], s->before[i], used};
        for (int j = 0; j < s->tokens[i]; j++, at++) {
            positions[at] = s->before[i] + j;
            kv_at[at] =
                table[used + positions[at] / block_size] * block_size + positions[at] % block_size;
        }
        used += (s->before[i] + s->tokens[i] + block_size - 1) / block_size;
        row_token[i] = at - 1;
        slot[i] = n - 1 - i;
    }
    r->most = (struct cuda_sizes){tokens + 5, n + 2, s->n_chunks + 1, s->n_decodes + 2, sms_of(r)};
    return (struct cuda_batch){.step = step,
                               .positions = positions,
                               .kv_at = kv_at,
                               .row_token = row_token,
                               .row_slot = slot,
                               .segments = segments,
                               .blocks = table};
}

/* ---- attention ------------------------------------------------------------------------------- */

static void fill_angles(struct world *w, int positions, int half, const float **c, const float **s)
{
    float *cosine = world_floats(w, (int64_t)positions * half);
    float *sine = world_floats(w, (int64_t)positions * half);
    for (int64_t i = 0; i < (int64_t)positions * half; i++) {
        const double angle = (double)(i / half) * pow(10000, -(double)(i % half) / half);
        cosine[i] = (float)cos(angle);
        sine[i] = (float)sin(angle);
    }
    *c = cosine;
    *s = sine;
}

/* Keys and values past what sequences hold are NaN: nothing may read them into a result. */
static void forget_unused(const struct cuda_batch *b, const struct dims *d, enum cuda_dtype t,
                          int n_blocks, void *k, void *v)
{
    const int n = b->step->n_chunks + b->step->n_decodes;
    for (int block = 0; block < n_blocks; block++)
        for (int offset = 0; offset < d->block_size; offset++) {
            bool used = false;
            for (int i = 0; i < n && !used; i++) {
                const struct cuda_segment *s = &b->segments[i];
                const int keys = s->kv_before + s->tokens;
                for (int j = 0; j * d->block_size < keys && !used; j++)
                    used = b->blocks[s->table + j] == block && j * d->block_size + offset < keys;
            }
            for (int h = 0; h < d->kv_heads && !used; h++)
                for (int i = 0; i < d->head_dim; i++) {
                    const int64_t at =
                        (((int64_t)block * d->kv_heads + h) * d->block_size + offset) *
                            d->head_dim +
                        i;
                    twin_put(t, k, at, NAN);
                    twin_put(t, v, at, NAN);
                }
        }
}

static void check_attention(struct run *r, enum cuda_kernel_id id, enum cuda_dtype t,
                            const struct dims *d, const struct shape *s, bool alibi, bool fuse)
{
    struct world *w = &r->w;
    int n_blocks;
    char what[160];
    if (r->only && strcmp(r->only, cuda_kernels[id].name) != 0)
        return;
    world_begin(w, (uint64_t)(d->heads * 1000 + d->head_dim + s->before[0] + s->tokens[0]));
    const struct cuda_batch b = make_batch(r, s, d->block_size, &n_blocks);
    const int64_t cache = (int64_t)n_blocks * d->kv_heads * d->block_size * d->head_dim;
    const int64_t row = (int64_t)(d->heads + 2 * d->kv_heads) * d->head_dim;
    const int64_t out_elems = (int64_t)b.step->n_tokens * d->heads * d->head_dim;
    struct cuda_attention_args a = {.batch = b,
                                    .heads = d->heads,
                                    .kv_heads = d->kv_heads,
                                    .head_dim = d->head_dim,
                                    .block_size = d->block_size,
                                    .scale = (float)(1 / sqrt((double)d->head_dim)),
                                    .fuse = fuse,
                                    .eps = 1e-6F};
    a.k = world_random(w, t, cache, 1);
    a.v = world_random(w, t, cache, 1);
    a.qkv = world_random(w, t, b.step->n_tokens * row, 1.5);
    forget_unused(&b, d, t, n_blocks, a.k, a.v);
    a.out = world_output(w, t, out_elems);
    if (alibi) {
        float *slopes = world_floats(w, d->heads);
        for (int i = 0; i < d->heads; i++)
            slopes[i] = (float)exp2(-8.0 * (i + 1) / d->heads);
        a.slopes = slopes;
    }
    if (fuse) {
        a.q_norm = world_random(w, t, d->head_dim, 1);
        a.k_norm = world_random(w, t, d->head_dim, 1);
        fill_angles(w, 8200, d->head_dim / 2, &a.cosine, &a.sine);
        world_changes(w, a.k, t, cache);
        world_changes(w, a.v, t, cache);
    }
    if (id == CUDA_ATTENTION_DECODE) {
        const int tiles = cuda_attention_head_tiles(d->heads, d->kv_heads);
        a.splits = cuda_attention_splits(s->n_decodes, d->heads, d->kv_heads, sms_of(r));
        a.partial = world_scratch(w, (size_t)(r->most.rows * d->heads * a.splits) *
                                         (size_t)(d->head_dim + 2) * sizeof(float));
        a.counters = world_ints(w, r->most.rows * tiles);
    }
    /* rows of the batch that another kernel handles are not written */
    for (int i = 0; i < b.step->n_chunks + b.step->n_decodes; i++) {
        const bool chunk = i < b.step->n_chunks;
        if (id == (chunk ? CUDA_ATTENTION_DECODE : CUDA_ATTENTION_PREFILL))
            for (int64_t j = 0; j < (int64_t)b.segments[i].tokens * d->heads * d->head_dim; j++)
                twin_put(t, a.out, (int64_t)b.segments[i].first * d->heads * d->head_dim + j, 7);
    }
    snprintf(what, sizeof what, "%s, heads %d/%d of %d, blocks of %d%s%s", s->name, d->heads,
             d->kv_heads, d->head_dim, d->block_size, alibi ? ", ALiBi" : "",
             fuse ? ", fused" : "");
    check(r, id, t, d->head_dim, &a, what);
}

static void check_rope(struct run *r, enum cuda_dtype t, const struct dims *d,
                       const struct shape *s, bool norm, bool rotate)
{
    struct world *w = &r->w;
    int n_blocks;
    char what[160];
    world_begin(w, 7);
    const struct cuda_batch b = make_batch(r, s, d->block_size, &n_blocks);
    const int64_t cache = (int64_t)n_blocks * d->kv_heads * d->block_size * d->head_dim;
    const int64_t row = (int64_t)(d->heads + 2 * d->kv_heads) * d->head_dim;
    struct cuda_rope_args a = {.batch = b,
                               .heads = d->heads,
                               .kv_heads = d->kv_heads,
                               .head_dim = d->head_dim,
                               .block_size = d->block_size,
                               .eps = 1e-6F};
    a.qkv = world_random(w, t, b.step->n_tokens * row, 1.5);
    world_changes(w, a.qkv, t, b.step->n_tokens * row);
    a.k = world_random(w, t, cache, 1);
    a.v = world_random(w, t, cache, 1);
    world_changes(w, a.k, t, cache);
    world_changes(w, a.v, t, cache);
    if (norm) {
        a.q_norm = world_random(w, t, d->head_dim, 1);
        a.k_norm = world_random(w, t, d->head_dim, 1);
    }
    if (rotate)
        fill_angles(w, 8200, d->head_dim / 2, &a.cosine, &a.sine);
    snprintf(what, sizeof what, "%s, heads %d/%d of %d%s%s", s->name, d->heads, d->kv_heads,
             d->head_dim, norm ? ", normed" : "", rotate ? ", rotated" : "");
    check(r, CUDA_ROPE, t, 0, &a, what);
}

static void attention_cases(struct run *r, enum cuda_dtype t)
{
    static const struct dims fast[] = {{4, 4, 128, 16}, {8, 4, 128, 16}, {16, 2, 128, 16},
                                       {8, 8, 64, 16},  {8, 1, 64, 32},  {24, 2, 64, 16}};
    static const struct dims others[] = {
        {6, 2, 8, 16}, {4, 2, 32, 4}, {4, 4, 12, 16}, {8, 4, 128, 16}};
    for (int i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        for (size_t j = 0; t != CUDA_F32 && j < sizeof fast / sizeof fast[0]; j++) {
            if (s->n_decodes > 0) {
                check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, false, false);
                check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, true, false);
                check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, false, true);
            }
            if (s->n_chunks > 0) {
                check_attention(r, CUDA_ATTENTION_PREFILL, t, &fast[j], s, false, false);
                check_attention(r, CUDA_ATTENTION_PREFILL, t, &fast[j], s, true, false);
            }
        }
        for (size_t j = 0; j < sizeof others / sizeof others[0]; j++) {
            check_attention(r, CUDA_ATTENTION_ANY, t, &others[j], s, j % 2 == 0, false);
            check_rope(r, t, &others[j], s, true, true);
            check_rope(r, t, &others[j], s, false, j % 2 == 0);
        }
    }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static const int token_counts[] = {0, 1, 2, 17, 100};
static const int widths[] = {8, 48, 1024, 3072, 4104, 11008};
enum { COUNTS = 5, WIDTHS = 6 };

static int *take_count(struct run *r, int n)
{
    int *count = world_ints(&r->w, 1);
    *count = n;
    r->most = (struct cuda_sizes){n + 3, n + 3, 1, n + 3, sms_of(r)};
    return count;
}

static void norm_case(struct run *r, enum cuda_dtype t, int n, int width, int variant)
{
    struct world *w = &r->w;
    char what[96];
    const bool add = variant & 1, bias = variant & 2, gather = variant & 4, keep = variant & 8;
    world_begin(w, (uint64_t)(n + width + variant));
    struct cuda_norm_args a = {.count = take_count(r, n), .width = width, .eps = 1e-5F};
    a.x = world_random(w, t, (int64_t)(n + 1) * width, 2);
    a.weight = world_random(w, t, width, 1);
    a.add = add ? world_random(w, t, (int64_t)(n + 1) * width, 2) : NULL;
    a.bias = bias ? world_random(w, t, width, 1) : NULL;
    if (gather) {
        int *rows = world_ints(w, n + 1);
        for (int i = 0; i < n; i++)
            rows[i] = n - i;
        a.gather = rows;
    }
    a.out = world_output(w, t, (int64_t)n * width);
    if (keep) {
        a.sum = (void *)(uintptr_t)a.x; /* in place, as a residual stream is */
        world_changes(w, a.x, t, (int64_t)(n + 1) * width);
    }
    snprintf(what, sizeof what, "%d x %d%s%s%s%s", n, width, add ? ", add" : "",
             bias ? ", layer norm" : "", gather ? ", gathered" : "", keep ? ", sum kept" : "");
    check(r, CUDA_NORM, t, 0, &a, what);
}

static void act_case(struct run *r, enum cuda_dtype t, int n, int width, int act, bool bias)
{
    struct world *w = &r->w;
    char what[96];
    const int parts = act == CUDA_ACT_SILU_GATED ? 2 : 1;
    world_begin(w, (uint64_t)(n + width + act));
    struct cuda_act_args a = {.count = take_count(r, n), .width = width, .act = act};
    a.up = world_random(w, t, (int64_t)n * width * parts, 2);
    a.bias = bias ? world_random(w, t, width * parts, 1) : NULL;
    a.out = world_output(w, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d x %d, act %d%s", n, width, act, bias ? ", bias" : "");
    check(r, CUDA_ACT, t, 0, &a, what);
}

static void other_token_cases(struct run *r, enum cuda_dtype t, int n, int width)
{
    struct world *w = &r->w;
    char what[96];
    world_begin(w, (uint64_t)(n + width));
    struct cuda_bias_args b = {.count = take_count(r, n), .width = width};
    b.x = world_random(w, t, (int64_t)n * width, 2);
    b.bias = world_random(w, t, width, 1);
    world_changes(w, b.x, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d x %d", n, width);
    check(r, CUDA_BIAS, t, 0, &b, what);

    enum { VOCAB = 100 };
    world_begin(w, (uint64_t)(n + width));
    take_count(r, n);
    struct cuda_step *step = world_take(w, sizeof *step);
    int *ids = world_ints(w, n), *last = world_ints(w, 4);
    *step = (struct cuda_step){n, n, 0, n};
    for (int i = 0; i < n; i++)
        ids[i] = below(w, VOCAB + 4) - 4; /* the first four: the last token of a slot */
    for (int i = 0; i < 4; i++)
        last[i] = below(w, VOCAB);
    struct cuda_embed_args e = {.batch = {.step = step, .ids = ids, .last = last}, .hidden = width};
    e.table = world_random(w, t, VOCAB * width, 1);
    e.x = world_output(w, t, (int64_t)n * width);
    check(r, CUDA_EMBED, t, 0, &e, what);
}

static void token_cases(struct run *r, enum cuda_dtype t)
{
    for (int i = 0; i < COUNTS; i++)
        for (int j = 0; j < WIDTHS; j++) {
            const int n = token_counts[i], width = widths[j];
            if (n * width > 310000)
                continue;
            for (int variant = 0; variant < 16; variant++)
                norm_case(r, t, n, width, variant);
            act_case(r, t, n, width, CUDA_ACT_SILU_GATED, false);
            act_case(r, t, n, width, CUDA_ACT_SILU_GATED, true);
            act_case(r, t, n, width, CUDA_ACT_GELU_TANH, true);
            other_token_cases(r, t, n, width);
        }
}

/* ---- matmul ---------------------------------------------------------------------------------- */

static void matmul_case(struct run *r, enum cuda_kernel_id id, enum cuda_dtype t, int n, int in,
                        int outs, int variant)
{
    struct world *w = &r->w;
    char what[128];
    const bool gated = id == CUDA_MATMUL_FEW_GATED || id == CUDA_MATMUL_SOME_GATED;
    const bool norm = variant & 1, bias = variant & 2, residual = variant & 4, gather = variant & 8;
    const bool gelu = !gated && (variant & 16), in_float = variant & 32;
    const int parts = gated ? 2 : 1;
    if (r->only && strcmp(r->only, cuda_kernels[id].name) != 0)
        return;
    world_begin(w, (uint64_t)(n + in + outs + variant));
    struct cuda_matmul_args a = {.count = take_count(r, n),
                                 .in = in,
                                 .outs = outs,
                                 .eps = 1e-6F,
                                 .out_float = in_float,
                                 .act = gated  ? CUDA_ACT_SILU_GATED
                                        : gelu ? CUDA_ACT_GELU_TANH
                                               : CUDA_ACT_NONE};
    a.x = world_random(w, t, (int64_t)(n + 1) * in, 1.5);
    a.weight = world_random(w, t, (int64_t)in * outs * parts, 1 / sqrt(in));
    a.norm = norm ? world_random(w, t, in, 1) : NULL;
    a.bias = bias ? world_random(w, t, outs * parts, 1) : NULL;
    if (gather) {
        int *rows = world_ints(w, n + 1);
        for (int i = 0; i < n; i++)
            rows[i] = n - i;
        a.gather = rows;
    }
    a.ahead = a.weight;
    a.ahead_bytes = (long long)in * outs * parts * cuda_dtype_bytes(t);
    if (residual && !in_float) {
        void *x = world_random(w, t, (int64_t)n * outs, 1);
        world_changes(w, x, t, (int64_t)n * outs);
        a.residual = x;
        a.out = x;
    } else {
        a.residual = residual ? world_random(w, t, (int64_t)n * outs, 1) : NULL;
        a.out = world_output(w, in_float ? CUDA_F32 : t, (int64_t)n * outs);
    }
    snprintf(what, sizeof what, "%d x %d -> %d%s%s%s%s%s%s", n, in, outs, norm ? ", norm" : "",
             bias ? ", bias" : "", residual ? ", residual" : "", gather ? ", gathered" : "",
             gelu ? ", GELU" : "", in_float ? ", float32 out" : "");
    check(r, id, t, 0, &a, what);
}

static void matmul_cases(struct run *r, enum cuda_dtype t)
{
    static const int ins[] = {8, 48, 88, 1024, 1032, 2048, 3072, 4096, 11008};
    static const int outs[] = {1, 8, 48, 250, 1024, 6144};
    static const int rows[] = {0, 1, 2, 7, 8, 9, 16};
    int n = 0;
    for (int id = CUDA_MATMUL_FEW; id <= CUDA_MATMUL_SOME_GATED; id++)
        for (size_t i = 0; i < sizeof ins / sizeof ins[0]; i++)
            for (size_t o = 0; o < sizeof outs / sizeof outs[0]; o++)
                for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
                    const bool few = id <= CUDA_MATMUL_FEW_GATED;
                    const bool large = (int64_t)ins[i] * outs[o] > 2000000;
                    if ((few && rows[k] > 8) || (large && (rows[k] != 2 || outs[o] != 1024)))
                        continue;
                    matmul_case(r, (enum cuda_kernel_id)id, t, rows[k], ins[i], outs[o], n++ % 64);
                }
}

/* ---- sampling -------------------------------------------------------------------------------- */

static void sample_cases(struct run *r, enum cuda_dtype t)
{
    static const int vocabs[] = {1, 5, 256, 1000, 32000, 151936};
    enum { ROWS = 8 };
    struct world *w = &r->w;
    for (size_t i = 0; i < sizeof vocabs / sizeof vocabs[0]; i++)
        for (int kind = 0; kind < 6; kind++) {
            char what[96];
            const int vocab = vocabs[i], sampled = kind == 1 ? (vocab + 1) / 2 : vocab;
            world_begin(w, (uint64_t)(vocab + kind));
            take_count(r, ROWS);
            struct cuda_step *step = world_take(w, sizeof *step);
            int *slot = world_ints(w, ROWS), *positions = world_ints(w, ROWS);
            *step = (struct cuda_step){ROWS, ROWS, 0, ROWS};
            for (int j = 0; j < ROWS; j++) {
                slot[j] = (3 * j + 1) % ROWS;
                positions[j] = below(w, 1000);
            }
            float *logits = world_random(w, CUDA_F32, (int64_t)ROWS * vocab, 3);
            for (int64_t j = 0; j < (int64_t)ROWS * vocab; j++) {
                if (kind == 2)
                    logits[j] = 1; /* all alike */
                else if (kind == 3)
                    logits[j] = j % 3 ? NAN : (float)(j % 7) - 3; /* ties and no numbers */
                else if (kind == 4)
                    logits[j] = NAN;
                else if (kind == 5)
                    logits[j] = j % 2 ? -INFINITY : -0.0F * (float)(j % 3);
            }
            struct cuda_argmax_args a = {.batch = {.step = step, .row_slot = slot},
                                         .logits = logits,
                                         .vocab = vocab,
                                         .sample_vocab = sampled};
            a.ids = world_output(w, CUDA_F32, ROWS);
            a.batch.last = world_output(w, CUDA_F32, ROWS);
            a.partial = world_take(w, ROWS * sizeof *a.partial);
            a.counters = world_ints(w, ROWS);
            snprintf(what, sizeof what, "vocabulary %d, logits %d", vocab, kind);
            check(r, CUDA_ARGMAX, t, 0, &a, what);

            struct cuda_sampling *how = world_take(w, ROWS * sizeof *how);
            for (int j = 0; j < ROWS; j++)
                how[j] = (struct cuda_sampling){.temperature = j == 3 ? 0 : 0.3F + 0.3F * (float)j,
                                                .min_p = j % 4 == 1 ? 0.02F : 0,
                                                .top_p = j % 2 ? 0.4F + 0.07F * (float)j : 1,
                                                .top_k = j % 3 == 2 ? 1 + below(w, 50) : 0,
                                                .seed = rng_u64(&w->rng)};
            const struct cuda_sample_args b = {.batch = a.batch,
                                               .logits = logits,
                                               .vocab = vocab,
                                               .sample_vocab = sampled,
                                               .sampling = how,
                                               .positions = positions,
                                               .ids = a.ids};
            for (int j = 0; j < ROWS; j++)
                a.ids[j] = a.batch.last[j] = -5;
            check(r, CUDA_SAMPLE, t, 0, &b, what);
        }
}

/* ---- weights --------------------------------------------------------------------------------- */

static void random_cases(struct run *r, enum cuda_dtype t)
{
    static const int64_t counts[] = {1, 4, 63, 4095, 4096, 4097, 3000001};
    struct world *w = &r->w;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char what[64];
        world_begin(w, i);
        take_count(r, 1);
        const struct rng stream = rng_stream(i, "model.layers.0.mlp.up_proj.weight");
        struct cuda_random_args a = {.n = counts[i]};
        float *quantiles = world_floats(w, 65536);
        uint64_t *jumps = world_take(w, CUDA_RANDOM_JUMPS * CUDA_RANDOM_JUMP_WORDS * 8);
        memcpy(quantiles, random_weights_quantiles(), 65536 * sizeof *quantiles);
        cuda_random_jumps(jumps);
        memcpy(a.state, stream.s, sizeof a.state);
        a.quantiles = quantiles;
        a.jumps = (const unsigned long long *)jumps;
        a.out = world_output(w, t, counts[i]);
        snprintf(what, sizeof what, "%lld elements", (long long)counts[i]);
        check(r, CUDA_RANDOM, t, 0, &a, what);
        world_begin(w, i);
        struct cuda_fill_args f = {.n = counts[i], .value = 1.1F};
        f.out = world_output(w, t, counts[i]);
        check(r, CUDA_FILL, t, 0, &f, what);
    }
}

int check_all(struct dev *g, const char *only, const char *dtype, int every)
{
    struct run r = {.only = only, .every = every};
    world_open(&r.w, g, (size_t)320 << 20);
    for (int t = 0; t < CUDA_DTYPES; t++) {
        if (dtype && strcmp(dtype, cuda_dtype_name((enum cuda_dtype)t)) != 0)
            continue;
        token_cases(&r, (enum cuda_dtype)t);
        attention_cases(&r, (enum cuda_dtype)t);
        matmul_cases(&r, (enum cuda_dtype)t);
        sample_cases(&r, (enum cuda_dtype)t);
        random_cases(&r, (enum cuda_dtype)t);
    }
    printf("%-20s %-5s %6s %12s %12s\n", "kernel", "dtype", "cases", "worst error", "tolerance");
    for (int i = 0; i < CUDA_KERNELS; i++)
        for (int t = 0; t < CUDA_DTYPES; t++)
            if (r.counts[i][t])
                printf("%-20s %-5s %6d %12.3g %12.3g\n", cuda_kernels[i].name,
                       cuda_dtype_name((enum cuda_dtype)t), r.counts[i][t], r.worst[i][t],
                       cuda_kernels[i].tolerance[t]);
    printf("%d cases, %d failed\n", r.cases, r.failed);
    world_close(&r.w);
    return r.failed;
}
