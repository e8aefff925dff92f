#include "profile/read/together.h"

#include <math.h>

#include "support/support.h"

/* A device that is full at 1e-9 s a pair, and whose blocks take 1e-6 + 1e-7 s a key: a chunk takes
 * both together as the two sides of a right angle, so r is 1 everywhere. */
static double latency(double keys)
{
    return 1e-6 + 1e-7 * keys;
}

static double pairs(double kv, double c)
{
    return c * kv + c * (c + 1) / 2;
}

static double alone(double c, double kv)
{
    return hypot(latency(kv + c), 1e-9 * pairs(kv, c));
}

static void make(struct arena *a, struct op_table *t)
{
    struct grid_set known = {0};
    struct surface_point *p = arena_array(a, struct surface_point, 512);
    int n = 0;
    for (int c = 1; c <= 4096; c *= 2)
        for (int kv = 0; kv + c <= 4096; kv += kv < 64 ? 64 : kv < 1024 ? kv : 512)
            p[n++] = (struct surface_point){c, kv, alone(c, kv)};
    op_table_build(a, AXIS_PREFILL, &known, p, n, t);
}

/* With batches of 4,096 tokens of prompts of powers of two. */
static struct together measured(struct arena *a, const struct op_table *table)
{
    struct bundle_prompt_batch b[8];
    size_t n = 0;
    for (int c = 16; c <= 2048; c *= 2)
        b[n++] = (struct bundle_prompt_batch){
            .chunks = 4096 / c,
            .tokens = c,
            .attn_prefill_s = hypot(latency(c), 4096.0 / c * 1e-9 * pairs(0, c))};
    return together_of(a, table, b, n);
}

static double batch_s(const struct together *t, const struct op_table *table, int n, double c,
                      double kv, int32_t repeat)
{
    struct together_sum sum = {0};
    bool outside;
    for (int i = 0; i < n; i++)
        together_add(t, table, kv, c, op_table_at(table, c, kv, &outside) * repeat, repeat, &sum);
    return together_s(t, &sum);
}

static void near(double got, double want, double part)
{
    if (!(fabs(got / want - 1) <= part))
        fail_msg("got %.9g, want %.9g within %g", got, want, part);
}

static void one_chunk_takes_what_the_table_says(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct op_table table;
    bool outside;
    make(a, &table);
    const struct together t = measured(a, &table);
    for (double c = 1; c < 4000; c = 2 * c + 3)
        assert_true(batch_s(&t, &table, 1, c, 40, 28) == 28 * op_table_at(&table, c, 40, &outside));
    arena_free(&a);
}

/* Latency once, work of each: short chunks cost little more than one, until the device is full. */
static void chunks_share_a_device(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct op_table table;
    make(a, &table);
    const struct together t = measured(a, &table);
    near(t.pair_s, 1e-9, 0.05);
    static const int many[] = {2, 4, 8};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        for (int c = 128; c <= 1024; c *= 2)
            near(batch_s(&t, &table, many[i], c, 512, 1),
                 hypot(latency(512 + c), many[i] * 1e-9 * pairs(512, c)), 0.06);
    arena_free(&a);
}

/* However r of the chunks comes out: as long as the longest at least, one after the other at most.
 */
static void a_batch_is_between_its_longest_chunk_and_the_sum(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct op_table table;
    bool outside;
    make(a, &table);
    const struct together t = measured(a, &table);
    const double long_s = op_table_at(&table, 1000, 0, &outside) * 2,
                 short_s = op_table_at(&table, 3, 1, &outside) * 2;
    struct together_sum sum = {0};
    together_add(&t, &table, 0, 1000, long_s, 2, &sum);
    together_add(&t, &table, 1, 3, short_s, 2, &sum);
    assert_true(together_s(&t, &sum) >= long_s && together_s(&t, &sum) <= long_s + short_s);
    /* not of a device that takes them together */
    const struct together apart = {0};
    assert_true(batch_s(&apart, &table, 3, 100, 0, 1) == op_table_at(&table, 100, 0, &outside) +
                                                             op_table_at(&table, 100, 0, &outside) +
                                                             op_table_at(&table, 100, 0, &outside));
    assert_true(together_s(&t, &(struct together_sum){0}) == 0);
    const struct op_table none = {.axis = AXIS_PREFILL};
    const struct bundle_prompt_batch one = {.chunks = 2, .tokens = 8, .attn_prefill_s = 1e-5};
    assert_true(together_of(a, &none, &one, 1).pair_s == 0);
    assert_true(together_of(a, &table, NULL, 0).pair_s == 0);
    arena_free(&a);
}

/* Blocks of 64 tokens take as long for fewer: batches of equal prompts say so. */
static void measured_batches_say_what_short_prompts_take(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct op_table table;
    make(a, &table);
    static const struct bundle_prompt_batch said[] = {
        {.chunks = 64, .tokens = 64, .attn_prefill_s = 3e-4},
        {.chunks = 128, .tokens = 16, .attn_prefill_s = 2e-4}};
    const struct together t = together_of(a, &table, said, 2);
    near(batch_s(&t, &table, 128, 16, 0, 1), 2e-4, 0.01);
    near(batch_s(&t, &table, 64, 64, 0, 1), 3e-4, 0.01);
    near(batch_s(&t, &table, 64, 16, 0, 1), 1e-4, 0.01);
    const double more = batch_s(&t, &table, 64, 64, 256, 1); /* keys before it are pairs */
    near(more, hypot(latency(320), 3e-4 + 64 * 1e-9 * 64 * 256), 0.03);
    near(batch_s(&t, &table, 8, 512, 0, 1), /* above the longest: by pairs */
         hypot(latency(512), 8 * (3e-4 / 64 + 1e-9 * (pairs(0, 512) - pairs(0, 64)))), 0.05);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_chunk_takes_what_the_table_says),
        cmocka_unit_test(chunks_share_a_device),
        cmocka_unit_test(a_batch_is_between_its_longest_chunk_and_the_sum),
        cmocka_unit_test(measured_batches_say_what_short_prompts_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
