#include "profile/read/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/rng.h"
#include "profile/read/fit.h"
#include "profile/read/tiles.h"

/* Sum of relative errors of the inner points from their neighbours on both sides. */
static double error_inside(const struct surface_point *p, int64_t n, double tile)
{
    double sum = 0;
    for (int64_t i = 1; i + 1 < n; i++) {
        double t = tile_weight(p[i - 1].x, p[i + 1].x, p[i].x, tile);
        if (p[i].y > 0)
            sum += fabs((p[i - 1].y + t * (p[i + 1].y - p[i - 1].y)) / p[i].y - 1);
    }
    return sum;
}

static double find_tile(const struct surface_point *p, int64_t n)
{
    enum { FEW = 32 };
    static const double sizes[] = {256, 128, 64, 32, 16};
    double best = 0, even = error_inside(p, n, 0), least = (1 - TILE_GAIN) * even;
    if (n < FEW || even < TILE_ERROR_FLOOR * (double)n)
        return 0;
    for (int64_t i = 0; i < n; i++)
        if (p[i].x != floor(p[i].x))
            return 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double error = error_inside(p, n, sizes[i]);
        if (error < least && least > TILE_ERROR_FLOOR / 2 * (double)n) {
            least = (1 - TILE_BETTER) * error;
            best = sizes[i];
        }
    }
    return best;
}

static void build_curve(struct arena *a, struct grid_set *known, const struct surface_point *p,
                        int64_t n, double tile, struct curve *out)
{
    double *x = arena_array(a, double, 3 * n), *y = arena_array(a, double, 3 * n);
    int32_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        double start = tile_end(p[i].x, tile) - tile + 1; /* of the tile that p[i] is in */
        if (tile > 0 && i > 0 && p[i - 1].x < start) {
            double end = tile_end(p[i - 1].x, tile);
            if (end > p[i - 1].x) {
                x[m] = end;
                y[m++] = p[i - 1].y;
            }
            if (start < p[i].x) {
                x[m] = start;
                y[m++] = p[i].y;
            }
        }
        x[m] = p[i].x;
        y[m++] = p[i].y;
    }
    *out = (struct curve){grid_intern(a, known, x, m), y};
}

/* Tokens from which on the experts hit are nearly constant. */
static double saturated(const struct model *m)
{
    enum { MOST = 4096 };
    double missed = 1 - (double)m->experts_per_token / (double)m->experts;
    double tokens = missed > 0 ? ceil(log(1e-6) / log(missed)) : 1;
    return tokens < MOST ? tokens : MOST;
}

/* A knot at every whole number until all experts are hit: the ratio to the fit, linear between the
 * points, times the fit. */
static void build_expert_curve(struct arena *a, struct grid_set *known, const struct model *m,
                               const struct surface_point *p, int64_t n, double theta[3],
                               struct curve *out)
{
    double last = saturated(m);
    double(*f)[3] = mem_alloc((size_t)n * sizeof *f), *y = mem_alloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        f[i][0] = 1;
        f[i][1] = model_experts_hit(m, p[i].x);
        f[i][2] = p[i].x;
        y[i] = p[i].y;
    }
    fit_positive(3, n, &f[0][0], y, 3, theta);
    int64_t room = n + (int64_t)last + 2;
    double *x = arena_array(a, double, room), *v = arena_array(a, double, room);
    int32_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        double fit0 = theta[0] + theta[1] * f[i][1] + theta[2] * p[i].x;
        x[k] = p[i].x;
        v[k++] = p[i].y;
        if (i + 1 == n)
            break;
        double fit1 = theta[0] + theta[1] * f[i + 1][1] + theta[2] * p[i + 1].x;
        double r0 = p[i].y / fit0, r1 = p[i + 1].y / fit1;
        for (double t = floor(p[i].x) + 1; t < p[i + 1].x && t <= last; t++) {
            double w = (t - p[i].x) / (p[i + 1].x - p[i].x);
            x[k] = t;
            v[k++] = (r0 + w * (r1 - r0)) *
                     (theta[0] + theta[1] * model_experts_hit(m, t) + theta[2] * t);
        }
    }
    mem_free(f);
    mem_free(y);
    *out = (struct curve){grid_intern(a, known, x, k), v};
}

