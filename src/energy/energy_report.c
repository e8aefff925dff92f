#include "energy/energy_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "energy/energy_notes.h"
#include "energy/stamp.h"

#define OUTSIDE_MOST  0.05 /* of a window without power */
#define EXCLUDED_MOST 0.01 /* of the kernels' time */

/* ---- windows --------------------------------------------------------------------------------- */

static enum st same_kind(const struct power_log *log, bool zoned, const char *source, struct err *e)
{
    if (log->zoned == zoned)
        return ST_OK;
    err_set(e, ST_INPUT, "the times of %s have %s zone, those of %s have %s", log->source,
            log->zoned ? "a" : "no", source, zoned ? "one" : "none");
    return err_hint(e,
                    "a time without a zone is local time of where it was written: give both files "
                    "a zone, or neither");
}

/* Mean power of the windows at rest, by their length. */
static void add_idle(const struct power_log *log, const struct full_timing *t,
                     struct energy_whole *out)
{
    double s = 0, joules = 0, squares = 0;
    out->idle_w = out->idle_half_w = NAN;
    for (size_t i = 0; i < t->n_idle; i++) {
        const struct timing_window *w = &t->idle[i];
        const double each_s = ns_to_s(w->to_ns - w->from_ns);
        const struct power_mean p = power_mean_of(log, w->from_ns, w->to_ns);
        if (isnan(p.mean_w))
            continue;
        s += each_s;
        joules += p.mean_w * each_s;
        squares += pow(p.half_w * each_s, 2);
    }
    if (s <= 0)
        return;
    out->idle_w = joules / s;
    out->idle_half_w = sqrt(squares) / s;
}

/* A window that the log does not cover: most often one of them is of another zone. */
static enum st no_power(const struct power_log *log, const struct energy *g,
                        const struct timing_window *w, struct err *e)
{
    char first[STAMP_MAX], last[STAMP_MAX];
    const char *zone = log->zoned ? "Z" : "";
    if (g->how == ENERGY_EXCLUDED)
        err_set(e, ST_REJECTED, "%s has no sample of power from %s to %s", log->source, w->start,
                w->end);
    else
        err_set(e, ST_REJECTED, "%s has no power for %.3f of the %.3f s from %s to %s", log->source,
                g->outside_s, g->duration_s, w->start, w->end);
    if (log->n == 0)
        return err_hint(e, "no reading of the sensor came: twinfer energy probe says which answer");
    stamp_text(log->p[0].ns, 0, first);
    stamp_text(log->p[log->n - 1].ns, 0, last);
    return err_hint(
        e,
        "log power from before the run until after it, on a clock of the same zone; this "
        "log goes from %s%s to %s%s",
        first, zone, last, zone);
}

