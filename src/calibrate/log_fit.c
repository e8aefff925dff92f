#include "calibrate/log_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/order.h"
#include "base/solve.h"
#include "base/stats.h"
#include "calibrate/batches.h"
#include "calibrate/log_replay.h"
#include "calibrate/pace.h"
#include "calibrate/tell.h"

enum datum_kind { INTERVAL, START, WAIT, DEVICE, KINDS };
enum { ROUNDS = 25, HALVINGS = 6, STRETCH = 64 };
static const double CLIP = 3;
/* Of a kind's scale: clocks and logs have this resolution or less. */
static const double LEAST_SCALE_S[KINDS] = {1e-4, 1e-4, 5e-5, 5e-5};
static const double NO_WAIT_S = 2e-4; /* the loop looked, and the result was there */
static const double STEP = 0.02;      /* of the logarithms, for derivatives */
static const double MOST_STEP = 0.7;

/* An observed time. */
struct time_datum {
    enum datum_kind kind;
    const struct logged_run *run;
    struct replayed *replayed; /* of that run */
    size_t from, to; /* anchors; of a start, the anchor; of waits and devices, the iteration */
    double observed_s;
    size_t stretch; /* of the host's pace */
};

struct log_problem {
    struct arena *a, *scratch;
    const struct calibrate_params *p;
    struct time_datum *data; /* [n] */
    size_t n;
    const struct logged_run **runs; /* [n_runs] */
    struct replayed *replayed;      /* [n_runs] */
    size_t n_runs;
    double scale[KINDS], worth[KINDS]; /* worth: observations that count as one */
    bool *counts;                      /* [n] */
    struct pace pace;
    int64_t simulations;
};

/* ---- data ------------------------------------------------------------------------------------ */

/* Times at the client and of the loop. */
static void add_host(struct log_problem *x, size_t k)
{
    const struct logged_run *r = x->runs[k];
    const struct iteration_match *m = &r->match;
    for (size_t i = 0; i < r->n_anchors; i++) {
        const struct iteration_anchor *to = &r->anchors[i], *from = i ? to - 1 : NULL;
        const struct run_request *q = &r->run.requests[to->request];
        bool paused = !from;
        for (size_t j = from ? from->iteration + 1 : 0; j <= to->iteration; j++)
            paused |= m->of[j].idle_before;
        if (!paused)
            x->data[x->n++] = (struct time_datum){
                INTERVAL, r, &x->replayed[k], i - 1, i, to->time_s - from->time_s, 0};
        if (!to->end)
            x->data[x->n++] = (struct time_datum){
                START, r, &x->replayed[k], i, i, to->time_s - ns_to_s(q->arrival_ns), 0};
    }
    for (size_t i = 0; r->times.async && i < m->n; i++)
        if (m->of[i].known)
            x->data[x->n++] =
                (struct time_datum){WAIT, r, &x->replayed[k], i, i, m->of[i].log->elapsed_s, 0};
}

static void add_devices(struct log_problem *x, size_t k)
{
    const struct logged_run *r = x->runs[k];
    const struct iteration_match *m = &r->match;
    for (size_t i = 0; r->device_s && i < m->n; i++)
        if (m->of[i].known && r->device_s[i] > 0)
            x->data[x->n++] =
                (struct time_datum){DEVICE, r, &x->replayed[k], i, i, r->device_s[i], 0};
}

/* That of the last iteration of what was timed. */
static void set_stretches(struct log_problem *x)
{
    size_t *iterations = arena_array(x->a, size_t, x->n_runs);
    for (size_t k = 0; k < x->n_runs; k++)
        iterations[k] = x->runs[k]->match.n;
    pace_new(x->a, iterations, x->n_runs, &x->pace);
    for (size_t i = 0; i < x->n; i++) {
        struct time_datum *d = &x->data[i];
        const bool anchored = d->kind == INTERVAL || d->kind == START;
        const size_t at = anchored ? d->run->anchors[d->to].iteration : d->to;
        d->stretch = pace_stretch(&x->pace, (size_t)(d->replayed - x->replayed), at);
    }
}

