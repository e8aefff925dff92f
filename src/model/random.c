#include "model/random.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/philox.h"
#include "base/rng.h"

/* quantile[i]: the standard normal's value below which a share (i + 0.5) / 65536 lies, times the
 * standard deviation. Newton's method on the distribution function, walking outwards from the
 * median so that each start is close; the lower half mirrors the upper one. */
enum { QUANTILES = RANDOM_WEIGHTS_QUANTILES, PIECE = 256 }; /* blocks drawn at a time */
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

struct random_weights random_weights_of(const struct tensor *t, uint64_t seed)
{
    const struct rng r = rng_stream(seed, t->name);
    const bool bias = ends_with(t->name, ".bias");
    const bool norm = t->n_dims == 1 && ends_with(t->name, ".weight");
    pthread_once(&quantile_once, make_quantiles);
    return (struct random_weights){.key = {(uint32_t)r.s[0], (uint32_t)(r.s[0] >> 32)},
                                   .stream = {(uint32_t)r.s[1], (uint32_t)(r.s[1] >> 32)},
                                   .constant = bias || norm,
                                   .value = norm ? 1.0f : 0.0f};
}

/* Elements of the blocks from `block` on, the first `skip` of them left out. */
static void draw(const struct random_weights *r, uint64_t block, size_t skip, size_t n, float *out)
{
    uint32_t words[PIECE * PHILOX_WORDS];
    const size_t blocks = (skip + n + RANDOM_WEIGHTS_PER_BLOCK - 1) / RANDOM_WEIGHTS_PER_BLOCK;
    philox_blocks(r->key, r->stream, block, blocks, words);
    for (size_t i = 0; i < n; i++) {
        const size_t at = skip + i;
        out[i] = quantile[words[at / 2] >> (at % 2 * 16) & 0xffff];
    }
}

void random_weights_get(const struct random_weights *r, int64_t first, size_t n, float *out)
{
    const size_t most = PIECE * RANDOM_WEIGHTS_PER_BLOCK;
    for (size_t i = 0; i < n && r->constant; i++)
        out[i] = r->value;
    for (size_t at = 0; at < n && !r->constant;) {
        const uint64_t from = (uint64_t)first + at;
        const size_t skip = (size_t)(from % RANDOM_WEIGHTS_PER_BLOCK), left = n - at;
        const size_t take = left < most - skip ? left : most - skip;
        draw(r, from / RANDOM_WEIGHTS_PER_BLOCK, skip, take, out + at);
        at += take;
    }
}

struct node *random_weights_node(struct arena *a, uint64_t seed)
{
    struct node *n = node_new(a, NODE_MAP);
    node_set(a, n, SV("version"), node_int(a, RANDOM_WEIGHTS_VERSION));
    node_set(a, n, SV("generator"), node_str(a, RANDOM_WEIGHTS_GENERATOR));
    node_set(a, n, SV("seed"), node_int(a, (int64_t)seed));
    return n;
}

void model_random_tensor(const struct tensor *t, uint64_t seed, float *out)
{
    const struct random_weights r = random_weights_of(t, seed);
    random_weights_get(&r, 0, (size_t)tensor_elements(t), out);
}
