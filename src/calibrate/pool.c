#include <string.h>

#include "base/solve.h"
#include "calibrate/calibrate.h"
#include "calibrate/calibration_files.h"

/* What one calibration says, and what it was told before. */
struct pooled_theta {
    struct theta mean, mean_before;
    double precision[THETAS][THETAS];
    double before[THETAS]; /* precision: priors are taken by their diagonal */
};

/* Let off by `between` of the prior's standard deviations: that much more variance on the diagonal.
 */
static double more_variance(const struct theta_prior *prior, double between, int i)
{
    return prior->held[i] ? 0 : between * between / prior->precision[i][i];
}

static enum st said_of(const char *root, const struct calibrate_fit *fit, double between,
                       const struct theta_prior *prior, struct pooled_theta *out, struct err *e)
{
    double wide[THETAS][THETAS];
    memcpy(wide, fit->covariance, sizeof wide);
    for (int i = 0; i < THETAS; i++) {
        const double more = more_variance(prior, between, i);
        const double before = fit->before_sd[i] * fit->before_sd[i] + more;
        wide[i][i] += more;
        out->before[i] = prior->held[i] || !(before > 0) ? 0 : 1 / before;
    }
    out->mean = fit->theta;
    out->mean_before = fit->before;
    if (!solve_inverse(THETAS, THETAS, wide[0], prior->held, out->precision[0]))
        return err_set(e, ST_INPUT, "%s: its covariance is none", root);
    return ST_OK;
}

static enum st read_said(struct arena *a, const char *root, double between,
                         const struct theta_prior *prior, struct pooled_theta *out, struct err *e)
{
    struct calibrate_fit fit;
    TRY(files_read_fit(a, root, prior, &fit, e));
    return said_of(root, &fit, between, prior, out, e);
}

/* mean = precision^-1 (sum of precision x mean), of the prior and of what the data of each said */
static bool product(const struct theta_prior *prior, const struct pooled_theta *said, size_t n,
                    struct theta_prior *out)
{
    double right[THETAS] = {0}, mean[THETAS];
    for (int i = 0; i < THETAS; i++) {
        for (int j = 0; j < THETAS; j++) {
            if (prior->held[i] || prior->held[j])
                continue;
            right[i] += prior->precision[i][j] * prior->mean.ln[j];
            for (size_t k = 0; k < n; k++) {
                out->precision[i][j] += said[k].precision[i][j];
                right[i] += said[k].precision[i][j] * said[k].mean.ln[j];
            }
        }
        for (size_t k = 0; k < n && !prior->held[i]; k++) {
            out->precision[i][i] -= said[k].before[i];
            right[i] -= said[k].before[i] * said[k].mean_before.ln[i];
        }
    }
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
    struct pooled_theta *said = arena_array(a, struct pooled_theta, n);
    *out = *prior;
    for (size_t i = 0; i < n; i++)
        TRY(read_said(a, roots[i], between, prior, &said[i], e));
    if (!product(prior, said, n, out))
        return err_set(e, ST_INPUT, "the calibrations given as a prior contradict each other");
    theta_clamp(&out->mean);
    out->source = arena_printf(a, "%zu calibration%s", n, n == 1 ? "" : "s");
    return ST_OK;
}

enum st calibrate_pool_fit(struct arena *a, const char *source, const struct calibrate_fit *fit,
                           double between, const struct theta_prior *prior, struct theta_prior *out,
                           struct err *e)
{
    struct pooled_theta said;
    *out = *prior;
    TRY(said_of(source, fit, between, prior, &said, e));
    if (!product(prior, &said, 1, out))
        return err_set(e, ST_INPUT, "%s contradicts the prior", source);
    theta_clamp(&out->mean);
    out->source = arena_printf(a, "%s, %s", prior->source, source);
    return ST_OK;
}