static void gather(struct log_problem *x, const struct calibrate_input *in)
{
    size_t most = 0;
    x->runs = arena_array(x->a, const struct logged_run *, in->n);
    x->replayed = arena_array(x->a, struct replayed, in->n);
    for (size_t i = 0; i < in->n; i++) {
        const struct logged_run *r = in->stages[i].run->logged;
        if (!r)
            continue;
        x->runs[x->n_runs] = r;
        x->replayed[x->n_runs++] = replayed_new(x->a, r->match.n);
        most += 2 * r->n_anchors + 2 * r->match.n;
    }
    x->data = arena_array(x->a, struct time_datum, most);
    x->counts = arena_array(x->a, bool, most);
    bool untraced = false;
    for (size_t k = 0; k < x->n_runs; k++)
        untraced |= !x->runs[k]->device_s;
    for (size_t k = 0; k < x->n_runs; k++) {
        if (!untraced || !x->runs[k]->device_s)
            add_host(x, k);
        add_devices(x, k);
    }
    set_stretches(x);
}

/* ---- what the simulator says ----------------------------------------------------------------- */

/* From the loop's tokens to the client's. */
static double outside(const struct request_overheads *o, const struct logged_run *r, size_t anchor)
{
    const struct iteration_anchor *x = &r->anchors[anchor];
    const struct logged_iteration *i = r->match.of[x->iteration].log;
    if (x->end)
        return o->completion_s;
    return o->first_token_s +
           o->prompt_token_s * (double)r->run.requests[x->request].num_prefill_tokens +
           o->stream_s * (double)(i->context_requests + i->generation_requests);
}

static double predicted_of(const struct time_datum *d, const struct request_overheads *o)
{
    const struct replayed *s = d->replayed;
    const struct logged_run *r = d->run;
    if (d->kind == WAIT)
        return s->wait_s[d->from];
    if (d->kind == DEVICE)
        return s->device_s[d->from];
    const size_t to = r->anchors[d->to].iteration, from = r->anchors[d->from].iteration;
    const double at = s->tokens_s[to] + outside(o, r, d->to);
    if (d->kind == INTERVAL)
        return at - s->tokens_s[from] - outside(o, r, d->from);
    const double joined = r->match.of[to].idle_before ? 0 : s->begin_s[to] - s->begin_s[to - 1];
    return at - s->begin_s[to] + joined / 2 + o->front_s;
}

static enum st predict(struct log_problem *x, const struct theta *t, double *out, struct err *e)
{
    const struct request_overheads o = theta_overheads(t);
    for (size_t k = 0; k < x->n_runs; k++) {
        const enum st st =
            log_replay(x->scratch, x->p->trial, x->runs[k], t, x->pace.of[k], &x->replayed[k], e);
        arena_reset(x->scratch);
        TRY(st);
        x->simulations++;
    }
    for (size_t i = 0; i < x->n; i++)
        out[i] = predicted_of(&x->data[i], &o);
    return ST_OK;
}

/* ---- least squares --------------------------------------------------------------------------- */

/* Scales and worth of the kinds, and which data count, by the residuals there are. */
static void weigh(struct log_problem *x, const double *predicted)
{
    double *off = arena_array(x->scratch, double, x->n);
    for (size_t i = 0; i < x->n; i++) {
        const struct time_datum *d = &x->data[i];
        x->counts[i] = d->kind != WAIT || d->observed_s > NO_WAIT_S || predicted[i] > NO_WAIT_S;
    }
    for (int k = 0; k < KINDS; k++) {
        size_t n = 0, block;
        for (size_t i = 0; i < x->n; i++)
            if (x->data[i].kind == (enum datum_kind)k && x->counts[i])
                off[n++] = fabs(predicted[i] - x->data[i].observed_s);
        x->scale[k] = LEAST_SCALE_S[k];
        x->worth[k] = 1;
        if (n == 0)
            continue;
        qsort(off, n, sizeof *off, order_double);
        x->scale[k] = fmax(STATS_NORMAL_MAD * off[n / 2], LEAST_SCALE_S[k]);
        n = 0;
        for (size_t i = 0; i < x->n; i++)
            if (x->data[i].kind == (enum datum_kind)k && x->counts[i])
                off[n++] =
                    fmax(fmin((predicted[i] - x->data[i].observed_s) / x->scale[k], CLIP), -CLIP);
        x->worth[k] = batches_correlated(off, n, &block);
    }
    arena_reset(x->scratch);
}

