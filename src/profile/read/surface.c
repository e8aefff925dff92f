#include "profile/read/surface.h"

#include <math.h>
#include <stdlib.h>

#define NF SURFACE_FEATURES

static void features(enum surface_kind kind, double x, double kv, double f[NF])
{
    f[0] = 1;
    f[1] = x;
    f[2] = kind == SURFACE_DECODE ? x * kv : x * kv + x * (x + 1) / 2;
    f[3] = kind == SURFACE_DECODE ? kv : kv + x;
}

static double fitted(const struct surface *s, double x, double kv)
{
    double f[NF], y = 0;
    features(s->kind, x, kv, f);
    for (int i = 0; i < NF; i++)
        y += s->theta[i] * f[i];
    return y;
}

/* Normal equations of the weighted least squares: minimise sum ((theta . f - y) / y)^2. */
struct normal {
    double a[NF][NF], b[NF], scale[NF];
};

static void normal_sum(enum surface_kind kind, const struct surface_point *p, int64_t n,
                       struct normal *m)
{
    *m = (struct normal){0};
    double f[NF], floor_y = 0;
    for (int64_t i = 0; i < n; i++) {
        features(kind, p[i].x, p[i].kv, f);
        for (int j = 0; j < NF; j++)
            m->scale[j] = fmax(m->scale[j], f[j]);
        floor_y = fmax(floor_y, p[i].y);
    }
    floor_y *= 1e-6; /* times of 0 (coarse clocks) must not get all the weight */
    for (int64_t i = 0; i < n; i++) {
        features(kind, p[i].x, p[i].kv, f);
        double w = 1 / fmax(p[i].y, floor_y > 0 ? floor_y : 1);
        for (int j = 0; j < NF; j++) {
            f[j] *= m->scale[j] > 0 ? w / m->scale[j] : 0;
            m->b[j] += f[j] * p[i].y * w;
        }
        for (int j = 0; j < NF; j++)
            for (int k = 0; k < NF; k++)
                m->a[j][k] += f[j] * f[k];
    }
}

/* Cholesky on the features in `mask`; false when they are not independent or a coefficient is
 * negative. *gain is the part of the sum of squares explained. */
static bool solve_subset(const struct normal *m, unsigned mask, double theta[NF], double *gain)
{
    int idx[NF], n = 0;
    for (int j = 0; j < NF; j++)
        if (mask >> j & 1)
            idx[n++] = j;
    double l[NF][NF] = {{0}}, z[NF];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double s = m->a[idx[i]][idx[j]];
            for (int k = 0; k < j; k++)
                s -= l[i][k] * l[j][k];
            if (i == j && s <= 1e-11 * m->a[idx[i]][idx[i]])
                return false;
            l[i][j] = i == j ? sqrt(s) : s / l[j][j];
        }
        z[i] = m->b[idx[i]];
        for (int k = 0; k < i; k++)
            z[i] -= l[i][k] * z[k];
        z[i] /= l[i][i];
    }
    *gain = 0;
    for (int i = 0; i < n; i++)
        *gain += z[i] * z[i];
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            z[i] -= l[k][i] * z[k];
        z[i] /= l[i][i];
        if (z[i] < 0)
            return false;
    }
    for (int j = 0; j < NF; j++)
        theta[j] = 0;
    for (int i = 0; i < n; i++)
        theta[idx[i]] = z[i] / m->scale[idx[i]];
    return true;
}

/* Non-negative least squares of four features: the best of the 15 subsets, smaller ones first. */
static void fit(enum surface_kind kind, const struct surface_point *p, int64_t n, double theta[NF])
{
    struct normal m;
    normal_sum(kind, p, n, &m);
    double best = 0, gain, t[NF];
    for (int size = 1; size <= NF; size++)
        for (unsigned mask = 1; mask < 1U << NF; mask++) {
            if (__builtin_popcount(mask) != size || !solve_subset(&m, mask, t, &gain))
                continue;
            if (!(t[0] > 0 || t[1] > 0)) /* it would be 0 at an empty cache */
                continue;
            if (gain > best * (1 + 1e-12)) {
                best = gain;
                for (int j = 0; j < NF; j++)
                    theta[j] = t[j];
            }
        }
    if (!(best > 0)) /* all times are 0 */
        theta[0] = 1;
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

void surface_build(struct arena *a, enum surface_kind kind, const struct surface_point *p,
                   int64_t n, struct surface *out)
{
    *out = (struct surface){.kind = kind};
    fit(kind, p, n, out->theta);

    double *x = arena_array(a, double, n), *kv = arena_array(a, double, n);
    struct curve *row = arena_array(a, struct curve, n);
    struct grid_set known = {0};
    int32_t rows = 0;
    for (int64_t i = 0; i < n;) {
        int64_t j = i;
        for (; j < n && p[j].x == p[i].x; j++)
            kv[j - i] = p[j].kv;
        double *ratio = arena_array(a, double, j - i);
        for (int64_t k = i; k < j; k++)
            ratio[k - i] = p[k].y / fitted(out, p[k].x, p[k].kv);
        x[rows] = p[i].x;
        row[rows++] = (struct curve){grid_intern(a, &known, kv, (int32_t)(j - i)), ratio};
        i = j;
    }
    out->rows = grid_new(a, x, rows);
    out->row = row;
}

double surface_at(const struct surface *s, double x, double kv, bool *outside)
{
    const struct grid *g = s->rows;
    double y = fitted(s, x, kv);
    bool out0 = false, out1 = false;
    if (x <= g->x[0] || x >= g->x[g->n - 1]) {
        if (x < g->x[0] || x > g->x[g->n - 1])
            *outside = true;
        double r = curve_at(&s->row[x <= g->x[0] ? 0 : g->n - 1], kv, &out0);
        *outside |= out0;
        return y * r;
    }
    int32_t i = grid_find(g, x);
    double t = (x - g->x[i]) / (g->x[i + 1] - g->x[i]);
    double r = curve_at(&s->row[i], kv, &out0);
    if (t > 0)
        r += t * (curve_at(&s->row[i + 1], kv, &out1) - r);
    else
        out1 = out0;
    /* where kv + x is bounded, the row of the longer chunk ends earlier: one row is enough */
    *outside |= out0 && out1;
    return y * r;
}
