#include "search/pareto.h"

#include <math.h>

#include "base/rng.h"
#include "support/support.h"

static void the_front_of_a_hand_worked_case(void **state)
{
    (void)state;
    const double v[][PARETO_MAX] = {{1, 5, -3}, {2, 4, -9}, {2, 3, -1},  {3, 1, -5},
                                    {3, 1, -5}, {0, 5, -2}, {NAN, 9, 0}, {1, 1, -9}};
    bool on[8];
    pareto_front(v, 8, 2, on);
    const bool two[] = {true, true, false, true, false, false, false, false};
    for (int i = 0; i < 8; i++)
        assert_int_equal(on[i], two[i]);
    pareto_front(v, 8, 3, on);
    const bool three[] = {true, true, true, true, false, true, false, false};
    for (int i = 0; i < 8; i++)
        assert_int_equal(on[i], three[i]);
}

/* Everything off the front is beaten by something on it; nothing on it is beaten. */
static void a_front_beats_the_rest(void **state)
{
    (void)state;
    enum { N = 300 };
    double v[N][PARETO_MAX];
    bool on[N];
    struct rng r = rng_stream(1, "pareto");
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++)
            v[i][k] = (double)rng_below(&r, 12);
    pareto_front((const double(*)[PARETO_MAX])v, N, 3, on);
    for (int i = 0; i < N; i++) {
        bool beaten = false;
        for (int j = 0; j < N; j++) {
            bool covers = v[j][0] >= v[i][0] && v[j][1] >= v[i][1] && v[j][2] >= v[i][2];
            bool same = v[j][0] == v[i][0] && v[j][1] == v[i][1] && v[j][2] == v[i][2];
            assert_false(on[i] && covers && !same);
            beaten = beaten || (on[j] && covers && (!same || j < i));
        }
        assert_int_equal(on[i], !beaten || on[i]);
        assert_true(on[i] || beaten);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(the_front_of_a_hand_worked_case),
                                       TEST(a_front_beats_the_rest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
