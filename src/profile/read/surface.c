#include "profile/read/surface.h"

#include <math.h>
#include <stdlib.h>

#include "base/order.h"
#include "profile/read/fit.h"
#include "profile/read/tiles.h"

#define NF SURFACE_FEATURES

static void features(const struct surface *s, double x, double kv, double f[NF])
{
    double q = s->tiles.q, k = s->tiles.k;
    f[0] = 1;
    if (s->kind == SURFACE_DECODE) {
        double keys = k > 0 ? tile_end(kv + 1, k) : kv; /* the new token's key is among them */
        f[1] = x;
        f[2] = x * keys;
        f[3] = keys;
    } else {
        f[1] = tile_end(x, q);
        f[2] = s->seen.tokens > 0 ? seen_pairs(&s->seen, kv, x) : tile_pairs(kv, x, q, k);
        f[3] = tile_end(kv + x, k);
    }
}

static double fitted(const struct surface *s, double x, double kv)
{
    double f[NF], y = 0;
    features(s, x, kv, f);
    for (int i = 0; i < NF; i++)
        y += s->theta[i] * f[i];
    return y;
}

/* A ratio needs a fitted time above 0 wherever one was measured: the features that are above 0 at
 * all those points. Of decodes over an empty cache they are rows alone, else all. */
static unsigned fit_mask(int64_t n, double (*f)[NF], const double *y)
{
    unsigned mask = (1U << NF) - 1;
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < NF; j++)
            if (y[i] > 0 && !(f[i][j] > 0))
                mask &= ~(1U << j);
    return mask;
}

static void fit(struct surface *s, const struct surface_point *p, int64_t n)
{
    double(*f)[NF] = mem_alloc((size_t)n * sizeof *f), *y = mem_alloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        features(s, p[i].x, p[i].kv, f[i]);
        y[i] = p[i].y;
    }
    fit_positive(NF, n, &f[0][0], y, fit_mask(n, f, y), s->theta);
    mem_free(f);
    mem_free(y);
}

static int by_x_then_kv(const void *pa, const void *pb)
{
    const struct surface_point *a = pa, *b = pb;
    if (a->x != b->x)
        return a->x < b->x ? -1 : 1;
    return (a->kv > b->kv) - (a->kv < b->kv);
}

int64_t surface_points_merge(struct surface_point *p, int64_t n)
{
    qsort(p, (size_t)n, sizeof *p, by_x_then_kv);
    int64_t out = 0;
    for (int64_t i = 0; i < n;) {
        int64_t j = i;
        double sum = 0;
        for (; j < n && p[j].x == p[i].x && p[j].kv == p[i].kv; j++)
            sum += p[j].y;
        p[out] = p[i];
        p[out++].y = sum / (double)(j - i);
        i = j;
    }
    return out;
}

/* Tokens of a row's sequence beyond its cache: counted as keys too. */
static double new_tokens(const struct surface *s, double x)
{
    return s->kind == SURFACE_DECODE ? 1 : x;
}

static double row_at(const struct surface *s, int32_t row, double kv, bool *outside)
{
    const struct curve *c = &s->row[row];
    const struct grid *g = c->grid;
    if (s->tiles.k == 0 || g->n == 1 || kv <= g->x[0] || kv >= g->x[g->n - 1])
        return curve_at(c, kv, outside);
    int32_t i = grid_find(g, kv);
    double more = new_tokens(s, s->rows->x[row]);
    double t = tile_weight(g->x[i] + more, g->x[i + 1] + more, kv + more, s->tiles.k);
    return c->y[i] + t * (c->y[i + 1] - c->y[i]);
}

/* ---- knots that a row lacks ------------------------------------------------------------------ */

enum { NEAR_ROWS = 3, NEAR_KNOTS = 3 }; /* on each side */

struct vote {
    double value, weight;
};

struct votes {
    struct vote v[2 * NEAR_ROWS * 2 * NEAR_KNOTS];
    int n;
};

static int by_vote(const void *pa, const void *pb)
{
    const struct vote *a = pa, *b = pb;
    return (a->value > b->value) - (a->value < b->value);
}

static double median(struct votes *v)
{
    double all = 0, sum = 0;
    qsort(v->v, (size_t)v->n, sizeof *v->v, by_vote);
    for (int i = 0; i < v->n; i++)
        all += v->v[i].weight;
    for (int i = 0; i < v->n; i++)
        if ((sum += v->v[i].weight) >= all / 2)
            return v->v[i].value;
    return v->v[v->n - 1].value;
}

/* The knot of exactly kv, or -1. */
static int32_t knot(const struct curve *c, double kv)
{
    const struct grid *g = c->grid;
    if (g->n == 1 || kv >= g->x[g->n - 1])
        return kv == g->x[g->n - 1] ? g->n - 1 : -1;
    int32_t i = grid_find(g, kv);
    return g->x[i] == kv ? i : -1;
}

