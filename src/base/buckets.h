/* Log-linear buckets of a histogram: each octave has 2^bits equal ones, so that a value is off by
 * at most 1 / 2^(bits + 1) of itself when it counts as the middle of its bucket; those below
 * 2^(bits + 1) have a bucket each. The counts are the caller's: BUCKETS(bits) of them. */
#ifndef BASE_BUCKETS_H
#define BASE_BUCKETS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define BUCKETS(bits) ((64 - (bits)) << (bits))

/* v < 2^63. */
static inline size_t bucket_of(uint64_t v, int bits)
{
    if (v < UINT64_C(2) << bits)
        return (size_t)v;
    int shift = 63 - bits - __builtin_clzll(v);
    return ((size_t)shift << bits) + (size_t)(v >> shift);
}

static inline double bucket_middle(size_t bucket, int bits)
{
    if (bucket < (size_t)2 << bits)
        return (double)bucket;
    size_t shift = (bucket >> bits) - 1, top = bucket - (shift << bits);
    return ldexp((double)top + 0.5, (int)shift);
}

#endif
