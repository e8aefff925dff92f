/* Experts: routing, the order of the pairs, grouped products and their sum. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/twins.h"
#include "gpu/cases.h"

/* ---- routing --------------------------------------------------------------------------------- */

static const int token_counts[] = {0, 1, 5, 33, 200};

struct choice {
    int experts, k;
};
/* Mixtral, gpt-oss-20b, Qwen3-30B-A3B, more than fit a few lanes, all of them. */
static const struct choice choices[] = {{8, 2}, {32, 4}, {128, 8}, {600, 10}, {3, 3}, {1, 1}};
enum { COUNTS = 5, CHOICES = 6 };

/* equal: logits of few values, so that many are the same. */
static void route_case(struct case_run *r, enum cuda_dtype t, int n, struct choice c, bool over_all,
                       bool equal)
{
    struct world *w = &r->w;
    char what[96];
    if (!case_wanted(r, CUDA_ROUTE))
        return;
    world_begin(w, (uint64_t)(n + c.experts));
    struct cuda_route_args a = {
        .count = case_count(r, n), .experts = c.experts, .k = c.k, .over_all = over_all};
    float *logits = world_random(w, CUDA_F32, (int64_t)n * c.experts, 3);
    for (int64_t i = 0; equal && i < (int64_t)n * c.experts; i++)
        logits[i] = rintf(logits[i]);
    a.logits = logits;
    a.bias = over_all == equal ? world_random(w, t, c.experts, 2) : NULL;
    a.expert = world_output(w, CUDA_F32, (int64_t)n * c.k);
    a.weight = world_output(w, CUDA_F32, (int64_t)n * c.k);
    snprintf(what, sizeof what, "%d tokens, %d of %d%s%s%s", n, c.k, c.experts,
             over_all ? ", over all" : "", equal ? ", equal ones" : "", a.bias ? ", bias" : "");
    case_check(r, CUDA_ROUTE, t, 0, &a, what);
}

/* Some experts get most of the pairs, some none: chosen by the square of a uniform number. */
static int *choose(struct case_run *r, int n, struct choice c)
{
    int *expert = world_ints(&r->w, n * c.k);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < c.k; j++) {
            bool again = true;
            for (int tries = 0; again; tries++) {
                const double u = (double)case_below(&r->w, 1 << 20) / (1 << 20);
                const int e = tries < 9 ? (int)(u * u * c.experts) : case_below(&r->w, c.experts);
                expert[i * c.k + j] = e;
                again = false;
                for (int l = 0; l < j; l++)
                    again = again || expert[i * c.k + l] == e;
            }
        }
    return expert;
}

static void group_case(struct case_run *r, enum cuda_dtype t, int n, struct choice c, int rows)
{
    struct world *w = &r->w;
    char what[96];
    if (!case_wanted(r, CUDA_GROUP))
        return;
    world_begin(w, (uint64_t)(n + c.experts + rows));
    const int pairs = n * c.k;
    const int64_t tiles = cuda_experts_tiles(pairs, c.experts, rows);
    struct cuda_group_args a = {
        .count = case_count(r, n), .experts = c.experts, .k = c.k, .rows = rows};
    a.expert = choose(r, n, c);
    a.order = world_output(w, CUDA_F32, pairs);
    a.tiles = world_output(w, CUDA_F32, 3 * tiles);
    a.n_tiles = world_output(w, CUDA_F32, 1);
    snprintf(what, sizeof what, "%d tokens, %d of %d, tiles of %d", n, c.k, c.experts, rows);
    case_check(r, CUDA_GROUP, t, 0, &a, what);
}

static void combine_case(struct case_run *r, enum cuda_dtype t, int n, int k, int width)
{
    struct world *w = &r->w;
    char what[96];
    if (!case_wanted(r, CUDA_COMBINE))
        return;
    world_begin(w, (uint64_t)(n + k + width));
    struct cuda_combine_args a = {.count = case_count(r, n), .k = k, .width = width};
    if (case_too_large(r, CUDA_COMBINE, t, &a))
        return;
    a.y = world_random(w, t, (int64_t)n * k * width, 1);
    a.weight = world_random(w, CUDA_F32, (int64_t)n * k, 0.3);
    a.x = world_random(w, t, (int64_t)n * width, 1);
    world_changes(w, a.x, t, (int64_t)n * width);
    snprintf(what, sizeof what, "%d tokens of %d, %d experts", n, width, k);
    case_check(r, CUDA_COMBINE, t, 0, &a, what);
}

