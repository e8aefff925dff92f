#include "base/rng.h"
#include "engine/worker/offset.h"
#include "support/support.h"

/* By hand: their clock is 1000 ahead; 10 there, 5 inside, 30 back. */
static void one_round_bounds_the_offset(void **state)
{
    (void)state;
    struct clock_offset o = {0};
    clock_offset_add(&o, 100, 1110, 1115, 145);
    assert_int_equal(o.low_ns, 970);
    assert_int_equal(o.high_ns, 1010);
    assert_int_equal(clock_offset_ns(&o), 990);
    assert_int_equal(clock_uncertainty_ns(&o), 20);
    assert_int_equal(o.best_round_trip_ns, 40);
    assert_true(clock_offset_contains(&o, 1000));
    assert_false(clock_offset_contains(&o, 1011));
}

/* Random delays, among them slow wake-ups on one side only: the true offset is in the bound, which
 * only ever gets narrower. */
static void the_true_offset_stays_inside(void **state)
{
    (void)state;
    struct rng r = rng_stream(1, "delays");
    const int64_t offset = -987654321;
    struct clock_offset o = {0};
    int64_t width = INT64_MAX, t = 1000000000000;
    for (int i = 0; i < 200; i++) {
        int64_t there = 2000 + (int64_t)(rng_exponential(&r) * 50000);
        int64_t inside = (int64_t)(rng_exponential(&r) * 10000);
        int64_t back = 1000 + (int64_t)(rng_exponential(&r) * 300000);
        clock_offset_add(&o, t, t + there + offset, t + there + inside + offset,
                         t + there + inside + back);
        assert_true(clock_offset_contains(&o, offset));
        assert_true(o.high_ns - o.low_ns <= width);
        width = o.high_ns - o.low_ns;
        t += 1000000;
    }
    assert_int_equal(o.rounds, 200);
    assert_true(width < 20000 && width >= 3000);
    assert_true(o.best_round_trip_ns >= width);
}

static void drift_is_the_gap_between_bounds(void **state)
{
    (void)state;
    struct clock_offset a = {.low_ns = 10, .high_ns = 20, .rounds = 1}, none = {0};
    struct clock_offset meets = {.low_ns = 20, .high_ns = 40, .rounds = 1};
    struct clock_offset later = {.low_ns = 25, .high_ns = 40, .rounds = 1};
    assert_int_equal(clock_offset_drift_ns(&a, &meets), 0);
    assert_int_equal(clock_offset_drift_ns(&a, &later), 5);
    assert_int_equal(clock_offset_drift_ns(&later, &a), -5);
    assert_int_equal(clock_offset_drift_ns(&a, &none), 0);
}

static void unknown_is_null(void **state)
{
    struct test *t = *state;
    struct clock_offset none = {0};
    assert_int_equal(clock_offset_node(t->a, &none)->kind, NODE_NULL);
    assert_false(clock_offset_contains(&none, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_round_bounds_the_offset),
        TEST(the_true_offset_stays_inside),
        TEST(drift_is_the_gap_between_bounds),
        TEST(unknown_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
