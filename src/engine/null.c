#include "base/clock.h"
#include "engine/engine.h"
#include "engine/registry.h"

struct null_batch {
    const struct serve_clock *clock;
    double batch_s;
    uint64_t ticket;
    bool out;
    double start_s;
};

static int32_t one_in_flight(void *self)
{
    (void)self;
    return 1;
}

static enum st null_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    (void)e;
    struct null_batch *n = self;
    ASSERT(!n->out);
    n->out = true;
    n->start_s = n->clock->is_virtual ? b->submit_s : clock_now_s(n->clock);
    *ticket = ++n->ticket;
    return ST_OK;
}

static void wait_until(const struct serve_clock *clock, double t)
{
    while (!clock->is_virtual && clock_now_s(clock) < t)
        clock_sleep_until_ns(clock->mono0_ns + ns_from_s(t));
}

static enum st null_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    (void)e;
    struct null_batch *n = self;
    const double end_s = n->start_s + n->batch_s;
    if (!n->out)
        return ST_END;
    wait_until(n->clock, end_s < deadline_s ? end_s : deadline_s);
    if (end_s > deadline_s)
        return ST_END;
    n->out = false;
    *out = (struct completion){
        .ticket = n->ticket, .start_s = n->start_s, .end_s = end_s, .device_s = n->batch_s};
    return ST_OK;
}

static void null_close(void *self)
{
    mem_free(self);
}

#define NULL_OPS(its_caps)                                                               \
    {                                                                                    \
        .name = "null", .help = "computes nothing: the cost of the loop itself",         \
        .version = EXECUTOR_VERSION, .caps = (its_caps), .max_in_flight = one_in_flight, \
        .submit = null_submit, .next = null_next, .close = null_close,                   \
    }
static const struct executor_ops real_ops = NULL_OPS(0), virtual_ops = NULL_OPS(EXEC_VIRTUAL);

struct executor null_executor(double batch_s, const struct serve_clock *clock)
{
    struct null_batch *n = mem_alloc(sizeof *n);
    *n = (struct null_batch){.clock = clock, .batch_s = batch_s};
    return (struct executor){clock->is_virtual ? &virtual_ops : &real_ops, n};
}

enum st null_engine_start(const struct engine_job *job, struct executor *out, struct err *e)
{
    (void)e;
    *out = null_executor(0, job->clock);
    return ST_OK;
}
