#include "metrics/iteration_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/order.h"
#include "base/solve.h"
#include "base/stats.h"

/* What an interval is made of: launches by kind, answers, the way to the client of a last token
 * against that of a first one, and what a sequence adds. */
enum {
    KIND_DECODES,
    KIND_PROMPTS, /* up to LEAST_TOKENS tokens, up to twice that, ... */
    KINDS = KIND_PROMPTS + 8,
    PART_ANSWER = KINDS,
    PART_END,
    PART_SEQUENCES,
    PARTS,
};
enum { LEAST_TOKENS = 64, ROUNDS = 40, NEIGHBOURS = 9 };
static const double CLIP = 2;
static const double LEAST_SCALE_S = 1e-4; /* wires and clients' clocks vary by more */
static const double RIDGE = 1e-4;         /* of an interval: what none tells apart stays small */

struct interval {
    double part[PARTS];
    double left_s; /* without the waits */
};

struct fit {
    const struct iteration_match *m;
    const struct iteration_anchor *anchors;
    size_t n_anchors;
    struct interval *of; /* [n] */
    double *off;         /* [n] absolute residuals */
    size_t n;
    double part_s[PARTS];
    double scale_s;
};

static int by_iteration(const void *pa, const void *pb)
{
    const struct iteration_anchor *a = pa, *b = pb;
    if (a->iteration != b->iteration)
        return a->iteration < b->iteration ? -1 : 1;
    return (a->time_s > b->time_s) - (a->time_s < b->time_s);
}

size_t iteration_anchors(struct arena *a, const struct run *run, const struct iteration_match *m,
                         struct iteration_anchor **out)
{
    struct iteration_anchor *of = arena_array(a, struct iteration_anchor, 2 * run->n_requests);
    size_t n = 0;
    for (size_t i = 0; i < run->n_requests; i++) {
        const struct run_request *q = &run->requests[i];
        const int64_t first = m->first[i], last = m->last[i];
        if (first != ITERATION_NONE && m->of[first].known)
            of[n++] =
                (struct iteration_anchor){(size_t)first, ns_to_s(q->first_token_ns), false, i};
        if (last != ITERATION_NONE && last != first && q->status == RUN_OK &&
            q->completion_ns != RUN_NONE && m->of[last].known)
            of[n++] = (struct iteration_anchor){(size_t)last, ns_to_s(q->completion_ns), true, i};
    }
    qsort(of, n, sizeof *of, by_iteration);
    *out = of;
    return n;
}

/* ---- intervals ------------------------------------------------------------------------------- */

static int kind_of(const struct matched_iteration *x)
{
    int64_t most = LEAST_TOKENS;
    int kind = KIND_PROMPTS;
    if (x->log->context_tokens == 0)
        return KIND_DECODES;
    while (x->log->context_tokens + x->log->generation_tokens > most && kind + 1 < KINDS) {
        most *= 2;
        kind++;
    }
    return kind;
}

/* Adds what lies between the tokens before iteration i and its own. */
static void add_parts(const struct iteration_match *m, size_t i, bool async, double *part)
{
    const size_t launched = i + async;
    part[PART_ANSWER]++;
    part[PART_SEQUENCES] += (double)m->of[i].log->generation_requests;
    if (launched < m->n && !(async && m->of[launched].idle_before))
        part[kind_of(&m->of[launched])]++;
}

static void find_intervals(struct arena *a, struct fit *f, bool async)
{
    f->of = arena_array(a, struct interval, f->n_anchors);
    f->off = arena_array(a, double, f->n_anchors);
    f->n = 0;
    for (size_t k = 1; k < f->n_anchors; k++) {
        const struct iteration_anchor *from = &f->anchors[k - 1], *to = &f->anchors[k];
        struct interval x = {.left_s = to->time_s - from->time_s};
        bool idle = false;
        for (size_t i = from->iteration + 1; i <= to->iteration; i++) {
            idle |= f->m->of[i].idle_before;
            x.left_s -= f->m->of[i].log->elapsed_s;
            add_parts(f->m, i, async, x.part);
        }
        x.part[PART_END] = (double)to->end - (double)from->end;
        if (!idle && to->iteration > from->iteration)
            f->of[f->n++] = x;
    }
}

static double off_of(const struct fit *f, const struct interval *x)
{
    double off = x->left_s;
    for (int i = 0; i < PARTS; i++)
        off -= x->part[i] * f->part_s[i];
    return off;
}

static double median_off(struct arena *scratch, struct fit *f)
{
    double *sorted = arena_array(scratch, double, f->n);
    for (size_t k = 0; k < f->n; k++)
        sorted[k] = f->off[k] = fabs(off_of(f, &f->of[k]));
    qsort(sorted, f->n, sizeof *sorted, order_double);
    return sorted[f->n / 2];
}