/* The tiles to use, or NULL = find them. */
struct tiles {
    double tile;
    struct surface_tiles surface;
};

static void build(struct arena *a, struct grid_set *known, const struct tiles *tiles,
                  struct op_table *t)
{
    struct surface_point *p = arena_copy(a, t->points, (size_t)t->n * sizeof *p);
    int64_t n = surface_points_merge(p, t->n);
    if (t->experts.experts > 0) {
        build_expert_curve(a, known, &t->experts, p, n, t->expert_fit, &t->curve);
    } else if (t->axis == AXIS_TOKENS || t->axis == AXIS_ROWS) {
        t->tile = tiles ? tiles->tile : find_tile(p, n);
        build_curve(a, known, p, n, t->tile, &t->curve);
    } else {
        surface_build_seen(a, t->axis == AXIS_DECODE ? SURFACE_DECODE : SURFACE_PREFILL, &t->seen,
                           p, n, tiles ? &tiles->surface : NULL, &t->surface);
    }
}

static int by_place_then_value(const void *pa, const void *pb)
{
    const struct surface_point *a = pa, *b = pb;
    if (a->x != b->x)
        return a->x < b->x ? -1 : 1;
    if (a->kv != b->kv)
        return a->kv < b->kv ? -1 : 1;
    return (a->y > b->y) - (a->y < b->y);
}

static void take_points(struct arena *a, struct grid_set *known, struct surface_point *p, int64_t n,
                        struct op_table *out)
{
    out->points = p;
    qsort(p, (size_t)n, sizeof *p, by_place_then_value);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || by_place_then_value(&p[i], &p[i - 1]) != 0)
            p[out->n++] = p[i];
    if (n > 0)
        build(a, known, NULL, out);
}

void op_table_build(struct arena *a, enum op_axis axis, struct grid_set *known,
                    struct surface_point *p, int64_t n, struct op_table *out)
{
    *out = (struct op_table){.axis = axis};
    take_points(a, known, p, n, out);
}

void op_table_build_seen(struct arena *a, enum op_axis axis, const struct seen *seen,
                         const struct seen_rows *rows, struct grid_set *known,
                         struct surface_point *p, int64_t n, struct op_table *out)
{
    *out = (struct op_table){.axis = axis, .seen = *seen};
    for (int64_t i = 0; i < n; i++)
        p[i].kv = seen_kv_mean(seen, p[i].kv, p[i].x, axis == AXIS_DECODE ? rows : NULL);
    take_points(a, known, p, n, out);
}

void op_table_build_experts(struct arena *a, const struct model *m, struct grid_set *known,
                            struct surface_point *p, int64_t n, struct op_table *out)
{
    *out = (struct op_table){
        .axis = AXIS_TOKENS,
        .experts = {.experts = m->experts, .experts_per_token = m->experts_per_token}};
    take_points(a, known, p, n, out);
}

void op_table_build_for(struct arena *a, const struct model *m, const struct op *op,
                        const struct seen_rows *rows, struct grid_set *known,
                        struct surface_point *p, int64_t n, struct op_table *out)
{
    const struct seen seen = seen_of(m, op);
    if (op_is_expert(op->kind))
        op_table_build_experts(a, m, known, p, n, out);
    else
        op_table_build_seen(a, op->axis, &seen, rows, known, p, n, out);
}

void op_table_replace(struct arena *a, const struct op_table *t, struct grid_set *known,
                      const double *y, struct op_table *out)
{
    const struct tiles tiles = {t->tile, t->surface.tiles};
    struct surface_point *p = arena_copy(a, t->points, (size_t)t->n * sizeof *p);
    for (int64_t i = 0; i < t->n; i++)
        p[i].y = y[i];
    *out = (struct op_table){
        .axis = t->axis, .points = p, .n = t->n, .seen = t->seen, .experts = t->experts};
    out->tile = t->tile;
    if (t->n > 0)
        build(a, known, &tiles, out);
}

