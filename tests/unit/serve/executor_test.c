#include "serve/executor.h"

#include "support/fake_executor.h"
#include "support/support.h"

static int32_t three(void *self)
{
    (void)self;
    return 3;
}

static int32_t two(void *self)
{
    (void)self;
    return 2;
}

static bool yes(void *self)
{
    (void)self;
    return true;
}

static void holes_are_named(void **state)
{
    struct test *t = *state;
    struct executor x = fake_executor(&(struct fake_params){.block_size = 1});
    struct executor_ops o = *x.ops;
    struct executor y = {&o, x.self};
    assert_ok(executor_check(&y, &t->e), t);
    o.version = 7;
    assert_err(executor_check(&y, &t->e), ST_USAGE, t,
               "executor fake: version 7, the loop speaks version 2");
    o = *x.ops;
    o.next = NULL;
    assert_err(executor_check(&y, &t->e), ST_USAGE, t, "executor fake: a required hook is missing");
    o = *x.ops;
    o.caps |= EXEC_COMPUTES;
    o.bind = NULL;
    assert_err(executor_check(&y, &t->e), ST_USAGE, t,
               "executor fake: computes and has no bind hook");
    o = *x.ops;
    o.max_in_flight = three;
    o.lanes = two;
    assert_err(executor_check(&y, &t->e), ST_USAGE, t,
               "executor fake: 3 batches in flight over 2 lanes");
    o.turns = yes;
    assert_ok(executor_check(&y, &t->e), t);
    o.lanes = NULL;
    assert_err(executor_check(&y, &t->e), ST_USAGE, t,
               "executor fake: 3 batches in flight over 1 lanes");
    o.turns = NULL;
    assert_int_equal(executor_lanes(&y), 1);
    assert_ok(executor_check(&y, &t->e), t);
    o.name = NULL;
    assert_err(executor_check(&y, &t->e), ST_USAGE, t, "executor without a name");
    x.ops->close(x.self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(holes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
