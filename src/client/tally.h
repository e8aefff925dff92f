/* Percentiles of a stream of times in constant memory, for progress lines.
 *
 * Log-linear buckets: 32 to an octave, so a value is off by at most 1/64 of itself (1.6 %); values
 * below 32 ns are exact. Figures that are kept come from sorted samples (metrics/metrics.h). */
#ifndef CLIENT_TALLY_H
#define CLIENT_TALLY_H

#include <stdint.h>

enum { TALLY_PART = 32, TALLY_BUCKETS = TALLY_PART * 60 };

struct tally {
    uint64_t n;
    uint32_t count[TALLY_BUCKETS];
};

void tally_add(struct tally *t, int64_t ns); /* below 0 counts as 0 */
/* The q-th percentile, q in [0, 100]; NAN without values. */
double tally_percentile(const struct tally *t, double q);

#endif
