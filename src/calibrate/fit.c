#include "calibrate/calibrate.h"

#include <math.h>
#include <string.h>

#include "base/solve.h"
#include "calibrate/batches.h"
#include "calibrate/log_fit.h"
#include "calibrate/tell.h"

const double calibrate_left_over[OBSERVED_METRICS] = {
    [OBSERVED_TTFT] = 0.04, [OBSERVED_TPOT] = 0.01, [OBSERVED_E2E] = 0.01};
/* Standard deviations from which residuals lose weight. A fit begins where a stage may be
 * overloaded and its latencies off by factors: first all residuals count, then ever fewer. */
static const double OUTLIERS[] = {1000, 100, 10, 3};
enum { ROUNDS = sizeof OUTLIERS / sizeof *OUTLIERS, STEPS = 8, HALVINGS = 5 };
#define OUTLIER OUTLIERS[ROUNDS - 1]

/* Of each stage whose arrivals are drawn: so many draws are simulated for every residual, and all
 * that there are for what the luck of one does. Where they are known and the host's launches are
 * uneven, all of these. */
enum { DRAWS = 4 };

/* A percentile that is compared: its residual is of the level (P50), or of the shape. */
struct latency_datum {
    const struct calibrate_stage *stage;
    size_t run; /* of struct fit_problem: which simulation */
    enum observed_metric metric;
    int point;
    double observed, sd;
    double known_sd; /* without what the arrivals' luck adds */
};

struct fit_problem {
    struct arena *a, *scratch;
    const struct calibrate_params *p;
    const struct calibrate_stage **stages; /* [n_stages] fitted */
    size_t n_stages;
    struct latency_datum *data; /* [n] */
    size_t n;
    double outlier;
    int64_t simulations;
};

/* ---- data ------------------------------------------------------------------------------------ */

/* Relative standard deviation of a metric, from its percentiles. */
static double width_of(const struct observed_series *s)
{
    static const double p10_to_p90 = 2.563;
    double width = (s->at[OBSERVED_P90] - s->at[OBSERVED_P10]) / p10_to_p90 / s->at[OBSERVED_P50];
    return isfinite(width) && width > 0 ? width : 0.1;
}

/* Error of a percentile of n values of a normal distribution, in standard deviations of that. */
static double sampling(int point)
{
    static const double at[OBSERVED_POINTS] = {1.71, 1.36, 1.25, 1.36, 1.71, 3.7};
    return at[point];
}

static double square(double x)
{
    return x * x;
}

static void add_metric(struct fit_problem *x, size_t run, enum observed_metric m)
{
    const struct calibrate_stage *st = x->stages[run];
    const struct observed_series *s = &st->stage->of[m];
    if (!(s->at[OBSERVED_P50] > 0))
        return;
    double width = width_of(s), root = sqrt((double)st->stage->completed);
    for (int k = OBSERVED_P10; k <= OBSERVED_P90; k++) {
        if (!(s->at[k] > 0))
            continue;
        const double sd = sqrt(square(calibrate_left_over[m]) + square(sampling(k) * width / root));
        x->data[x->n++] = (struct latency_datum){
            .stage = st,
            .run = run,
            .metric = m,
            .point = k,
            .observed = s->at[k],
            .sd = sd,
            .known_sd = sd,
        };
    }
}

static void gather(struct fit_problem *x, const struct calibrate_input *in)
{
    x->stages = arena_array(x->a, const struct calibrate_stage *, in->n);
    x->data = arena_array(x->a, struct latency_datum, in->n * OBSERVED_METRICS * OBSERVED_POINTS);
    for (size_t i = 0; i < in->n; i++)
        if (!in->stages[i].left_out)
            x->stages[x->n_stages++] = &in->stages[i];
    for (size_t i = 0; i < x->n_stages; i++)
        for (int m = 0; m < OBSERVED_METRICS; m++) /* TPOT follows from the other two */
            if (m != OBSERVED_TPOT || isnan(x->stages[i]->stage->of[OBSERVED_E2E].at[OBSERVED_P50]))
                add_metric(x, i, (enum observed_metric)m);
}

/* ---- residuals ------------------------------------------------------------------------------- */

/* Whether chance has a part in a stage's latencies. */
static bool has_luck(const struct fit_problem *x, size_t stage)
{
    return x->stages[stage]->stage->drawn_ns || x->p->shape->launching.mode != LAUNCHING_UNTOLD;
}

/* The first `most` draws of a stage's arrivals, where these are drawn, and of which
 * launches are slow; one where there is no luck. */
