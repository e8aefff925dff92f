#include "profile/stats.h"

#include "support/support.h"

static void by_hand(void **state)
{
    (void)state;
    double v[] = {4, 1, 3, 2, 100};
    struct stats s = stats_of(v, 5);
    assert_int_equal(s.n, 5);
    assert_near(s.min, 1, 0);
    assert_near(s.max, 100, 0);
    assert_near(s.median, 3, 0);
    assert_near(s.mean, 22, 1e-12);
    assert_near(s.cut_mean, (1 + 2 + 3 + 4 + 9) / 5.0, 1e-12); /* 100 counts as three medians */
    assert_near(s.std, 39.012818, 1e-6);                       /* NumPy's std */
}

static void even_single_and_none(void **state)
{
    (void)state;
    double v[] = {4, 1, 3, 2};
    assert_near(stats_of(v, 4).median, 2.5, 0);
    assert_near(stats_of(v, 1).median, 1, 0); /* sorted by the call before */
    assert_near(stats_of(v, 1).std, 0, 0);
    assert_int_equal(stats_of(NULL, 0).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand),
                                       cmocka_unit_test(even_single_and_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
