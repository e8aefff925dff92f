#include "profile/read/together.h"

#include <math.h>
#include <stdlib.h>

static double pairs(const struct op_table *prefill, double kv_before, double tokens)
{
    return seen_pairs(&prefill->seen, kv_before, tokens);
}

/* Of a chunk with so many keys, its own among them. */
static double latency_of(const struct op_table *prefill, double keys)
{
    const double shortest = prefill->points[0].x;
    bool ignored;
    return op_table_at(prefill, shortest, fmax(keys - shortest, 0), &ignored);
}

/* What is left of a time when the latency is taken out. */
static double work_in(double s, double latency_s)
{
    return s > latency_s ? sqrt(s * s - latency_s * latency_s) : 0;
}

/* Work of each of the batch's prompts, with which the batch comes out as measured: of
 * T = r hypot(latency, n w) and f = r hypot(latency, w). */
static double work_in_batch(const struct op_table *prefill, const struct bundle_prompt_batch *b)
{
    bool ignored;
    const double n = (double)b->chunks, tokens = (double)b->tokens, s = b->attn_prefill_s;
    const double alone = op_table_at(prefill, tokens, 0, &ignored);
    const double latency = fmin(latency_of(prefill, tokens), alone);
    if (s <= alone)
        return 0;
    if (s >= n * alone) /* one after the other */
        return alone;
    return fmin(latency * sqrt((s * s - alone * alone) / (n * n * alone * alone - s * s)), alone);
}

/* The point with the most pairs: there, if anywhere, the device is full. */
static const struct surface_point *fullest(const struct op_table *t)
{
    const struct surface_point *out = NULL;
    for (int64_t i = 0; i < t->n; i++) {
        const struct surface_point *p = &t->points[i];
        if (p->y > 0 && (!out || pairs(t, p->kv, p->x) > pairs(t, out->kv, out->x)))
            out = p;
    }
    return out;
}

static int by_tokens(const void *pa, const void *pb)
{
    const struct surface_point *a = pa, *b = pb;
    return (a->x > b->x) - (a->x < b->x);
}

/* Above the last batch the curve goes on in proportion to the pairs. */
static struct curve work_curve(struct arena *a, const struct op_table *prefill,
                               const struct bundle_prompt_batch *batches, size_t n)
{
    struct surface_point *p = arena_array(a, struct surface_point, n);
    double *x = arena_array(a, double, n), *y = arena_array(a, double, n);
    int32_t m = 0;
    for (size_t i = 0; i < n; i++) {
        const struct bundle_prompt_batch *b = &batches[i];
        p[i] = (struct surface_point){.x = (double)b->tokens, .y = work_in_batch(prefill, b)};
    }
    qsort(p, n, sizeof *p, by_tokens);
    for (size_t i = 0; i < n; i++)
        if (p[i].y > 0 && (m == 0 || p[i].x > x[m - 1])) {
            x[m] = p[i].x;
            y[m++] = p[i].y;
        }
    return m ? (struct curve){grid_new(a, x, m), y} : (struct curve){0};
}

struct together together_of(struct arena *a, const struct op_table *prefill,
                            const struct bundle_prompt_batch *batches, size_t n)
{
    const struct surface_point *full = fullest(prefill);
    if (!full || n == 0)
        return (struct together){0};
    const double work = work_in(full->y, latency_of(prefill, full->kv + full->x));
    return (struct together){.pair_s = work / pairs(prefill, full->kv, full->x),
                             .work = work_curve(a, prefill, batches, n)};
}

/* Of one repeat. */
static double work_of(const struct together *t, const struct op_table *prefill, double kv_before,
                      double tokens)
{
    const struct grid *g = t->work.grid;
    bool ignored;
    if (!g) /* no batch took longer than one prompt */
        return t->pair_s * pairs(prefill, kv_before, tokens);
    const double last = g->x[g->n - 1];
    const double more = tokens > last ? pairs(prefill, 0, tokens) - pairs(prefill, 0, last) : 0;
    const double cached = prefill->seen.tokens > 0
                              ? pairs(prefill, kv_before, tokens) - pairs(prefill, 0, tokens)
                              : tokens * kv_before;
    return curve_at(&t->work, tokens, &ignored) + t->pair_s * (cached + more);
}

void together_add(const struct together *t, const struct op_table *prefill, double kv_before,
                  double tokens, double single_s, int32_t repeat, struct together_sum *sum)
{
    sum->n++;
    sum->sum_s += single_s;
    sum->longest_s = fmax(sum->longest_s, single_s);
    if (!(t->pair_s > 0) || !(single_s > 0))
        return;
    const double latency = fmin(latency_of(prefill, kv_before + tokens) * repeat, single_s);
    const double work = fmin(work_of(t, prefill, kv_before, tokens) * repeat, single_s);
    sum->latency_s = fmax(sum->latency_s, latency);
    sum->work_s += work;
    sum->ratio_s += single_s * single_s / hypot(latency, work);
}

double together_s(const struct together *t, const struct together_sum *sum)
{
    if (sum->n < 2 || !(t->pair_s > 0) || !(sum->sum_s > 0))
        return sum->sum_s;
    const double s = sum->ratio_s / sum->sum_s * hypot(sum->latency_s, sum->work_s);
    return fmin(fmax(s, sum->longest_s), sum->sum_s);
}
