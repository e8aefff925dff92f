#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "base/err.h"

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct rng rng_stream(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a: the mapping from name to stream is for ever */
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    uint64_t x = seed ^ splitmix(&h);
    struct rng r;
    for (int i = 0; i < 4; i++)
        r.s[i] = splitmix(&x);
    return r;
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double rng_unit(struct rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    ASSERT(n > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % n; /* a multiple of n: no value is favoured */
    uint64_t v;
    do
        v = rng_u64(r);
    while (v >= limit);
    return v % n;
}

double rng_exponential(struct rng *r)
{
    return -log(1.0 - rng_unit(r));
}

double rng_normal(struct rng *r)
{
    double u = 1.0 - rng_unit(r), v = rng_unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

/* By bisection. */
double rng_normal_at(double p)
{
    double low = -8, high = 8;
    for (int i = 0; i < 60; i++) {
        const double mid = (low + high) / 2;
        if (erfc(-mid / sqrt(2)) / 2 < p)
            low = mid;
        else
            high = mid;
    }
    return (low + high) / 2;
}

double rng_gamma(struct rng *r, double shape)
{
    ASSERT(shape > 0);
    if (shape < 1) { /* boost: gamma(a) = gamma(a + 1) * U^(1/a) */
        double u = 1.0 - rng_unit(r);
        return rng_gamma(r, shape + 1) * exp(log(u) / shape);
    }
    double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = rng_normal(r), v = 1.0 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        double u = 1.0 - rng_unit(r);
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}