static enum st simulate_draws(struct fit_problem *x, size_t stage, const struct theta *t, int most,
                              struct trial_result *each, int *n, struct err *e)
{
    const struct observed_stage *s = x->stages[stage]->stage;
    struct trial f = *x->p->trial;
    *n = has_luck(x, stage) ? most : 1;
    for (f.draw = 0; f.draw < *n; f.draw++) {
        f.first_launch = f.draw * TRIAL_LAUNCHES;
        enum st st = trial_run(x->scratch, &f, s, t, &each[f.draw], e);
        arena_reset(x->scratch);
        x->simulations++;
        TRY(st);
    }
    return ST_OK;
}

/* of: [n_stages], means over draws: of arrivals that are drawn DRAWS or, unless all, the first; of
 * launches every one. first: with the first draw of arrivals alone; may be NULL. */
static enum st simulate(struct fit_problem *x, const struct theta *t, bool all,
                        struct trial_result *of, struct trial_result *first, struct err *e)
{
    for (size_t i = 0; i < x->n_stages; i++) {
        struct trial_result each[OBSERVED_DRAWS];
        const bool drawn = x->stages[i]->stage->drawn_ns;
        int n;
        TRY(simulate_draws(x, i, t, !drawn ? OBSERVED_DRAWS : all ? DRAWS : 1, each, &n, e));
        of[i] = each[0];
        for (int m = 0; m < OBSERVED_METRICS; m++)
            for (int k = 0; k < OBSERVED_POINTS; k++) {
                double sum = 0;
                for (int d = 0; d < n; d++)
                    sum += each[d].of[m].at[k];
                of[i].of[m].at[k] = sum / n;
            }
        if (first)
            first[i] = drawn ? each[0] : of[i];
    }
    return ST_OK;
}

/* Variance of one draw's residuals of a metric: of the level, and the mean of the shapes'. */
static void luck_of(const struct trial_result *each, int n, enum observed_metric metric,
                    double *level, double *shape)
{
    double squares[OBSERVED_POINTS] = {0}, mean[OBSERVED_POINTS] = {0};
    for (int pass = 0; pass < 2; pass++) /* means, then squares around them */
        for (int d = 0; d < n; d++) {
            const double *at = each[d].of[metric].at, middle = log(at[OBSERVED_P50]);
            for (int k = OBSERVED_P10; k <= OBSERVED_P90; k++) {
                const double v = k == OBSERVED_P50 ? middle : log(at[k]) - middle;
                if (pass == 0)
                    mean[k] += v / n;
                else
                    squares[k] += square(v - mean[k]) / (n - 1);
            }
        }
    *level = squares[OBSERVED_P50];
    *shape = 0;
    for (int k = OBSERVED_P10; k <= OBSERVED_P90; k++)
        *shape += k == OBSERVED_P50 ? 0 : squares[k] / (OBSERVED_P90 - OBSERVED_P10);
}

/* What was observed is one draw of the arrivals, and compared with the mean of several. */
static enum st weigh_luck(struct fit_problem *x, const struct theta *t, struct err *e)
{
    for (size_t i = 0; i < x->n_stages; i++) {
        struct trial_result each[OBSERVED_DRAWS];
        double level, shape;
        int n;
        if (!has_luck(x, i))
            continue;
        TRY(simulate_draws(x, i, t, OBSERVED_DRAWS, each, &n, e));
        for (size_t k = 0; k < x->n; k++) {
            struct latency_datum *d = &x->data[k];
            if (d->run != i)
                continue;
            luck_of(each, n, d->metric, &level, &shape);
            const double luck = d->point == OBSERVED_P50 ? level : shape;
            if (isfinite(luck))
                d->sd = sqrt(square(d->known_sd) + luck * (1 + 1.0 / DRAWS));
        }
    }
    return ST_OK;
}

static double log_ratio(const struct trial_result *of, const struct latency_datum *d, int point)
{
    const struct observed_series *sim = &of[d->run].of[d->metric];
    return log(sim->at[point] / d->stage->stage->of[d->metric].at[point]);
}

static void residuals_of(const struct fit_problem *x, const struct trial_result *of, double *r)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct latency_datum *d = &x->data[i];
        double level = log_ratio(of, d, OBSERVED_P50);
        double v = d->point == OBSERVED_P50 ? level : log_ratio(of, d, d->point) - level;
        r[i] = isfinite(v) ? v / d->sd : 0;
    }
}

/* Cauchy's loss, scaled to r^2 near 0, and its weight. */
static double loss(double r, double outlier)
{
    return square(outlier) * log1p(square(r / outlier));
}

