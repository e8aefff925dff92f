#include "engine/sampler.h"

#include <float.h>
#include <math.h>

#include "base/rng.h"

typedef struct sampler_candidate candidate;

static bool is_before(candidate a, candidate b)
{
    return a.weight > b.weight || (a.weight >= b.weight && a.id < b.id);
}

static void swap(candidate *a, candidate *b)
{
    const candidate t = *a;
    *a = *b;
    *b = t;
}

/* Partitions c[lo, hi) about a pivot: likelier ones before it, others behind. Returns its index. */
static size_t partition(candidate *c, size_t lo, size_t hi)
{
    candidate *first = &c[lo], *middle = &c[lo + (hi - lo) / 2], *last = &c[hi - 1];
    if (is_before(*middle, *first))
        swap(middle, first);
    if (is_before(*last, *middle))
        swap(last, middle);
    if (is_before(*middle, *first))
        swap(middle, first);
    swap(middle, last); /* the median of three goes to the end */
    size_t at = lo;
    for (size_t i = lo; i + 1 < hi; i++)
        if (is_before(c[i], *last))
            swap(&c[i], &c[at++]);
    swap(&c[at], last);
    return at;
}

/* Number of candidates lo .. hi - 1, or their weight. */
static double measure(const candidate *c, size_t lo, size_t hi, bool weigh)
{
    double sum = 0;
    if (!weigh)
        return (double)(hi - lo);
    for (size_t i = lo; i < hi; i++)
        sum += (double)c[i].weight;
    return sum;
}

/* Moves the fewest candidates, likeliest first, that reach the limit to the front; returns their
 * number. limit > 0. */
static size_t keep(candidate *c, size_t n, double limit, bool weigh)
{
    size_t lo = 0, hi = n; /* kept: before lo; dropped: from hi on */
    double in = 0;
    while (lo < hi) {
        const size_t at = partition(c, lo, hi);
        const double before = in + measure(c, lo, at, weigh);
        if (before >= limit) {
            hi = at;
            continue;
        }
        in = before + (weigh ? (double)c[at].weight : 1);
        lo = at + 1;
        if (in >= limit)
            break;
    }
    return lo;
}

/* Collects all candidates, in order of ids. */
static void gather(struct sampler *x, const struct sampling *s, size_t n, const float *logits)
{
    float best = -INFINITY;
    for (size_t i = 0; i < n; i++)
        best = logits[i] > best ? logits[i] : best;
    vec_clear(&x->list);
    vec_reserve(&x->list, n);
    for (size_t i = 0; i < n; i++) {
        const double away =
            (double)logits[i] - (double)best; /* NaN: of NaN, or of equal infinities */
        const float weight = logits[i] >= best ? 1 : (float)exp(away / s->temperature);
        if (weight > 0 && (double)weight >= s->min_p)
            vec_push(&x->list, (candidate){weight, (int32_t)i});
    }
}

int32_t sampler_draw(struct sampler *x, const struct sampling *s, int64_t position, size_t n,
                     const float *logits)
{
    gather(x, s, n, logits);
    candidate *c = x->list.p;
    size_t kept = x->list.n;
    if (kept == 0)
        return 0;
    if (s->top_k > 0 && (uint64_t)s->top_k < kept)
        kept = keep(c, kept, (double)s->top_k, false);
    if (s->top_p < 1)
        kept = keep(c, kept, fmax(s->top_p * measure(c, 0, kept, true), DBL_MIN), true);
    struct rng r = rng_stream(s->seed + (uint64_t)position * 0x9e3779b97f4a7c15u, "sampler");
    const double goal = rng_unit(&r) * measure(c, 0, kept, true);
    double sum = 0;
    for (size_t i = 0; i + 1 < kept; i++) {
        sum += (double)c[i].weight;
        if (sum > goal)
            return c[i].id;
    }
    return c[kept - 1].id;
}

void sampler_free(struct sampler *x)
{
    vec_free(&x->list);
}
