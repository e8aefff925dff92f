#include "model/random.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* quantile[i]: the standard normal's value below which a share (i + 0.5) / 65536 lies, times the
 * standard deviation. Newton's method on the distribution function, walking outwards from the
 * median so that each start is close; the lower half mirrors the upper one. */
enum { QUANTILES = 1 << 16, PER_DRAW = 4 };
static const double standard_deviation = 0.02;

static float quantile[QUANTILES];
static pthread_once_t quantile_once = PTHREAD_ONCE_INIT;

static void make_quantiles(void)
{
    const double sqrt_half = 0.70710678118654752440, inverse_sqrt_2pi = 0.39894228040143267794;
    double x = 0;
    for (int i = QUANTILES / 2; i < QUANTILES; i++) {
        double upper = (QUANTILES - i - 0.5) / QUANTILES; /* share above x */
        for (int step = 0; step < 4; step++)
            x += (0.5 * erfc(x * sqrt_half) - upper) / (inverse_sqrt_2pi * exp(-0.5 * x * x));
        quantile[i] = (float)(x * standard_deviation);
        quantile[QUANTILES - 1 - i] = -quantile[i];
    }
}

const float *random_weights_quantiles(void)
{
    pthread_once(&quantile_once, make_quantiles);
    return quantile;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

struct random_weights random_weights_begin(const struct tensor *t, uint64_t seed)
{
    pthread_once(&quantile_once, make_quantiles);
    bool bias = ends_with(t->name, ".bias");
    bool norm = t->n_dims == 1 && ends_with(t->name, ".weight");
    return (struct random_weights){
        .rng = rng_stream(seed, t->name), .constant = bias || norm, .value = norm ? 1.0f : 0.0f};
}

void random_weights_next(struct random_weights *r, size_t n, float *out)
{
    if (r->constant) {
        for (size_t i = 0; i < n; i++)
            out[i] = r->value;
        return;
    }
    for (size_t i = 0; i < n; i += PER_DRAW) {
        uint64_t draw = rng_u64(&r->rng);
        for (size_t j = 0; j < PER_DRAW && i + j < n; j++)
            out[i + j] = quantile[draw >> (16 * j) & 0xffff];
    }
}

void model_random_tensor(const struct tensor *t, uint64_t seed, float *out)
{
    struct random_weights r = random_weights_begin(t, seed);
    random_weights_next(&r, (size_t)tensor_elements(t), out);
}
