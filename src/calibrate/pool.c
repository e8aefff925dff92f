#include <math.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "calibrate/files.h"
#include "calibrate/solve.h"

/* What one calibration says: the product of all is formed of these. */
struct said {
    struct theta mean;
    double precision[THETAS][THETAS];
};

/* Precision of a covariance with `between` added to its diagonal. */
static bool let_off(const double covariance[THETAS][THETAS], const bool held[THETAS],
                    double between, double out[THETAS][THETAS])
{
    double wide[THETAS][THETAS];
    memcpy(wide, covariance, sizeof wide);
    for (int i = 0; i < THETAS; i++)
        wide[i][i] += held[i] ? 0 : between * between;
    return solve_inverse(THETAS, THETAS, wide[0], held, out[0]);
}

/* mean = precision^-1 (sum of precision x mean) */
static bool product(const struct theta_prior *prior, const struct said *said, size_t n,
                    const double before[THETAS][THETAS], struct theta_prior *out)
{
    double right[THETAS] = {0};
    for (int i = 0; i < THETAS; i++)
        for (int j = 0; j < THETAS; j++) {
            if (prior->held[i] || prior->held[j])
                continue;
            right[i] += prior->precision[i][j] * prior->mean.ln[j];
            for (size_t k = 0; k < n; k++) {
                out->precision[i][j] += said[k].precision[i][j] - before[i][j];
                right[i] +=
                    said[k].precision[i][j] * said[k].mean.ln[j] - before[i][j] * prior->mean.ln[j];
            }
        }
    double mean[THETAS];
    if (!solve(THETAS, THETAS, out->precision[0], prior->held, right, mean))
        return false;
    for (int i = 0; i < THETAS; i++)
        if (!prior->held[i])
            out->mean.ln[i] = mean[i];
    return true;
}

enum st calibrate_pool(struct arena *a, const char *const *roots, size_t n, double between,
                       const struct theta_prior *prior, struct theta_prior *out, struct err *e)
{
    struct said *said = arena_array(a, struct said, n);
    double covariance[THETAS][THETAS], before[THETAS][THETAS];
    *out = *prior;
    if (!solve_inverse(THETAS, THETAS, prior->precision[0], prior->held, covariance[0]) ||
        !let_off(covariance, prior->held, between, before))
        return err_set(e, ST_USAGE, "the prior is no distribution");
    for (size_t i = 0; i < n; i++) {
        struct calibrate_fit fit;
        TRY(files_read_fit(a, roots[i], prior, &fit, e));
        said[i].mean = fit.theta;
        if (!let_off(fit.covariance, prior->held, between, said[i].precision))
            return err_set(e, ST_INPUT, "%s: its covariance is none", roots[i]);
    }
    if (!product(prior, said, n, before, out))
        return err_set(e, ST_INPUT, "the calibrations given as a prior contradict each other");
    theta_clamp(&out->mean);
    out->source = arena_printf(a, "%zu calibration%s", n, n == 1 ? "" : "s");
    return ST_OK;
}
