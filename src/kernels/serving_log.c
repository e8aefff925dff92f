/* What iterations held, by the server's log and the requests of a run. */
#include <math.h>
#include <stdlib.h>

#include "base/stats.h"
#include "kernels/serving.h"
#include "profile/whole.h"

const double SERVING_AGREE = 0.95;

/* Iterations of the log that worked, in order. */
static const struct logged_iteration **worked(struct arena *a, const struct iteration_log *log,
                                              size_t *n)
{
    const struct logged_iteration **list =
        arena_array(a, const struct logged_iteration *, log->n + 1);
    *n = 0;
    for (size_t i = 0; i < log->n; i++)
        if (!log->of[i].dummy)
            list[(*n)++] = &log->of[i];
    return list;
}

static double tokens_of(const struct logged_iteration *x)
{
    return (double)(x->context_tokens + x->generation_tokens);
}

/* Correlation of ln(tokens) with ln(time on the GPU), of log[first] and on beside s->of[at] and on.
 */
static double correlation(const struct serving *s, size_t at,
                          const struct logged_iteration *const *log, size_t first, size_t n)
{
    double sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = log1p(tokens_of(log[first + i]));
        const double y = log1p((double)s->of[at + i].busy_ns);
        sx += x, sy += y, sxx += x * x, syy += y * y, sxy += x * y;
    }
    const double m = (double)n;
    const double vx = sxx - sx * sx / m, vy = syy - sy * sy / m;
    return vx > 0 && vy > 0 ? (sxy - sx * sy / m) / sqrt(vx * vy) : 0;
}

/* The log's first iteration that the trace holds, of a trace of fewer. */
static size_t first_logged(const struct serving *s, const struct logged_iteration *const *log,
                           size_t n)
{
    size_t best = n - s->n;
    double most = -2;
    for (size_t first = 0; first + s->n <= n; first++) {
        const double r = correlation(s, 0, log, first, s->n);
        if (r >= most) {
            most = r;
            best = first;
        }
    }
    return best;
}

/* Share of the iterations whose kind is that of their batch: batches with prompts are not launched
 * as one graph where decode steps are. NAN: no full graphs at all. */
static double agreement(const struct serving *s)
{
    size_t full = 0, agree = 0, n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct serving_iteration *x = &s->of[i];
        full += x->kind == SERVING_FULL;
        if (!x->log)
            continue;
        n++;
        agree += (x->kind == SERVING_FULL) == (x->log->context_tokens == 0);
    }
    return full && n ? (double)agree / (double)n : (double)NAN;
}

enum st serving_align(struct arena *a, const struct iteration_log *log, struct serving *s,
                      struct err *e)
{
    size_t n;
    const struct logged_iteration *const *list =
        (const struct logged_iteration *const *)worked(a, log, &n);
    const size_t first = n > s->n ? first_logged(s, list, n) : 0;
    s->shift = n > s->n ? 0 : s->n - n;
    s->n_logged = n > s->n ? s->n : n;
    for (size_t i = 0; i < s->n_logged; i++)
        s->of[s->shift + i].log = list[first + i];
    s->agreement = agreement(s);
    if (s->agreement >= SERVING_AGREE || isnan(s->agreement))
        return ST_OK;
    err_set(e, ST_INPUT,
            "%s does not belong to the trace: %.0f %% of its %zu iterations are of the kind that "
            "the trace has in their place, of %zu",
            log->path, 100 * s->agreement, n, s->n);
    return err_hint(e, "the log must be that of the traced server, up to its end");
}

void serving_loads(const struct iteration_match *m, struct serving *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct serving_iteration *x = &s->of[i];
        size_t j = at;
        while (x->log && j < m->n && m->of[j].log != x->log)
            j++;
        if (!x->log || j == m->n)
            continue;
        at = j + 1;
        if (!m->of[j].known)
            continue;
        x->load = &m->of[j].is;
        s->n_loaded++;
    }
}

enum st serving_of(struct arena *a, const struct kernels *k, const struct serving_params *p,
                   struct serving_result *out, struct err *e)
{
    struct iteration_log *log = arena_one(a, struct iteration_log);
    *out = (struct serving_result){.matches = arena_array(a, const char *, p->n_runs + 1)};
    TRY(serving_find(a, k, &out->s, e));
    if (p->log) {
        TRY(iteration_log_read(a, p->log, log, e));
        TRY(serving_align(a, log, &out->s, e));
    }
    for (size_t i = 0; i < p->n_runs; i++) {
        struct run *run = arena_one(a, struct run);
        struct iteration_match *match = arena_one(a, struct iteration_match);
        TRY(run_load(a, p->runs[i], "real", run, e));
        TRY(iteration_match(a, run, log, NULL, match, e));
        serving_loads(match, &out->s);
        out->matches[out->n_matches++] =
            arena_printf(a, "%s: %s", p->runs[i], iteration_match_words(a, match));
    }
    out->sums = serving_sums(a, &out->s, &out->n_sums);
    return ST_OK;
}

/* ---- a bundle -------------------------------------------------------------------------------- */

/* Of the log alone: chunks are equal and nothing of them is cached, as composition.h has it. */
static struct iterations_batch batch_of_log(const struct logged_iteration *x)
{
    const double tokens = (double)x->context_tokens;
    const double chunks = (double)(x->context_requests > 0 ? x->context_requests : 1);
    return (struct iterations_batch){.chunk_tokens = tokens,
                                     .chunk_context = tokens * (tokens / chunks + 1) / 2,
                                     .decode_sequences = (double)x->generation_requests};
}

/* The host's part before an iteration that came after idle: that of others. */
static double usual_before_ns(const struct serving *s, double *v)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->of[i].before_ns >= 0)
            v[n++] = (double)s->of[i].before_ns;
    return n ? stats_median(v, n) : 0;
}

/* Median of what iterations of a kind were launched in. */
static double usual_launch_ns(const struct serving *s, enum serving_kind kind, double *v)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->of[i].kind == kind)
            v[n++] = (double)(s->of[i].launch_to_ns - s->of[i].launch_from_ns);
    return stats_median(v, n);
}

struct whole_sample *serving_samples(struct arena *a, const struct serving *s, size_t *n,
                                     size_t *compiled, bool *kv_unknown)
{
    struct whole_sample *list = arena_array(a, struct whole_sample, s->n + 1);
    double *v = arena_array(a, double, s->n + 1);
    const double before = usual_before_ns(s, v);
    double most[SERVING_KINDS];
    for (int kind = 0; kind < SERVING_KINDS; kind++)
        most[kind] = SERVING_COMPILED * usual_launch_ns(s, (enum serving_kind)kind, v);
    *n = *compiled = 0;
    *kv_unknown = false;
    for (size_t i = 0; i < s->n; i++) {
        const struct serving_iteration *x = &s->of[i];
        if (!x->log || x->busy_ns <= 0 || (s->n_loaded && !x->load))
            continue;
        const struct iterations_batch b =
            x->load ? iterations_batch_of(&x->load->load, x->load->longest, false)
                    : batch_of_log(x->log);
        *kv_unknown |= !x->load && b.decode_sequences > 0;
        const double launch = (double)(x->launch_to_ns - x->launch_from_ns);
        if (launch > most[x->kind]) {
            ++*compiled;
            continue;
        }
        const double host = launch + (x->before_ns < 0 ? before : (double)x->before_ns);
        list[(*n)++] = (struct whole_sample){.b = b,
                                             .host_s = host / 1e9,
                                             .device_s = (double)x->device_ns / 1e9,
                                             .launch_s = launch / 1e9};
    }
    return list;
}
