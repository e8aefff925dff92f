#include "job/power.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/cuda/plan.h"
#include "engine/registry.h"

#define POWER_CSV "power.csv"

enum st job_power_open(const struct job_context *c, enum job_power_of of, struct job_power *p,
                       struct err *e)
{
    const struct plan *plan = c->plan;
    *p = (struct job_power){
        .on = plan->energy.record, .interval_s = plan->energy.interval_s, .of = of};
    if (!p->on)
        return ST_OK;
    struct meter_params mp = {.gpu = (int)plan->energy.gpu,
                              .sampler = plan->energy.sampler,
                              .interval_s = plan->energy.interval_s,
                              .own = of == JOB_POWER_OWN};
    if (plan->device && engine_device(plan->device) == ENGINE_ON_CUDA)
        cuda_ordinal(plan->device, &mp.gpu);
    if (meter_open(c->a, &mp, &p->meter, e) != ST_OK) {
        job_power_close(p);
        return err_add(e, "energy.record");
    }
    log_info("power: %s of GPU %d, updated every %.0f ms", p->meter.sensor, mp.gpu,
             p->meter.update_s * 1e3);
    return ST_OK;
}

void job_power_close(struct job_power *p)
{
    meter_close(&p->meter);
    p->on = false;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* A server goes on: looking again would find it again. */
static int others_now(const struct job_power *p)
{
    return p->of == JOB_POWER_SERVER ? board_others(&p->meter.board, p->meter.own)
                                     : board_others_settled(&p->meter.board, p->meter.own);
}

void job_power_begin(struct job_power *p)
{
    if (!p->on)
        return;
    p->others = others_now(p);
    gpu_watch_take(p->meter.watch);
    p->rounds = recorder_rounds(p->meter.recorder);
    p->from_ns = recorder_now(p->meter.recorder);
}

void job_power_end(struct job_power *p)
{
    if (!p->on)
        return;
    recorder_await(p->meter.recorder, p->rounds + 2, &job_stop);
    p->to_ns = recorder_now(p->meter.recorder);
    p->others = most(p->others, others_now(p));
    p->shared = p->others > 0 && p->of != JOB_POWER_SERVER;
}

/* ---- an executor with energy ------------------------------------------------------------------
 */

static int32_t max_in_flight(void *self)
{
    const struct job_metered *m = self;
    return m->inner.ops->max_in_flight(m->inner.self);
}

static enum st submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    const struct job_metered *m = self;
    return m->inner.ops->submit(m->inner.self, b, ticket, e);
}

static enum st next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    const struct job_metered *m = self;
    TRY(m->inner.ops->next(m->inner.self, deadline_s, out, e));
    const double w = recorder_power_now(m->recorder);
    out->energy_j = w > 0 ? w * out->device_s : 0;
    return ST_OK;
}

static void bind(void *self, struct slot_source source)
{
    const struct job_metered *m = self;
    m->inner.ops->bind(m->inner.self, source);
}

static void release(void *self, int32_t slot)
{
    const struct job_metered *m = self;
    m->inner.ops->release(m->inner.self, slot);
}

static int32_t lanes(void *self)
{
    const struct job_metered *m = self;
    return m->inner.ops->lanes(m->inner.self);
}

static bool turns(void *self)
{
    const struct job_metered *m = self;
    return m->inner.ops->turns(m->inner.self);
}

static void no_close(void *self)
{
    (void)self; /* the inner executor is its opener's */
}

struct executor job_power_metered(const struct job_power *p, struct executor inner,
                                  struct job_metered *m)
{
    const struct executor_ops *of = inner.ops;
    *m = (struct job_metered){.ops = {.name = of->name,
                                      .help = of->help,
                                      .version = of->version,
                                      .caps = of->caps,
                                      .max_in_flight = max_in_flight,
                                      .submit = submit,
                                      .next = next,
                                      .close = no_close,
                                      .bind = of->bind ? bind : NULL,
                                      .release = of->release ? release : NULL,
                                      .lanes = of->lanes ? lanes : NULL,
                                      .turns = of->turns ? turns : NULL},
                              .inner = inner,
                              .recorder = p->meter.recorder};
    return (struct executor){&m->ops, m};
}

/* ---- what is kept -----------------------------------------------------------------------------
 */

static enum st write_log(const struct job_power *p, const struct artifact *art, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, POWER_CSV, &f, e));
    power_log_write(f, &p->log, p->meter.board.gpu, p->meter.utc_offset_s);
    return artifact_close_file(art, POWER_CSV, &f, e);
}

