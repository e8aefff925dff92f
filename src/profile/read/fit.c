#include "profile/read/fit.h"

#include <math.h>
#include <stdbool.h>

#define NF FIT_FEATURES

/* Normal equations; features scaled by their maximum. */
struct normal {
    int nf;
    double a[NF][NF], b[NF], scale[NF];
};

static void normal_sum(int nf, int64_t n, const double *f, const double *y, struct normal *m)
{
    *m = (struct normal){.nf = nf};
    double floor_y = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int j = 0; j < nf; j++)
            m->scale[j] = fmax(m->scale[j], f[i * nf + j]);
        floor_y = fmax(floor_y, y[i]);
    }
    floor_y *= 1e-6; /* bounds the weight of times near 0 (coarse clocks) */
    for (int64_t i = 0; i < n; i++) {
        double g[NF], w = 1 / fmax(y[i], floor_y > 0 ? floor_y : 1);
        for (int j = 0; j < nf; j++) {
            g[j] = f[i * nf + j] * (m->scale[j] > 0 ? w / m->scale[j] : 0);
            m->b[j] += g[j] * y[i] * w;
        }
        for (int j = 0; j < nf; j++)
            for (int k = 0; k < nf; k++)
                m->a[j][k] += g[j] * g[k];
    }
}

/* Cholesky on the features in `mask`; false when they are not independent or a coefficient is
 * negative. *gain is the part of the sum of squares explained. */
static bool solve_subset(const struct normal *m, unsigned mask, double theta[NF], double *gain)
{
    int idx[NF], n = 0;
    for (int j = 0; j < m->nf; j++)
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
    for (int j = 0; j < m->nf; j++)
        theta[j] = 0;
    for (int i = 0; i < n; i++)
        theta[idx[i]] = z[i] / m->scale[idx[i]];
    return true;
}

/* Picks the best of all subsets of the features, smaller ones first. */
void fit_positive(int nf, int64_t n, const double *f, const double *y, unsigned some, double *theta)
{
    struct normal m;
    normal_sum(nf, n, f, y, &m);
    double best = 0, gain, t[NF];
    for (int j = 0; j < nf; j++)
        theta[j] = 0;
    for (int size = 1; size <= nf; size++)
        for (unsigned mask = 1; mask < 1U << nf; mask++) {
            if (__builtin_popcount(mask) != size || !solve_subset(&m, mask, t, &gain))
                continue;
            bool enough = false;
            for (int j = 0; j < nf; j++)
                enough |= (some >> j & 1) && t[j] > 0;
            if (enough && gain > best * (1 + 1e-12)) {
                best = gain;
                for (int j = 0; j < nf; j++)
                    theta[j] = t[j];
            }
        }
    if (!(best > 0)) /* all times are 0 */
        theta[0] = 1;
}
