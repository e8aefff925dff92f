#include "calibrate/pace.h"

#include <math.h>
#include <string.h>

#include "calibrate/batches.h"

/* Where it begins: most hosts are steadier. It only has to be one that the data can widen. */
static const double FIRST_SD = 0.1, LEAST_SD = 1e-3;
static const double STALL = 3; /* sd */
/* Of the logarithm of the mean pace of runs of 30 to 60 s on one machine: 0.14, 0.06, 0.12 and 0.10
 * of the runs of two models on two machines (docs/lab/servers.md). Two runs that happen to be alike
 * don't show it. */
static const double LEAST_RUN_SD = 0.1;

static void set_factors(struct pace *p)
{
    for (size_t r = 0; r < p->n_runs; r++)
        for (size_t i = 0; i < p->iterations[r]; i++)
            p->of[r][i] = exp(p->ln[pace_stretch(p, r, i)]);
}

void pace_new(struct arena *a, const size_t *iterations, size_t n_runs, struct pace *out)
{
    *out = (struct pace){.n_runs = n_runs, .sd = FIRST_SD, .worth = 1};
    out->first = arena_array(a, size_t, n_runs);
    out->iterations = arena_array(a, size_t, n_runs);
    out->of = arena_array(a, double *, n_runs);
    for (size_t r = 0; r < n_runs; r++) {
        out->first[r] = out->n;
        out->iterations[r] = iterations[r];
        out->of[r] = arena_array(a, double, iterations[r]);
        out->n += (iterations[r] + PACE_STRETCH - 1) / PACE_STRETCH;
    }
    out->ln = arena_array(a, double, out->n);
    out->curvature = arena_array(a, double, out->n);
    out->gradient = arena_array(a, double, out->n);
    out->tie = (double(*)[THETAS])arena_array(a, double, out->n *THETAS);
    memset(out->ln, 0, out->n * sizeof *out->ln);
    set_factors(out);
}

size_t pace_stretch(const struct pace *p, size_t run, size_t iteration)
{
    return p->first[run] + iteration / PACE_STRETCH;
}

static double precision(const struct pace *p)
{
    return 1 / (p->worth * p->sd * p->sd);
}

void pace_begin(struct pace *p)
{
    for (size_t b = 0; b < p->n; b++) {
        p->curvature[b] = precision(p);
        p->gradient[b] = precision(p) * p->ln[b];
    }
    memset(p->tie, 0, p->n * sizeof *p->tie);
}

/* by u: of all times of the host */
static double slope_of(const double slope[THETAS])
{
    double s = 0;
    for (int i = 0; i < ITERATION_PARAMS; i++)
        if (iteration_param_is(i, ITERATION_OF_HOST))
            s += slope[i];
    return s;
}

void pace_add(struct pace *p, size_t stretch, const double slope[THETAS], double w, double off)
{
    const double by = slope_of(slope);
    p->curvature[stretch] += w * by * by;
    p->gradient[stretch] += w * by * off;
    for (int i = 0; by != 0 && i < THETAS; i++)
        p->tie[stretch][i] += w * by * slope[i];
}

/* Each pace is eliminated: it takes what it explains. */
void pace_equations(struct pace *p, double hessian[THETAS][THETAS], double gradient[THETAS])
{
    for (size_t b = 0; b < p->n; b++)
        for (int i = 0; i < THETAS; i++) {
            const double part = p->tie[b][i] / p->curvature[b];
            if (part == 0)
                continue;
            gradient[i] -= part * p->gradient[b];
            for (int j = 0; j < THETAS; j++)
                hessian[i][j] -= part * p->tie[b][j];
        }
}

void pace_step(const struct pace *p, const double theta[THETAS], double *step)
{
    for (size_t b = 0; b < p->n; b++) {
        double rest = p->gradient[b];
        for (int i = 0; i < THETAS; i++)
            rest -= p->tie[b][i] * theta[i];
        step[b] = rest / p->curvature[b];
    }
}

void pace_move(struct pace *p, const double *step, double by)
{
    for (size_t b = 0; b < p->n; b++)
        p->ln[b] -= by * step[b];
    set_factors(p);
}

void pace_slow(struct pace *p, double by)
{
    for (size_t b = 0; b < p->n; b++)
        p->ln[b] += by;
    set_factors(p);
}

double pace_loss(const struct pace *p)
{
    double s = 0;
    for (size_t b = 0; b < p->n; b++)
        s += p->ln[b] * p->ln[b];
    return precision(p) * s / 2;
}

bool pace_stalled(const struct pace *p, size_t stretch)
{
    return fabs(p->ln[stretch]) > STALL * p->sd;
}

/* u's curvature by the data alone. */
static double told(const struct pace *p, size_t stretch)
{
    return p->curvature[stretch] - precision(p);
}

bool pace_known(const struct pace *p, size_t stretch)
{
    return told(p, stretch) > 0;
}

void pace_settle(struct arena *scratch, struct pace *p)
{
    double *u = arena_array(scratch, double, p->n), squares = 0;
    size_t n = 0, block;
    for (size_t b = 0; b < p->n; b++) {
        if (!pace_known(p, b))
            continue;
        u[n++] = p->ln[b];
        const double within = fmin(fabs(p->ln[b]), STALL * p->sd);
        squares += within * within + 1 / (told(p, b) + 1 / (p->sd * p->sd));
    }
    if (n == 0)
        return;
    p->sd = fmax(sqrt(squares / (double)n), LEAST_SD);
    p->worth = batches_correlated(u, n, &block);
}

void pace_widen(const struct pace *p, const bool held[THETAS], double (*covariance)[THETAS])
{
    const double stretches = (double)p->n / (double)p->n_runs;
    const double variance = fmax(p->worth * p->sd * p->sd / stretches, LEAST_RUN_SD * LEAST_RUN_SD);
    for (int i = 0; i < THETAS; i++)
        for (int j = 0; j < THETAS; j++)
            if (!held[i] && !held[j] && iteration_param_is(i, ITERATION_OF_HOST) &&
                iteration_param_is(j, ITERATION_OF_HOST))
                covariance[i][j] += variance;
}