static double objective(const struct log_problem *x, const struct theta *t, const double *predicted)
{
    double sum = theta_prior_loss(x->p->prior, t) + pace_loss(&x->pace);
    for (size_t i = 0; i < x->n; i++) {
        const enum datum_kind k = x->data[i].kind;
        const double u = fabs(predicted[i] - x->data[i].observed_s) / x->scale[k];
        sum += (u <= CLIP ? u * u / 2 : CLIP * (u - CLIP / 2)) / x->worth[k];
    }
    return sum;
}

/* Not of the replay: how uneven things are. */
static bool is_replayed(const struct theta_prior *prior, int i)
{
    return !prior->held[i] && i != THETA_SPREAD && i != ITERATION_LAUNCH_SPREAD;
}

static enum st derive(struct log_problem *x, const struct theta *t, const double *predicted,
                      double *jacobian, struct err *e)
{
    double *moved = arena_array(x->a, double, x->n);
    for (int i = 0; i < THETAS; i++) {
        struct theta next = *t;
        double *column = jacobian + (size_t)i * x->n;
        memset(column, 0, x->n * sizeof *column);
        if (!is_replayed(x->p->prior, i))
            continue;
        next.ln[i] += STEP;
        TRY(predict(x, &next, moved, e));
        for (size_t k = 0; k < x->n; k++)
            column[k] = (moved[k] - predicted[k]) / STEP;
    }
    return ST_OK;
}

static void equations(struct log_problem *x, const struct theta *t, const double *predicted,
                      const double *jacobian, double hessian[THETAS][THETAS],
                      double gradient[THETAS])
{
    theta_prior_equations(x->p->prior, t, hessian, gradient);
    pace_begin(&x->pace);
    for (size_t k = 0; k < x->n; k++) {
        const enum datum_kind kind = x->data[k].kind;
        const double off = predicted[k] - x->data[k].observed_s, u = fabs(off) / x->scale[kind];
        const double w =
            (u > CLIP ? CLIP / u : 1) / (x->scale[kind] * x->scale[kind] * x->worth[kind]);
        double slope[THETAS];
        for (int i = 0; i < THETAS; i++)
            slope[i] = jacobian[(size_t)i * x->n + k];
        for (int i = 0; i < THETAS; i++) {
            if (slope[i] == 0)
                continue;
            gradient[i] += w * slope[i] * off;
            for (int j = 0; j < THETAS; j++)
                hessian[i][j] += w * slope[i] * slope[j];
        }
        pace_add(&x->pace, x->data[k].stretch, slope, w, off);
    }
    pace_equations(&x->pace, hessian, gradient);
}

/* Moves *t and the paces down the step by as much of it as helps; *moved: the longest way of a
 * parameter, 0 where nothing helps. predicted follows. */
static enum st descend(struct log_problem *x, struct theta *t, double *predicted,
                       const double step[THETAS], double *moved, struct err *e)
{
    const double before = objective(x, t, predicted);
    double *next_predicted = arena_array(x->a, double, x->n), longest = 0;
    double *pace = arena_array(x->a, double, x->pace.n);
    pace_step(&x->pace, step, pace);
    for (int i = 0; i < THETAS; i++)
        longest = fmax(longest, fabs(step[i]));
    double scale = longest > MOST_STEP ? MOST_STEP / longest : 1;
    *moved = 0;
    for (int tries = 0; tries < HALVINGS; tries++, scale /= 2) {
        struct theta next = *t;
        for (int i = 0; i < THETAS; i++)
            if (is_replayed(x->p->prior, i))
                next.ln[i] -= scale * step[i];
        theta_clamp(&next);
        pace_move(&x->pace, pace, scale);
        TRY(predict(x, &next, next_predicted, e));
        if (objective(x, &next, next_predicted) >= before) {
            pace_move(&x->pace, pace, -scale);
            continue;
        }
        *t = next;
        memcpy(predicted, next_predicted, x->n * sizeof *predicted);
        *moved = scale * longest;
        return ST_OK;
    }
    return ST_OK;
}

