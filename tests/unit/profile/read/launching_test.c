#include "profile/read/launching.h"

#include <math.h>
#include <stdlib.h>

#include "support/support.h"

static void batches_are_launched_as_they_are_captured(void **state)
{
    (void)state;
    enum { G = LAUNCH_GRAPH, P = LAUNCH_PIECES, K = LAUNCH_KERNELS, U = LAUNCH_UNTOLD };
    static const struct {
        enum launching_mode mode;
        int decodes, others, beyond;
    } rows[] = {
        {LAUNCHING_UNTOLD, U, U, U},           {LAUNCHING_NONE, K, K, K},
        {LAUNCHING_PIECEWISE, P, P, K},        {LAUNCHING_FULL, G, G, K},
        {LAUNCHING_FULL_DECODE_ONLY, G, K, K}, {LAUNCHING_FULL_AND_PIECEWISE, G, P, K},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct launching l = {.mode = rows[i].mode,
                                    .tokens = rows[i].mode <= LAUNCHING_NONE ? 0 : 512};
        assert_int_equal(launching_of(&l, 64, true), rows[i].decodes);
        assert_int_equal(launching_of(&l, 512, false), l.tokens ? rows[i].others : rows[i].beyond);
        assert_int_equal(launching_of(&l, 513, true), rows[i].beyond);
        assert_int_equal(launching_of(&l, 513, false), rows[i].beyond);
        assert_true(launching_has_pieces(&l) == (rows[i].decodes == P || rows[i].others == P));
    }
}

/* As vLLM lists the sizes: 1, 2, 4, 8, 16, .. 256, 272, .. 512. */
static void graphs_are_padded_to_captured_sizes(void **state)
{
    (void)state;
    const struct launching l = {.mode = LAUNCHING_FULL_AND_PIECEWISE, .tokens = 500};
    static const struct {
        int64_t tokens, padded;
    } rows[] = {{1, 1},     {2, 2},     {3, 4},     {5, 8},     {9, 16},    {250, 256},
                {257, 272}, {490, 496}, {497, 500}, {500, 500}, {501, 501}, {9000, 9000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(launching_padded(&l, rows[i].tokens, true), rows[i].padded);
    const struct launching decodes = {.mode = LAUNCHING_FULL_DECODE_ONLY, .tokens = 500};
    assert_int_equal(launching_padded(&decodes, 250, false), 250);
    assert_int_equal(launching_padded(&(struct launching){LAUNCHING_UNTOLD, 0}, 250, true), 250);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Few launches, or each third of them, have the distribution's mean, least and percentiles. */
static void launches_have_the_distribution(void **state)
{
    (void)state;
    enum { LAUNCHES = 200 };
    const double spread = 0.4;
    for (int step = 1; step <= 3; step++) {
        double v[LAUNCHES], sum = 0;
        for (int i = 0; i < LAUNCHES; i++)
            sum += v[i] = launching_unevenness(spread, (int64_t)step * i);
        qsort(v, LAUNCHES, sizeof *v, by_value);
        assert_near(sum / LAUNCHES, 1, 0.01);
        assert_near(v[0], 1 / (1 + spread), 0.01);
        assert_near(v[LAUNCHES / 2], (1 + spread * log(2)) / (1 + spread), 0.01);
        assert_near(v[LAUNCHES * 9 / 10], (1 + spread * log(10)) / (1 + spread), 0.03);
    }
    assert_near(launching_unevenness(0, 12345), 1, 0);
}

static void modes_have_vllms_names(void **state)
{
    (void)state;
    assert_string_equal(launching_mode_name(LAUNCHING_UNTOLD), "auto");
    assert_string_equal(launching_mode_name(LAUNCHING_FULL_AND_PIECEWISE), "full_and_piecewise");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batches_are_launched_as_they_are_captured),
        TEST(graphs_are_padded_to_captured_sizes),
        TEST(launches_have_the_distribution),
        TEST(modes_have_vllms_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
