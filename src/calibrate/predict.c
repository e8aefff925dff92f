#include <math.h>

#include "base/rng.h"
#include "calibrate/calibrate.h"
#include "calibrate/solve.h"
#include "metrics/metrics.h"

static const double Z95 = 1.959964;

static struct trial trial_at(const struct calibrate_params *p, const struct calibrate_fit *fit,
                             int phase)
{
    struct trial f = *p->trial;
    f.phase = (uint64_t)phase;
    f.ratios = fit->unevenness;
    f.n_ratios = fit->n_unevenness;
    f.first_use_s = fit->first_use_s;
    return f;
}

static enum st mean_of_phases(struct arena *scratch, const struct calibrate_params *p,
                              const struct calibrate_fit *fit, const struct observed_stage *stage,
                              struct calibrate_prediction *out, struct err *e)
{
    const double part = 1.0 / CALIBRATE_PHASES;
    *out = (struct calibrate_prediction){.preemptions = 0};
    for (int k = 0; k < CALIBRATE_PHASES; k++) {
        const struct trial f = trial_at(p, fit, k * TRIAL_WAVE / CALIBRATE_PHASES);
        struct trial_result r;
        enum st st = trial_run(scratch, &f, stage, &fit->theta, &r, e);
        arena_reset(scratch);
        TRY(st);
        out->preemptions += r.preemptions;
        out->rejected += r.rejected;
        for (int m = 0; m < OBSERVED_METRICS; m++) {
            out->of[m].mean += part * r.of[m].mean;
            for (int i = 0; i < OBSERVED_POINTS; i++)
                out->of[m].at[i] += part * r.of[m].at[i];
        }
    }
    return ST_OK;
}

/* ---- intervals ------------------------------------------------------------------------------- */

/* Values of a prediction in one order: of each metric the mean and the percentiles. */
enum { VALUES = OBSERVED_METRICS * (OBSERVED_POINTS + 1) };

static double *value_at(struct observed_series of[OBSERVED_METRICS], int k)
{
    struct observed_series *s = &of[k / (OBSERVED_POINTS + 1)];
    int i = k % (OBSERVED_POINTS + 1);
    return i == 0 ? &s->mean : &s->at[i - 1];
}

/* Host time that stands beside the device's shows in nothing as long as it is shorter: where the
 * data said nothing of it, what the prior leaves open would be drawn long enough to show. */
static bool is_hidden(const struct trial *f, const struct calibrate_fit *fit, int i)
{
    bool host = i == ITERATION_ITERATION_S || i == ITERATION_SEQUENCE_S || i == ITERATION_CHUNK_S ||
                i == ITERATION_TOKEN_S;
    return host && f->serve.async == ASYNC_OVERLAP && fit->told[i] > 0.5;
}

/* What an iteration takes is linear in its times and in the reciprocals of its efficiencies, and so
 * is what the covariance says of combinations of them. Exponentials of both would add up to more.
 */
static double moved(int i, double ln, double by)
{
    static const double most = 0.9;
    if (i == THETA_SPREAD)
        return ln + by;
    return *theta_unit(i) == 's' ? ln + log1p(fmax(by, -most)) : ln - log1p(fmax(-by, -most));
}

/* Parameters drawn from the fit, in pairs that mirror each other. */
static void draw(const struct trial *f, const struct calibrate_fit *fit,
                 const double root[THETAS][THETAS], int k, struct rng *r, double z[THETAS],
                 struct theta *out)
{
    *out = fit->theta;
    for (int i = 0; i < THETAS; i++)
        z[i] = k % 2 ? -z[i] : rng_normal(r);
    for (int i = 0; i < THETAS; i++) {
        double by = 0;
        for (int j = 0; j < THETAS; j++)
            by += root[i][j] * z[j];
        if (!fit->held[i] && !is_hidden(f, fit, i))
            out->ln[i] = moved(i, fit->theta.ln[i], by);
    }
    struct theta kept = *out;
    theta_clamp(&kept);
    for (int i = 0; i < THETAS; i++)
        if (!fit->held[i])
            out->ln[i] = kept.ln[i];
}

static enum st simulate_draws(struct arena *scratch, const struct calibrate_params *p,
                              const struct calibrate_fit *fit, const struct observed_stage *stage,
                              const double root[THETAS][THETAS],
                              double drawn[VALUES][CALIBRATE_DRAWS], struct err *e)
{
    struct rng r = rng_stream(0, "calibrate.draws");
    double z[THETAS];
    for (int k = 0; k < CALIBRATE_DRAWS; k++) {
        const struct trial f = trial_at(p, fit, k * TRIAL_WAVE / CALIBRATE_DRAWS);
        struct trial_result of;
        struct theta t;
        draw(&f, fit, root, k, &r, z, &t);
        enum st st = trial_run(scratch, &f, stage, &t, &of, e);
        arena_reset(scratch);
        TRY(st);
        for (int v = 0; v < VALUES; v++)
            drawn[v][k] = *value_at(of.of, v);
    }
    return ST_OK;
}

/* Ends of the draws' 95 %, let out by what the model leaves over. */
static void set_ends(struct arena *scratch, double drawn[CALIBRATE_DRAWS], double left, double *low,
                     double *high)
{
    metrics_sort(drawn, arena_array(scratch, double, CALIBRATE_DRAWS), CALIBRATE_DRAWS);
    *low = metrics_percentile(drawn, CALIBRATE_DRAWS, 2.5) * exp(-Z95 * left);
    *high = metrics_percentile(drawn, CALIBRATE_DRAWS, 97.5) * exp(Z95 * left);
    arena_reset(scratch);
}

static enum st add_intervals(struct arena *scratch, const struct calibrate_params *p,
                             const struct calibrate_fit *fit, const struct observed_stage *stage,
                             struct calibrate_prediction *out, struct err *e)
{
    double root[THETAS][THETAS], drawn[VALUES][CALIBRATE_DRAWS];
    if (!solve_root(THETAS, THETAS, fit->covariance[0], fit->held, root[0]))
        return err_set(e, ST_INPUT, "the covariance of the parameters is none");
    TRY(simulate_draws(scratch, p, fit, stage, root, drawn, e));
    for (int v = 0; v < VALUES; v++)
        set_ends(scratch, drawn[v], calibrate_left_over[v / (OBSERVED_POINTS + 1)],
                 value_at(out->low, v), value_at(out->high, v));
    return ST_OK;
}

enum st calibrate_predict(struct arena *a, const struct calibrate_params *p,
                          const struct calibrate_fit *fit, const struct observed_stage *stage,
                          bool intervals, struct calibrate_prediction *out, struct err *e)
{
    struct arena *scratch = arena_new();
    (void)a;
    enum st st = mean_of_phases(scratch, p, fit, stage, out, e);
    for (int m = 0; m < OBSERVED_METRICS; m++)
        out->low[m] = out->high[m] = observed_unknown();
    if (st == ST_OK && intervals)
        st = add_intervals(scratch, p, fit, stage, out, e);
    arena_free(&scratch);
    return st;
}