/* One round of least squares with the weights that the residuals have now. */
static void solve_round(struct fit *f)
{
    double h[PARTS][PARTS] = {{0}}, g[PARTS] = {0}, step[PARTS];
    for (int i = 0; i < PARTS; i++)
        h[i][i] = RIDGE;
    for (size_t k = 0; k < f->n; k++) {
        const struct interval *x = &f->of[k];
        const double over = f->off[k] / (CLIP * f->scale_s), w = over > 1 ? 1 / over : 1;
        for (int i = 0; i < PARTS; i++) {
            g[i] += w * x->part[i] * x->left_s;
            for (int j = 0; j < PARTS; j++)
                h[i][j] += w * x->part[i] * x->part[j];
        }
    }
    if (solve(PARTS, PARTS, h[0], NULL, g, step))
        memcpy(f->part_s, step, sizeof step);
}

/* The loss that the fit leaves: mean of the residuals, each counted up to CLIP scales of `scale_s`.
 */
static void solve_fit(struct arena *scratch, struct fit *f)
{
    memset(f->part_s, 0, sizeof f->part_s);
    for (int round = 0; round < ROUNDS; round++) {
        f->scale_s = fmax(STATS_NORMAL_MAD * median_off(scratch, f), LEAST_SCALE_S);
        solve_round(f);
    }
    f->scale_s = fmax(STATS_NORMAL_MAD * median_off(scratch, f), LEAST_SCALE_S);
    arena_reset(scratch);
}

static double mean_off(const struct fit *f)
{
    double sum = 0;
    for (size_t k = 0; k < f->n; k++)
        sum += f->off[k] / (double)f->n;
    return sum;
}

/* ---- times ----------------------------------------------------------------------------------- */

static double launch_of(const struct fit *f, size_t i)
{
    return fmax(f->part_s[kind_of(&f->m->of[i])], 0);
}

/* From the tokens before iteration i to its own; of the first after a pause, what it takes. */
static double since_tokens(const struct fit *f, size_t i, bool async)
{
    const struct matched_iteration *x = &f->m->of[i];
    double part[PARTS] = {0}, time_s = x->log->elapsed_s;
    add_parts(f->m, i, async, part);
    if (async && x->idle_before)
        part[kind_of(x)]++;
    for (int k = 0; k < PARTS; k++)
        time_s += part[k] * f->part_s[k];
    return fmax(time_s, x->log->elapsed_s);
}

/* Median of how much later than t->tokens_s tokens of the NEIGHBOURS anchors around the k-th of
 * [from, to) came. */
static double late_around(const struct fit *f, const struct iteration_times *t, size_t k,
                          size_t from, size_t to)
{
    double late[NEIGHBOURS];
    int n = 0;
    size_t first = k >= from + NEIGHBOURS / 2 ? k - NEIGHBOURS / 2 : from;
    for (size_t i = first; i < to && n < NEIGHBOURS; i++) {
        const struct iteration_anchor *x = &f->anchors[i];
        late[n++] = x->time_s - t->tokens_s[x->iteration] - x->end * f->part_s[PART_END];
    }
    qsort(late, (size_t)n, sizeof *late, order_double);
    return n ? late[n / 2] : 0;
}

/* Iterations [from, to) without a pause: when their tokens came, of the times between these, moved
 * to where the tokens that reached the client say. */
static void place_tokens(struct arena *scratch, const struct fit *f, struct iteration_times *t,
                         size_t from, size_t to, size_t *anchor)
{
    const size_t first = *anchor;
    double *late = arena_array(scratch, double, to - from);
    for (size_t i = from; i < to; i++)
        t->tokens_s[i] = since_tokens(f, i, t->async) + (i > from ? t->tokens_s[i - 1] : 0);
    while (*anchor < f->n_anchors && f->anchors[*anchor].iteration < to)
        ++*anchor;
    size_t k = first;
    for (size_t i = from; i < to; i++) {
        while (k + 1 < *anchor && f->anchors[k].iteration < i)
            k++;
        late[i - from] = late_around(f, t, k, first, *anchor);
    }
    for (size_t i = from; i < to; i++) {
        t->tokens_s[i] += late[i - from];
        if (i > from)
            t->tokens_s[i] = fmax(t->tokens_s[i], t->tokens_s[i - 1]);
    }
    arena_reset(scratch);
}

/* The loop's time for each: its tokens come at the end of that, or, where the next one is launched
 * before, that much later. */
