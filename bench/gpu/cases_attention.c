/* Attention and rotation: batches of every kind, heads of several sizes, windows and sinks. */
#include <math.h>
#include <stdio.h>

#include "engine/cuda/parts.h"
#include "engine/cuda/twins.h"
#include "gpu/cases.h"

static const struct case_shape shapes[] = {
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

/* window: 0 = none; sinks: those of the heads are far below, near and far above the scores. */
struct seen {
    int window;
    bool sinks;
};

static void check_attention(struct case_run *r, enum cuda_kernel_id id, enum cuda_dtype t,
                            const struct case_dims *d, const struct case_shape *s, bool alibi,
                            bool fuse, enum cuda_deal deal, struct seen seen)
{
    struct world *w = &r->w;
    int n_blocks;
    char what[160];
    if (!case_wanted(r, id))
        return;
    world_begin(w, (uint64_t)(d->heads * 1000 + d->head_dim + s->before[0] + s->tokens[0]));
    const struct cuda_batch b = case_batch(r, s, d->block_size, &n_blocks);
    const int64_t cache = (int64_t)n_blocks * d->kv_heads * d->block_size * d->head_dim;
    const int64_t row = (int64_t)(d->heads + 2 * d->kv_heads) * d->head_dim;
    const int64_t out_elems = (int64_t)b.step->n_tokens * d->heads * d->head_dim;
    struct cuda_attention_args a = {.batch = b,
                                    .heads = d->heads,
                                    .kv_heads = d->kv_heads,
                                    .head_dim = d->head_dim,
                                    .block_size = d->block_size,
                                    .scale = (float)(1 / sqrt((double)d->head_dim)),
                                    .window = seen.window,
                                    .fuse = fuse,
                                    .eps = 1e-6F};
    if (case_too_large(r, id, t, &a))
        return;
    a.k = world_random(w, t, cache, 1);
    a.v = world_random(w, t, cache, 1);
    a.qkv = world_random(w, t, b.step->n_tokens * row, 1.5);
    case_forget_unused(&b, d, t, n_blocks, a.k, a.v);
    a.out = world_output(w, t, out_elems);
    if (alibi) {
        float *slopes = world_floats(w, d->heads);
        for (int i = 0; i < d->heads; i++)
            slopes[i] = (float)exp2(-8.0 * (i + 1) / d->heads);
        a.slopes = slopes;
    }
    if (seen.sinks) {
        void *sinks = world_take(w, (size_t)(d->heads * cuda_dtype_bytes(t)));
        for (int i = 0; i < d->heads; i++)
            twin_put(t, sinks, i, (float)(i % 4 == 3 ? 8 : i % 4 - 1));
        a.sinks = sinks;
    }
    if (fuse) {
        a.q_norm = world_random(w, t, d->head_dim, 1);
        a.k_norm = world_random(w, t, d->head_dim, 1);
        a.norm_offset = seen.sinks ? 1 : 0;
        case_angles(w, s, d->head_dim / 2, &a.cosine, &a.sine);
        world_changes(w, a.k, t, cache);
        world_changes(w, a.v, t, cache);
    }
    if (id == CUDA_ATTENTION_DECODE) {
        const int tiles = cuda_attention_head_tiles(d->heads, d->kv_heads);
        const struct cuda_parts_limits limits = {
            .deal = deal,
            .most = deal == CUDA_DEAL_RUNS /* few, so that each has parts of several rows */
                        ? 1 + s->n_decodes / 3
                        : cuda_parts_most(deal, s->n_decodes, d->heads, d->kv_heads, case_sms(r)),
            .at_once = cuda_parts_at_once(d->heads, d->kv_heads, case_sms(r)),
            .window = seen.window};
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
    snprintf(what, sizeof what, "%s, heads %d/%d of %d, blocks of %d, window %d%s%s%s%s", s->name,
             d->heads, d->kv_heads, d->head_dim, d->block_size, seen.window,
             seen.sinks ? ", sinks" : "", alibi ? ", ALiBi" : "", fuse ? ", fused" : "",
             id == CUDA_ATTENTION_DECODE && deal == CUDA_DEAL_RUNS ? ", in runs" : "");
    case_check(r, id, t, d->head_dim, &a, what);
}

static void check_rope(struct case_run *r, enum cuda_dtype t, const struct case_dims *d,
                       const struct case_shape *s, bool norm, bool rotate)
{
    struct world *w = &r->w;
    int n_blocks;
    char what[160];
    if (!case_wanted(r, CUDA_ROPE))
        return;
    world_begin(w, 7);
    const struct cuda_batch b = case_batch(r, s, d->block_size, &n_blocks);
    const int64_t cache = (int64_t)n_blocks * d->kv_heads * d->block_size * d->head_dim;
    const int64_t row = (int64_t)(d->heads + 2 * d->kv_heads) * d->head_dim;
    struct cuda_rope_args a = {.batch = b,
                               .heads = d->heads,
                               .kv_heads = d->kv_heads,
                               .head_dim = d->head_dim,
                               .block_size = d->block_size,
                               .eps = 1e-6F};
    if (case_too_large(r, CUDA_ROPE, t, &a))
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
    a.norm_offset = d->heads == 4 ? 1 : 0;
    if (rotate)
        case_angles(w, s, d->head_dim / 2, &a.cosine, &a.sine);
    snprintf(what, sizeof what, "%s, heads %d/%d of %d%s%s", s->name, d->heads, d->kv_heads,
             d->head_dim, norm ? ", normed" : "", rotate ? ", rotated" : "");
    case_check(r, CUDA_ROPE, t, 0, &a, what);
}

/* Windows of less than a page, around one, of some stripes, and of more than there is. */
static const struct seen seens[] = {{1, false},  {7, true},  {16, true},
                                    {17, false}, {64, true}, {128, true},
                                    {200, true}, {0, true},  {1 << 20, false}};
enum { SEENS = sizeof seens / sizeof seens[0] };

static void seen_cases(struct case_run *r, enum cuda_dtype t, const struct case_dims *fast,
                       const struct case_dims *other, const struct case_shape *s)
{
    for (int i = 0; i < SEENS; i++) {
        if (t != CUDA_F32 && s->n_decodes > 0) {
            check_attention(r, CUDA_ATTENTION_DECODE, t, fast, s, false, false, CUDA_DEAL_SMALLEST,
                            seens[i]);
            check_attention(r, CUDA_ATTENTION_DECODE, t, fast, s, false, true, CUDA_DEAL_RUNS,
                            seens[i]);
        }
        if (t != CUDA_F32 && s->n_chunks > 0)
            check_attention(r, CUDA_ATTENTION_PREFILL, t, fast, s, false, false, CUDA_DEAL,
                            seens[i]);
        check_attention(r, CUDA_ATTENTION_ANY, t, other, s, false, false, CUDA_DEAL, seens[i]);
    }
}

void case_attention(struct case_run *r, enum cuda_dtype t)
{
    static const struct seen all = {0, false};
    static const struct case_dims fast[] = {{4, 4, 128, 16}, {8, 4, 128, 16}, {16, 2, 128, 16},
                                            {8, 8, 64, 16},  {8, 1, 64, 32},  {24, 2, 64, 16}};
    static const struct case_dims others[] = {
        {6, 2, 8, 16}, {4, 2, 32, 4}, {4, 4, 12, 16}, {8, 4, 128, 16}};
    for (int i = 0; i < SHAPES; i++) {
        const struct case_shape *s = &shapes[i];
        for (size_t j = 0; t != CUDA_F32 && j < sizeof fast / sizeof fast[0]; j++) {
            if (s->n_decodes > 0) {
                static const enum cuda_deal deals[] = {CUDA_DEAL_SMALLEST, CUDA_DEAL_RUNS};
                for (int k = 0; k < 2; k++) {
                    check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, false, false,
                                    deals[k], all);
                    check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, true, false, deals[k],
                                    all);
                    check_attention(r, CUDA_ATTENTION_DECODE, t, &fast[j], s, false, true, deals[k],
                                    all);
                }
            }
            if (s->n_chunks > 0) {
                check_attention(r, CUDA_ATTENTION_PREFILL, t, &fast[j], s, false, false, CUDA_DEAL,
                                all);
                check_attention(r, CUDA_ATTENTION_PREFILL, t, &fast[j], s, true, false, CUDA_DEAL,
                                all);
            }
        }
        for (size_t j = 0; j < sizeof others / sizeof others[0]; j++) {
            check_attention(r, CUDA_ATTENTION_ANY, t, &others[j], s, j % 2 == 0, false, CUDA_DEAL,
                            all);
            check_rope(r, t, &others[j], s, true, true);
            check_rope(r, t, &others[j], s, false, j % 2 == 0);
        }
        seen_cases(r, t, &fast[(size_t)i % (sizeof fast / sizeof fast[0])], &others[i % 4], s);
    }
}
