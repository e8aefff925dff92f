#include "profile/wake.h"

#include "support/support.h"

static void put(struct wake *w, int level, double pause_s, double device_s)
{
    struct wake_sample s = {.level = level, .pause_s = pause_s};
    for (int k = 0; k < WAKE_ITERATIONS; k++)
        s.device_s[k] = device_s;
    vec_push(&w->samples, s);
}

static void medians_by_level(void **state)
{
    struct test *t = *state;
    struct wake w = {0};
    struct bundle_wake said;
    assert_false(wake_said(t->a, &w, &said));
    put(&w, 0, 0.021, 1e-3);
    put(&w, 0, 0.020, -1e-3);
    put(&w, 0, 0.090, -2e-3);
    put(&w, 1, 0.150, 2e-3);
    put(&w, 2, 0.800, 4e-3);
    assert_true(wake_said(t->a, &w, &said));
    assert_int_equal(said.pause_s.n, 3);
    assert_near(said.pause_s.v[0], 0.021, 0);
    assert_near(said.device_s[0].v[0], 0, 0); /* never below 0 */
    assert_near(said.device_s[2].v[3], 4e-3, 0);
    assert_int_equal(said.samples, 1);
    vec_free(&w.samples);
}

/* A machine that stood still for 200 ms in a pause of 20. */
static void pauses_ascend(void **state)
{
    struct test *t = *state;
    struct wake w = {0};
    put(&w, 0, 0.22, 1e-3);
    put(&w, 1, 0.15, 2e-3);
    put(&w, 2, 0.80, 4e-3);
    struct bundle_wake said;
    assert_true(wake_said(t->a, &w, &said));
    assert_int_equal(said.pause_s.n, 2);
    assert_int_equal(said.n_device, 2);
    assert_int_equal(said.n_host, 2);
    assert_int_equal(said.spread_s.n, 2);
    assert_near(said.pause_s.v[0], 0.22, 0);
    assert_near(said.pause_s.v[1], 0.80, 0);
    vec_free(&w.samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(medians_by_level), TEST(pauses_ascend)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
