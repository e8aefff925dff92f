#include "compare/bootstrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { MOST_DRAWS = 2000, LEAST_DRAWS = 200, LEAST_REQUESTS = 20, LEAST_BEYOND = 5 };
#define WORK 2e8 /* values visited in all draws: about a second */

static int by_value(const void *pa, const void *pb)
{
    const struct boot_value *a = pa, *b = pb;
    if (a->ns < b->ns || a->ns > b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->owner > b->owner) - (a->owner < b->owner);
}

void boot_sort(struct boot_series *s)
{
    if (s->n > 1)
        qsort(s->values, s->n, sizeof *s->values, by_value);
}

size_t boot_block(size_t requests)
{
    size_t block = 1;
    while (block * block * block < requests)
        block++;
    return block;
}

int boot_draws(size_t values)
{
    double draws = WORK / (double)(values ? values : 1);
    return draws > MOST_DRAWS ? MOST_DRAWS : draws < LEAST_DRAWS ? LEAST_DRAWS : (int)draws;
}

bool boot_bounds(size_t requests, size_t values, double percentile)
{
    double beyond = (double)values * (percentile < 50 ? percentile : 100 - percentile) / 100;
    return requests >= LEAST_REQUESTS && beyond >= LEAST_BEYOND;
}

/* weights[i]: number of times request i was drawn. */
static void draw(struct rng *rng, size_t n, size_t block, uint32_t *weights)
{
    memset(weights, 0, n * sizeof *weights);
    for (size_t left = n; left > 0;) {
        size_t at = (size_t)rng_below(rng, n), length = left < block ? left : block;
        for (size_t i = 0; i < length; i++)
            weights[at + i < n ? at + i : at + i - n]++;
        left -= length;
    }
}

/* The value at that rank, counted from 0, of a series in which each value stands `weight` times. */
static double at_rank(const struct boot_series *s, const uint64_t *sums, uint64_t rank)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (sums[mid] > rank)
            high = mid;
        else
            low = mid + 1;
    }
    return s->values[low].ns;
}

/* As stats_percentile, of the drawn values. */
static void percentiles(const struct boot_series *s, const uint32_t *weights, uint64_t *sums,
                        const struct boot_params *p, double *out)
{
    uint64_t total = 0;
    for (size_t i = 0; i < s->n; i++)
        sums[i] = total += weights[s->values[i].owner];
    for (int k = 0; k < p->n_percentiles; k++) {
        out[k] = (double)NAN;
        if (total == 0)
            continue;
        double place = (double)(total - 1) * p->percentiles[k] / 100;
        uint64_t below = (uint64_t)place;
        double low = at_rank(s, sums, below), share = place - (double)below;
        out[k] = share > 0 ? low + share * (at_rank(s, sums, below + 1) - low) : low;
    }
}

static size_t longest(const struct boot_series *s, int n)
{
    size_t most = 0;
    for (int i = 0; i < n; i++)
        most = s[i].n > most ? s[i].n : most;
    return most;
}

int boot_intervals(const struct boot_params *p, const struct boot_series *a,
                   const struct boot_series *b, int n_series, double *low, double *high)
{
    enum { MOST_PERCENTILES = 16 };
    ASSERT(p->n_percentiles <= MOST_PERCENTILES);
    ASSERT(!p->paired || p->a_requests == p->b_requests);
    const int cells = n_series * p->n_percentiles;
    size_t values = 0, most = longest(a, n_series), more = longest(b, n_series);
    for (int i = 0; i < n_series; i++)
        values += a[i].n + b[i].n;
    for (int i = 0; i < cells; i++)
        low[i] = high[i] = (double)NAN;
    const size_t fewest = p->a_requests < p->b_requests ? p->a_requests : p->b_requests;
    if (fewest < LEAST_REQUESTS)
        return 0;
    const int draws = boot_draws(values);
    most = more > most ? more : most;
    struct rng rng = rng_stream(p->seed, "compare.bootstrap");
    uint32_t *wa = mem_alloc(p->a_requests * sizeof *wa), *wb = wa;
    if (!p->paired)
        wb = mem_alloc(p->b_requests * sizeof *wb);
    uint64_t *sums = mem_alloc((most + 1) * sizeof *sums);
    double *changes = mem_alloc((size_t)cells * (size_t)draws * sizeof *changes);
    for (int d = 0; d < draws; d++) {
        draw(&rng, p->a_requests, boot_block(p->a_requests), wa);
        if (!p->paired)
            draw(&rng, p->b_requests, boot_block(p->b_requests), wb);
        for (int s = 0; s < n_series; s++) {
            double of_a[MOST_PERCENTILES], of_b[MOST_PERCENTILES];
            percentiles(&a[s], wa, sums, p, of_a);
            percentiles(&b[s], wb, sums, p, of_b);
            for (int k = 0; k < p->n_percentiles; k++)
                changes[(size_t)(s * p->n_percentiles + k) * (size_t)draws + (size_t)d] =
                    100 * (of_b[k] - of_a[k]) / of_a[k];
        }
    }
    double *scratch = mem_alloc((size_t)draws * sizeof *scratch);
    for (int i = 0; i < cells; i++) {
        double *drawn = &changes[(size_t)i * (size_t)draws];
        const int s = i / p->n_percentiles;
        const double q = p->percentiles[i % p->n_percentiles];
        bool finite = boot_bounds(fewest, a[s].n < b[s].n ? a[s].n : b[s].n, q);
        for (int d = 0; d < draws; d++)
            finite = finite && isfinite(drawn[d]);
        if (!finite)
            continue;
        stats_sort(drawn, scratch, (size_t)draws);
        low[i] = stats_percentile(drawn, (size_t)draws, 2.5);
        high[i] = stats_percentile(drawn, (size_t)draws, 97.5);
    }
    mem_free(scratch);
    mem_free(changes);
    mem_free(sums);
    if (!p->paired)
        mem_free(wb);
    mem_free(wa);
    return draws;
}