static double weight(double r, double outlier)
{
    return 1 / (1 + square(r / outlier));
}

static double objective(const struct fit_problem *x, const struct theta *t, const double *r)
{
    double s = 2 * theta_prior_loss(x->p->prior, t); /* as the loss, of r^2 */
    for (size_t i = 0; i < x->n; i++)
        s += loss(r[i], x->outlier);
    return s;
}

/* ---- derivatives ----------------------------------------------------------------------------- */

static double mean_prompt(const struct workload *w)
{
    double s = 0;
    for (size_t i = 0; i < w->n; i++)
        s += (double)w->requests[i].num_prefill_tokens;
    return s / (double)w->n;
}

/* Overheads add to a request's latencies and touch no batch: their derivatives need no simulation.
 */
static double overhead_slope(const struct theta *t, int i, const struct latency_datum *d, int point,
                             const struct trial_result *of)
{
    const double at = of[d->run].of[d->metric].at[point], s = exp(t->ln[i]);
    if (d->metric == OBSERVED_TPOT)
        return 0;
    if (i == THETA_PROMPT_TOKEN)
        return s * mean_prompt(&d->stage->stage->w) / at;
    return i == THETA_FIRST_TOKEN || d->metric == OBSERVED_E2E ? s / at : 0;
}

static void overhead_column(const struct fit_problem *x, const struct theta *t, int i,
                            const struct trial_result *of, double *column)
{
    for (size_t k = 0; k < x->n; k++) {
        const struct latency_datum *d = &x->data[k];
        double level = overhead_slope(t, i, d, OBSERVED_P50, of);
        double v = overhead_slope(t, i, d, d->point, of);
        column[k] = (d->point == OBSERVED_P50 ? level : v - level) / d->sd;
    }
}

/* jacobian: [THETAS][n]. Unless all, by the first draw of arrivals alone, here and there: of the
 * others' luck the slopes have little. of: its results. */
static enum st derive(struct fit_problem *x, const struct theta *t, const struct trial_result *of,
                      bool all, double *jacobian, struct err *e)
{
    struct trial_result *moved = arena_array(x->a, struct trial_result, x->n_stages);
    double *here = arena_array(x->a, double, x->n), *there = arena_array(x->a, double, x->n);
    residuals_of(x, of, here);
    for (int i = 0; i < THETAS; i++) {
        double *column = jacobian + (size_t)i * x->n;
        const double step = i == THETA_SPREAD ? 0.2 : 0.1;
        if (x->p->prior->held[i])
            continue;
        if (i == THETA_FIRST_TOKEN || i == THETA_PROMPT_TOKEN || i == THETA_COMPLETION) {
            overhead_column(x, t, i, of, column);
            continue;
        }
        struct theta near = *t;
        near.ln[i] += step;
        TRY(simulate(x, &near, all, moved, NULL, e));
        residuals_of(x, moved, there);
        for (size_t k = 0; k < x->n; k++)
            column[k] = (there[k] - here[k]) / step;
    }
    return ST_OK;
}

/* Of two slopes the one nearer to 0; 0 where their signs differ. */
static double lesser(double a, double b)
{
    if (!(a * b > 0))
        return 0;
    return fabs(a) < fabs(b) ? a : b;
}

/* For intervals. Percentiles of a simulation jump where a request joins another batch: over short
 * steps these jumps pass for what the data say, and parameters of which only a combination is known
 * for known ones (bench/accuracy/coverage.py). So the steps are wide, and to both sides; where a
 * queue begins on one of them, or the sides disagree, the lesser slope counts. */
static enum st derive_wide(struct fit_problem *x, const struct theta *t,
                           const struct trial_result *of, double *jacobian, struct err *e)
{
    static const double step = 0.3;
    double *here = arena_array(x->a, double, x->n);
    residuals_of(x, of, here);
    struct trial_result *moved = arena_array(x->a, struct trial_result, x->n_stages);
    double *above = arena_array(x->a, double, x->n), *below = arena_array(x->a, double, x->n);
    for (int i = 0; i < THETAS; i++) {
        double *column = jacobian + (size_t)i * x->n;
        struct theta up = *t, down = *t;
        if (x->p->prior->held[i])
            continue;
        if (i == THETA_FIRST_TOKEN || i == THETA_PROMPT_TOKEN || i == THETA_COMPLETION) {
            overhead_column(x, t, i, of, column);
            continue;
        }
        up.ln[i] += step;
        down.ln[i] -= step;
        TRY(simulate(x, &up, false, moved, NULL, e));
        residuals_of(x, moved, above);
        TRY(simulate(x, &down, false, moved, NULL, e));
        residuals_of(x, moved, below);
        for (size_t k = 0; k < x->n; k++)
            column[k] = lesser((above[k] - here[k]) / step, (here[k] - below[k]) / step);
    }
    return ST_OK;
}