/* Adds row `other`'s estimates of the row's ratio at kv, from the nearest knots of both. */
static void ask(const struct surface *s, int32_t row, int32_t other, double kv, struct votes *v)
{
    const struct curve *own = &s->row[row], *c = &s->row[other];
    int32_t at = knot(c, kv), n = own->grid->n;
    if (at < 0)
        return;
    int32_t above = kv < own->grid->x[0] ? 0 : kv > own->grid->x[n - 1] ? n : 1;
    if (above == 1)
        above = grid_find(own->grid, kv) + 1;
    double more = new_tokens(s, s->rows->x[row]), size = s->tiles.k;
    for (int side = 0; side < 2; side++) {
        int32_t i = side ? above : above - 1;
        for (int found = 0; i >= 0 && i < n && found < NEAR_KNOTS; i += side ? 1 : -1) {
            double x = own->grid->x[i];
            int32_t common = knot(c, x);
            found++;
            if (common < 0 || !(c->y[common] > 0))
                continue;
            double tiles =
                size > 0 ? fabs(tile_end(x + more, size) - tile_end(kv + more, size)) / size : 0;
            v->v[v->n++] = (struct vote){own->y[i] * c->y[at] / c->y[common],
                                         1 / ((found + 4 * tiles) * abs(other - row))};
        }
    }
}

/* Knots of neighbouring rows that the row lacks, inside its own range or that of rows on both
 * sides. Returns their number; `out` has room for all of theirs. */
static int32_t lacking(const struct surface *s, int32_t row, double *out)
{
    const struct grid *own = s->row[row].grid;
    int32_t from = row > NEAR_ROWS ? row - NEAR_ROWS : 0, n = 0, kept = 0;
    int32_t to = row + NEAR_ROWS < s->rows->n ? row + NEAR_ROWS : s->rows->n - 1;
    for (int32_t i = from; i <= to; i++) {
        const struct grid *g = s->row[i].grid;
        for (int32_t k = 0; i != row && g != own && k < g->n; k++)
            if (knot(&s->row[row], g->x[k]) < 0)
                out[n++] = g->x[k];
    }
    qsort(out, (size_t)n, sizeof *out, order_double);
    for (int32_t k = 0; k < n; k++) {
        bool below = false, above = false,
             inside = out[k] > own->x[0] && out[k] < own->x[own->n - 1];
        if (kept && out[k] == out[kept - 1])
            continue;
        for (int32_t i = from; i <= to && !inside; i++) {
            below |= i < row && knot(&s->row[i], out[k]) >= 0;
            above |= i > row && knot(&s->row[i], out[k]) >= 0;
        }
        if (inside || (below && above))
            out[kept++] = out[k];
    }
    return kept;
}

static struct curve filled_row(struct arena *a, const struct surface *s, int32_t row,
                               struct grid_set *known, double *room)
{
    const struct curve *own = &s->row[row];
    int32_t n = lacking(s, row, room), m = 0, k = 0;
    if (n == 0)
        return *own;
    double *x = arena_array(a, double, own->grid->n + n),
           *y = arena_array(a, double, own->grid->n + n);
    for (int32_t i = 0; i < n; i++) {
        struct votes v = {0};
        for (int32_t d = -NEAR_ROWS; d <= NEAR_ROWS; d++)
            if (d != 0 && row + d >= 0 && row + d < s->rows->n)
                ask(s, row, row + d, room[i], &v);
        if (v.n == 0)
            continue;
        for (; k < own->grid->n && own->grid->x[k] < room[i]; k++, m++) {
            x[m] = own->grid->x[k];
            y[m] = own->y[k];
        }
        x[m] = room[i];
        y[m++] = median(&v);
    }
    for (; k < own->grid->n; k++, m++) {
        x[m] = own->grid->x[k];
        y[m] = own->y[k];
    }
    return (struct curve){grid_intern(a, known, x, m), y};
}

static void fill(struct arena *a, struct surface *s, struct grid_set *known)
{
    int64_t most = 0;
    for (int32_t i = 0; i < s->rows->n; i++)
        most = most > s->row[i].grid->n ? most : s->row[i].grid->n;
    double *room = arena_array(a, double, most * 2 * NEAR_ROWS);
    struct curve *row = arena_array(a, struct curve, s->rows->n);
    for (int32_t i = 0; i < s->rows->n; i++)
        row[i] = filled_row(a, s, i, known, room);
    s->row = row;
}

/* ---- building -------------------------------------------------------------------------------- */

/* Rows of ratios over the knots as measured. */
static void build_rows(struct arena *a, const struct surface_point *p, int64_t n,
                       struct grid_set *known, struct surface *out)
{
    double *x = arena_array(a, double, n), *kv = arena_array(a, double, n);
    struct curve *row = arena_array(a, struct curve, n);
    int32_t rows = 0;
    for (int64_t i = 0; i < n;) {
        int64_t j = i;
        for (; j < n && p[j].x == p[i].x; j++)
            kv[j - i] = p[j].kv;
        double *ratio = arena_array(a, double, j - i);
        for (int64_t k = i; k < j; k++) {
            const double fit = fitted(out, p[k].x, p[k].kv);
            ratio[k - i] = fit > 0 ? p[k].y / fit : 1; /* 0 / 0 */
        }
        x[rows] = p[i].x;
        row[rows++] = (struct curve){grid_intern(a, known, kv, (int32_t)(j - i)), ratio};
        i = j;
    }
    out->rows = grid_new(a, x, rows);
    out->row = row;
}

