#include "engine/positions.h"

#include <math.h>

static const double two_pi = 6.28318530717958647692;

static double llama3(const struct rope *r, double g)
{
    const double turns = r->original * g / two_pi; /* original / wavelength */
    if (turns < r->low)
        return g / r->factor;
    if (turns > r->high)
        return g;
    const double s = (turns - r->low) / (r->high - r->low);
    return (1 - s) * g / r->factor + s * g;
}

/* The pair, as a real number, that turns so often within the original positions. */
static double pair_of_turns(const struct rope *r, int64_t dims, double turns)
{
    return (double)dims * log(r->original / (turns * two_pi)) / (2 * log(r->theta));
}

static double yarn(const struct rope *r, int64_t dims, int64_t i, double g)
{
    double a = pair_of_turns(r, dims, r->high), b = pair_of_turns(r, dims, r->low);
    if (r->whole) {
        a = floor(a);
        b = ceil(b);
    }
    a = fmax(a, 0);
    b = fmin(b, (double)(dims - 1));
    if (!(b - a > 0) && !(b - a < 0))
        b += 0.001; /* as in Hugging Face's code */
    const double t = 1 - fmin(fmax(((double)i - a) / (b - a), 0), 1);
    return (1 - t) * g / r->factor + t * g;
}

static double frequency(const struct rope *r, int64_t dims, int64_t i)
{
    const double g = 1.0 / pow(r->theta, (double)(2 * i) / (double)dims);
    switch (r->type) {
    case ROPE_LINEAR:
        return g / r->factor;
    case ROPE_LLAMA3:
        return llama3(r, g);
    case ROPE_YARN:
        return yarn(r, dims, i, g);
    default:
        return g;
    }
}

void positions_rotation(const struct rope *rope, int64_t dims, int64_t n, float *cosine,
                        float *sine)
{
    const int64_t half = dims / 2;
    for (int64_t i = 0; i < half; i++) {
        const float f = (float)frequency(rope, dims, i);
        for (int64_t p = 0; p < n; p++) {
            const float angle = (float)p * f;
            cosine[p * half + i] = (float)(cos((double)angle) * rope->attention);
            sine[p * half + i] = (float)(sin((double)angle) * rope->attention);
        }
    }
}

void positions_slopes(const struct model *m, float *slopes)
{
    int64_t n = 1;
    while (2 * n <= m->heads)
        n *= 2;
    for (int64_t i = 0; i < m->heads; i++)
        slopes[i] = (float)(i < n ? exp2(-8.0 * (double)(i + 1) / (double)n)
                                  : exp2(-4.0 * (double)(2 * (i - n) + 1) / (double)n));
}
