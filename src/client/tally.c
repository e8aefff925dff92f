#include "client/tally.h"

#include <math.h>

void tally_add(struct tally *t, int64_t ns)
{
    t->n++;
    t->count[bucket_of(ns > 0 ? (uint64_t)ns : 0, TALLY_BITS)]++;
}

double tally_percentile(const struct tally *t, double q)
{
    uint64_t want = (uint64_t)ceil(q / 100 * (double)t->n), seen = 0;
    for (size_t i = 0; i < BUCKETS(TALLY_BITS); i++) {
        seen += t->count[i];
        if (seen >= want && seen > 0)
            return bucket_middle(i, TALLY_BITS);
    }
    return NAN;
}