enum st job_power_stop(const struct job_context *c, struct job_power *p, const struct artifact *art,
                       struct err *e)
{
    if (!p->on)
        return ST_OK;
    TRY(recorder_stop(p->meter.recorder, e));
    recorder_log(c->a, p->meter.recorder, p->meter.board.name, &p->log);
    if (p->others > 0 && !p->shared)
        log_warn("%d other process%s on GPU %d: what they drew is in the power", p->others,
                 p->others == 1 ? " computed" : "es computed", p->meter.board.gpu);
    return write_log(p, art, e);
}

struct job_energy job_power_energy(const struct job_context *c, const struct job_power *p)
{
    const struct energy e = energy_of(&p->log, p->from_ns, p->to_ns);
    struct job_energy out = {.energy_j = isnan(e.counter_j) ? e.joules : e.counter_j,
                             .integral_j = e.joules,
                             .edge_j = e.edge_j,
                             .counter_j = e.counter_j,
                             .duration_s = e.duration_s};
    if (e.how == ENERGY_EXCLUDED || isnan(out.energy_j)) {
        out.energy_j = NAN;
        out.why = arena_printf(c->a, "no sample of power in its %.3g s: one is taken every %.3g s",
                               e.duration_s, p->interval_s);
    }
    if (p->shared) {
        out.energy_j = NAN;
        out.why = arena_printf(c->a, "%d other process%s on GPU %d", p->others,
                               p->others == 1 ? " computed" : "es computed", p->meter.board.gpu);
    }
    return out;
}

double job_power_mean_w(void *self, double from_s, double to_s)
{
    const struct job_power *p = self;
    const int64_t from_ns = p->from_ns + ns_from_s(from_s), to_ns = p->from_ns + ns_from_s(to_s);
    struct energy e = energy_of(&p->log, from_ns, to_ns);
    for (double more_s = fmax(p->interval_s, p->meter.update_s);
         e.how == ENERGY_EXCLUDED && p->log.n && more_s < 2 * ns_to_s(p->to_ns - p->from_ns);
         more_s *= 2)
        e = energy_of(&p->log, from_ns - ns_from_s(more_s), to_ns + ns_from_s(more_s));
    return p->shared || !(e.duration_s > 0) ? (double)NAN : e.joules / e.duration_s;
}

enum st job_power_alone(const struct job_power *p, struct err *e)
{
    if (!p->on || !p->shared)
        return ST_OK;
    err_set(e, ST_REJECTED,
            "energy.record: %d other process%s on GPU %d: what they drew cannot be told apart",
            p->others, p->others == 1 ? " computed" : "es computed", p->meter.board.gpu);
    return err_hint(e, "nvidia-smi lists them; all but the energy is kept");
}

struct node *job_power_node(const struct job_context *c, struct job_power *p)
{
    struct arena *a = c->a;
    const struct job_energy e = job_power_energy(c, p);
    struct node *map = node_new(a, NODE_MAP);
    meter_facts(&p->meter, a, map);
    node_put(a, map, "other_processes",
             p->others < 0 ? node_new(a, NODE_NULL) : node_int(a, p->others));
    node_put(a, map, "window_s", node_number(a, e.duration_s));
    node_put(a, map, "integral_j", node_number(a, e.integral_j));
    node_put(a, map, "edge_j", node_number(a, e.edge_j));
    node_put(a, map, "counter_j", node_number(a, e.counter_j));
    return map;
}

static double per(double x, double n)
{
    return n > 0 ? x / n : (double)NAN;
}

struct node *run_energy_node(struct arena *a, const struct run_energy *x)
{
    struct node *map = node_new(a, NODE_MAP);
    node_put(a, map, "measured", node_bool(a, x->measured));
    node_put(a, map, "total_j", node_number(a, x->energy_j));
    node_put(a, map, "idle_j", node_number(a, x->idle_energy_j));
    node_put(a, map, "j_per_request", node_number(a, per(x->energy_j, (double)x->requests)));
    node_put(a, map, "j_per_token", node_number(a, per(x->energy_j, (double)x->tokens)));
    node_put(a, map, "mean_power_w", node_number(a, per(x->energy_j, x->duration_s)));
    node_put(a, map, "requests", node_int(a, x->requests));
    node_put(a, map, "tokens", node_int(a, x->tokens));
    node_put(a, map, "unknown_because", node_str_or_null(a, x->why));
    return map;
}