enum st energy_whole_of(const struct power_log *log, const struct full_timing *t,
                        struct energy_whole *out, struct err *e)
{
    const struct timing_window *w = &t->window;
    *out = (struct energy_whole){
        .window = *w, .num_runs = t->num_runs, .inference_us = t->inference_us, .under = t->under};
    TRY(same_kind(log, w->zoned, t->source, e));
    out->energy = energy_of(log, w->from_ns, w->to_ns);
    out->power = power_mean_of(log, w->from_ns, w->to_ns);
    add_idle(log, t, out);
    const struct energy *g = &out->energy;
    if (g->how == ENERGY_EXCLUDED || g->outside_s > OUTSIDE_MOST * g->duration_s)
        return no_power(log, g, w, e);
    const double runs = (double)t->num_runs;
    const double best_j = isnan(g->counter_j) ? g->joules : g->counter_j;
    out->how = energy_how_name(g->how);
    out->total_energy_j = g->joules;
    out->energy_per_inference_j = g->joules / runs;
    out->counter_energy_per_inference_j = g->counter_j / runs;
    out->low_j = (best_j - g->edge_j) / runs;
    out->high_j = (best_j + g->edge_j) / runs;
    if (isnan(out->inference_us))
        out->inference_us = g->duration_s * 1e6 / runs;
    return ST_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

double energy_settle_s(bool averaged)
{
    return averaged ? 1.2 : 0.1;
}

/* Where the power of a window is steady. */
static int64_t steady_from(const struct power_log *log, const struct timing_window *w)
{
    const int64_t settle_ns = ns_from_s(energy_settle_s(log->averaged));
    return 4 * settle_ns <= w->to_ns - w->from_ns ? w->from_ns + settle_ns : w->from_ns;
}

/* Of a mean power, or of an error of it: what the time in which kernels run has of it. */
static double while_running(const struct energy_kernel *k, double w, double idle_w)
{
    return k->busy_share > 0 && !isnan(idle_w) ? idle_w + (w - idle_w) / k->busy_share : w;
}

/* Mean power of the loops that sets ran in, by their time in the whole; NAN = unknown. */
static double power_of_sets(const struct energy_kernel *k, size_t n)
{
    double joules = 0, us = 0;
    for (size_t i = 0; i < n; i++)
        if (k[i].tier == 1 && strncmp(k[i].name, "Memset", strlen("Memset")) == 0 &&
            isfinite(k[i].power.mean_w) && energy_context_us(&k[i]) > 0) {
            joules += k[i].power.mean_w * energy_context_us(&k[i]);
            us += energy_context_us(&k[i]);
        }
    return us > 0 ? joules / us : NAN;
}

/* What sets drew above idle power in the loops of kernels that they were repeated with: their own
 * kind is charged with it, so it is none of the kernel's running power. */
static void take_sets_off(struct energy_kernel *k, size_t n, double idle_w)
{
    const double sets_w = power_of_sets(k, n);
    for (size_t i = 0; i < n; i++) {
        const double share = k[i].timing->sets_share;
        if (!(share > 0 && k[i].busy_share > 0) || isnan(sets_w) || isnan(idle_w))
            continue;
        k[i].sets_share = share;
        k[i].running_power_w =
            while_running(&k[i], k[i].power.mean_w - (sets_w - idle_w) * share, idle_w);
        k[i].in_context_energy_j = k[i].running_power_w * energy_context_us(&k[i]) / 1e6;
    }
}

static struct energy_kernel kernel_of(const struct power_log *log, const struct kernel_timing *t,
                                      double idle_w)
{
    struct energy_kernel k = {.timing = t,
                              .window = t->window,
                              .name = t->name,
                              .tier = t->tier,
                              .invocation_count = t->invocation_count,
                              .benchmark_runs = t->benchmark_runs,
                              .single_time_us = t->single_time_us,
                              .in_context_us = t->in_context_us,
                              .in_context_energy_j = NAN,
                              .share_percent = NAN,
                              .pooled = t->pooled,
                              .busy_share = t->busy_share > 0 ? fmin(1, t->busy_share) : NAN,
                              .sets_share = 0,
                              .under = t->under};
    k.energy = (struct energy){.joules = NAN, .counter_j = NAN, .low_w = NAN, .high_w = NAN};
    if (t->benchmark_runs > 0)
        k.energy = energy_of(log, t->window.from_ns, t->window.to_ns);
    k.how = energy_how_name(k.energy.how);
    if (k.energy.outside_s > OUTSIDE_MOST * k.energy.duration_s) {
        k.energy.how = ENERGY_EXCLUDED;
        k.how = energy_how_name(ENERGY_EXCLUDED);
        k.energy.joules = NAN;
    }
    k.power = (struct power_mean){.mean_w = NAN, .half_w = NAN, .spread_w = NAN};
    if (k.energy.how != ENERGY_EXCLUDED)
        k.power = power_mean_of(log, steady_from(log, &t->window), t->window.to_ns);
    k.power_low_w = k.power.mean_w - k.power.half_w;
    k.power_high_w = k.power.mean_w + k.power.half_w;
    k.window_energy_j = k.energy.joules;
    k.energy_per_invocation_j = k.energy.joules / (double)t->benchmark_runs;
    k.energy_per_inference_j = k.energy_per_invocation_j * (double)t->invocation_count;
    if (t->pooled) /* of the pool, not its own */
        k.energy_per_invocation_j = k.energy_per_inference_j = NAN;
    k.running_power_w = while_running(&k, k.power.mean_w, idle_w);
    k.in_context_energy_j = k.running_power_w * energy_context_us(&k) / 1e6;
    return k;
}

/* Of a run, as the original has it. A pool's window belongs to several kernels, the one before it
 * among them: its energy over the rounds of the pool counts once, with the first. */
static double original_j(const struct energy_kernel *kernels, size_t i)
{
    const struct energy_kernel *k = &kernels[i];
    if (!k->pooled)
        return k->energy_per_inference_j;
    for (size_t j = 0; j < i; j++)
        if (kernels[j].pooled && kernels[j].window.from_ns == k->window.from_ns &&
            kernels[j].window.to_ns == k->window.to_ns)
            return 0;
    return k->window_energy_j / (double)k->benchmark_runs * (double)k->invocation_count;
}

static int dearest_first(const void *pa, const void *pb)
{
    const struct energy_kernel *a = pa, *b = pb;
    const double x =
        isnan(a->in_context_energy_j) ? a->energy_per_inference_j : a->in_context_energy_j;
    const double y =
        isnan(b->in_context_energy_j) ? b->energy_per_inference_j : b->in_context_energy_j;
    if (isnan(x) != isnan(y))
        return isnan(x) ? 1 : -1;
    if (x != y && !isnan(x))
        return x < y ? 1 : -1;
    return (a->timing > b->timing) - (a->timing < b->timing); /* the order of the file */
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Kernels of one window share its power's error. *unknown_us: time of those whose power has no
 * interval. */
static double squared_halves(const struct energy_kernel *k, size_t n, double idle_w,
                             double *unknown_us)
{
    double sum = 0;
    *unknown_us = 0;
    for (size_t i = 0; i < n; i++) {
        double s = 0;
        if (isnan(k[i].power.half_w) && !isnan(k[i].power.mean_w))
            *unknown_us += energy_context_us(&k[i]);
        bool first = true;
        for (size_t j = 0; j < n; j++) {
            if (k[j].window.from_ns != k[i].window.from_ns ||
                k[j].window.to_ns != k[i].window.to_ns || isnan(k[j].in_context_us))
                continue;
            first = first && (j >= i);
            s += energy_context_us(&k[j]) / 1e6;
        }
        if (first && !isnan(k[i].power.half_w))
            sum += pow(while_running(&k[i], k[i].power.half_w, isnan(idle_w) ? NAN : 0) * s, 2);
    }
    return sum;
}

static struct energy_context in_context(const struct energy_kernel *k, size_t n, double idle_w)
{
    struct energy_context c = {.busy_share = NAN};
    double known_us = 0, unknown_us, shared_j = 0, shares = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(k[i].in_context_us))
            return c;
        c.busy_us += energy_context_us(&k[i]);
        if (isnan(k[i].in_context_energy_j))
            continue;
        known_us += energy_context_us(&k[i]);
        c.joules += k[i].in_context_energy_j;
        c.at_loop_j += k[i].power.mean_w * energy_context_us(&k[i]) / 1e6;
        if (isnan(k[i].busy_share))
            continue;
        shared_j += k[i].in_context_energy_j;
        shares += k[i].in_context_energy_j * k[i].busy_share;
        if (!isnan(idle_w))
            c.idle_s +=
                (1 - (1 - k[i].sets_share) / k[i].busy_share) * energy_context_us(&k[i]) / 1e6;
    }
    if (shared_j > 0)
        c.busy_share = shares / shared_j;
    c.estimated_us = c.busy_us - known_us;
    if (n == 0 || known_us <= 0 || c.estimated_us > EXCLUDED_MOST * c.busy_us)
        return c;
    c.known = true;
    c.half_j = sqrt(squared_halves(k, n, idle_w, &unknown_us));
    if (unknown_us > EXCLUDED_MOST * c.busy_us)
        c.half_j = NAN;
    c.joules *= c.busy_us / known_us;
    c.at_loop_j *= c.busy_us / known_us;
    c.idle_s *= c.busy_us / known_us;
    return c;
}