static void place_own(const struct fit *f, struct iteration_times *t, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        double end_s = t->tokens_s[i];
        if (t->async && i + 1 < to)
            end_s -= launch_of(f, i + 1);
        if (i == from)
            t->start_s[i] = end_s - launch_of(f, i) - f->m->of[i].log->elapsed_s;
        else
            t->start_s[i] = t->start_s[i - 1] + t->duration_s[i - 1];
        t->duration_s[i] = fmax(end_s - t->start_s[i], 0);
    }
}

static void place_all(struct arena *scratch, const struct fit *f, struct iteration_times *t)
{
    size_t anchor = 0, from = 0;
    double waited_s = 0, all_s = 0;
    for (size_t i = 1; i <= f->m->n; i++)
        if (i == f->m->n || f->m->of[i].idle_before) {
            place_tokens(scratch, f, t, from, i, &anchor);
            place_own(f, t, from, i);
            from = i;
        }
    for (size_t i = 0; i < f->m->n; i++) {
        waited_s += f->m->of[i].log->elapsed_s;
        all_s += t->duration_s[i];
    }
    t->waited = all_s > 0 ? waited_s / all_s : 0;
}

enum st iteration_times(struct arena *a, const struct run *run, const struct iteration_match *m,
                        struct iteration_times *out, struct err *e)
{
    struct iteration_anchor *anchors;
    struct fit f[2] = {{.m = m}, {.m = m}};
    *out = (struct iteration_times){.tokens_s = arena_array(a, double, m->n),
                                    .start_s = arena_array(a, double, m->n),
                                    .duration_s = arena_array(a, double, m->n)};
    struct arena *scratch = arena_new();
    for (int async = 0; async < 2; async++) {
        f[async].n_anchors = iteration_anchors(a, run, m, &anchors);
        f[async].anchors = anchors;
        find_intervals(a, &f[async], async);
        if (f[async].n >= ITERATION_INTERVALS_LEAST)
            solve_fit(scratch, &f[async]);
    }
    const struct fit *best = &f[mean_off(&f[1]) < mean_off(&f[0])];
    if (best->n >= ITERATION_INTERVALS_LEAST) {
        out->async = best == &f[1];
        out->n_intervals = best->n;
        place_all(scratch, best, out);
        qsort(best->off, best->n, sizeof *best->off, order_double);
        out->residual_s = best->off[best->n / 2];
        out->residual_p90_s = best->off[best->n * 9 / 10];
    }
    arena_free(&scratch);
    if (out->n_intervals)
        return ST_OK;
    err_set(e, ST_REJECTED,
            "%zu intervals between tokens that reached the client are too few to time iterations: "
            "%d are needed",
            best->n, (int)ITERATION_INTERVALS_LEAST);
    return err_hint(e, "give a run of more requests under load");
}

const char *iteration_times_words(struct arena *a, const struct iteration_match *m,
                                  const struct iteration_times *t)
{
    double sum[2] = {0}, n[2] = {0};
    for (size_t i = 0; i < m->n; i++) {
        const bool prompts = m->of[i].log->context_tokens > 0;
        sum[prompts] += t->duration_s[i];
        n[prompts]++;
    }
    return arena_printf(
        a,
        "the server scheduled %s; the logged elapsed times are what its loop waited, %.0f %% of "
        "the "
        "time, and launches and answers are from when tokens reached the client (%zu intervals, "
        "median residual %.2f ms); launching counted to what is launched, a decode step takes "
        "%.2f ms and a batch with prompts %.2f ms",
        t->async ? "asynchronously" : "synchronously", 100 * t->waited, t->n_intervals,
        1e3 * t->residual_s, n[0] > 0 ? 1e3 * sum[0] / n[0] : 0,
        n[1] > 0 ? 1e3 * sum[1] / n[1] : 0);
}

struct run_batch *iteration_batches(struct arena *a, const struct iteration_match *m,
                                    const struct iteration_times *t)
{
    struct run_batch *out = arena_array(a, struct run_batch, m->n);
    for (size_t i = 0; i < m->n; i++) {
        const struct logged_iteration *x = m->of[i].log;
        const int64_t again = x->generation_tokens - x->generation_requests;
        const bool first = i == 0 || m->of[i].idle_before;
        const int64_t start_ns = llround(1e9 * (first ? t->start_s[i] : t->tokens_s[i - 1]));
        out[i] = (struct run_batch){
            .iteration = (int64_t)i,
            .start_ns = start_ns,
            .duration_ns = llround(1e9 * t->tokens_s[i]) - start_ns,
            .host_ns = RUN_NONE,
            .device_ns = RUN_NONE,
            .num_prefill_tokens = x->context_tokens + again,
            .num_decode_tokens = x->generation_tokens - again,
            .batch_size = x->context_requests + x->generation_requests,
            .kv_blocks = RUN_NONE,
        };
    }
    return out;
}
