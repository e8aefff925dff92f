/* Every row of the table on the GPU against its twin, on random data and sizes around the edges. */
#include "gpu/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/parts.h"
#include "engine/cuda/twins.h"
#include "model/random.h"

bool case_wanted(struct case_run *r, enum cuda_kernel_id id)
{
    const struct check_scope *s = &r->scope;
    if (s->only && strcmp(s->only, cuda_kernels[id].name) != 0)
        return false;
    return s->every < 2 || r->seen++ % s->every == 0;
}

bool case_too_large(const struct case_run *r, enum cuda_kernel_id id, enum cuda_dtype t,
                    const void *args)
{
    const struct cuda_floor f = cuda_kernels[id].floor(args, t);
    return r->scope.most_bytes > 0 && f.bytes + f.flop / 64 > r->scope.most_bytes;
}

void case_check(struct case_run *r, enum cuda_kernel_id id, enum cuda_dtype t, int head_dim,
                const void *args, const char *what)
{
    const struct cuda_kernel *k = &cuda_kernels[id];
    if (case_too_large(r, id, t, args))
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

int case_sms(const struct case_run *r)
{
    return r->w.gpu ? r->w.gpu->sms : 132;
}

int case_below(struct world *w, int n)
{
    return (int)rng_below(&w->rng, (uint64_t)n);
}

int *case_count(struct case_run *r, int n)
{
    int *count = world_ints(&r->w, 1);
    *count = n;
    r->most = (struct cuda_sizes){
        .tokens = n + 3, .rows = n + 3, .chunks = 1, .decodes = n + 3, .sms = case_sms(r)};
    return count;
}

/* ---- batches --------------------------------------------------------------------------------- */

struct cuda_batch case_batch(struct case_run *r, const struct case_shape *s, int block_size,
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
        const int j = case_below(w, i + 1), other = table[j];
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
                                  .sms = case_sms(r)};
    return (struct cuda_batch){.step = step,
                               .positions = positions,
                               .kv_at = kv_at,
                               .row_token = row_token,
                               .row_slot = slot,
                               .segments = segments,
                               .blocks = table};
}