/* 0 where it is unknown: nothing is charged with it then. */
static double known(double v)
{
    return isnan(v) ? 0 : v;
}

static struct energy_prediction predict(const struct energy_context *c,
                                        const struct energy_inputs *in,
                                        const struct energy_whole *w)
{
    const bool own = !isnan(w->idle_w); /* its idle power was measured beside it */
    const double idle_w = own ? w->idle_w : in->idle_w;
    const double gap_us = w->inference_us - c->busy_us;
    struct energy_prediction p = {.known = c->known && (!isnan(idle_w) || gap_us <= 0),
                                  .kernels_us = c->busy_us,
                                  .gap_us = fmax(0, gap_us),
                                  .kernels_j = c->joules,
                                  .idle_w = idle_w};
    if (!p.known)
        return p;
    const double gap_s = p.gap_us / 1e6, loops_half_w = known(in->idle_half_w);
    const double gap_half_j = own ? known(w->idle_half_w) * gap_s : 0;
    const double idle_half_j = loops_half_w * (own ? c->idle_s : gap_s + c->idle_s);
    const double half =
        sqrt(c->half_j * c->half_j + idle_half_j * idle_half_j + gap_half_j * gap_half_j);
    p.idle_j = known(idle_w) * gap_s;
    p.energy_j = p.kernels_j + p.idle_j;
    p.low_j = p.energy_j - half;
    p.high_j = p.energy_j + half;
    p.measured_j = isnan(w->counter_energy_per_inference_j) ? w->energy_per_inference_j
                                                            : w->counter_energy_per_inference_j;
    p.measured_low_j = w->low_j;
    p.measured_high_j = w->high_j;
    p.error_percent = energy_percent_off(p.energy_j, p.measured_j);
    const double whole_idle_j = idle_w * w->inference_us / 1e6; /* NAN when unknown */
    p.above_idle_j = p.energy_j - whole_idle_j;
    p.measured_above_idle_j = p.measured_j - whole_idle_j;
    p.above_idle_error_percent = energy_percent_off(p.above_idle_j, p.measured_above_idle_j);
    p.at_loop_j = c->at_loop_j + p.idle_j;
    p.at_loop_error_percent = energy_percent_off(p.at_loop_j, p.measured_j);
    p.at_loop_above_idle_error_percent =
        energy_percent_off(p.at_loop_j - whole_idle_j, p.measured_above_idle_j);
    return p;
}

