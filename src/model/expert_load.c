#include "model/expert_load.h"

#include <math.h>

#include "base/rng.h"

/* ---- how popular experts are ---- */

/* p_e of all experts for one c; their sum. */
static double popular(int64_t n, double skew, double c, double *p)
{
    double sum = 0;
    for (int64_t e = 0; e < n; e++)
        sum += p[e] = -expm1(-c * pow((double)(e + 1), -skew));
    return sum;
}

static void popularity(const struct model *m, double skew, double *p)
{
    const int64_t n = m->experts;
    const double k = (double)m->experts_per_token;
    double low = 0, high = 1;
    for (int64_t e = 0; e < n; e++)
        p[e] = k / (double)n;
    if (skew <= 0 || k >= (double)n)
        return;
    while (popular(n, skew, high, p) < k && high < 1e15)
        high *= 2;
    for (int step = 0; step < 100; step++) {
        const double c = (low + high) / 2;
        *(popular(n, skew, c, p) < k ? &low : &high) = c;
    }
}

/* ---- the busiest device ---- */

/* Pairs of a device per token: mean and variance. */
struct device {
    double mean, variance;
    int64_t alike; /* so many devices */
};

/* P(pairs <= x) for x = from, from + step, ...: binomial of the same mean and variance, or normal
 * where it is wide. */
struct binomial_tail {
    double mean, sd, n, p; /* n, p of the binomial; n 0 = normal */
    double at, below;      /* P(pairs == next x), P(pairs < next x) */
    double next;
    double now, last; /* P(pairs <= x), that of the x before */
    double chance;    /* of being the busiest */
};

static struct binomial_tail tail_of(const struct device *d, double tokens)
{
    enum { WIDE = 200 };
    struct binomial_tail t = {.mean = d->mean * tokens, .sd = sqrt(d->variance * tokens)};
    t.p = 1 - d->variance / d->mean;
    if (t.mean > WIDE || !(t.p > 1e-9))
        return t;
    const double log_none = t.mean / t.p * log1p(-t.p);
    if (log_none < -700) /* below what a double holds */
        return t;
    t.n = t.mean / t.p;
    t.at = exp(log_none);
    return t;
}

static double at_most(struct binomial_tail *t, double x)
{
    if (t->n == 0)
        return t->sd > 0 ? 0.5 * erfc(-(x + 0.5 - t->mean) / t->sd / sqrt(2)) : x >= t->mean;
    for (; t->next <= x; t->next++) {
        t->below += t->at;
        t->at = t->next < t->n ? t->at * (t->n - t->next) / (t->next + 1) * t->p / (1 - t->p) : 0;
    }
    return t->below < 1 ? t->below : 1;
}

static double busiest(const struct device *d, int64_t n, double tokens, struct binomial_tail *tails)
{
    double lowest = INFINITY, highest = 0, widest = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        tails[i] = tail_of(&d[i], tokens);
        lowest = fmin(lowest, tails[i].mean - 10 * tails[i].sd);
        highest = fmax(highest, tails[i].mean + 10 * tails[i].sd + 10);
        widest = fmax(widest, tails[i].sd);
    }
    const double step = fmax(1, floor(widest / 16)), from = fmax(0, floor(lowest));
    for (double x = from; x <= highest; x += step) {
        double all = 1;
        for (int64_t i = 0; i < n; i++) {
            tails[i].now = at_most(&tails[i], x);
            all *= d[i].alike == 1 ? tails[i].now : pow(tails[i].now, (double)d[i].alike);
        }
        for (int64_t i = 0; i < n; i++) { /* at x, and the others not above */
            if (tails[i].now > 0)
                tails[i].chance += all * (tails[i].now - tails[i].last) / tails[i].now;
            tails[i].last = tails[i].now;
        }
        sum += step * (1 - all);
        if (1 - all < 1e-9 && x > tails[0].mean)
            break;
    }
    return from + sum - (step - 1) / 2;
}

/* Of experts with p[0 .. n), when the device has so many pairs. */
static double hit_of(const double *p, int64_t n, double mean, double pairs, double tokens)
{
    double hit = 0;
    for (int64_t e = 0; e < n; e++)
        hit += 1 - pow(1 - fmin(1, p[e] * pairs / (mean * tokens)), tokens);
    return hit;
}

static void shuffle(double *p, int64_t n, struct rng *r)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)rng_below(r, (uint64_t)i + 1);
        const double swap = p[i];
        p[i] = p[j];
        p[j] = swap;
    }
}

/* Adds a share of the load under one placement of the experts, p in the order of the devices. */
static void add_placement(const struct model *m, const double *p, int64_t ep, bool even,
                          double share, struct expert_load *out)
{
    const int64_t each = m->experts / ep, n = even ? 1 : ep;
    const double experts_per_token = (double)m->experts_per_token;
    struct device *d = mem_alloc((size_t)n * sizeof *d);
    struct binomial_tail *tails = mem_alloc((size_t)n * sizeof *tails);
    for (int64_t i = 0; i < n; i++) {
        d[i] = (struct device){.alike = even ? ep : 1};
        for (int64_t e = i * each; e < (i + 1) * each; e++) {
            d[i].mean += p[e];
            d[i].variance += p[e] * (1 - p[e]);
        }
    }
    for (int32_t k = 0; k < out->n; k++) {
        const double t = out->tokens[k], mean = t * experts_per_token / (double)ep;
        const double pairs = fmax(busiest(d, n, t, tails), ceil(mean)); /* all together are T k */
        out->pairs[k] += share * pairs / t;
        double hit = 0, chances = 0;
        for (int64_t i = 0; i < n; i++) {
            hit += tails[i].chance * hit_of(&p[i * each], each, d[i].mean, pairs, t);
            chances += tails[i].chance;
        }
        out->hit[k] += share * hit / chances;
    }
    mem_free(d);
    mem_free(tails);
}

void expert_load_make(const struct model *m, int64_t ep, double skew, struct expert_load *out)
{
    enum { PLACEMENTS = 16 };
    const int placements = skew > 0 ? PLACEMENTS : 1;
    struct rng r = rng_stream(1, "model.expert_load");
    double *p = mem_alloc((size_t)m->experts * sizeof *p);
    *out = (struct expert_load){0};
    for (int32_t i = 0; i < EXPERT_LOAD_KNOTS; i++)
        out->tokens[i] = i < 3 ? i + 1 : round(exp2((i + 1) / 2.0));
    out->n = EXPERT_LOAD_KNOTS;
    popularity(m, skew, p);
    for (int i = 0; i < placements; i++) {
        if (skew > 0)
            shuffle(p, m->experts, &r);
        add_placement(m, p, ep, skew <= 0, 1.0 / placements, out);
    }
    mem_free(p);
}

struct expert_pairs expert_load_at(const struct expert_load *l, double tokens)
{
    int32_t i = 0;
    while (i + 2 < l->n && l->tokens[i + 1] <= tokens)
        i++;
    double w = log(tokens / l->tokens[i]) / log(l->tokens[i + 1] / l->tokens[i]);
    w = fmin(1, fmax(0, w));
    return (struct expert_pairs){tokens * (l->pairs[i] + w * (l->pairs[i + 1] - l->pairs[i])),
                                 l->hit[i] + w * (l->hit[i + 1] - l->hit[i])};
}