void case_angles(struct world *w, const struct case_shape *shape, int half, const float **c,
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

void case_forget_unused(const struct cuda_batch *b, const struct case_dims *d, enum cuda_dtype t,
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

/* ---- tokens ---------------------------------------------------------------------------------- */

static const int token_counts[] = {0, 1, 2, 17, 100};
static const int widths[] = {8, 48, 1024, 3072, 4104, 11008};
enum { COUNTS = 5, WIDTHS = 6 };

static void norm_case(struct case_run *r, enum cuda_dtype t, int n, int width, int variant)
{
    struct world *w = &r->w;
    char what[96];
    const bool add = variant & 1, bias = variant & 2, gather = variant & 4, keep = variant & 8;
    const bool residual = variant & 16;
    if (!case_wanted(r, CUDA_NORM))
        return;
    world_begin(w, (uint64_t)(n + width + variant));
    struct cuda_norm_args a = {.count = case_count(r, n),
                               .width = width,
                               .eps = 1e-5F,
                               .offset = residual && !bias ? 1 : 0};
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
    if (residual) {
        a.out = world_random(w, t, (int64_t)n * width, 2);
        a.residual = a.out;
        world_changes(w, a.out, t, (int64_t)n * width);
    } else {
        a.out = world_output(w, t, (int64_t)n * width);
    }
    if (keep) {
        a.sum = (void *)(uintptr_t)a.x; /* in place, as a residual stream is */
        world_changes(w, a.x, t, (int64_t)(n + 1) * width);
    }
    snprintf(what, sizeof what, "%d x %d%s%s%s%s%s", n, width, add ? ", add" : "",
             bias ? ", layer norm" : "", gather ? ", gathered" : "", keep ? ", sum kept" : "",
             residual ? ", residual" : "");
    case_check(r, CUDA_NORM, t, 0, &a, what);
}

static void act_case(struct case_run *r, enum cuda_dtype t, int n, int width, int act, bool bias)
{
    struct world *w = &r->w;
    char what[96];
    const int parts = CUDA_ACT_IS_GATED(act) ? 2 : 1;
    if (!case_wanted(r, CUDA_ACT))
        return;
    world_begin(w, (uint64_t)(n + width + act));
    struct cuda_act_args a = {.count = case_count(r, n), .width = width, .act = act};
    a.up = world_random(w, t, (int64_t)n * width * parts, 2);
    a.bias = bias ? world_random(w, t, width * parts, 1) : NULL;
    a.out = world_output(w, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d x %d, act %d%s", n, width, act, bias ? ", bias" : "");
    case_check(r, CUDA_ACT, t, 0, &a, what);
}

static void bias_case(struct case_run *r, enum cuda_dtype t, int n, int width)
{
    struct world *w = &r->w;
    char what[96];
    if (!case_wanted(r, CUDA_BIAS))
        return;
    world_begin(w, (uint64_t)(n + width));
    struct cuda_bias_args b = {.count = case_count(r, n), .width = width};
    b.x = world_random(w, t, (int64_t)n * width, 2);
    b.bias = world_random(w, t, width, 1);
    world_changes(w, b.x, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d x %d", n, width);
    case_check(r, CUDA_BIAS, t, 0, &b, what);
}

static void embed_case(struct case_run *r, enum cuda_dtype t, int n, int width)
{
    enum { VOCAB = 100 };
    struct world *w = &r->w;
    char what[96];
    if (!case_wanted(r, CUDA_EMBED))
        return;
    world_begin(w, (uint64_t)(n + width));
    case_count(r, n);
    struct cuda_step *step = world_take(w, sizeof *step);
    int *ids = world_ints(w, n), *last = world_ints(w, 4);
    *step = (struct cuda_step){.n_tokens = n, .n_rows = n, .n_decodes = n};
    for (int i = 0; i < n; i++)
        ids[i] = case_below(w, VOCAB + 4) - 4; /* the first four: the last token of a slot */
    for (int i = 0; i < 4; i++)
        last[i] = case_below(w, VOCAB);
    struct cuda_embed_args e = {.batch = {.step = step, .ids = ids, .last = last},
                                .hidden = width,
                                .scale = width % 3 ? 0 : 45.25F};
    e.table = world_random(w, t, VOCAB * width, 1);
    e.x = world_output(w, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d x %d", n, width);
    case_check(r, CUDA_EMBED, t, 0, &e, what);
}

static void token_cases(struct case_run *r, enum cuda_dtype t)
{
    for (int i = 0; i < COUNTS; i++)
        for (int j = 0; j < WIDTHS; j++) {
            const int n = token_counts[i], width = widths[j];
            if (n * width > 310000)
                continue;
            for (int variant = 0; variant < 32; variant++)
                norm_case(r, t, n, width, variant);
            act_case(r, t, n, width, CUDA_ACT_SILU_GATED, false);
            act_case(r, t, n, width, CUDA_ACT_SILU_GATED, true);
            act_case(r, t, n, width, CUDA_ACT_GELU_TANH, true);
            act_case(r, t, n, width, CUDA_ACT_GELU_GATED, false);
            bias_case(r, t, n, width);
            embed_case(r, t, n, width);
        }
}

/* ---- matmul ---------------------------------------------------------------------------------- */

static void matmul_case(struct case_run *r, enum cuda_kernel_id id, enum cuda_dtype t, int n,
                        int in, int outs, int variant)
{
    struct world *w = &r->w;
    char what[128];
    const bool gated =
        id == CUDA_MATMUL_ONE_GATED || id == CUDA_MATMUL_FEW_GATED || id == CUDA_MATMUL_SOME_GATED;
    const bool norm = variant & 1, bias = variant & 2, residual = variant & 4, gather = variant & 8;
    const bool gelu = !gated && (variant & 16), in_float = variant & 32;
    const int parts = gated ? 2 : 1;
    if (!case_wanted(r, id))
        return;
    world_begin(w, (uint64_t)(n + in + outs + variant));
    struct cuda_matmul_args a = {.count = case_count(r, n),
                                 .in = in,
                                 .outs = outs,
                                 .eps = 1e-6F,
                                 .out_float = in_float,
                                 .act = gated && variant & 16 ? CUDA_ACT_GELU_GATED
                                        : gated               ? CUDA_ACT_SILU_GATED
                                        : gelu                ? CUDA_ACT_GELU_TANH
                                                              : CUDA_ACT_NONE};
    if (case_too_large(r, id, t, &a))
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
    case_check(r, id, t, 0, &a, what);
}

static void matmul_cases(struct case_run *r, enum cuda_dtype t)
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
    struct case_dims d;
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

static const struct case_shape step_shapes[] = {
    {"1 row, first token", 0, 1, {0}, {1}},
    {"1 row at 16", 0, 1, {16}, {1}},
    {"1 row at 127", 0, 1, {127}, {1}},
    {"1 row at 1023", 0, 1, {1023}, {1}},
    {"2 rows", 0, 2, {255, 256}, {1, 1}},
    {"3 rows", 0, 3, {700, 1, 40}, {1, 1, 1}},
    {"4 rows", 0, 4, {15, 300, 0, 513}, {1, 1, 1, 1}},
    {"no rows", 0, 0, {0}, {0}},
};

static void step_case(struct case_run *r, enum cuda_dtype t, const struct step_dims *m,
                      const struct case_shape *s)
{
    struct world *w = &r->w;
    const struct case_dims *d = &m->d;
    const int n = s->n_decodes, q = d->heads * d->head_dim, kv = d->kv_heads * d->head_dim;
    const int qkv = q + 2 * kv;
    int n_blocks;
    char what[128];
    if (!case_wanted(r, CUDA_DECODE_STEP))
        return;
    world_begin(w, (uint64_t)(m->hidden + s->before[0]));
    struct cuda_batch b = case_batch(r, s, d->block_size, &n_blocks);
    int *ids = world_ints(w, n), *last = world_ints(w, n + 2);
    for (int i = 0; i < n; i++) { /* every second token is still on the GPU */
        ids[i] = i % 2 ? -1 - (i + 1) : case_below(w, m->vocab);
        last[i + 1] = case_below(w, m->vocab);
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
                      .splits = cuda_decode_step_parts(n, d->heads, d->kv_heads, case_sms(r))},
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
    if (n > cuda_decode_step_rows(&a, t, case_sms(r)) || case_too_large(r, CUDA_DECODE_STEP, t, &a))
        return;
    world_randomize(w, t, weights, layer * m->layers, 1 / sqrt(m->hidden));
    for (int i = 0; i < m->layers; i++)
        for (int64_t j = at_norm; j < layer; j++)
            twin_put(t, weights, i * layer + j, 1 + 0.3F * (float)(j % 3));
    world_randomize(w, t, keys, 2 * cache * m->layers, 1);
    for (int i = 0; i < m->layers; i++)
        case_forget_unused(&b, d, t, n_blocks, keys + (size_t)(2 * i * cache) * element,
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
        case_angles(w, s, d->head_dim / 2, &a.attention.cosine, &a.attention.sine);
    }
    a.x = world_scratch(w, (size_t)n * (size_t)m->hidden * element);
    a.qkv = world_scratch(w, (size_t)n * (size_t)qkv * element);
    a.attention.qkv = a.qkv;
    a.act = world_scratch(w, (size_t)n * (size_t)m->intermediate * element);
    a.exchange = world_scratch(w, (size_t)cuda_decode_step_words(&a, n, case_sms(r)) * 8);
    a.logits = world_output(w, CUDA_F32, (int64_t)n * m->vocab);
    a.sync = world_scratch(w, 2 * sizeof *a.sync);
    if (n == 1) /* they do not change results */
        a.stamps = world_scratch(w, (size_t)cuda_decode_step_stamps(m->layers) * 8);
    r->most = (struct cuda_sizes){.tokens = n, .rows = n, .decodes = n, .sms = case_sms(r)};
    snprintf(what, sizeof what, "%s, %d layers of %d, %d, heads %d/%d of %d, vocabulary %d",
             s->name, m->layers, m->hidden, m->intermediate, d->heads, d->kv_heads, d->head_dim,
             m->vocab);
    case_check(r, CUDA_DECODE_STEP, t, d->head_dim, &a, what);
}

static void step_cases(struct case_run *r, enum cuda_dtype t)
{
    if (!(cuda_kernels[CUDA_DECODE_STEP].dtypes >> t & 1) ||
        (r->w.gpu && r->w.gpu->arch < cuda_kernels[CUDA_DECODE_STEP].min_arch))
        return;
    for (size_t i = 0; i < sizeof step_dims / sizeof step_dims[0]; i++)
        for (size_t j = 0; j < sizeof step_shapes / sizeof step_shapes[0]; j++)
            step_case(r, t, &step_dims[i], &step_shapes[j]);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static void sample_cases(struct case_run *r, enum cuda_dtype t)
{
    static const int vocabs[] = {1, 5, 256, 1000, 32000, 151936};
    enum { ROWS = 8 };
    struct world *w = &r->w;
    for (size_t i = 0; i < sizeof vocabs / sizeof vocabs[0]; i++)
        for (int kind = 0; kind < 6; kind++) {
            char what[96];
            const int vocab = vocabs[i], sampled = kind == 1 ? (vocab + 1) / 2 : vocab;
            const bool argmax = case_wanted(r, CUDA_ARGMAX), sample = case_wanted(r, CUDA_SAMPLE);
            if (!argmax && !sample)
                continue;
            world_begin(w, (uint64_t)(vocab + kind));
            case_count(r, ROWS);
            struct cuda_step *step = world_take(w, sizeof *step);
            int *slot = world_ints(w, ROWS), *positions = world_ints(w, ROWS);
            *step = (struct cuda_step){.n_tokens = ROWS, .n_rows = ROWS, .n_decodes = ROWS};
            for (int j = 0; j < ROWS; j++) {
                slot[j] = (3 * j + 1) % ROWS;
                positions[j] = case_below(w, 1000);
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
                case_check(r, CUDA_ARGMAX, t, 0, &a, what);

            struct cuda_sampling *how = world_take(w, ROWS * sizeof *how);
            for (int j = 0; j < ROWS; j++)
                how[j] = (struct cuda_sampling){.temperature = j == 3 ? 0 : 0.3F + 0.3F * (float)j,
                                                .min_p = j % 4 == 1 ? 0.02F : 0,
                                                .top_p = j % 2 ? 0.4F + 0.07F * (float)j : 1,
                                                .top_k = j % 3 == 2 ? 1 + case_below(w, 50) : 0,
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
                case_check(r, CUDA_SAMPLE, t, 0, &b, what);
        }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Of some: the matrix is turned. */
static int random_width(int64_t n)
{
    if (n % 4096 == 0)
        return 64;
    return n % 63 == 0 ? 21 : 0;
}

static void random_case(struct case_run *r, enum cuda_dtype t, int64_t n)
{
    struct world *w = &r->w;
    char what[64];
    if (!case_wanted(r, CUDA_RANDOM))
        return;
    world_begin(w, (uint64_t)n);
    case_count(r, 1);
    const struct tensor tensor = {.name = "mlp.up_proj.weight", .n_dims = 2};
    const struct random_weights weights = random_weights_of(&tensor, (uint64_t)n);
    struct cuda_random_args a = {.n = n,
                                 .first = n % 5,
                                 .width = random_width(n),
                                 .pairs = n % 4096 == 0,
                                 .key = {weights.key[0], weights.key[1]},
                                 .stream = {weights.stream[0], weights.stream[1]}};
    float *quantiles = world_floats(w, RANDOM_WEIGHTS_QUANTILES);
    memcpy(quantiles, random_weights_quantiles(), RANDOM_WEIGHTS_QUANTILES * sizeof *quantiles);
    a.quantiles = quantiles;
    a.out = world_output(w, t, n);
    snprintf(what, sizeof what, "%lld elements", (long long)n);
    case_check(r, CUDA_RANDOM, t, 0, &a, what);
}

static void fill_case(struct case_run *r, enum cuda_dtype t, int64_t n)
{
    struct world *w = &r->w;
    char what[64];
    if (!case_wanted(r, CUDA_FILL))
        return;
    world_begin(w, (uint64_t)n);
    case_count(r, 1);
    struct cuda_fill_args a = {.n = n, .value = 1.1F};
    a.out = world_output(w, t, n);
    snprintf(what, sizeof what, "%lld elements", (long long)n);
    case_check(r, CUDA_FILL, t, 0, &a, what);
}

static void random_cases(struct case_run *r, enum cuda_dtype t)
{
    static const int64_t counts[] = {1, 4, 63, 4095, 4096, 4097, 3000001};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        random_case(r, t, counts[i]);
        fill_case(r, t, counts[i]);
    }
}

int check_all(struct dev *g, const struct check_scope *scope)
{
    struct case_run r = {.scope = *scope};
    world_open(&r.w, g, (size_t)320 << 20);
    for (int t = 0; t < CUDA_DTYPES; t++) {
        if (scope->dtype && strcmp(scope->dtype, cuda_dtype_name((enum cuda_dtype)t)) != 0)
            continue;
        token_cases(&r, (enum cuda_dtype)t);
        case_attention(&r, (enum cuda_dtype)t);
        case_experts(&r, (enum cuda_dtype)t);
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
