#include "client/tally.h"

#include <math.h>

static int bucket_of(uint64_t v)
{
    if (v < TALLY_PART)
        return (int)v;
    int shift = 63 - __builtin_clzll(v) - 5; /* leaves 6 bits: 32 .. 63 */
    return TALLY_PART * (shift + 1) + (int)(v >> shift) - TALLY_PART;
}

static double middle_of(int bucket)
{
    if (bucket < TALLY_PART)
        return bucket;
    int shift = bucket / TALLY_PART - 1;
    double low = (double)(bucket % TALLY_PART + TALLY_PART);
    return ldexp(low, shift) + (ldexp(1, shift) - 1) / 2;
}

void tally_add(struct tally *t, int64_t ns)
{
    t->n++;
    t->count[bucket_of(ns > 0 ? (uint64_t)ns : 0)]++;
}

double tally_percentile(const struct tally *t, double q)
{
    uint64_t want = (uint64_t)ceil(q / 100 * (double)t->n), seen = 0;
    for (int i = 0; i < TALLY_BUCKETS; i++) {
        seen += t->count[i];
        if (seen >= want && seen > 0)
            return middle_of(i);
    }
    return NAN;
}
