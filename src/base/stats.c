#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/order.h"

double stats_percentile(const double *sorted, size_t n, double q)
{
    ASSERT(n >= 1 && q >= 0 && q <= 100);
    double index = (double)(n - 1) * (q / 100);
    size_t i = (size_t)index;
    if (i + 1 >= n)
        return sorted[n - 1];
    double t = index - (double)i, a = sorted[i], b = sorted[i + 1];
    return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t); /* as NumPy rounds */
}

double stats_median(double *v, size_t n)
{
    if (n == 0)
        return (double)NAN;
    qsort(v, n, sizeof *v, order_double);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

double stats_median_int64(int64_t *v, size_t n)
{
    if (n == 0)
        return (double)NAN;
    qsort(v, n, sizeof *v, order_int64);
    return ((double)v[(n - 1) / 2] + (double)v[n / 2]) / 2;
}

/* ---- intervals --------------------------------------------------------------------------- */

double stats_student_95(size_t df)
{
    static const double t[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
                               2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
                               2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                               2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
    enum { N = sizeof t / sizeof *t };
    ASSERT(df > 0);
    if (df <= N)
        return t[df - 1];
    /* Cornish-Fisher from the normal quantile; within 1e-4 from 31 degrees of freedom on. */
    double z = 1.959964, n = (double)df;
    return z + (z * z * z + z) / (4 * n);
}

enum { EXACT_UP_TO = 1000 };

/* Ranks l < u, from 1, of the order statistics: of n samples, B ~ Bin(n, p) lie at or below the
 * percentile; order statistic l is above it if B < l, order statistic u is below it if B >= u. */
struct ranks {
    double l, u; /* l < 1 or u > n: there is none */
};

static struct ranks exact_ranks(size_t n, double p, double tail)
{
    struct ranks r = {0, (double)n + 1};
    double odds = log(p) - log1p(-p), start = (double)n * log1p(-p), log_mass = start, sum = 0;
    for (size_t k = 0; k <= n; k++) { /* sum = P(B <= k) */
        sum += exp(log_mass);
        if (sum > tail)
            break;
        r.l = (double)k + 1;
        log_mass += log((double)(n - k)) - log((double)k + 1) + odds;
    }
    log_mass = (double)n * log(p);
    sum = 0;
    for (size_t k = n; k > 0; k--) { /* sum = P(B >= k) */
        sum += exp(log_mass);
        if (sum > tail)
            break;
        r.u = (double)k;
        log_mass += log((double)k) - log((double)(n - k) + 1) - odds;
    }
    return r;
}

/* z with P(N(0, 1) > z) = tail, by bisection. */
static double normal_quantile(double tail)
{
    double low = -40, high = 40;
    for (int i = 0; i < 80; i++) {
        double mid = (low + high) / 2;
        if (erfc(mid / sqrt(2)) / 2 > tail)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* With continuity correction, rounded outwards. */
static struct ranks normal_ranks(size_t n, double p, double tail)
{
    double mean = (double)n * p, reach = normal_quantile(tail) * sqrt(mean * (1 - p));
    return (struct ranks){floor(mean - reach + 0.5), ceil(mean + reach + 0.5)};
}

bool stats_percentile_interval(const double *sorted, size_t n, double q, double confidence,
                               double *low, double *high)
{
    ASSERT(q > 0 && q < 100 && confidence > 0 && confidence < 1);
    double p = q / 100, tail = (1 - confidence) / 2;
    struct ranks r = n <= EXACT_UP_TO ? exact_ranks(n, p, tail) : normal_ranks(n, p, tail);
    if (r.l < 1 || r.u > (double)n)
        return false;
    *low = sorted[(size_t)r.l - 1];
    *high = sorted[(size_t)r.u - 1];
    return true;
}

/* ---- sorting ----------------------------------------------------------------------------- */

/* Bits whose unsigned order is the order of the doubles. */
static uint64_t to_key(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* Least significant digit first, 11 bits a pass; a digit that all values share costs nothing but
 * its count. Runs have millions of tokens, and latencies are sorted more than once. */
void stats_sort(double *v, double *scratch, size_t n)
{
    enum { BITS = 11, DIGITS = 1 << BITS, PASSES = 6 };
    double *from = v, *to = scratch;
    for (int pass = 0; pass < PASSES; pass++) {
        int shift = pass * BITS;
        size_t start[DIGITS] = {0}, at = 0;
        for (size_t i = 0; i < n; i++)
            start[to_key(from[i]) >> shift & (DIGITS - 1)]++;
        if (n == 0 || start[to_key(from[0]) >> shift & (DIGITS - 1)] == n)
            continue;
        for (int d = 0; d < DIGITS; d++) {
            size_t count = start[d];
            start[d] = at;
            at += count;
        }
        for (size_t i = 0; i < n; i++)
            to[start[to_key(from[i]) >> shift & (DIGITS - 1)]++] = from[i];
        double *swap = from;
        from = to;
        to = swap;
    }
    if (from != v)
        memcpy(v, from, n * sizeof *v);
}
