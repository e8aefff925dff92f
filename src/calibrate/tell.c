#include "calibrate/tell.h"

#include <math.h>
#include <string.h>

#include "base/solve.h"
#include "metrics/server_metrics.h"

void tell_note(struct arena *a, struct calibrate_fit *f, const char *text)
{
    const char **notes = arena_array(a, const char *, f->n_notes + 1);
    if (f->n_notes)
        memcpy(notes, f->notes, f->n_notes * sizeof *notes);
    notes[f->n_notes++] = text;
    f->notes = notes;
}

static double prior_sd(const double covariance[THETAS][THETAS], int i)
{
    return sqrt(covariance[i][i]);
}

void tell_what_data_said(struct arena *a, const struct theta_prior *prior, struct calibrate_fit *f)
{
    double before[THETAS][THETAS];
    const char *nothing = "", *pairs = "";
    if (!solve_inverse(THETAS, THETAS, prior->precision[0], prior->held, before[0]))
        return;
    for (int i = 0; i < THETAS; i++) {
        f->told[i] = f->held[i] ? 1 : sqrt(f->covariance[i][i]) / prior_sd(before, i);
        if (!f->held[i] && f->told[i] > 0.8)
            nothing = arena_printf(a, "%s%s%s", nothing, *nothing ? ", " : "", theta_name(i));
        for (int j = 0; j < i; j++) {
            double c = f->covariance[i][j] / sqrt(f->covariance[i][i] * f->covariance[j][j]);
            if (!f->held[i] && !f->held[j] && f->told[i] <= 0.8 && fabs(c) > 0.8)
                pairs = arena_printf(a, "%s%s%s with %s", pairs, *pairs ? ", " : "", theta_name(j),
                                     theta_name(i));
        }
    }
    if (*nothing)
        tell_note(a, f,
                  arena_printf(a, "the data could not tell: %s (as the prior has them)", nothing));
    if (*pairs)
        tell_note(a, f, arena_printf(a, "only together: %s", pairs));
}

/* A parameter that had to go this many of the prior's standard deviations stands for something that
 * the model does not have. */
static const double FAR = 4;

void tell_far(struct arena *a, struct calibrate_fit *f)
{
    for (int i = 0; i < THETAS; i++) {
        const double value = exp(f->theta.ln[i]), before = exp(f->before.ln[i]);
        const double by = fabs(f->theta.ln[i] - f->before.ln[i]) / f->before_sd[i];
        if (!f->held[i] && f->before_sd[i] > 0 && f->told[i] <= 0.8 && by > FAR)
            tell_note(a, f,
                      arena_printf(a,
                                   "far from the prior: %s is %.3g, and %.3g was expected (%.0f "
                                   "standard deviations): another model, GPU or engine than "
                                   "stated, or settings that slow it down",
                                   theta_name(i), value, before, by));
    }
}

/* Running at once, by Little's law. */
static double running(const struct observed_stage *s)
{
    const struct observed_series *e2e = &s->of[OBSERVED_E2E];
    return s->rate * (isnan(e2e->mean) ? e2e->at[OBSERVED_P50] : e2e->mean);
}

static double mean_prompt(const struct observed_stage *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->w.n; i++)
        sum += (double)s->w.requests[i].num_prefill_tokens;
    return sum / (double)s->w.n;
}

const char *tell_outside(struct arena *a, const struct observed *run,
                         const struct observed_stage *s, const struct theta *t)
{
    const struct request_overheads o = theta_overheads(t);
    struct first_token_split split;
    const char *why;
    if (!run->server || !first_token_split(a, run->server, &split, &why))
        return NULL;
    const double fitted =
        o.front_s + o.first_token_s + o.prompt_token_s * mean_prompt(s) + o.stream_s * running(s);
    return arena_printf(a,
                        "first tokens of %s outside the engine: %.2f ms by its server's own "
                        "metrics (front %.2f, outside the server %.2f; queue %.2f and prefill "
                        "%.2f in the engine), %.2f ms or more in the fit",
                        run->name, 1e3 * (split.front_s + split.outside_s), 1e3 * split.front_s,
                        1e3 * split.outside_s, 1e3 * split.queue_s, 1e3 * split.prefill_s,
                        1e3 * fitted);
}

bool tell_is_idle(const struct observed_stage *s)
{
    return running(s) < 1; /* false of NAN */
}

const char *tell_idle(struct arena *a, const char *whose)
{
    return arena_printf(
        a,
        "first tokens %s are predicted too early: 35 to 50 %% on five servers that were looked at. "
        "How a server wakes up, its HTTP and its client are not in the model, and no stage that "
        "was "
        "fitted had less than one request running in the mean",
        whose);
}
