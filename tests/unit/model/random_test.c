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

/* In any order and from anywhere. */
static void pieces_make_the_whole(void **state)
{
    (void)state;
    struct tensor t = matrix("a.weight");
    const struct random_weights r = random_weights_of(&t, 7);
    model_random_tensor(&t, 7, x);
    random_weights_get(&r, 1003, N - 1003, y + 1003);
    random_weights_get(&r, 0, 1, y);
    random_weights_get(&r, 1, 1002, y + 1);
    assert_memory_equal(x, y, sizeof x);
    for (int i = 0; i < 40; i++) {
        random_weights_get(&r, i, 9, y);
        assert_memory_equal(x + i, y, 9 * sizeof *x);
    }
}

/* Element 2^35 is not element 0 of the counter's lower word. */
static void far_elements_are_others(void **state)
{
    (void)state;
    struct tensor t = matrix("a.weight");
    const struct random_weights r = random_weights_of(&t, 7);
    random_weights_get(&r, 0, 100, x);
    random_weights_get(&r, INT64_C(1) << 35, 100, y);
    int same = 0;
    for (int i = 0; i < 100; i++)
        same += x[i] == y[i];
    assert_true(same < 5);
}

/* The version stands for these values: when they change, it goes up. */
static void the_values_of_version_2(void **state)
{
    (void)state;
    const struct tensor t = matrix("model.embed_tokens.weight");
    static const float want[] = {0.0159764718F,   -0.00698387204F, -0.061629042F,  0.0292815175F,
                                 0.000798450143F, -0.0206749476F,  -0.0129006654F, 0.00407583499F};
    assert_int_equal(RANDOM_WEIGHTS_VERSION, 2);
    model_random_tensor(&t, 7, x);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_near(x[i], want[i], 1e-9);
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
        cmocka_unit_test(far_elements_are_others),
        cmocka_unit_test(the_values_of_version_2),
        cmocka_unit_test(norms_and_biases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
