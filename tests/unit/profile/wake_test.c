#include "profile/wake.h"

#include "support/support.h"

static void put(struct wake *w, int level, double pause_s, double device_s)
{
    struct wake_sample s = {.level = level, .pause_s = pause_s};
    for (int k = 0; k < WAKE_ITERATIONS; k++)
        s.device_s[k] = device_s;
    vec_push(&w->samples, s);
}

static double number_at(const struct node *n, const char *key, uint32_t i)
{
    return node_find(n, key)->items[i]->f;
}

static void medians_by_level(void **state)
{
    struct test *t = *state;
    struct wake w = {0};
    assert_null(wake_node(t->a, &w));
    put(&w, 0, 0.021, 1e-3);
    put(&w, 0, 0.020, -1e-3);
    put(&w, 0, 0.090, -2e-3);
    put(&w, 1, 0.150, 2e-3);
    put(&w, 2, 0.800, 4e-3);
    const struct node *n = wake_node(t->a, &w);
    assert_int_equal(node_find(n, "pause_s")->n, 3);
    assert_near(number_at(n, "pause_s", 0), 0.021, 0);
    assert_near(node_find(n, "device_s")->items[0]->items[0]->f, 0, 0); /* never below 0 */
    assert_near(node_find(n, "device_s")->items[2]->items[3]->f, 4e-3, 0);
    assert_int_equal(node_find(n, "samples")->i, 1);
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
    const struct node *n = wake_node(t->a, &w);
    static const char *const lists[] = {"pause_s", "device_s", "host_s", "spread_s"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_int_equal(node_find(n, lists[i])->n, 2);
    assert_near(number_at(n, "pause_s", 0), 0.22, 0);
    assert_near(number_at(n, "pause_s", 1), 0.80, 0);
    vec_free(&w.samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(medians_by_level), TEST(pauses_ascend)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
