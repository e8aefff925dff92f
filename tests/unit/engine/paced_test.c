#include "engine/registry.h"

#include "sim/predictor.h"
#include "support/support.h"

static enum st a_second(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    (void)self;
    (void)b;
    (void)e;
    stages[0] = stages[1] = (struct stage_time){.device_s = 1};
    return ST_OK;
}

/* serve engine=sim: as many batches in flight as the simulation of these settings. */
static void it_schedules_ahead_where_asked(void **state)
{
    struct test *t = *state;
    static const struct predictor_ops ops = {.predict = a_second};
    const struct predictor p = {.ops = &ops, .stages = 2};
    const struct serve_clock clock = clock_real();
    const struct {
        enum serve_async async;
        int32_t in_flight;
    } cases[] = {{ASYNC_OFF, 2}, {ASYNC_SERIAL, 3}, {ASYNC_OVERLAP, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct engine_job job = {
            .predictor = &p, .max_rows = 4, .async = cases[i].async, .clock = &clock, .a = t->a};
        struct executor x;
        assert_ok(engine_find("sim")->open(&job, &x, &t->e), t);
        assert_ok(executor_check(&x, &t->e), t);
        assert_int_equal(executor_lanes(&x), 2);
        assert_int_equal(x.ops->max_in_flight(x.self), cases[i].in_flight);
        assert_int_equal(executor_turns(&x), cases[i].async != ASYNC_OFF);
        x.ops->close(x.self);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(it_schedules_ahead_where_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
