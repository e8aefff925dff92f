#include "model/random.h"

#include <math.h>
#include <string.h>

#include "support/support.h"

enum { N = 200000 };
static float x[N], y[N];

static struct tensor matrix(const char *name)
{
    return (struct tensor){.name = name, .dtype = DTYPE_F32, .n_dims = 2, .dims = {N / 4, 4}};
}

/* Tolerances are five standard errors of the moment. */
static void is_normal(void **state)
{
    (void)state;
    struct tensor t = matrix("a.weight");
    model_random_tensor(&t, 7, x);
    double sum = 0, squares = 0, fourth = 0;
    int inside = 0;
    for (int i = 0; i < N; i++) {
        double z = (double)x[i] / 0.02;
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
        inside += fabs(z) < 1;
    }
    assert_near(sum / N, 0, 5 / sqrt(N));
    assert_near(squares / N, 1, 5 * sqrt(2.0 / N));
    assert_near(fourth / N, 3, 5 * sqrt(96.0 / N));
    assert_near(inside / (double)N, 0.682689, 5 * sqrt(0.2166 / N));
}

static void streams_by_name_and_seed(void **state)
{
    (void)state;
    struct tensor t = matrix("a.weight"), other = matrix("b.weight");
    model_random_tensor(&t, 7, x);
    model_random_tensor(&t, 7, y);
    assert_memory_equal(x, y, sizeof x);
    model_random_tensor(&other, 7, y);
    assert_true(memcmp(x, y, sizeof x) != 0);
    model_random_tensor(&t, 8, y);
    assert_true(memcmp(x, y, sizeof x) != 0);
}

static void pieces_make_the_whole(void **state)
{
    (void)state;
    struct tensor t = matrix("a.weight");
    struct random_weights r = random_weights_begin(&t, 7);
    model_random_tensor(&t, 7, x);
    random_weights_next(&r, 1000, y);
    random_weights_next(&r, N - 1000 - 2, y + 1000);
    assert_memory_equal(x, y, (N - 2) * sizeof *x);
}

static void norms_and_biases(void **state)
{
    (void)state;
    const struct tensor norm = {.name = "model.norm.weight", .n_dims = 1, .dims = {5}};
    const struct tensor bias = {.name = "h.0.mlp.bias", .n_dims = 1, .dims = {5}};
    model_random_tensor(&norm, 1, x);
    model_random_tensor(&bias, 1, y);
    for (int i = 0; i < 5; i++)
        assert_true(x[i] == 1 && y[i] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_normal),
        cmocka_unit_test(streams_by_name_and_seed),
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test(norms_and_biases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
