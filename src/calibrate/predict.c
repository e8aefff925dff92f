#include <math.h>

#include "base/rng.h"
#include "base/solve.h"
#include "calibrate/calibrate.h"
#include "metrics/metrics.h"

static const double Z95 = 1.959964;

/* What was left of measured batches, of mean 1; n == 0: the wave. */
struct left {
    const double *ratio;
    size_t n;
};

static struct left left_of(struct arena *a, const struct calibrate_fit *fit)
{
    double *ratio = arena_array(a, double, fit->n_unevenness), sum = 0;
    for (size_t i = 0; i < fit->n_unevenness; i++)
        sum += fit->unevenness[i];
    for (size_t i = 0; i < fit->n_unevenness; i++)
        ratio[i] = fit->unevenness[i] * (double)fit->n_unevenness / sum;
    return (struct left){ratio, fit->n_unevenness};
}

/* Another run's unevenness: blocks of what was left of the batches, which begin anywhere. */
static struct left redrawn(struct arena *a, const struct left *left, double block, int64_t n,
                           struct rng *r)
{
    double *ratio = arena_array(a, double, n);
    for (int64_t i = 0; i < n;) {
        const int64_t long_as = 1 + (int64_t)fmin(block * rng_exponential(r), (double)n);
        size_t at = rng_below(r, left->n);
        for (int64_t k = 0; k < long_as && i < n; k++, at = (at + 1) % left->n)
            ratio[i++] = left->ratio[at];
    }
    return (struct left){ratio, (size_t)n};
}

/* What another run may meet. */
struct chances {
    const struct left *left;
    int64_t iterations; /* the most that the run may have */
    double block;
    int of;
};

/* The k-th run; with bouts of its own where r is given. Lives in the arena. */
static struct trial trial_of(struct arena *a, const struct calibrate_params *p,
                             const struct calibrate_fit *fit, const struct chances *c, int k,
                             struct rng *r)
{
    const bool own = c->left->n > 0 && r;
    const struct left other = own ? redrawn(a, c->left, c->block, c->iterations, r) : *c->left;
    struct trial f = *p->trial;
    f.phase = own ? 0 : (uint64_t)(k * TRIAL_WAVE / c->of);
    f.first_launch = k * TRIAL_LAUNCHES;
    f.draw = k % OBSERVED_DRAWS;
    f.ratios = other.ratio;
    f.n_ratios = other.n;
    f.first_use_s = fit->first_use_s;
    return f;
}