static enum st iterate(struct log_problem *x, struct theta *t, double *predicted,
                       double hessian[THETAS][THETAS], int64_t *steps, struct err *e)
{
    double gradient[THETAS], step[THETAS], moved = 1;
    double *jacobian = arena_array(x->a, double, THETAS * x->n);
    TRY(predict(x, t, predicted, e));
    for (int round = 0;; round++, ++*steps) {
        weigh(x, predicted);
        if (round)
            pace_settle(x->scratch, &x->pace);
        arena_reset(x->scratch);
        TRY(derive(x, t, predicted, jacobian, e));
        equations(x, t, predicted, jacobian, hessian, gradient);
        if (round == ROUNDS || moved < 1e-3)
            return ST_OK;
        if (!solve(THETAS, THETAS, hessian[0], x->p->prior->held, gradient, step))
            return err_set(e, ST_REJECTED, "the logged times depend on no parameter");
        TRY(descend(x, t, predicted, step, &moved, e));
    }
}

/* The host's part of an iteration that waits for it; 0 of one that waits for the device. Without
 * asynchronous scheduling each waits for both. */
static double host_s(const struct replayed *s, size_t i)
{
    if (isnan(s->launch_s[i]))
        return fmax(s->tokens_s[i] - s->begin_s[i] - s->device_s[i], 0);
    return s->wait_s[i] < NO_WAIT_S ? s->launch_s[i] : 0;
}

/* A simulation has the pace 1. The prior of each parameter holds the parameters where they are,
 * and that of a pace is wide, so that the paces of a host that is slower than the prior have a mean
 * above 1. The parameters take that mean, of the iterations that wait for the host, which then take
 * what they do in all. A stretch that stalled is no part of it. */
