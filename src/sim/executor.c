#include "sim/sim.h"

struct sim {
    struct sim_params p;
    bool busy;
    uint64_t ticket;
    double free_s; /* end of the batch before */
    struct completion out;
};

static int32_t sim_max_in_flight(void *self)
{
    (void)self;
    return 1;
}

static enum st sim_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct sim *s = self;
    (void)e;
    ASSERT(!s->busy);
    double device_s, host_s;
    sim_predict(&s->p, b, &device_s, &host_s);
    double start = b->submit_s > s->free_s ? b->submit_s : s->free_s;
    s->free_s = start + host_s + device_s;
    s->out = (struct completion){
        .ticket = ++s->ticket,
        .start_s = start,
        .end_s = s->free_s,
        .host_s = host_s,
        .device_s = device_s,
    };
    s->busy = true;
    *ticket = s->ticket;
    return ST_OK;
}

static enum st sim_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct sim *s = self;
    (void)e;
    if (!s->busy || s->free_s > deadline_s)
        return ST_END;
    s->busy = false;
    *out = s->out;
    return ST_OK;
}

static void sim_close(void *self)
{
    (void)self; /* the arena's */
}

static const struct executor_ops sim_ops = {
    .name = "sim",
    .help = "predicts how long each batch takes from a profiling bundle",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_VIRTUAL,
    .max_in_flight = sim_max_in_flight,
    .submit = sim_submit,
    .next = sim_next,
    .close = sim_close,
};

struct executor sim_executor(struct arena *a, const struct sim_params *p)
{
    struct sim *s = arena_one(a, struct sim);
    s->p = *p;
    return (struct executor){&sim_ops, s};
}
