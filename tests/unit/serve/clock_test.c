#include "serve/clock.h"

#include "support/support.h"

static void virtual_jumps_and_never_back(void **state)
{
    (void)state;
    struct serve_clock c = clock_virtual();
    assert_true(clock_now_s(&c) == 0);
    clock_advance_s(&c, 2.5);
    assert_true(clock_now_s(&c) == 2.5);
    clock_advance_s(&c, 1);
    assert_true(clock_now_s(&c) == 2.5);
}

static void real_sleeps_until(void **state)
{
    (void)state;
    struct serve_clock c = clock_real();
    assert_true(clock_now_s(&c) >= 0);
    clock_advance_s(&c, 0.003);
    assert_true(clock_now_s(&c) >= 0.003);
    clock_advance_s(&c, 0); /* past: returns */
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(virtual_jumps_and_never_back), TEST(real_sleeps_until)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
