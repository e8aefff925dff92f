#include "base/solve.h"

#include <math.h>

#include "base/err.h"

/* Lower triangle l of m = l l', over the rows kept. */
struct factor {
    int n, at[SOLVE_MOST];
    double l[SOLVE_MOST][SOLVE_MOST];
};

static bool cholesky(int n, int stride, const double *m, const bool *left_out, struct factor *f)
{
    ASSERT(n <= SOLVE_MOST);
    f->n = 0;
    for (int i = 0; i < n; i++)
        if (!left_out || !left_out[i])
            f->at[f->n++] = i;
    for (int i = 0; i < f->n; i++)
        for (int j = 0; j <= i; j++) {
            double s = m[f->at[i] * stride + f->at[j]];
            for (int k = 0; k < j; k++)
                s -= f->l[i][k] * f->l[j][k];
            if (i == j && !(s > 0 && isfinite(s)))
                return false;
            f->l[i][j] = i == j ? sqrt(s) : s / f->l[j][j];
        }
    return true;
}

static void substitute(const struct factor *f, const double *y, double *x)
{
    double z[SOLVE_MOST];
    for (int i = 0; i < f->n; i++) {
        z[i] = y[f->at[i]];
        for (int k = 0; k < i; k++)
            z[i] -= f->l[i][k] * z[k];
        z[i] /= f->l[i][i];
    }
    for (int i = f->n - 1; i >= 0; i--) {
        for (int k = i + 1; k < f->n; k++)
            z[i] -= f->l[k][i] * z[k];
        z[i] /= f->l[i][i];
        x[f->at[i]] = z[i];
    }
}

bool solve(int n, int stride, const double *m, const bool *left_out, const double *y, double *x)
{
    struct factor f;
    for (int i = 0; i < n; i++)
        x[i] = 0;
    if (!cholesky(n, stride, m, left_out, &f))
        return false;
    substitute(&f, y, x);
    return true;
}

bool solve_inverse(int n, int stride, const double *m, const bool *left_out, double *out)
{
    struct factor f;
    if (!cholesky(n, stride, m, left_out, &f))
        return false;
    for (int j = 0; j < n; j++) {
        double unit[SOLVE_MOST] = {0}, column[SOLVE_MOST] = {0};
        unit[j] = 1;
        if (!left_out || !left_out[j])
            substitute(&f, unit, column);
        for (int i = 0; i < n; i++)
            out[i * stride + j] = column[i];
    }
    return true;
}

bool solve_root(int n, int stride, const double *m, const bool *left_out, double *l)
{
    struct factor f;
    if (!cholesky(n, stride, m, left_out, &f))
        return false;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            l[i * stride + j] = 0;
    for (int i = 0; i < f.n; i++)
        for (int j = 0; j <= i; j++)
            l[f.at[i] * stride + f.at[j]] = f.l[i][j];
    return true;
}
