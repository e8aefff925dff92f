#include <math.h>

#include "engine/engine.h"
#include "support/support.h"

static struct completion run_one(struct executor *x, const struct batch *b)
{
    struct err e = {0};
    uint64_t ticket;
    struct completion c;
    assert_ok(x->ops->submit(x->self, b, &ticket, &e), &e);
    assert_ok(x->ops->next(x->self, INFINITY, &c, &e), &e);
    assert_int_equal(c.ticket, ticket);
    return c;
}

static void test_virtual(void **state)
{
    (void)state;
    struct err e = {0};
    struct serve_clock clock = clock_virtual();
    struct executor x = null_executor(0.25, &clock);
    struct completion c;
    assert_ok(executor_check(&x, &e), &e);
    assert_true(x.ops->caps & EXEC_VIRTUAL);
    assert_int_equal(x.ops->next(x.self, INFINITY, &c, &e), ST_END);

    c = run_one(&x, &(struct batch){.submit_s = 3, .n_decodes = 2});
    assert_near(c.start_s, 3, 0);
    assert_near(c.end_s, 3.25, 0);
    assert_near(c.device_s, 0.25, 0);
    assert_near(c.host_s, 0, 0);
    assert_null(c.tokens);
    assert_int_equal(x.ops->next(x.self, INFINITY, &c, &e), ST_END);
    x.ops->close(x.self);
}

/* A batch that ends after the deadline stays out and is delivered by a later call. */
static void test_deadline(void **state)
{
    (void)state;
    struct err e = {0};
    struct serve_clock clock = clock_real();
    struct executor x = null_executor(0.02, &clock);
    struct completion c;
    uint64_t ticket;
    assert_false(x.ops->caps & EXEC_VIRTUAL);
    const double before_s = clock_now_s(&clock);
    assert_ok(x.ops->submit(x.self, &(struct batch){.n_decodes = 1}, &ticket, &e), &e);
    assert_int_equal(x.ops->next(x.self, before_s + 0.019, &c, &e), ST_END);
    assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
    assert_int_equal(c.ticket, ticket);
    assert_true(clock_now_s(&clock) >= c.end_s);
    assert_near(c.end_s - c.start_s, 0.02, 1e-9);
    x.ops->close(x.self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_virtual),
        cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
