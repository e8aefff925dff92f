/* Every row of the table on the GPU against its twin, on random data and sizes around the edges. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/parts.h"
#include "engine/cuda/twins.h"
#include "gpu/bench.h"
#include "gpu/world.h"
#include "model/random.h"

struct run {
    struct world w;
    struct cuda_sizes most;
    int cases, failed, seen;
    struct check_scope scope;
    double worst[CUDA_KERNELS][CUDA_DTYPES];
    int counts[CUDA_KERNELS][CUDA_DTYPES];
};

/* Whether this case of the row is one of those to check; asked once, before its buffers are made.
 */
static bool wanted(struct run *r, enum cuda_kernel_id id)
{
    const struct check_scope *s = &r->scope;
    if (s->only && strcmp(s->only, cuda_kernels[id].name) != 0)
        return false;
    return s->every < 2 || r->seen++ % s->every == 0;
}

/* Of the sizes in `args`; pointers to numbers that are not sizes may be missing yet. */
static bool too_large(const struct run *r, enum cuda_kernel_id id, enum cuda_dtype t,
                      const void *args)
{
    const struct cuda_floor f = cuda_kernels[id].floor(args, t);
    return r->scope.most_bytes > 0 && f.bytes + f.flop / 64 > r->scope.most_bytes;
}

static void check(struct run *r, enum cuda_kernel_id id, enum cuda_dtype t, int head_dim,
                  const void *args, const char *what)
{
    const struct cuda_kernel *k = &cuda_kernels[id];
    if (too_large(r, id, t, args))
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
    int before[48], tokens[48];
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
    {"33 unequal decodes",
     0,
     33, /* lengths around the stripes' edges, one long row */
     {63, 64,  127, 128, 0,  15,  16, 2500, 191, 192, 1, 255, 256, 31,  700, 62, 65,
      5,  319, 320, 383, 40, 448, 90, 64,   64,  129, 3, 200, 511, 512, 513, 17},
     {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
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
    *step = (struct cuda_step){
        .n_tokens = tokens, .n_rows = n, .n_chunks = s->n_chunks, .n_decodes = s->n_decodes};
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
    r->most = (struct cuda_sizes){.tokens = tokens + 5,
                                  .rows = n + 2,
                                  .chunks = s->n_chunks + 1,
                                  .decodes = s->n_decodes + 2,
                                  .sms = sms_of(r)};
    return (struct cuda_batch){.step = step,
                               .positions = positions,
                               .kv_at = kv_at,
                               .row_token = row_token,
                               .row_slot = slot,
                               .segments = segments,
                               .blocks = table};
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Of every position in the batch. */
static void fill_angles(struct world *w, const struct shape *shape, int half, const float **c,
                        const float **s)
{
    int positions = 1;
    for (int i = 0; i < shape->n_chunks + shape->n_decodes; i++) {
        const int end = shape->before[i] + shape->tokens[i];
        positions = end > positions ? end : positions;
    }
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
                            const struct dims *d, const struct shape *s, bool alibi, bool fuse,
                            enum cuda_deal deal)
{
    struct world *w = &r->w;
    int n_blocks;
    char what[160];
    if (!wanted(r, id))
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
    if (too_large(r, id, t, &a))
        return;
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
        fill_angles(w, s, d->head_dim / 2, &a.cosine, &a.sine);
        world_changes(w, a.k, t, cache);
        world_changes(w, a.v, t, cache);
    }
    if (id == CUDA_ATTENTION_DECODE) {
        const int tiles = cuda_attention_head_tiles(d->heads, d->kv_heads);
        const struct cuda_parts_limits limits = {
            .deal = deal,
            .most = deal == CUDA_DEAL_RUNS /* few, so that each has parts of several rows */
                        ? 1 + s->n_decodes / 3
                        : cuda_parts_most(deal, s->n_decodes, d->heads, d->kv_heads, sms_of(r)),
            .at_once = cuda_parts_at_once(d->heads, d->kv_heads, sms_of(r))};
        const int room = cuda_parts_room(limits.most, s->n_decodes);
        struct cuda_part *parts = world_take(w, (size_t)room * sizeof *parts);
        r->most.runs = limits.most + 3; /* more than there are */
        int *runs = world_ints(w, r->most.runs + 1);
        struct cuda_step *step = (void *)(uintptr_t)b.step;
        cuda_parts_plan(b.segments + s->n_chunks, s->n_decodes, &limits, parts, runs, step);
        for (int i = limits.most + 1; i <= r->most.runs; i++)
            runs[i] = step->n_parts;
        a.batch.parts = parts;
        a.batch.runs = runs;
        a.partial =
            world_scratch(w, (size_t)(room * d->heads) * (size_t)(d->head_dim + 2) * sizeof(float));
        a.counters = world_ints(w, r->most.rows * tiles);
    }
    /* rows of the batch that another kernel handles are not written */
    for (int i = 0; i < b.step->n_chunks + b.step->n_decodes; i++) {
        const bool chunk = i < b.step->n_chunks;
        if (id == (chunk ? CUDA_ATTENTION_DECODE : CUDA_ATTENTION_PREFILL))
            for (int64_t j = 0; j < (int64_t)b.segments[i].tokens * d->heads * d->head_dim; j++)
                twin_put(t, a.out, (int64_t)b.segments[i].first * d->heads * d->head_dim + j, 7);
    }
    snprintf(what, sizeof what, "%s, heads %d/%d of %d, blocks of %d%s%s%s", s->name, d->heads,
             d->kv_heads, d->head_dim, d->block_size, alibi ? ", ALiBi" : "", fuse ? ", fused" : "",
             id == CUDA_ATTENTION_DECODE && deal == CUDA_DEAL_RUNS ? ", in runs" : "");
    check(r, id, t, d->head_dim, &a, what);
}

static void check_rope(struct run *r, enum cuda_dtype t, const struct dims *d,
                       const struct shape *s, bool norm, bool rotate)
{
    struct world *w = &r->w;
    int n_blocks;
    char what[160];
    if (!wanted(r, CUDA_ROPE))
        return;
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
    if (too_large(r, CUDA_ROPE, t, &a))
        return;
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
        fill_angles(w, s, d->head_dim / 2, &a.cosine, &a.sine);
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
                static const enum cuda_deal deals[] = {CUDA_DEAL_SMALLEST, CUDA_DEAL_RUNS};
                for (int k = 0; k < 2; k++) {
                    check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, false, false,
                                    deals[k]);
                    check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, true, false,
                                    deals[k]);
                    check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, false, true,
                                    deals[k]);
                }
            }
            if (s->n_chunks > 0) {
                check_attention(r, CUDA_ATTENTION_PREFILL, t, &fast[j], s, false, false, CUDA_DEAL);
                check_attention(r, CUDA_ATTENTION_PREFILL, t, &fast[j], s, true, false, CUDA_DEAL);
            }
        }
        for (size_t j = 0; j < sizeof others / sizeof others[0]; j++) {
            check_attention(r, CUDA_ATTENTION_ANY, t, &others[j], s, j % 2 == 0, false, CUDA_DEAL);
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
    r->most = (struct cuda_sizes){
        .tokens = n + 3, .rows = n + 3, .chunks = 1, .decodes = n + 3, .sms = sms_of(r)};
    return count;
}