/* Hessian (of half the objective) and gradient. */
static void normal_equations(const struct fit_problem *x, const struct theta *t, const double *r,
                             const double *jacobian, double hessian[THETAS][THETAS],
                             double gradient[THETAS])
{
    theta_prior_equations(x->p->prior, t, hessian, gradient);
    for (size_t k = 0; k < x->n; k++) {
        const double w = weight(r[k], x->outlier);
        for (int i = 0; i < THETAS; i++) {
            const double d = jacobian[(size_t)i * x->n + k];
            gradient[i] += w * d * r[k];
            for (int j = 0; j < THETAS; j++)
                hessian[i][j] += w * d * jacobian[(size_t)j * x->n + k];
        }
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct fit_state {
    struct theta theta;
    struct trial_result *of, *first; /* [n_stages]: means of the draws, and the first one's */
    double *r;
    double objective;
};

static enum st evaluate(struct fit_problem *x, struct fit_state *s, struct err *e)
{
    TRY(simulate(x, &s->theta, true, s->of, s->first, e));
    residuals_of(x, s->of, s->r);
    s->objective = objective(x, &s->theta, s->r);
    return ST_OK;
}

static struct fit_state state_new(const struct fit_problem *x)
{
    return (struct fit_state){.of = arena_array(x->a, struct trial_result, x->n_stages),
                              .first = arena_array(x->a, struct trial_result, x->n_stages),
                              .r = arena_array(x->a, double, x->n)};
}

/* Moves *s down the step, by as much of it as helps. *gain: by how much; 0 when none does. */
static enum st descend(struct fit_problem *x, struct fit_state *s, const double step[THETAS],
                       double *gain, struct err *e)
{
    static const double most = 0.7; /* a factor of 2 */
    struct fit_state next = state_new(x);
    double scale = 1;
    *gain = 0;
    for (int i = 0; i < THETAS; i++)
        if (fabs(step[i]) * scale > most)
            scale = most / fabs(step[i]);
    for (int tries = 0; tries < HALVINGS; tries++, scale /= 2) {
        next.theta = s->theta;
        for (int i = 0; i < THETAS; i++)
            if (!x->p->prior->held[i])
                next.theta.ln[i] -= scale * step[i];
        theta_clamp(&next.theta);
        TRY(evaluate(x, &next, e));
        if (next.objective < s->objective) {
            *gain = s->objective - next.objective;
            *s = next;
            return ST_OK;
        }
    }
    return ST_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

static void note_queue(struct fit_problem *x, const struct fit_state *s, struct calibrate_fit *f)
{
    for (size_t i = 0; i < x->n_stages; i++) {
        const struct trial_result *o = &s->of[i];
        const struct observed_stage *st = x->stages[i]->stage;
        const double seen = st->of[OBSERVED_TTFT].at[OBSERVED_P50];
        const double off = (seen - o->of[OBSERVED_TTFT].at[OBSERVED_P50]) / o->iteration_s;
        const char *name = arena_printf(x->a, "stage %s of %s", st->name, x->stages[i]->run->name);
        if (o->preemptions)
            tell_note(x->a, f,
                      arena_printf(x->a,
                                   "%s: %lld preemptions in the simulation; more KV blocks "
                                   "(scheduler.num_blocks) avoid them",
                                   name, (long long)o->preemptions));
        if (fabs(off) > 0.6)
            tell_note(x->a, f,
                      arena_printf(x->a,
                                   "%s: TTFT is %.1f iterations %s than simulated, as with "
                                   "another scheduler.async_scheduling or other settings",
                                   name, fabs(off), off > 0 ? "longer" : "shorter"));
    }
}

/* Levels must fit; shapes may miss at a few points. */
static void judge(struct fit_problem *x, const struct fit_state *s, struct calibrate_fit *f)
{
    size_t shapes = 0, missed = 0;
    f->fits = true;
    f->residuals = arena_array(x->a, struct calibrate_residual, x->n);
    f->n_residuals = x->n;
    for (size_t i = 0; i < x->n; i++) {
        const struct latency_datum *d = &x->data[i];
        const double fitted = s->of[d->run].of[d->metric].at[d->point];
        f->residuals[i] = (struct calibrate_residual){d->stage,    d->metric, d->point,
                                                      d->observed, fitted,    s->r[i]};
        bool miss = fabs(s->r[i]) > OUTLIER;
        shapes += d->point != OBSERVED_P50;
        missed += d->point != OBSERVED_P50 && miss;
        if (d->point != OBSERVED_P50 || !miss)
            continue;
        f->fits = false;
        tell_note(x->a, f,
                  arena_printf(x->a,
                               "does not fit: %s P50 of stage %s of %s is %.4g s, fitted %.4g s "
                               "(%+.1f %%)",
                               observed_metric_name(d->metric), d->stage->stage->name,
                               d->stage->run->name, d->observed, fitted,
                               100 * (fitted / d->observed - 1)));
    }
    if (shapes && missed * 4 > shapes) {
        f->fits = false;
        tell_note(x->a, f,
                  arena_printf(x->a,
                               "does not fit: %zu of %zu percentiles beside P50 are off "
                               "by more than %g standard deviations",
                               missed, shapes, OUTLIER));
    }
}

/* Steps until they gain little, with the equations of the place they end at. */
static enum st run_round(struct fit_problem *x, struct fit_state *s, double *jacobian,
                         double hessian[THETAS][THETAS], int64_t *steps, struct err *e)
{
    double gradient[THETAS], step[THETAS], gain = INFINITY;
    const bool last = x->outlier == OUTLIER;
    s->objective = objective(x, &s->theta, s->r);
    for (int i = 0;; i++) {
        TRY(derive(x, &s->theta, last ? s->of : s->first, last, jacobian, e));
        normal_equations(x, &s->theta, s->r, jacobian, hessian, gradient);
        if (i == STEPS || gain < (last ? 0.05 : 0.02 * s->objective))
            return ST_OK;
        if (!solve(THETAS, THETAS, hessian[0], x->p->prior->held, gradient, step))
            return err_set(e, ST_REJECTED, "the observed latencies depend on no parameter");
        TRY(descend(x, s, step, &gain, e));
        ++*steps;
        if (gain == 0)
            return ST_OK;
    }
}

static enum st fit_latencies(struct fit_problem *x, struct calibrate_fit *f, struct err *e)
{
    double hessian[THETAS][THETAS], gradient[THETAS];
    double *jacobian = arena_array(x->a, double, THETAS * x->n);
    struct fit_state s = state_new(x);
    s.theta = x->p->prior->mean;
    TRY(evaluate(x, &s, e));
    for (int i = 0; i < ROUNDS; i++) {
        x->outlier = OUTLIERS[i];
        TRY(weigh_luck(x, &s.theta, e));
        residuals_of(x, s.of, s.r);
        TRY(run_round(x, &s, jacobian, hessian, &f->steps, e));
    }
    TRY(derive_wide(x, &s.theta, s.first, jacobian, e));
    normal_equations(x, &s.theta, s.r, jacobian, hessian, gradient);
    if (!solve_inverse(THETAS, THETAS, hessian[0], x->p->prior->held, f->covariance[0]))
        return err_set(e, ST_REJECTED, "the observed latencies depend on no parameter");
    f->theta = s.theta;
    f->simulations = x->simulations;
    judge(x, &s, f);
    note_queue(x, &s, f);
    return ST_OK;
}

enum st calibrate_fit(struct arena *a, const struct calibrate_params *p,
                      const struct calibrate_input *in, struct calibrate_fit *out, struct err *e)
{
    calibrate_none(p->prior, out);
    for (size_t i = 0; i < in->n_notes; i++)
        tell_note(a, out, in->notes[i]);
    if (in->batches) {
        TRY(batches_fit(a, p, in, out, e));
    } else if (in->logs) {
        TRY(log_fit(a, p, in, out, e));
    } else {
        struct fit_problem x = {.a = a, .scratch = arena_new(), .p = p, .outlier = OUTLIERS[0]};
        gather(&x, in);
        enum st st = fit_latencies(&x, out, e);
        arena_free(&x.scratch);
        TRY(st);
    }
    tell_what_data_said(a, p->prior, out);
    if (!in->batches && !in->logs) /* which tell what they take, whoever made them */
        tell_far(a, out);
    return ST_OK;
}

void calibrate_none(const struct theta_prior *prior, struct calibrate_fit *out)
{
    *out = (struct calibrate_fit){.theta = prior->mean, .fits = true};
    memcpy(out->held, prior->held, sizeof out->held);
    (void)solve_inverse(THETAS, THETAS, prior->precision[0], prior->held, out->covariance[0]);
    out->before = prior->mean;
    for (int i = 0; i < THETAS; i++) {
        out->told[i] = 1;
        out->before_sd[i] = sqrt(out->covariance[i][i]);
    }
}
