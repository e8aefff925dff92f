#include "profile/reference.h"

#include <math.h>

#include "support/support.h"
#include "support/timed_executor.h"

static const struct model m = {.act = ACT_SILU_GATED,
                               .layers = 3,
                               .hidden = 64,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .intermediate = 128,
                               .vocab = 500};
static const struct grid_limits wide = {
    .max_tokens = 256, .max_batch = 8, .max_kv = 300, .block_size = 16, .num_blocks = 200};

static struct node *measure(struct test *t, struct timed_executor *x, const struct grid_limits *l)
{
    struct reference y;
    reference_open(t->a, timed_executor(x), l, m.vocab, &y);
    assert_ok(reference_measure(&y, 4, &t->e), t);
    assert_ok(reference_measure(&y, 3, &t->e), t);
    struct node *n = reference_node(t->a, &y);
    reference_free(&y);
    return n;
}

static double twice(int64_t pass)
{
    (void)pass;
    return 2;
}

static void a_machine_half_as_fast_shows(void **state)
{
    struct test *t = *state;
    struct timed_executor x = {.model = &m}, slow = {.model = &m, .factor = twice};
    struct node *then = measure(t, &x, &wide), *now = measure(t, &slow, &wide);
    assert_int_equal(then->n, 3);
    assert_int_equal(node_path(then, "decode_8x256.n")->i, 7);
    assert_near(node_path(then, "decode_8x256.spread_s")->f, 0, 1e-12);
    assert_near(reference_ratio(now, then), 2, 1e-6);
    assert_near(reference_ratio(then, then), 1, 1e-12);
}

static void only_what_both_measured_is_compared(void **state)
{
    struct test *t = *state;
    struct grid_limits narrow = wide;
    narrow.max_batch = 4;
    narrow.max_tokens = 64;
    struct timed_executor x = {.model = &m}, slow = {.model = &m, .factor = twice};
    struct node *one = measure(t, &slow, &narrow), *all = measure(t, &x, &wide);
    assert_int_equal(one->n, 1);
    assert_non_null(node_path(one, "decode_1x128"));
    assert_near(reference_ratio(one, all), 2, 1e-6);
}

static void nothing_fits_nothing_is_said(void **state)
{
    struct test *t = *state;
    struct grid_limits tiny = wide;
    tiny.max_kv = 16;
    struct timed_executor x = {.model = &m}, no_times = {.model = &m, .no_op_times = true};
    assert_null(measure(t, &x, &tiny));
    assert_null(measure(t, &no_times, &wide));
    assert_true(isnan(reference_ratio(NULL, NULL)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_machine_half_as_fast_shows),
                                       TEST(only_what_both_measured_is_compared),
                                       TEST(nothing_fits_nothing_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