static void norm_case(struct run *r, enum cuda_dtype t, int n, int width, int variant)
{
    struct world *w = &r->w;
    char what[96];
    const bool add = variant & 1, bias = variant & 2, gather = variant & 4, keep = variant & 8;
    if (!wanted(r, CUDA_NORM))
        return;
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
    if (!wanted(r, CUDA_ACT))
        return;
    world_begin(w, (uint64_t)(n + width + act));
    struct cuda_act_args a = {.count = take_count(r, n), .width = width, .act = act};
    a.up = world_random(w, t, (int64_t)n * width * parts, 2);
    a.bias = bias ? world_random(w, t, width * parts, 1) : NULL;
    a.out = world_output(w, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d x %d, act %d%s", n, width, act, bias ? ", bias" : "");
    check(r, CUDA_ACT, t, 0, &a, what);
}

static void bias_case(struct run *r, enum cuda_dtype t, int n, int width)
{
    struct world *w = &r->w;
    char what[96];
    if (!wanted(r, CUDA_BIAS))
        return;
    world_begin(w, (uint64_t)(n + width));
    struct cuda_bias_args b = {.count = take_count(r, n), .width = width};
    b.x = world_random(w, t, (int64_t)n * width, 2);
    b.bias = world_random(w, t, width, 1);
    world_changes(w, b.x, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d x %d", n, width);
    check(r, CUDA_BIAS, t, 0, &b, what);
}

static void embed_case(struct run *r, enum cuda_dtype t, int n, int width)
{
    enum { VOCAB = 100 };
    struct world *w = &r->w;
    char what[96];
    if (!wanted(r, CUDA_EMBED))
        return;
    world_begin(w, (uint64_t)(n + width));
    take_count(r, n);
    struct cuda_step *step = world_take(w, sizeof *step);
    int *ids = world_ints(w, n), *last = world_ints(w, 4);
    *step = (struct cuda_step){.n_tokens = n, .n_rows = n, .n_decodes = n};
    for (int i = 0; i < n; i++)
        ids[i] = below(w, VOCAB + 4) - 4; /* the first four: the last token of a slot */
    for (int i = 0; i < 4; i++)
        last[i] = below(w, VOCAB);
    struct cuda_embed_args e = {.batch = {.step = step, .ids = ids, .last = last}, .hidden = width};
    e.table = world_random(w, t, VOCAB * width, 1);
    e.x = world_output(w, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d x %d", n, width);
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
            bias_case(r, t, n, width);
            embed_case(r, t, n, width);
        }
}

/* ---- matmul ---------------------------------------------------------------------------------- */

static void matmul_case(struct run *r, enum cuda_kernel_id id, enum cuda_dtype t, int n, int in,
                        int outs, int variant)
{
    struct world *w = &r->w;
    char what[128];
    const bool gated =
        id == CUDA_MATMUL_ONE_GATED || id == CUDA_MATMUL_FEW_GATED || id == CUDA_MATMUL_SOME_GATED;
    const bool norm = variant & 1, bias = variant & 2, residual = variant & 4, gather = variant & 8;
    const bool gelu = !gated && (variant & 16), in_float = variant & 32;
    const int parts = gated ? 2 : 1;
    if (!wanted(r, id))
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
    if (too_large(r, id, t, &a))
        return;
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
    static const int outs[] = {1, 8, 48, 300, 1024, 11008};
    static const int rows[] = {0, 1, 2, 7, 8, 9, 16};
    int n = 0;
    for (int id = CUDA_MATMUL_ONE; id <= CUDA_MATMUL_SOME_GATED; id++)
        for (size_t i = 0; i < sizeof ins / sizeof ins[0]; i++)
            for (size_t o = 0; o < sizeof outs / sizeof outs[0]; o++)
                for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
                    const int most = id <= CUDA_MATMUL_ONE_GATED   ? 1
                                     : id <= CUDA_MATMUL_FEW_GATED ? 8
                                                                   : 16;
                    const bool large = (int64_t)ins[i] * outs[o] > 2000000;
                    const int whole = most == 1 ? 1 : 2; /* of the large ones */
                    if (rows[k] > most || (large && (rows[k] != whole || outs[o] != 1024)))
                        continue;
                    matmul_case(r, (enum cuda_kernel_id)id, t, rows[k], ins[i], outs[o], n++ % 64);
                }
}

/* ---- the whole step -------------------------------------------------------------------------- */

struct step_dims {
    struct dims d;
    int layers, hidden, intermediate, vocab;
    bool qk_norm, alibi;
};

static const struct step_dims step_dims[] = {
    {{8, 4, 128, 16}, 2, 256, 640, 1003, true, false}, /* narrow tiles alone, a vocabulary by 1 */
    {{4, 4, 128, 32}, 3, 520, 1032, 2050, false, false},
    {{16, 8, 128, 16}, 2, 1024, 3072, 5000, true, false}, /* Qwen3-0.6B */
    {{6, 2, 64, 16}, 2, 264, 88, 300, true, true},
    {{16, 1, 64, 16}, 1, 1160, 136, 8, false, false},  /* two head tiles */
    {{4, 2, 64, 16}, 1, 4104, 136, 300, false, false}, /* inputs of 4,096 elements and more */
    {{4, 2, 64, 16}, 1, 264, 4104, 300, false, false},
};

static const struct shape step_shapes[] = {
    {"1 row, first token", 0, 1, {0}, {1}},
    {"1 row at 16", 0, 1, {16}, {1}},
    {"1 row at 127", 0, 1, {127}, {1}},
    {"1 row at 1023", 0, 1, {1023}, {1}},
    {"2 rows", 0, 2, {255, 256}, {1, 1}},
    {"3 rows", 0, 3, {700, 1, 40}, {1, 1, 1}},
    {"4 rows", 0, 4, {15, 300, 0, 513}, {1, 1, 1, 1}},
    {"no rows", 0, 0, {0}, {0}},
};

static void step_case(struct run *r, enum cuda_dtype t, const struct step_dims *m,
                      const struct shape *s)
{
    struct world *w = &r->w;
    const struct dims *d = &m->d;
    const int n = s->n_decodes, q = d->heads * d->head_dim, kv = d->kv_heads * d->head_dim;
    const int qkv = q + 2 * kv;
    int n_blocks;
    char what[128];
    if (!wanted(r, CUDA_DECODE_STEP))
        return;
    world_begin(w, (uint64_t)(m->hidden + s->before[0]));
    struct cuda_batch b = make_batch(r, s, d->block_size, &n_blocks);
    int *ids = world_ints(w, n), *last = world_ints(w, n + 2);
    for (int i = 0; i < n; i++) { /* every second token is still on the GPU */
        ids[i] = i % 2 ? -1 - (i + 1) : below(w, m->vocab);
        last[i + 1] = below(w, m->vocab);
    }
    b.ids = ids;
    b.last = last;
    const int64_t cache = (int64_t)n_blocks * kv * d->block_size;
    /* a layer: matrices, then norms */
    const int64_t at_out = (int64_t)qkv * m->hidden, at_up = at_out + (int64_t)q * m->hidden,
                  at_down = at_up + 2LL * m->intermediate * m->hidden,
                  at_norm = at_down + (int64_t)m->intermediate * m->hidden,
                  layer = at_norm + 2 * m->hidden + 2 * d->head_dim;
    const size_t element = (size_t)cuda_dtype_bytes(t);
    char *weights = world_take(w, (size_t)(layer * m->layers) * element),
         *keys = world_take(w, (size_t)(2 * cache * m->layers) * element);
    struct cuda_decode_step_args a = {
        .attention = {.batch = b,
                      .k = keys,
                      .v = keys + (size_t)cache * element,
                      .heads = d->heads,
                      .kv_heads = d->kv_heads,
                      .head_dim = d->head_dim,
                      .block_size = d->block_size,
                      .scale = (float)(1 / sqrt((double)d->head_dim)),
                      .fuse = 1,
                      .q_norm =
                          m->qk_norm ? weights + (size_t)(layer - 2 * d->head_dim) * element : NULL,
                      .k_norm =
                          m->qk_norm ? weights + (size_t)(layer - d->head_dim) * element : NULL,
                      .eps = 1e-6F,
                      .splits = cuda_decode_step_parts(n, d->heads, d->kv_heads, sms_of(r))},
        .input_norm = weights + (size_t)at_norm * element,
        .qkv_weight = weights,
        .out_weight = weights + (size_t)at_out * element,
        .post_norm = weights + (size_t)(at_norm + m->hidden) * element,
        .up_weight = weights + (size_t)at_up * element,
        .down_weight = weights + (size_t)at_down * element,
        .layer_bytes = (long long)layer * (long long)element,
        .cache_bytes = 2 * (long long)cache * (long long)element,
        .layers = m->layers,
        .hidden = m->hidden,
        .intermediate = m->intermediate,
        .vocab = m->vocab,
        .least_pages = 2};
    if (n > cuda_decode_step_rows(&a, t, sms_of(r)) || too_large(r, CUDA_DECODE_STEP, t, &a))
        return;
    world_randomize(w, t, weights, layer * m->layers, 1 / sqrt(m->hidden));
    for (int i = 0; i < m->layers; i++)
        for (int64_t j = at_norm; j < layer; j++)
            twin_put(t, weights, i * layer + j, 1 + 0.3F * (float)(j % 3));
    world_randomize(w, t, keys, 2 * cache * m->layers, 1);
    for (int i = 0; i < m->layers; i++)
        forget_unused(&b, d, t, n_blocks, keys + (size_t)(2 * i * cache) * element,
                      keys + (size_t)((2 * i + 1) * cache) * element);
    world_changes(w, keys, t, 2 * cache * m->layers);
    a.table = world_random(w, t, (int64_t)m->vocab * m->hidden, 1);
    a.lm_head = a.table;
    a.final_norm = world_random(w, t, m->hidden, 1);
    if (m->alibi) {
        float *slopes = world_floats(w, d->heads);
        for (int i = 0; i < d->heads; i++)
            slopes[i] = (float)exp2(-8.0 * (i + 1) / d->heads);
        a.attention.slopes = slopes;
    } else {
        fill_angles(w, s, d->head_dim / 2, &a.attention.cosine, &a.attention.sine);
    }
    a.x = world_scratch(w, (size_t)n * (size_t)m->hidden * element);
    a.qkv = world_scratch(w, (size_t)n * (size_t)qkv * element);
    a.attention.qkv = a.qkv;
    a.act = world_scratch(w, (size_t)n * (size_t)m->intermediate * element);
    a.exchange = world_scratch(w, (size_t)cuda_decode_step_words(&a, n, sms_of(r)) * 8);
    a.logits = world_output(w, CUDA_F32, (int64_t)n * m->vocab);
    a.sync = world_scratch(w, 2 * sizeof *a.sync);
    if (n == 1) /* they do not change results */
        a.stamps = world_scratch(w, (size_t)cuda_decode_step_stamps(m->layers) * 8);
    r->most = (struct cuda_sizes){.tokens = n, .rows = n, .decodes = n, .sms = sms_of(r)};
    snprintf(what, sizeof what, "%s, %d layers of %d, %d, heads %d/%d of %d, vocabulary %d",
             s->name, m->layers, m->hidden, m->intermediate, d->heads, d->kv_heads, d->head_dim,
             m->vocab);
    check(r, CUDA_DECODE_STEP, t, d->head_dim, &a, what);
}

static void step_cases(struct run *r, enum cuda_dtype t)
{
    if (!(cuda_kernels[CUDA_DECODE_STEP].dtypes >> t & 1) ||
        (r->w.gpu && r->w.gpu->arch < cuda_kernels[CUDA_DECODE_STEP].min_arch))
        return;
    for (size_t i = 0; i < sizeof step_dims / sizeof step_dims[0]; i++)
        for (size_t j = 0; j < sizeof step_shapes / sizeof step_shapes[0]; j++)
            step_case(r, t, &step_dims[i], &step_shapes[j]);
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
            const bool argmax = wanted(r, CUDA_ARGMAX), sample = wanted(r, CUDA_SAMPLE);
            if (!argmax && !sample)
                continue;
            world_begin(w, (uint64_t)(vocab + kind));
            take_count(r, ROWS);
            struct cuda_step *step = world_take(w, sizeof *step);
            int *slot = world_ints(w, ROWS), *positions = world_ints(w, ROWS);
            *step = (struct cuda_step){.n_tokens = ROWS, .n_rows = ROWS, .n_decodes = ROWS};
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
            if (argmax)
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
            if (sample)
                check(r, CUDA_SAMPLE, t, 0, &b, what);
        }
}

