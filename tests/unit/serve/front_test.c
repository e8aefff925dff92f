#include "serve/front.h"

#include <math.h>

#include "serve/request.h"
#include "support/support.h"

static void what_comes_together_is_ready_together(void **state)
{
    (void)state;
    enum { N = 128 };
    static struct request q[N];
    struct front x = {.s = 1.25e-3};
    assert_true(isinf(front_next_s(&x)));
    for (int i = 0; i < N; i++)
        front_take(&x, &q[i], 5);
    assert_near(front_next_s(&x), 5.16, 1e-9);
    assert_null(front_pop(&x, 5.159));
    for (int i = 0; i < N; i++)
        assert_ptr_equal(front_pop(&x, 5.16 + 1e-9), &q[i]);
    assert_null(front_pop(&x, INFINITY));
    front_take(&x, &q[0], 7); /* one by itself */
    assert_near(front_next_s(&x), 7.00125, 1e-9);
    front_free(&x);
}

/* More than it can take: requests come out at its own pace, while others still come. */
static void too_many_come_out_at_its_pace(void **state)
{
    (void)state;
    enum { N = 400 };
    static struct request q[N];
    struct front x = {.s = 0.25};
    int out = 0;
    double first_s = 0, last_s = 0;
    for (int i = 0; i < N; i++) {
        const double now_s = 0.1 * i;
        while (front_next_s(&x) <= now_s) {
            last_s = front_next_s(&x);
            first_s = out == 0 ? last_s : first_s;
            assert_ptr_equal(front_pop(&x, last_s), &q[out]);
            out++;
        }
        front_take(&x, &q[i], now_s);
    }
    assert_true(first_s > 0 && first_s < 1);
    assert_true(out > 10);
    for (; out < N; out++) {
        last_s = front_next_s(&x);
        assert_ptr_equal(front_pop(&x, last_s), &q[out]);
    }
    assert_near(last_s, N * 0.25, 1e-6); /* never idle */
    front_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_comes_together_is_ready_together),
        TEST(too_many_come_out_at_its_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
