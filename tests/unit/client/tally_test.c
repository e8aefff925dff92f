#include "client/tally.h"

#include <math.h>

#include "base/rng.h"
#include "support/support.h"

static void small_values_are_exact(void **state)
{
    (void)state;
    static struct tally t;
    assert_true(isnan(tally_percentile(&t, 50)));
    for (int i = 0; i < 32; i++)
        tally_add(&t, i);
    assert_near(tally_percentile(&t, 50), 15, 0);
    assert_near(tally_percentile(&t, 100), 31, 0);
    assert_near(tally_percentile(&t, 0), 0, 0);
}

static void every_value_is_within_the_bound(void **state)
{
    (void)state;
    struct rng r = rng_stream(1, "tally");
    for (int i = 0; i < 20000; i++) {
        static struct tally t;
        int64_t v = (int64_t)(rng_u64(&r) >> (1 + rng_below(&r, 62)));
        memset(&t, 0, sizeof t);
        tally_add(&t, v);
        assert_near(tally_percentile(&t, 50), (double)v, (double)v / 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_values_are_exact),
                                       cmocka_unit_test(every_value_is_within_the_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
