/* Percentiles of a stream of times in constant memory, for progress lines: off by at most 1/64 of
 * themselves (1.6 %), exact below 64 ns. Figures that are kept come from sorted samples
 * (metrics/metrics.h). */
#ifndef CLIENT_TALLY_H
#define CLIENT_TALLY_H

#include "base/buckets.h"

enum { TALLY_BITS = 5 };

struct tally {
    uint64_t n;
    uint32_t count[BUCKETS(TALLY_BITS)];
};

void tally_add(struct tally *t, int64_t ns); /* below 0 counts as 0 */
/* The q-th percentile, q in [0, 100]; NAN without values. */
double tally_percentile(const struct tally *t, double q);

#endif