static void take_mean_pace(struct log_problem *x, struct theta *t)
{
    double paced_s = 0, even_s = 0;
    for (size_t r = 0; r < x->n_runs; r++)
        for (size_t i = 0; i < x->runs[r]->match.n; i++) {
            const size_t stretch = pace_stretch(&x->pace, r, i);
            const double s = host_s(&x->replayed[r], i);
            if (!x->runs[r]->match.of[i].known || !pace_known(&x->pace, stretch) ||
                pace_stalled(&x->pace, stretch))
                continue;
            paced_s += s;
            even_s += s / x->pace.of[r][i];
        }
    if (!(even_s > 0))
        return;
    const double mean = log(paced_s / even_s);
    for (int i = 0; i < ITERATION_PARAMS; i++)
        if (iteration_param_is(i, ITERATION_OF_HOST) && is_replayed(x->p->prior, i))
            t->ln[i] += mean;
    theta_clamp(t);
    pace_slow(&x->pace, -mean);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Standard deviation of the logarithm of a ratio, over stretches of iterations. */
struct stretches {
    double sum, squares;
    size_t n;
};

static void add_stretch(struct stretches *s, double ratio)
{
    if (!(ratio > 0))
        return;
    s->sum += log(ratio);
    s->squares += log(ratio) * log(ratio);
    s->n++;
}

/* Of the parameter that says how uneven something is; too few stretches leave it as it was. */
static void set_spread(const struct stretches *s, int theta, struct calibrate_fit *f)
{
    enum { LEAST = 4 };
    if (s->n < LEAST || f->held[theta])
        return;
    const double n = (double)s->n, variance = (s->squares - s->sum * s->sum / n) / (n - 1);
    f->theta.ln[theta] = log(sqrt(fmax(variance, 1e-12)));
    f->covariance[theta][theta] = 1 / (2 * (n - 1)); /* of a normal distribution's */
    theta_clamp(&f->theta);
}

/* Times of the loop to launch batches with prompts within an interval, that of the iteration behind
 * its last one too, whose launch its tokens wait for: sum and sum of squares. */
struct launch_sums {
    double sum_s, squares;
};

static struct launch_sums launches_of(const struct time_datum *d)
{
    const size_t from = d->run->anchors[d->from].iteration, to = d->run->anchors[d->to].iteration;
    struct launch_sums l = {0};
    for (size_t i = from + 2; i <= to + 1 && i < d->run->match.n; i++) {
        if (!d->run->match.of[i].is.chunks || d->run->match.of[i].idle_before)
            continue;
        l.sum_s += d->replayed->launch_s[i];
        l.squares += d->replayed->launch_s[i] * d->replayed->launch_s[i];
    }
    return l;
}

/* How uneven the machine is: what is left of stretches of STRETCH iterations of intervals in which
 * only decode steps were launched. */
static void find_spread(const struct log_problem *x, const double *predicted,
                        struct calibrate_fit *f)
{
    struct stretches even = {0};
    double seen_s = 0, ours_s = 0;
    size_t iterations = 0;
    for (size_t k = 0; k < x->n; k++) {
        const struct time_datum *d = &x->data[k];
        if (d->kind != INTERVAL || !d->run->times.async || launches_of(d).sum_s > 0)
            continue;
        seen_s += d->observed_s;
        ours_s += predicted[k];
        iterations += d->run->anchors[d->to].iteration - d->run->anchors[d->from].iteration;
        if (iterations < STRETCH)
            continue;
        add_stretch(&even, seen_s / ours_s);
        seen_s = ours_s = 0;
        iterations = 0;
    }
    set_spread(&even, THETA_SPREAD, f);
}

/* How uneven launching is (launching.h: a least and an exponential delay, of which this is the mean
 * over the least): launches of an interval add their variances to what intervals without have. What
 * is left beyond the launches' own time is a stall, and is cut there. */
static void find_launch_spread(const struct log_problem *x, const double *predicted,
                               struct calibrate_fit *f)
{
    enum { LEAST = 30 };
    double quiet = 0, loud = 0, launched = 0;
    size_t n_quiet = 0, n_loud = 0;
    for (size_t k = 0; k < x->n; k++) {
        const struct time_datum *d = &x->data[k];
        if (d->kind != INTERVAL || !d->run->times.async)
            continue;
        const struct launch_sums l = launches_of(d);
        const double off = fabs(d->observed_s - predicted[k]);
        if (l.sum_s > 0) {
            const double cut = fmin(off, l.sum_s);
            loud += cut * cut;
            launched += l.squares;
            n_loud++;
        } else {
            const double cut = fmin(off, CLIP * x->scale[INTERVAL]);
            quiet += cut * cut;
            n_quiet++;
        }
    }
    if (n_loud < LEAST || n_quiet < LEAST || f->held[ITERATION_LAUNCH_SPREAD])
        return;
    const double excess = loud - quiet * (double)n_loud / (double)n_quiet;
    const double ratio = fmin(sqrt(fmax(excess, 0) / launched), 0.9); /* deviation over mean */
    f->theta.ln[ITERATION_LAUNCH_SPREAD] = log(fmax(ratio / (1 - ratio), 1e-3));
    /* of squares of an exponential's: their fourth moment is 9 times the squared second */
    f->covariance[ITERATION_LAUNCH_SPREAD][ITERATION_LAUNCH_SPREAD] = 8 / (4 * (double)n_loud);
    theta_clamp(&f->theta);
}

static void tell_kind(struct log_problem *x, const double *predicted, enum datum_kind kind,
                      struct calibrate_fit *f)
{
    static const char *const names[KINDS] = {
        [INTERVAL] = "intervals between tokens at the client",
        [START] = "first tokens after arrivals",
        [WAIT] = "waits of the loop",
        [DEVICE] = "times on the device, of a trace",
    };
    double *off = arena_array(x->a, double, x->n);
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        if (x->data[i].kind == kind && x->counts[i])
            off[n++] = fabs(predicted[i] - x->data[i].observed_s);
    if (!n)
        return;
    qsort(off, n, sizeof *off, order_double);
    tell_note(x->a, f,
              arena_printf(x->a, "%zu %s: residuals of %.3g ms in the median, P90 %.3g ms", n,
                           names[kind], 1e3 * off[n / 2], 1e3 * off[n * 9 / 10]));
}

/* The requests' latencies as the whole simulator has them with these parameters. */
static enum st add_latencies(struct log_problem *x, const struct calibrate_input *in,
                             struct calibrate_fit *f, struct err *e)
{
    f->residuals =
        arena_array(x->a, struct calibrate_residual, in->n * OBSERVED_METRICS * OBSERVED_POINTS);
    for (size_t i = 0; i < in->n; i++) {
        const struct calibrate_stage *s = &in->stages[i];
        struct calibrate_prediction of;
        if (!s->run->logged)
            continue;
        TRY(calibrate_predict(x->a, x->p, f, s->stage, false, &of, e));
        for (int m = 0; m < OBSERVED_METRICS; m++)
            for (int k = OBSERVED_P10; k <= OBSERVED_P90; k++) {
                const double seen = s->stage->of[m].at[k], ours = of.of[m].at[k];
                if (seen > 0 && ours > 0)
                    f->residuals[f->n_residuals++] = (struct calibrate_residual){
                        s,    (enum observed_metric)m,
                        k,    seen,
                        ours, log(ours / seen) / calibrate_left_over[m]};
            }
    }
    return ST_OK;
}

static enum st conclude(struct log_problem *x, const struct calibrate_input *in,
                        const double *predicted, struct calibrate_fit *f, struct err *e)
{
    double measured_s = 0, replayed_s = 0;
    for (size_t k = 0; k < x->n; k++)
        if (x->data[k].kind == INTERVAL) {
            measured_s += x->data[k].observed_s;
            replayed_s += predicted[k];
        }
    find_spread(x, predicted, f);
    find_launch_spread(x, predicted, f);
    for (size_t k = 0; k < x->n_runs; k++)
        tell_note(x->a, f, iteration_match_words(x->a, &x->runs[k]->match));
    for (size_t k = 0; k < x->n_runs; k++)
        tell_note(x->a, f, iteration_times_words(x->a, &x->runs[k]->match, &x->runs[k]->times));
    for (int k = 0; k < KINDS; k++)
        tell_kind(x, predicted, (enum datum_kind)k, f);
    tell_note(x->a, f,
              arena_printf(x->a,
                           "the host's pace varies by %.2g %% over stretches of %d iterations",
                           100 * x->pace.sd, (int)PACE_STRETCH));
    tell_note(x->a, f,
              arena_printf(x->a, "the intervals are %.4g s in all, and %.4g s as fitted",
                           measured_s, replayed_s));
    f->fits = fabs(replayed_s / measured_s - 1) < 0.05;
    if (!f->fits)
        tell_note(x->a, f,
                  arena_printf(x->a, "does not fit: the iterations took %.1f %% more than fitted",
                               100 * (measured_s / replayed_s - 1)));
    return add_latencies(x, in, f, e);
}

static enum st check_async(const struct log_problem *x, struct err *e)
{
    const enum serve_async async = x->p->trial->serve.async;
    for (size_t k = 0; k < x->n_runs; k++) {
        const bool logged = x->runs[k]->times.async;
        if (async == (logged ? ASYNC_OVERLAP : ASYNC_OFF))
            continue;
        err_set(e, ST_USAGE, "%s: the server scheduled %s, as the times of its iterations say",
                x->runs[k]->log.path, logged ? "asynchronously" : "synchronously");
        return err_hint(e, "scheduler.async_scheduling=%s", logged ? "overlap" : "off");
    }
    return ST_OK;
}

static enum st fit(struct log_problem *x, const struct calibrate_input *in, struct calibrate_fit *f,
                   struct err *e)
{
    double hessian[THETAS][THETAS];
    double *predicted;
    gather(x, in);
    predicted = arena_array(x->a, double, x->n);
    TRY(check_async(x, e));
    TRY(iterate(x, &f->theta, predicted, hessian, &f->steps, e));
    take_mean_pace(x, &f->theta);
    if (!solve_inverse(THETAS, THETAS, hessian[0], x->p->prior->held, f->covariance[0]))
        return err_set(e, ST_REJECTED, "the logged times depend on no parameter");
    pace_widen(&x->pace, x->p->prior->held, f->covariance);
    f->simulations = x->simulations;
    return conclude(x, in, predicted, f, e);
}

enum st log_fit(struct arena *a, const struct calibrate_params *p, const struct calibrate_input *in,
                struct calibrate_fit *out, struct err *e)
{
    struct log_problem x = {.a = a, .scratch = arena_new(), .p = p};
    const enum st st = fit(&x, in, out, e);
    arena_free(&x.scratch);
    return st;
}
