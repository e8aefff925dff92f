#include "kernels/stats.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "trace/trace.h"

/* ---- median: select in place, median of three as the pivot ---- */

static void swap(int64_t *a, int64_t *b)
{
    int64_t t = *a;
    *a = *b;
    *b = t;
}

/* Quickselect: returns v[k] as in sorted order, with smaller values before it and larger ones
 * behind. Partitions in three, so that many equal durations end it early. */
static int64_t select_at(int64_t *v, size_t n, size_t k)
{
    size_t lo = 0, hi = n; /* [lo, hi) holds v[k] */
    while (hi - lo > 1) {
        int64_t a = v[lo], b = v[lo + (hi - lo) / 2], c = v[hi - 1];
        int64_t pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        size_t less = lo, at = lo, more = hi;
        while (at < more) {
            if (v[at] < pivot)
                swap(&v[at++], &v[less++]);
            else if (v[at] > pivot)
                swap(&v[at], &v[--more]);
            else
                at++;
        }
        if (k < less)
            hi = less;
        else if (k >= more)
            lo = more;
        else
            return pivot;
    }
    return v[k];
}

static double median_of(int64_t *v, size_t n)
{
    int64_t upper = select_at(v, n, n / 2);
    if (n % 2)
        return (double)upper;
    int64_t lower = v[0]; /* the largest of the half before */
    for (size_t i = 1; i < n / 2; i++)
        lower = v[i] > lower ? v[i] : lower;
    return ((double)lower + (double)upper) / 2;
}

struct kernels_stats kernels_stats_of(int64_t *v, size_t n)
{
    struct kernels_stats s = {.n = n, .stddev = (double)NAN};
    if (n == 0)
        return s;
    s.min = s.max = v[0];
    for (size_t i = 0; i < n; i++) {
        if (__builtin_add_overflow(s.sum, v[i], &s.sum))
            s.sum = INT64_MAX; /* saturates: overlapping ranges of an absurd trace */
        s.min = v[i] < s.min ? v[i] : s.min;
        s.max = v[i] > s.max ? v[i] : s.max;
    }
    s.mean = (double)s.sum / (double)n;
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += ((double)v[i] - s.mean) * ((double)v[i] - s.mean);
    if (n > 1)
        s.stddev = sqrt(squares / (double)(n - 1));
    s.median = median_of(v, n);
    return s;
}

/* ---- groups ---- */

struct kernels_groups kernels_group(const uint32_t *group, size_t n, uint32_t n_groups,
                                    kernels_value_fn *value, const void *self)
{
    struct kernels_groups g = {.n_groups = n_groups};
    size_t bytes = ((size_t)n_groups + 1) * sizeof *g.first;
    g.first = mem_alloc(bytes);
    for (size_t i = 0; i < n; i++)
        if (group[i] != TRACE_NONE)
            g.first[group[i] + 1]++;
    for (uint32_t j = 0; j < n_groups; j++)
        g.first[j + 1] += g.first[j];
    g.values = mem_alloc(g.first[n_groups] * sizeof *g.values);
    size_t *next = mem_alloc(bytes);
    memcpy(next, g.first, bytes);
    for (size_t i = 0; i < n; i++)
        if (group[i] != TRACE_NONE)
            g.values[next[group[i]]++] = value(self, i);
    mem_free(next);
    return g;
}

void kernels_groups_free(struct kernels_groups *g)
{
    mem_free(g->first);
    mem_free(g->values);
    *g = (struct kernels_groups){0};
}

/* ---- keys ---- */

static uint32_t slot_of(const struct kernels_keys *k, uint64_t key)
{
    uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & k->mask;
}

static void keys_grow(struct kernels_keys *k)
{
    mem_free(k->slots);
    k->mask = k->mask ? 2 * k->mask + 1 : 255;
    k->slots = mem_alloc(((size_t)k->mask + 1) * sizeof *k->slots);
    k->keys = mem_resize(k->keys, ((size_t)k->mask + 1) * sizeof *k->keys);
    for (uint32_t id = 0; id < k->n; id++) {
        uint32_t i = slot_of(k, k->keys[id]);
        while (k->slots[i])
            i = (i + 1) & k->mask;
        k->slots[i] = id + 1;
    }
}

uint32_t kernels_key(struct kernels_keys *k, uint64_t key)
{
    if (k->n && k->last_key == key)
        return k->last_id;
    if (k->n >= k->mask / 2)
        keys_grow(k);
    uint32_t i = slot_of(k, key);
    while (k->slots[i] && k->keys[k->slots[i] - 1] != key)
        i = (i + 1) & k->mask;
    if (!k->slots[i]) {
        k->keys[k->n++] = key;
        k->slots[i] = k->n;
    }
    k->last_key = key;
    k->last_id = k->slots[i] - 1;
    return k->last_id;
}

void kernels_keys_free(struct kernels_keys *k)
{
    mem_free(k->keys);
    mem_free(k->slots);
    *k = (struct kernels_keys){0};
}
