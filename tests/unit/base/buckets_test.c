#include "base/buckets.h"

#include "base/rng.h"
#include "support/support.h"

static void each_value_has_a_bucket_and_is_near_its_middle(void **state)
{
    (void)state;
    struct rng r = rng_stream(1, "buckets");
    for (int bits = 1; bits <= 12; bits++)
        for (int i = 0; i < 5000; i++) {
            uint64_t v = rng_u64(&r) >> (1 + rng_below(&r, 62));
            size_t b = bucket_of(v, bits);
            assert_true(b < (size_t)BUCKETS(bits));
            assert_near(bucket_middle(b, bits), (double)v, (double)v / (double)(2 << bits));
        }
}

static void buckets_ascend_without_a_gap(void **state)
{
    (void)state;
    size_t last = 0;
    for (uint64_t v = 0; v < 100000; v++) {
        size_t b = bucket_of(v, 5);
        assert_true(b == last || b == last + 1);
        if (v < 64)
            assert_near(bucket_middle(b, 5), (double)v, 0);
        last = b;
    }
    assert_int_equal(bucket_of(INT64_MAX, 5), BUCKETS(5) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(each_value_has_a_bucket_and_is_near_its_middle),
                                       TEST(buckets_ascend_without_a_gap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