/* Mean relative error of each inner point from its two neighbours in its row, and from the rows on
 * both sides; < 0 when there are too few. */
static double error_inside(const struct surface *s)
{
    enum { FEW = 32 };
    double sum = 0;
    int64_t n = 0;
    for (int32_t i = 0; i < s->rows->n; i++) {
        const struct curve *c = &s->row[i];
        const double *kv = c->grid->x, *x = s->rows->x;
        double more = new_tokens(s, x[i]);
        for (int32_t k = 0; k < c->grid->n; k++) {
            if (!(c->y[k] > 0))
                continue;
            if (k > 0 && k + 1 < c->grid->n) {
                double t =
                    tile_weight(kv[k - 1] + more, kv[k + 1] + more, kv[k] + more, s->tiles.k);
                sum += fabs((c->y[k - 1] + t * (c->y[k + 1] - c->y[k - 1])) / c->y[k] - 1);
                n++;
            }
            bool outside = i == 0 || i + 1 == s->rows->n;
            if (outside)
                continue;
            double below = row_at(s, i - 1, kv[k], &outside),
                   above = row_at(s, i + 1, kv[k], &outside);
            double t = (x[i] - x[i - 1]) / (x[i + 1] - x[i - 1]);
            if (outside)
                continue;
            sum += fabs((below + t * (above - below)) / c->y[k] - 1);
            n++;
        }
    }
    return n < FEW ? -1 : sum / (double)n;
}

static struct surface_tiles find_tiles(enum surface_kind kind, const struct seen *seen,
                                       const struct surface_point *p, int64_t n)
{
    static const struct surface_tiles decode[] = {{0, 0},  {0, 256}, {0, 128}, {0, 64},
                                                  {0, 32}, {0, 16},  {0, 0}};
    static const struct surface_tiles prefill[] = {{0, 0},    {128, 256}, {128, 128}, {128, 64},
                                                   {128, 32}, {64, 128},  {64, 64},   {64, 32},
                                                   {32, 32},  {16, 16},   {0, 0}};
    const struct surface_tiles *c = kind == SURFACE_DECODE ? decode : prefill;
    struct surface_tiles best = {0, 0};
    double least = -1;
    if (seen->tokens > 0 && kind == SURFACE_PREFILL) /* tiles at both ends of what a query sees */
        return best;
    struct arena *a = arena_new();
    for (int i = 0; i == 0 || c[i].k > 0; i++) {
        struct surface s = {.kind = kind, .seen = *seen, .tiles = c[i]};
        struct grid_set known = {0};
        arena_reset(a);
        fit(&s, p, n);
        build_rows(a, p, n, &known, &s);
        double error = error_inside(&s);
        if (i == 0 && error < TILE_ERROR_FLOOR)
            break;
        if (i == 0)
            least = (1 - TILE_GAIN) * error;
        else if (error < least && least > TILE_ERROR_FLOOR / 2) {
            least = (1 - TILE_BETTER) * error;
            best = c[i];
        }
    }
    arena_free(&a);
    return best;
}

void surface_build(struct arena *a, enum surface_kind kind, const struct surface_point *p,
                   int64_t n, const struct surface_tiles *tiles, struct surface *out)
{
    surface_build_seen(a, kind, &(struct seen){0}, p, n, tiles, out);
}

void surface_build_seen(struct arena *a, enum surface_kind kind, const struct seen *seen,
                        const struct surface_point *p, int64_t n, const struct surface_tiles *tiles,
                        struct surface *out)
{
    struct grid_set known = {0};
    *out = (struct surface){
        .kind = kind, .seen = *seen, .tiles = tiles ? *tiles : find_tiles(kind, seen, p, n)};
    fit(out, p, n);
    build_rows(a, p, n, &known, out);
    fill(a, out, &known);
}

double surface_score_s(const struct surface *s)
{
    return s->kind == SURFACE_PREFILL && s->rows ? s->theta[2] : 0;
}

double surface_at(const struct surface *s, double x, double kv, bool *outside)
{
    const struct grid *g = s->rows;
    double y = fitted(s, x, kv);
    bool out0 = false, out1 = false;
    if (x <= g->x[0] || x >= g->x[g->n - 1]) {
        if (x < g->x[0] || x > g->x[g->n - 1])
            *outside = true;
        double r = row_at(s, x <= g->x[0] ? 0 : g->n - 1, kv, &out0);
        if (out0)
            *outside = true;
        return y * r;
    }
    int32_t i = grid_find(g, x);
    double t = (x - g->x[i]) / (g->x[i + 1] - g->x[i]);
    double r = row_at(s, i, kv, &out0);
    if (t > 0)
        r += t * (row_at(s, i + 1, kv, &out1) - r);
    else
        out1 = out0;
    /* where kv + x is bounded, the row of the longer chunk ends earlier: one row is enough */
    if (out0 && out1)
        *outside = true;
    return y * r;
}