/* ---- the report ------------------------------------------------------------------------------ */

static enum st add_kernels(struct arena *a, const struct energy_inputs *in,
                           struct energy_report *out, struct err *e)
{
    const struct isolated_timing *t = in->isolated;
    out->predicted_j = 0;
    out->n = t->n;
    out->kernels = arena_array(a, struct energy_kernel, t->n);
    bool timed = false;
    for (size_t i = 0; i < t->n; i++)
        timed = timed || t->kernels[i].benchmark_runs > 0;
    if (timed)
        TRY(same_kind(in->power, t->zoned, t->source, e));
    for (size_t i = 0; i < t->n; i++) {
        const struct energy_kernel k = kernel_of(in->power, &t->kernels[i], in->idle_w);
        out->num_measured += k.energy.how == ENERGY_TRAPEZOIDS;
        out->num_estimated += k.energy.how == ENERGY_ONE_SAMPLE;
        out->num_excluded += k.energy.how == ENERGY_EXCLUDED;
        out->kernels[i] = k;
        const double j = original_j(out->kernels, i);
        out->predicted_j += isnan(j) ? 0 : j;
    }
    take_sets_off(out->kernels, out->n, in->idle_w);
    if (out->num_measured + out->num_estimated == 0) /* unknown, not nothing */
        out->predicted_j = NAN;
    return ST_OK;
}

static void sum_up(const struct energy_inputs *in, struct energy_report *out,
                   const struct energy_context *c)
{
    const double full_j = out->full.energy_per_inference_j;
    out->predicted_error_j = out->predicted_j - full_j;
    out->predicted_error_percent = energy_percent_off(out->predicted_j, full_j);
    out->ratio = out->predicted_j / full_j;
    if (c->known) {
        out->in_context_j = c->joules;
        out->in_context_low_j = c->joules - c->half_j;
        out->in_context_high_j = c->joules + c->half_j;
    }
    out->busy_share = c->busy_share;
    for (size_t i = 0; i < out->n && c->known; i++)
        out->kernels[i].share_percent = 100 * out->kernels[i].in_context_energy_j / c->joules;
    out->whole = predict(c, in, &out->full);
    if (out->has_application)
        out->app = predict(c, in, &out->application);
    if (out->n)
        qsort(out->kernels, out->n, sizeof *out->kernels, dearest_first);
}

enum st energy_report_make(struct arena *a, const struct energy_inputs *in,
                           struct energy_report *out, struct err *e)
{
    const struct power_log *app_power = in->application_power ? in->application_power : in->power;
    struct energy_context c = {.busy_share = NAN};
    *out = (struct energy_report){.predicted_j = NAN,
                                  .in_context_j = NAN,
                                  .in_context_low_j = NAN,
                                  .in_context_high_j = NAN,
                                  .idle_w = in->idle_w,
                                  .idle_low_w = in->idle_w - in->idle_half_w,
                                  .idle_high_w = in->idle_w + in->idle_half_w,
                                  .busy_share = NAN,
                                  .has_application = in->application != NULL};
    if (energy_whole_of(in->power, in->full, &out->full, e) != ST_OK)
        return err_add(e, "the energy of the whole");
    if (in->application &&
        energy_whole_of(app_power, in->application, &out->application, e) != ST_OK)
        return err_add(e, "the energy of the application");
    if (in->isolated) {
        TRY(add_kernels(a, in, out, e));
        c = in_context(out->kernels, out->n, in->idle_w);
    }
    sum_up(in, out, &c);
    energy_notes(a, in, &c, out);
    return ST_OK;
}