/* ---- products -------------------------------------------------------------------------------- */

struct sizes {
    int in, outs;
};

static void experts_case(struct case_run *r, enum cuda_kernel_id id, enum cuda_dtype t, int n,
                         struct choice c, struct sizes s, int act, bool bias, bool down)
{
    struct world *w = &r->w;
    char what[128];
    if (!case_wanted(r, id))
        return;
    world_begin(w, (uint64_t)(n + c.experts + s.in + s.outs + act));
    const int pairs = n * c.k, rows = cuda_experts_rows(id), parts = CUDA_ACT_IS_GATED(act) ? 2 : 1;
    const int64_t one = (int64_t)s.outs * parts, gap = 128 / cuda_dtype_bytes(t);
    struct cuda_tile *tiles =
        world_take(w, (size_t)cuda_experts_tiles(pairs, c.experts, rows) * sizeof *tiles);
    int *n_tiles = world_ints(w, 1), *order = world_ints(w, pairs);
    const struct cuda_group_args g = {.count = case_count(r, n),
                                      .expert = choose(r, n, c),
                                      .order = order,
                                      .tiles = tiles,
                                      .n_tiles = n_tiles,
                                      .experts = c.experts,
                                      .k = c.k,
                                      .rows = rows};
    twin_group(&g, t);
    struct cuda_experts_args a = {.n_tiles = n_tiles,
                                  .tiles = tiles,
                                  .order = order,
                                  .experts = c.experts,
                                  .k = c.k,
                                  .share = down ? 1 : c.k,
                                  .weight_step = one * s.in + gap,
                                  .bias_step = one + gap,
                                  .in = s.in,
                                  .outs = s.outs,
                                  .act = act,
                                  .alpha = 1.702F,
                                  .limit = 1.5F};
    if (case_too_large(r, id, t, &a))
        return;
    a.x = world_random(w, t, (int64_t)(down ? pairs : n) * s.in, 1);
    a.weight = world_random(w, t, c.experts * a.weight_step, 1 / sqrt(s.in));
    a.bias = bias ? world_random(w, t, c.experts * a.bias_step, 1) : NULL;
    a.out = world_output(w, t, (int64_t)pairs * s.outs);
    snprintf(what, sizeof what, "%d tokens, %d of %d, %d -> %d, act %d%s%s", n, c.k, c.experts,
             s.in, s.outs, act, bias ? ", bias" : "", down ? ", an input each" : "");
    case_check(r, id, t, 0, &a, what);
}

static void experts_cases(struct case_run *r, enum cuda_dtype t)
{
    static const struct sizes sizes[] = {{8, 8},    {64, 32},   {88, 40},
                                         {264, 72}, {136, 200}, {1024, 96}};
    static const int acts[] = {CUDA_ACT_NONE, CUDA_ACT_SILU_GATED, CUDA_ACT_CLAMPED_GATED,
                               CUDA_ACT_GELU_GATED};
    int n = 0;
    for (int id = CUDA_EXPERTS_FEW; id <= CUDA_EXPERTS_MANY; id++)
        for (int i = 0; i < COUNTS; i++)
            for (int j = 0; j < CHOICES; j++)
                for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++, n++) {
                    const int act = acts[n % 4];
                    if (choices[j].experts * sizes[k].in * sizes[k].outs > 4 << 20)
                        continue;
                    experts_case(r, (enum cuda_kernel_id)id, t, token_counts[i], choices[j],
                                 sizes[k], act, n % 3 == 0, act == CUDA_ACT_NONE);
                }
}

void case_experts(struct case_run *r, enum cuda_dtype t)
{
    for (int i = 0; i < COUNTS; i++)
        for (int j = 0; j < CHOICES; j++) {
            for (int variant = 0; variant < 4; variant++)
                route_case(r, t, token_counts[i], choices[j], variant & 1, variant & 2);
            group_case(r, t, token_counts[i], choices[j], CUDA_TILE_FEW);
            group_case(r, t, token_counts[i], choices[j], CUDA_TILE_MANY);
            combine_case(r, t, token_counts[i], choices[j].k, j % 2 ? 48 : 2880);
        }
    experts_cases(r, t);
}
