#include "calibrate/settle.h"

#include <math.h>

size_t settle_mser(const double *means, size_t n)
{
    double sum = 0, squares = 0, least = (double)INFINITY;
    size_t cut = 0;
    for (size_t i = n; i-- > 0;) {
        const double rest = (double)(n - i);
        sum += means[i];
        squares += means[i] * means[i];
        const double error = (squares - sum * sum / rest) / (rest * rest);
        if (i <= n / 2 && error <= least) {
            least = error;
            cut = i;
        }
    }
    return cut;
}

/* Whether the means before the cut are above those behind it by more than 3 standard errors. */
static bool is_above(const double *means, size_t cut, size_t n)
{
    double before = 0, behind = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        *(i < cut ? &before : &behind) += means[i];
    const double rest = (double)(n - cut);
    before /= (double)cut;
    behind /= rest;
    for (size_t i = cut; i < n; i++)
        squares += (means[i] - behind) * (means[i] - behind);
    const double variance = squares / (rest - 1);
    return before - behind > 3 * sqrt(variance * (1 / (double)cut + 1 / rest));
}

/* Means of groups of ln(observed / simulated) and of ln(observed); the number of groups. Requests
 * without both times are left out of their group. */
static size_t group_means(struct arena *scratch, const struct observed_stage *s,
                          const double *simulated_s, double **ratios, double **observed)
{
    const size_t n = s->w.n / SETTLE_GROUP;
    *ratios = arena_array(scratch, double, n);
    *observed = arena_array(scratch, double, n);
    for (size_t i = 0; i < n; i++) {
        double ratio = 0, ttft = 0, of = 0;
        for (size_t k = i * SETTLE_GROUP; k < (i + 1) * SETTLE_GROUP; k++) {
            const double seen = s->each[k].ttft_s, ours = simulated_s[k];
            if (!(seen > 0 && ours > 0))
                continue;
            ratio += log(seen / ours);
            ttft += log(seen);
            of++;
        }
        (*ratios)[i] = of > 0 ? ratio / of : i > 0 ? (*ratios)[i - 1] : 0;
        (*observed)[i] = of > 0 ? ttft / of : i > 0 ? (*observed)[i - 1] : 0;
    }
    return n;
}

/* How many requests had come before the stage settled. */
static enum st unsettled(struct arena *scratch, const struct calibrate_params *p,
                         const struct observed_stage *s, size_t *cut, struct err *e)
{
    struct trial f = *p->trial;
    struct trial_result of;
    double *ratios, *observed;
    *cut = 0;
    f.first_tokens_s = arena_array(scratch, double, s->w.n);
    TRY(trial_run(scratch, &f, s, &p->prior->mean, &of, e));
    if (of.saturated || backlog_trend(&s->waits).grew)
        return ST_OK;
    const size_t n = group_means(scratch, s, f.first_tokens_s, &ratios, &observed);
    const size_t groups = settle_mser(ratios, n);
    if (groups > 0 && is_above(ratios, groups, n) && is_above(observed, groups, n))
        *cut = groups * SETTLE_GROUP;
    return ST_OK;
}

static const char *leave_out(struct arena *a, const struct observed *run, struct observed_stage *s,
                             size_t cut)
{
    const double all_s = s->of[OBSERVED_TTFT].mean;
    observed_leave_out(a, s, cut);
    return arena_printf(a,
                        "stage %s of %s: its first %zu of %zu requests are left out, as the server "
                        "had not settled (MSER-5): TTFT is %.3g s in the mean with them, %.3g s "
                        "without",
                        s->name, run->name, cut, s->w.n, all_s, s->of[OBSERVED_TTFT].mean);
}

enum st settle_starts(struct arena *a, const struct calibrate_params *p, struct calibrate_input *in,
                      struct observed *runs, size_t n, struct err *e)
{
    struct arena *scratch = arena_new();
    enum st st = ST_OK;
    in->notes = arena_array(a, const char *, in->n);
    for (size_t i = 0; i < in->n && st == ST_OK; i++) {
        const struct calibrate_stage *x = &in->stages[i];
        const size_t run = (size_t)(x->run - runs);
        ASSERT(run < n);
        struct observed_stage *s = &runs[run].stages[x->stage - runs[run].stages];
        size_t cut;
        if (x->left_out || !s->each || s->w.concurrency || s->warmup)
            continue;
        st = unsettled(scratch, p, s, &cut, e);
        if (st == ST_OK && cut > 0)
            in->notes[in->n_notes++] = leave_out(a, x->run, s, cut);
        arena_reset(scratch);
    }
    arena_free(&scratch);
    return st;
}
