#include "calibrate/forward.h"

#include <math.h>
#include <stdlib.h>

#include "base/order.h"
#include "base/solve.h"
#include "base/stats.h"
#include "calibrate/calibration_files.h"

static const double CLIP = 3, MOST_STEP = 0.7;
enum { ROUNDS = 40 };

struct forward_problem {
    const struct theta_prior *prior;
    const struct forward_bench *b;
    struct iteration_terms *terms; /* [n] */
    double *off;                   /* [n] ln(predicted / measured) */
    double *slope;                 /* [n][ITERATION_PARAMS] of that, by the logarithms */
    double *size;                  /* [n] of off, to be sorted */
    double scale;
    bool settled; /* the last step moved nothing */
};

/* Those of the host and of launching are in no case. */
static bool is_device(const struct theta_prior *prior, int i)
{
    return !iteration_param_is(i, ITERATION_OF_HOST | ITERATION_OF_LAUNCHING) && !prior->held[i];
}

static void predict_all(struct forward_problem *x, const struct theta *t)
{
    const struct iteration_params params = theta_iteration(t);
    for (size_t i = 0; i < x->b->n; i++) {
        double *slope = x->slope + i * ITERATION_PARAMS;
        const double device_s = iteration_time(&params, &x->terms[i], slope).device_s;
        x->off[i] = log(device_s / x->b->of[i].device_s);
        for (int k = 0; k < ITERATION_PARAMS; k++)
            slope[k] = is_device(x->prior, k) ? slope[k] * params.v[k] / device_s : 0;
    }
}

static double median_size(struct forward_problem *x)
{
    for (size_t i = 0; i < x->b->n; i++)
        x->size[i] = fabs(x->off[i]);
    qsort(x->size, x->b->n, sizeof *x->size, order_double);
    return x->size[x->b->n / 2];
}

static double weight_of(const struct forward_problem *x, size_t i)
{
    const double spread = x->b->of[i].spread;
    const double sd = sqrt(x->scale * x->scale + spread * spread), u = fabs(x->off[i]) / sd;
    return (u <= CLIP ? 1 : CLIP / u) / (sd * sd);
}

static void equations(const struct forward_problem *x, const struct theta *t,
                      double hessian[THETAS][THETAS], double gradient[THETAS])
{
    theta_prior_equations(x->prior, t, hessian, gradient);
    for (size_t k = 0; k < x->b->n; k++) {
        const double *slope = x->slope + k * ITERATION_PARAMS, w = weight_of(x, k);
        for (int i = 0; i < ITERATION_PARAMS; i++) {
            gradient[i] += w * slope[i] * x->off[k];
            for (int j = 0; j < ITERATION_PARAMS; j++)
                hessian[i][j] += w * slope[i] * slope[j];
        }
    }
}

static enum st iterate(struct forward_problem *x, struct theta *t, double hessian[THETAS][THETAS],
                       struct err *e)
{
    double gradient[THETAS], step[THETAS];
    for (int round = 0; round < ROUNDS && !x->settled; round++) {
        double moved = 0;
        predict_all(x, t);
        x->scale = fmax(STATS_NORMAL_MAD * median_size(x), calibrate_left_over[OBSERVED_TPOT]);
        equations(x, t, hessian, gradient);
        if (!solve(THETAS, THETAS, hessian[0], x->prior->held, gradient, step))
            return err_set(e, ST_INPUT, "%s: its times depend on no parameter", x->b->path);
        for (int i = 0; i < THETAS; i++)
            moved = fmax(moved, fabs(step[i]));
        const double part = moved > MOST_STEP ? MOST_STEP / moved : 1;
        for (int i = 0; i < THETAS; i++)
            if (!x->prior->held[i])
                t->ln[i] -= part * step[i];
        theta_clamp(t);
        x->settled = moved <= 1e-5;
    }
    predict_all(x, t);
    return ST_OK;
}

static enum st check_degrees(const struct iteration_shape *shape, const struct forward_bench *b,
                             struct err *e)
{
    if (shape->stages > 1 || shape->groups > 1)
        return err_set(e, ST_USAGE, "%s: pipeline stages and groups of experts are not told by it",
                       b->path);
    if (b->gpus == shape->tp)
        return ST_OK;
    err_set(e, ST_USAGE, "%s is of %lld GPU%s, and parallel.tp=%lld", b->path, (long long)b->gpus,
            b->gpus == 1 ? "" : "s", (long long)shape->tp);
    return err_hint(e, "vllm bench forward --tensor-parallel-size=%lld measures these",
                    (long long)shape->tp);
}

static void open_problem(struct arena *a, const struct iteration_shape *shape,
                         struct forward_problem *x)
{
    x->terms = arena_array(a, struct iteration_terms, x->b->n);
    x->off = arena_array(a, double, x->b->n);
    x->size = arena_array(a, double, x->b->n);
    x->slope = arena_array(a, double, x->b->n *ITERATION_PARAMS);
    for (size_t i = 0; i < x->b->n; i++) {
        const struct forward_case *c = &x->b->of[i];
        const struct iteration_batch batch = {.load = c->load, .chunks = c->chunks};
        iteration_terms(shape, &batch, 0, &x->terms[i]);
    }
}

/* "38 cases, left over 2.1 %, at most 7.0 % (mix)" */
static const char *words(struct arena *a, struct forward_problem *x)
{
    size_t most = 0;
    for (size_t i = 0; i < x->b->n; i++)
        if (fabs(x->off[i]) > fabs(x->off[most]))
            most = i;
    return arena_printf(a,
                        "%s: %zu cases of the device's times; fitted, they are off by %.1f %% in "
                        "the median, at most %.1f %% (%s)%s",
                        x->b->path, x->b->n, 100 * expm1(median_size(x)), 100 * expm1(x->off[most]),
                        x->b->of[most].name,
                        x->settled ? "" : "; the fit still moved at its last round");
}

enum st forward_prior(struct arena *a, const struct iteration_shape *shape,
                      const struct forward_bench *b, double between,
                      const struct theta_prior *prior, struct theta_prior *out, const char **note,
                      struct err *e)
{
    struct forward_problem x = {.prior = prior, .b = b};
    struct calibrate_fit fit = {.theta = prior->mean, .before = prior->mean};
    double hessian[THETAS][THETAS];
    TRY(check_degrees(shape, b, e));
    open_problem(a, shape, &x);
    TRY(iterate(&x, &fit.theta, hessian, e));
    if (!solve_inverse(THETAS, THETAS, hessian[0], prior->held, fit.covariance[0]))
        return err_set(e, ST_INPUT, "%s: its times depend on no parameter", b->path);
    for (int i = 0; i < THETAS; i++)
        fit.before_sd[i] = prior->held[i] ? 0 : 1 / sqrt(prior->precision[i][i]);
    TRY(calibrate_pool_fit(a, b->path, &fit, between, prior, out, e));
    *note = words(a, &x);
    return ST_OK;
}