static enum st mean_of_phases(struct arena *scratch, const struct calibrate_params *p,
                              const struct calibrate_fit *fit, const struct chances *c,
                              const struct observed_stage *stage, struct calibrate_prediction *out,
                              struct err *e)
{
    const double part = 1.0 / c->of;
    *out = (struct calibrate_prediction){.preemptions = 0};
    for (int k = 0; k < c->of; k++) {
        const struct trial f = trial_of(scratch, p, fit, c, k, NULL);
        struct trial_result r;
        enum st st = trial_run(scratch, &f, stage, &fit->theta, &r, e);
        arena_reset(scratch);
        TRY(st);
        out->preemptions += r.preemptions;
        out->rejected = r.rejected; /* wherever the wave stands */
        out->saturated = out->saturated || r.saturated;
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
    return iteration_param_is(i, ITERATION_OF_STEP) && f->serve.async == ASYNC_OVERLAP &&
           fit->told[i] > 0.5;
}

/* What an iteration takes is linear in its times and in the reciprocals of its efficiencies, and so
 * is what the covariance says of combinations of them. Exponentials of both would add up to more.
 */
static double moved(int i, double ln, double by)
{
    static const double most = 0.9;
    if (iteration_param_is(i, ITERATION_EFFICIENCY))
        return ln - log1p(fmax(-by, -most));
    return *theta_unit(i) == 's' ? ln + log1p(fmax(by, -most)) : ln + by;
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

struct draws {
    double root[THETAS][THETAS], of[VALUES][CALIBRATE_BOUTS];
    size_t n;
    double wider; /* by this factor of the logarithms */
};

static enum st simulate_draws(struct arena *scratch, const struct calibrate_params *p,
                              const struct calibrate_fit *fit, struct chances c,
                              const struct observed_stage *stage, struct draws *out, struct err *e)
{
    struct rng r = rng_stream(0, "calibrate.draws"), bouts = rng_stream(0, "calibrate.bouts");
    double z[THETAS];
    c.of = (int)out->n;
    for (int k = 0; k < c.of; k++) {
        struct trial f = trial_of(scratch, p, fit, &c, k, &bouts);
        struct trial_result of;
        struct theta t;
        draw(&f, fit, out->root, k, &r, z, &t);
        if (f.first_use_s > 0)
            f.first_use_s = fmax(0, f.first_use_s + fit->first_use_sd_s * rng_normal(&bouts));
        enum st st = trial_run(scratch, &f, stage, &t, &of, e);
        arena_reset(scratch);
        TRY(st);
        for (int v = 0; v < VALUES; v++)
            out->of[v][k] = *value_at(of.of, v);
    }
    return ST_OK;
}

/* Student's t of 97.5 % with so many degrees of freedom over the normal distribution's value, by
 * the first terms of its expansion in 1 / n (Fisher 1925). */
static double student(double n)
{
    const double z2 = Z95 * Z95;
    return n > 1 ? 1 + (z2 + 1) / (4 * n) + (5 * z2 * z2 + 16 * z2 + 3) / (96 * n * n) : 5;
}

/* Ends of the draws' 95 %, let out by what the model leaves over. */
static void set_ends(struct arena *scratch, struct draws *d, int v, double left, double *low,
                     double *high)
{
    stats_sort(d->of[v], arena_array(scratch, double, d->n), d->n);
    const double middle = stats_percentile(d->of[v], d->n, 50);
    *low = middle * pow(stats_percentile(d->of[v], d->n, 2.5) / middle, d->wider);
    *high = middle * pow(stats_percentile(d->of[v], d->n, 97.5) / middle, d->wider);
    *low *= exp(-Z95 * left);
    *high *= exp(Z95 * left);
    arena_reset(scratch);
}

static enum st add_intervals(struct arena *scratch, const struct calibrate_params *p,
                             const struct calibrate_fit *fit, const struct chances *c,
                             const struct observed_stage *stage, struct calibrate_prediction *out,
                             struct err *e)
{
    const double bouts = c->left->n ? (double)c->left->n / fit->bout : 0;
    struct draws draws = {
        .n = c->left->n ? CALIBRATE_BOUTS : CALIBRATE_DRAWS,
        .wider = c->left->n ? student(bouts - 1) : 1,
    };
    if (!solve_root(THETAS, THETAS, fit->covariance[0], fit->held, draws.root[0]))
        return err_set(e, ST_INPUT, "the covariance of the parameters is none");
    TRY(simulate_draws(scratch, p, fit, *c, stage, &draws, e));
    for (int v = 0; v < VALUES; v++)
        set_ends(scratch, &draws, v, calibrate_left_over[v / (OBSERVED_POINTS + 1)],
                 value_at(out->low, v), value_at(out->high, v));
    return ST_OK;
}

/* How many iterations a run of the stage has at most, but for what a bootstrap may repeat. */
static int64_t iterations_of(const struct observed_stage *stage, const struct left *left)
{
    enum { MOST = 1 << 20 };
    int64_t n = (int64_t)left->n;
    for (size_t i = 0; i < stage->w.n && n < MOST; i++)
        n += stage->w.requests[i].num_decode_tokens;
    return n < MOST ? n : MOST;
}

enum st calibrate_predict(struct arena *a, const struct calibrate_params *p,
                          const struct calibrate_fit *fit, const struct observed_stage *stage,
                          bool intervals, struct calibrate_prediction *out, struct err *e)
{
    struct arena *scratch = arena_new();
    const struct left left = left_of(a, fit);
    const struct chances c = {
        .left = &left,
        .iterations = iterations_of(stage, &left),
        .block = fit->bout,
        .of = left.n ? CALIBRATE_PLACES : CALIBRATE_PHASES,
    };
    enum st st = mean_of_phases(scratch, p, fit, &c, stage, out, e);
    for (int m = 0; m < OBSERVED_METRICS; m++)
        out->low[m] = out->high[m] = observed_unknown();
    if (st == ST_OK && intervals)
        st = add_intervals(scratch, p, fit, &c, stage, out, e);
    arena_free(&scratch);
    return st;
}