/* ---- weights --------------------------------------------------------------------------------- */

static void random_case(struct run *r, enum cuda_dtype t, int64_t n)
{
    struct world *w = &r->w;
    char what[64];
    if (!wanted(r, CUDA_RANDOM))
        return;
    world_begin(w, (uint64_t)n);
    take_count(r, 1);
    const struct tensor tensor = {.name = "mlp.up_proj.weight", .n_dims = 2};
    const struct random_weights weights = random_weights_of(&tensor, (uint64_t)n);
    struct cuda_random_args a = {.n = n,
                                 .key = {weights.key[0], weights.key[1]},
                                 .stream = {weights.stream[0], weights.stream[1]}};
    float *quantiles = world_floats(w, RANDOM_WEIGHTS_QUANTILES);
    memcpy(quantiles, random_weights_quantiles(), RANDOM_WEIGHTS_QUANTILES * sizeof *quantiles);
    a.quantiles = quantiles;
    a.out = world_output(w, t, n);
    snprintf(what, sizeof what, "%lld elements", (long long)n);
    check(r, CUDA_RANDOM, t, 0, &a, what);
}

static void fill_case(struct run *r, enum cuda_dtype t, int64_t n)
{
    struct world *w = &r->w;
    char what[64];
    if (!wanted(r, CUDA_FILL))
        return;
    world_begin(w, (uint64_t)n);
    take_count(r, 1);
    struct cuda_fill_args a = {.n = n, .value = 1.1F};
    a.out = world_output(w, t, n);
    snprintf(what, sizeof what, "%lld elements", (long long)n);
    check(r, CUDA_FILL, t, 0, &a, what);
}

static void random_cases(struct run *r, enum cuda_dtype t)
{
    static const int64_t counts[] = {1, 4, 63, 4095, 4096, 4097, 3000001};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        random_case(r, t, counts[i]);
        fill_case(r, t, counts[i]);
    }
}

int check_all(struct dev *g, const struct check_scope *scope)
{
    struct run r = {.scope = *scope};
    world_open(&r.w, g, (size_t)320 << 20);
    for (int t = 0; t < CUDA_DTYPES; t++) {
        if (scope->dtype && strcmp(scope->dtype, cuda_dtype_name((enum cuda_dtype)t)) != 0)
            continue;
        token_cases(&r, (enum cuda_dtype)t);
        attention_cases(&r, (enum cuda_dtype)t);
        matmul_cases(&r, (enum cuda_dtype)t);
        step_cases(&r, (enum cuda_dtype)t);
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
