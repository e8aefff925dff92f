#include "engine/cpu/kernels.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "support/support.h"

/* Every kernel of every set this machine can run, against doubles, for lengths around the vectors'.
 */
enum { MOST = 200 };

static const size_t lengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 48, 63, 64, 65, 127, 200};

struct vectors {
    float x[MOST + KERNELS_SLACK], y[MOST + KERNELS_SLACK], z[MOST + KERNELS_SLACK],
        out[MOST + KERNELS_SLACK];
};

static void fill(struct vectors *v, struct rng *rng)
{
    for (int i = 0; i < MOST + KERNELS_SLACK; i++) {
        v->x[i] = (float)(3 * rng_normal(rng));
        v->y[i] = (float)rng_normal(rng);
        v->z[i] = (float)rng_normal(rng);
        v->out[i] = 777;
    }
}

static void each(void (*check)(const struct cpu_kernels *, size_t, struct vectors *))
{
    size_t n;
    const struct cpu_kernels *const *sets = kernels_usable(&n);
    struct rng rng = rng_stream(9, "kernels");
    struct vectors v;
    assert_true(n >= 1);
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            fill(&v, &rng);
            check(sets[s], lengths[i], &v);
        }
}

static void near(float got, double want)
{
    assert_near((double)got, want, 4e-6 * (1 + fabs(want)));
}

static void check_norms(const struct cpu_kernels *kn, size_t n, struct vectors *v)
{
    double square = 0, mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) {
        square += (double)v->x[i] * (double)v->x[i] / (double)n;
        mean += (double)v->x[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        variance += ((double)v->x[i] - mean) * ((double)v->x[i] - mean) / (double)n;
    kn->rms_norm(n, v->x, v->y, 1e-5F, v->out);
    for (size_t i = 0; i < n; i++)
        near(v->out[i], (double)v->x[i] / sqrt(square + 1e-5) * (double)v->y[i]);
    assert_true(v->out[n] == 777);
    if (n < 2) /* one element: all of it is rounding */
        return;
    kn->layer_norm(n, v->x, v->y, v->z, 1e-5F, v->out);
    for (size_t i = 0; i < n; i++)
        near(v->out[i],
             ((double)v->x[i] - mean) / sqrt(variance + 1e-5) * (double)v->y[i] + (double)v->z[i]);
    assert_true(v->out[n] == 777);
}

static void check_activations(const struct cpu_kernels *kn, size_t n, struct vectors *v)
{
    v->x[0] = -200; /* far outside of what exp holds */
    v->x[n / 2] = 150;
    kn->silu_mul(n, v->x, v->y, v->out);
    for (size_t i = 0; i < n; i++)
        near(v->out[i], (double)v->x[i] / (1 + exp(-(double)v->x[i])) * (double)v->y[i]);
    assert_true(v->out[n] == 777);
    kn->gelu_tanh(n, v->x, v->out);
    for (size_t i = 0; i < n; i++) {
        const double x = (double)v->x[i];
        near(v->out[i],
             0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x))));
    }
    assert_true(v->out[n] == 777);
    kn->gelu_tanh_mul(n, v->x, v->y, v->out);
    for (size_t i = 0; i < n; i++) {
        const double x = (double)v->x[i];
        near(v->out[i], 0.5 * x *
                            (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x))) *
                            (double)v->y[i]);
    }
    assert_true(v->out[n] == 777);
    kn->clamped_mul(n, v->x, v->y, 1.702F, 0.75F, v->out); /* many are beyond the limit */
    for (size_t i = 0; i < n; i++) {
        const double g = fmin((double)v->x[i], 0.75), u = fmin(fmax((double)v->y[i], -0.75), 0.75);
        near(v->out[i], g / (1 + exp(-1.702 * g)) * (u + 1));
    }
    assert_true(v->out[n] == 777);
}

static void check_simple(const struct cpu_kernels *kn, size_t n, struct vectors *v)
{
    memcpy(v->out, v->x, n * sizeof(float));
    kn->add(n, v->out, v->y);
    kn->scale(n, v->out, 0.5F);
    kn->ramp(n, v->out, 0.25F, -3);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        near(v->out[i], 0.5 * ((double)v->x[i] + (double)v->y[i]) + 0.25 * ((double)i - 3));
        sum += (double)v->x[i];
    }
    assert_true(v->out[n] == 777);
    assert_near((double)kn->sum(n, v->x), sum, 1e-4);
}

static void check_rope(const struct cpu_kernels *kn, size_t half, struct vectors *v)
{
    float x[2 * MOST + 1];
    for (size_t i = 0; i < 2 * half; i++)
        x[i] = v->x[i / 2] + (float)(i % 2);
    x[2 * half] = 777;
    float before[2 * MOST];
    memcpy(before, x, 2 * half * sizeof *x);
    kn->rope(half, v->y, v->z, x);
    for (size_t i = 0; i < half; i++) {
        const double lo = (double)before[i], hi = (double)before[half + i];
        near(x[i], lo * (double)v->y[i] - hi * (double)v->z[i]);
        near(x[half + i], hi * (double)v->y[i] + lo * (double)v->z[i]);
    }
    assert_true(x[2 * half] == 777);
}

static void check_softmax(const struct cpu_kernels *kn, size_t n, struct vectors *v)
{
    double top = -INFINITY, sum = 0;
    memcpy(v->out, v->x, n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        top = fmax(top, (double)v->x[i]);
    assert_true((double)kn->max(n, v->out) == top);
    const float got = kn->exp_sum(n, v->out, (float)top);
    for (size_t i = 0; i < n; i++) {
        const double p = exp((double)(v->x[i] - (float)top)); /* the float difference */
        assert_near((double)v->out[i], p, 3e-7 * p);
        sum += p;
    }
    assert_true(v->out[n] == 777);
    assert_near((double)got, sum, 1e-6 * sum);
}

static void check_argmax(const struct cpu_kernels *kn, size_t n, struct vectors *v)
{
    for (size_t at = 0; at < n; at++) {
        const float was = v->x[at];
        v->x[at] = 100;
        v->x[n - 1] = at % 2 ? 100 : v->x[n - 1]; /* the first of two wins */
        assert_int_equal(kn->argmax(n, v->x), at);
        v->x[at] = was;
        v->x[n - 1] = 0;
    }
    if (n < 3)
        return;
    v->x[0] = NAN;
    v->x[n - 2] = 200;
    assert_int_equal(kn->argmax(n, v->x), n - 2);
    for (size_t i = 0; i < n; i++)
        v->x[i] = NAN;
    assert_int_equal(kn->argmax(n, v->x), 0);
}

#define EVERY_SET(what)                   \
    static void test_##what(void **state) \
    {                                     \
        (void)state;                      \
        each(check_##what);               \
    }
EVERY_SET(norms)
EVERY_SET(activations)
EVERY_SET(simple)
EVERY_SET(rope)
EVERY_SET(softmax)
EVERY_SET(argmax)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),   cmocka_unit_test(test_activations),
        cmocka_unit_test(test_simple),  cmocka_unit_test(test_rope),
        cmocka_unit_test(test_softmax), cmocka_unit_test(test_argmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