double op_table_at(const struct op_table *t, double x, double kv, bool *outside)
{
    if (t->n == 0)
        return 0;
    if (t->axis == AXIS_TOKENS || t->axis == AXIS_ROWS)
        return curve_scaled_at(&t->curve, x, outside);
    return surface_at(&t->surface, x, seen_kv(&t->seen, kv), outside);
}

/* [n]: the fold of each point, all of equal size, shuffled. */
static int64_t *deal(struct arena *a, int64_t n, int64_t folds)
{
    int64_t *fold = arena_array(a, int64_t, n);
    struct rng rng = rng_stream(1, "profile.holdout");
    for (int64_t i = 0; i < n; i++)
        fold[i] = i % folds;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)rng_below(&rng, (uint64_t)i + 1), swap = fold[i];
        fold[i] = fold[j];
        fold[j] = swap;
    }
    return fold;
}

int64_t op_table_errors(const struct op_table *t, int64_t folds, double *error)
{
    const struct surface_point *all = t->points;
    int64_t n = t->n, extrapolated = 0;
    for (int64_t i = 0; i < n; i++)
        error[i] = (double)NAN;
    if (n < 3)
        return 0;
    struct arena *keep = arena_new(), *fold_arena = arena_new();
    enum { MOST = 512 };
    bool one = folds <= 0 || folds > n; /* leave one out, with the tiles that all points show */
    const struct tiles tiles = {t->tile, t->surface.tiles};
    folds = one ? (n < MOST ? n : MOST) : folds;
    const int64_t *fold = deal(keep, n, folds);
    for (int64_t f = 0; f < folds; f++) {
        arena_reset(fold_arena);
        struct surface_point *rest = arena_array(fold_arena, struct surface_point, n);
        struct op_table without = {
            .axis = t->axis, .points = rest, .seen = t->seen, .experts = t->experts};
        for (int64_t i = 0; i < n; i++)
            if (fold[i] != f)
                rest[without.n++] = all[i];
        struct grid_set known = {0};
        build(fold_arena, &known, one ? &tiles : NULL, &without);
        for (int64_t i = 0; i < n; i++) {
            if (fold[i] != f || !(all[i].y > 0))
                continue;
            bool outside = false;
            double y = op_table_at(&without, all[i].x, all[i].kv, &outside);
            if (one && outside)
                continue;
            extrapolated += outside;
            error[i] = y / all[i].y - 1;
        }
    }
    arena_free(&keep);
    arena_free(&fold_arena);
    return extrapolated;
}

struct holdout op_table_holdout(const struct op_table *t, int64_t folds)
{
    struct holdout h = {0};
    double *error = mem_alloc((size_t)(t->n + 1) * sizeof *error);
    h.extrapolated = op_table_errors(t, folds, error);
    for (int64_t i = 0; i < t->n; i++)
        if (!isnan(error[i]))
            error[h.tested++] = fabs(error[i]);
    if (h.tested > 0) {
        qsort(error, (size_t)h.tested, sizeof *error, order_double);
        for (int64_t i = 0; i < h.tested; i++)
            h.mean += error[i] / (double)h.tested;
        h.median = error[(h.tested - 1) / 2];
        h.p90 = error[(h.tested - 1) * 9 / 10];
        h.max = error[h.tested - 1];
    }
    mem_free(error);
    return h;
}

struct op_spread op_spread_of(const double *error, int64_t n)
{
    static const double PER_MEAN_ERROR = 1.2533141373155; /* sqrt(pi / 2) */
    double sum = 0, absolute = 0;
    int64_t tested = 0;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(error[i])) {
            sum += error[i];
            tested++;
        }
    if (tested < 3)
        return (struct op_spread){0};
    const double mean = sum / (double)tested;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(error[i]))
            absolute += fabs(error[i] - mean);
    return (struct op_spread){PER_MEAN_ERROR * absolute / (double)tested / sqrt(1.5),
                              fabs(mean) / 6};
}
