#include "search/monte_carlo.h"

#include <math.h>

#include "support/support.h"

static void draws_have_the_spread_asked_for(void **state)
{
    (void)state;
    enum { N = 20000 };
    struct bundle_doubt d = {.decode = 0.2};
    double sum = 0, squares = 0;
    d.op[OP_ADD] = 0.1;
    for (size_t i = 0; i < N; i++) {
        struct bundle_factors f = monte_carlo_draw(&d, 7, i);
        double z = log(f.op[OP_ADD]);
        assert_near(f.op[OP_LM_HEAD], 1, 0);
        assert_near(f.network, 1, 0);
        sum += z;
        squares += z * z;
    }
    assert_near(sum / N, 0, 4 * 0.1 / sqrt(N));
    assert_near(sqrt(squares / N), 0.1, 0.002);
}

static void a_draw_depends_on_seed_and_replica_alone(void **state)
{
    (void)state;
    struct bundle_doubt d = {.decode = 0.2}, more = d;
    more.op[OP_ADD] = 0.3; /* another operator's doubt moves nobody else's draw */
    assert_near(monte_carlo_draw(&d, 1, 3).decode, monte_carlo_draw(&more, 1, 3).decode, 0);
    assert_true(monte_carlo_draw(&d, 1, 3).decode != monte_carlo_draw(&d, 1, 4).decode);
    assert_true(monte_carlo_draw(&d, 1, 3).decode != monte_carlo_draw(&d, 2, 3).decode);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(draws_have_the_spread_asked_for),
        TEST(a_draw_depends_on_seed_and_replica_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
