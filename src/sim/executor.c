#include <math.h>

#include "profile/read/power_cap.h"
#include "sim/sim.h"

struct sim {
    struct predictor p;
    int wake_batches;
    double pause_s; /* of the first stage, the last one, */
    int awake;      /* and how many batches ran since */
    uint64_t tickets;
    double *free_s;                /* [stages]: end of the batch before */
    struct power_cap_state *clock; /* [stages]: of the power cap, at free_s */
    enum serve_async async;
    double host_free_s; /* ASYNC_OVERLAP: when the host is done with the batch before */
    double *sampled_s;  /* [stages]: when the tokens of the lane's batch before reach stage 0 */
    struct stage_time *times;
    bool warm; /* the batch before was launched kernel by kernel */
    /* Batches on their way, by ticket modulo n_slots: they end in the order of submission. */
    struct completion *out;   /* [n_slots] */
    struct stage_span *spans; /* [n_slots][stages] */
    int32_t n_slots, n_out;
};

static int32_t sim_stages(void *self)
{
    return ((const struct sim *)self)->p.stages;
}

static bool sim_turns(void *self)
{
    const struct sim *s = self;
    return s->async != ASYNC_OFF && s->p.stages > 1;
}

static int32_t sim_max_in_flight(void *self)
{
    return ((const struct sim *)self)->n_slots;
}

/* Part of a batch's host time that its device part, free to begin at start_s, waits for: before it
 * begins, or while kernels are launched one by one and it is ahead of them. */
static double exposed_host(struct sim *s, double submit_s, double start_s,
                           const struct stage_time *t)
{
    double begin = submit_s > s->host_free_s ? submit_s : s->host_free_s;
    s->host_free_s = begin + t->host_s;
    double before = s->host_free_s - t->launch_s - start_s;
    double beside = s->host_free_s - start_s - t->device_s;
    double most = before > beside ? before : beside;
    return most > 0 ? most : 0;
}

/* Charges the idle ramp-up: batches after a pause of the first stage are slower. */
static void wake_up(struct sim *s, double submit_s)
{
    if (submit_s > s->free_s[0]) {
        s->pause_s = submit_s - s->free_s[0];
        s->awake = 0;
    }
    if (s->awake < s->wake_batches) {
        struct stage_time more = s->p.ops->wake(s->p.self, s->pause_s, s->awake++);
        s->times[0].device_s += more.device_s;
        s->times[0].host_s += more.host_s;
        s->times[0].energy_j += more.energy_j;
    }
}

/* Launching kernel by kernel is slower behind a batch that was not. */
static void warm_up(struct sim *s)
{
    struct stage_time *t = &s->times[0];
    const bool warm = s->warm;
    s->warm = t->cold_s > 0;
    if (s->warm && !warm) {
        t->host_s += t->cold_s;
        t->launch_s += t->cold_s;
    }
}

/* Seconds of stage i's device, which was idle from free_s to begin_s. */
static double device_of(struct sim *s, int32_t i, const struct batch *b, double begin_s)
{
    const struct power_cap *c = s->p.power_cap;
    const struct stage_time *t = &s->times[i];
    if (!c)
        return t->device_s;
    const struct power_cap_batch x = {.tokens = b->prefill_tokens +
                                                (int64_t)b->n_decodes * (1 + b->draft_tokens),
                                      .chunks = b->n_chunks > 0,
                                      .decode_share = t->decode_share};
    const struct power_cap_factors f = power_cap_factors(c, &x);
    power_cap_rest(c, begin_s - s->free_s[i], &s->clock[i]);
    return power_cap_run(c, &f, t->operators_s, t->device_s - t->operators_s, &s->clock[i]);
}

static enum st sim_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct sim *s = self;
    int32_t n = s->p.stages;
    ASSERT(s->n_out < s->n_slots);
    TRY(s->p.ops->predict(s->p.self, b, s->times, e));
    wake_up(s, b->submit_s);
    warm_up(s);
    size_t k = s->n_slots == 1 ? 0 : (size_t)(s->tickets % (uint64_t)s->n_slots);
    struct stage_span *spans = &s->spans[k * (size_t)n];
    struct completion *c = &s->out[k];
    double t = b->submit_s, host_s = 0, device_s = 0, energy_j = 0;
    for (int32_t i = 0; i < n; i++) {
        double free_s = s->free_s[i], host = s->times[i].host_s;
        if (i == 0 && s->sampled_s[b->lane] > free_s)
            free_s = s->sampled_s[b->lane];
        double start = t > free_s ? t : free_s;
        if (s->async == ASYNC_OVERLAP && i == 0)
            host = exposed_host(s, t, start, &s->times[i]);
        else
            host -= fmin(s->times[i].launch_s, s->times[i].device_s);
        spans[i] = (struct stage_span){start, host, device_of(s, i, b, start + host)};
        t = s->free_s[i] = start + spans[i].host_s + spans[i].device_s;
        host_s += spans[i].host_s;
        device_s += spans[i].device_s;
        energy_j += s->times[i].energy_j + s->times[i].wait_w * host;
    }
    s->sampled_s[b->lane] = b->load.rows > 0 ? t : 0;
    const bool overlaps = s->async == ASYNC_OVERLAP,
               one_thread = overlaps && s->times[0].one_thread;
    const double answer_s = overlaps || s->times[0].one_thread ? s->times[0].answer_s : 0;
    *c = (struct completion){
        .ticket = ++s->tickets,
        .start_s = spans[0].start_s,
        .end_s = t + answer_s,
        .answer_s = answer_s,
        .host_until_s = one_thread ? s->host_free_s : 0,
        .host_s = host_s,
        .device_s = device_s,
        .energy_j = energy_j,
        .stages = n > 1 ? spans : NULL,
        .n_stages = n,
    };
    s->n_out++;
    *ticket = s->tickets;
    return ST_OK;
}

static enum st sim_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct sim *s = self;
    (void)e;
    if (s->n_out == 0)
        return ST_END;
    uint64_t n = (uint64_t)s->n_slots, oldest = s->tickets - (uint64_t)s->n_out;
    const struct completion *c = &s->out[n == 1 ? 0 : oldest % n];
    if (c->end_s > deadline_s)
        return ST_END;
    s->n_out--;
    *out = *c;
    return ST_OK;
}

static void sim_close(void *self)
{
    (void)self; /* lives in the arena */
}

static const struct executor_ops sim_ops = {
    .name = "sim",
    .help = "predicts how long each batch takes",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_VIRTUAL,
    .max_in_flight = sim_max_in_flight,
    .submit = sim_submit,
    .next = sim_next,
    .close = sim_close,
    .lanes = sim_stages,
    .turns = sim_turns,
};

struct executor sim_executor(struct arena *a, const struct predictor *p, enum serve_async async)
{
    struct sim *s = arena_one(a, struct sim);
    s->p = *p;
    s->async = async;
    s->n_slots = async != ASYNC_OFF ? p->stages + 1 : p->stages;
    s->wake_batches = p->ops->wake ? p->ops->wake_batches(p->self) : 0;
    s->free_s = arena_array(a, double, p->stages);
    s->clock = arena_array(a, struct power_cap_state, p->stages);
    for (int32_t i = 0; i < p->stages && p->power_cap; i++)
        s->clock[i] = power_cap_rested(p->power_cap);
    s->sampled_s = arena_array(a, double, p->stages);
    s->times = arena_array(a, struct stage_time, p->stages);
    s->out = arena_array(a, struct completion, s->n_slots);
    s->spans = arena_array(a, struct stage_span, (size_t)s->n_slots * (size_t)p->stages);
    return (struct executor){&sim_ops, s};
}
