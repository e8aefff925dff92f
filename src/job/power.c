#include "job/power.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/cuda/plan.h"
#include "engine/registry.h"

#define POWER_CSV "power.csv"

/* ---- which GPUs ------------------------------------------------------------------------------ */

static void alloc_gpus(struct job_power *p, size_t n)
{
    p->gpus = arena_array(p->a, struct job_power_gpu, n);
    p->logs = arena_array(p->a, struct power_log, n);
    p->n = n;
}

static struct meter_params meter_params_of(const struct plan *plan, enum job_power_of of)
{
    struct meter_params mp = {.gpu = (int)plan->energy.gpu,
                              .sampler = plan->energy.sampler,
                              .interval_s = plan->energy.interval_s,
                              .own = of == JOB_POWER_OWN};
    if (plan->engine.device && engine_device(plan->engine.device) == ENGINE_ON_CUDA)
        cuda_ordinal(plan->engine.device, &mp.gpu);
    return mp;
}

static enum st open_server(struct job_power *p, const struct meter_params *mp, struct err *e)
{
    const struct server_gpus_params sp = {.pid = p->server_pid};
    size_t n;
    if (server_gpus_open(p->a, &sp, &p->server, e) != ST_OK)
        return err_add(e, "client.server_pid");
    const struct board *boards = server_gpus_boards(p->server, &n);
    alloc_gpus(p, n);
    for (size_t i = 0; i < n; i++)
        TRY(meter_open_board(p->a, &boards[i], mp, &p->gpus[i].meter, e));
    if (server_gpus_contained(p->server))
        log_warn("this is a container, or another pid namespace of its own: NVML may leave out "
                 "processes of others that compute on the server's GPUs");
    return ST_OK;
}

static enum st open_meters(struct job_power *p, const struct meter_params *mp, struct err *e)
{
    if (p->server_pid)
        return open_server(p, mp, e);
    alloc_gpus(p, 1);
    return meter_open(p->a, mp, &p->gpus->meter, e);
}

enum st job_power_open(const struct job_context *c, enum job_power_of of, struct job_power *p,
                       struct err *e)
{
    const struct plan *plan = c->plan;
    *p = (struct job_power){.on = plan->energy.record,
                            .interval_s = plan->energy.interval_s,
                            .of = of,
                            .server_pid = of == JOB_POWER_SERVER ? plan->client.server_pid : 0,
                            .a = c->a};
    if (!p->on)
        return ST_OK;
    const struct meter_params mp = meter_params_of(plan, of);
    if (open_meters(p, &mp, e) != ST_OK) {
        job_power_close(p);
        return err_add(e, "energy.record");
    }
    for (size_t i = 0; i < p->n; i++)
        log_info("power: %s of GPU %d, updated every %.0f ms", p->gpus[i].meter.sensor,
                 p->gpus[i].meter.board.gpu, p->gpus[i].meter.update_s * 1e3);
    return ST_OK;
}

void job_power_close(struct job_power *p)
{
    for (size_t i = 0; i < p->n; i++)
        meter_close(&p->gpus[i].meter);
    server_gpus_close(&p->server);
    p->n = 0;
    p->on = false;
}

/* ---- the window ------------------------------------------------------------------------------ */

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* On the one GPU. A server goes on: looking again would find it again. */
static int others_now(const struct job_power *p)
{
    const struct meter *m = &p->gpus->meter;
    return p->of == JOB_POWER_SERVER ? board_others(&m->board, m->own)
                                     : board_others_settled(&m->board, m->own);
}

void job_power_begin(struct job_power *p)
{
    if (!p->on)
        return;
    if (p->server)
        server_gpus_begin(p->server);
    else
        p->others = others_now(p);
    for (size_t i = 0; i < p->n; i++) {
        gpu_watch_take(p->gpus[i].meter.watch);
        p->gpus[i].rounds = recorder_rounds(p->gpus[i].meter.recorder);
    }
    p->from_ns = clock_mono_ns();
}

static void end_server(struct job_power *p)
{
    const struct server_gpus_seen seen = server_gpus_end(p->a, p->server);
    p->others = seen.strangers;
    p->server_processes = seen.processes;
    p->shared = seen.why;
}

void job_power_end(struct job_power *p)
{
    if (!p->on)
        return;
    for (size_t i = 0; i < p->n; i++)
        recorder_await(p->gpus[i].meter.recorder, p->gpus[i].rounds + 2, &job_stop);
    p->to_ns = clock_mono_ns();
    if (p->server) {
        end_server(p);
        return;
    }
    p->others = most(p->others, others_now(p));
    if (p->others > 0 && p->of != JOB_POWER_SERVER)
        p->shared =
            arena_printf(p->a, "%d other process%s on GPU %d", p->others,
                         p->others == 1 ? " computed" : "es computed", p->gpus->meter.board.gpu);
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
                              .recorder = p->gpus->meter.recorder};
    return (struct executor){&m->ops, m};
}

/* ---- what is kept -----------------------------------------------------------------------------
 */

static enum st write_log(const struct job_power *p, const struct artifact *art, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, POWER_CSV, &f, e));
    power_log_write_all(f, p->logs, p->n, p->gpus->meter.utc_offset_s);
    return artifact_close_file(art, POWER_CSV, &f, e);
}

enum st job_power_stop(const struct job_context *c, struct job_power *p, const struct artifact *art,
                       struct err *e)
{
    if (!p->on)
        return ST_OK;
    for (size_t i = 0; i < p->n; i++) {
        const struct meter *m = &p->gpus[i].meter;
        if (recorder_stop(m->recorder, e) != ST_OK)
            return err_add(e, "GPU %d", m->board.gpu);
        recorder_log(c->a, m->recorder, m->board.name, &p->logs[i]);
        p->logs[i].gpu = m->board.gpu;
    }
    if (p->others > 0 && !p->shared)
        log_warn("%d other process%s on GPU %d: what they drew is in the power", p->others,
                 p->others == 1 ? " computed" : "es computed", p->gpus->meter.board.gpu);
    return write_log(p, art, e);
}

static struct energy energy_of_gpu(const struct job_power *p, size_t i, int64_t from_ns,
                                   int64_t to_ns)
{
    const struct recorder *r = p->gpus[i].meter.recorder;
    return energy_of(&p->logs[i], recorder_at(r, from_ns), recorder_at(r, to_ns));
}

/* Of one GPU. */
static struct job_energy drawn_by(const struct job_context *c, const struct job_power *p, size_t i)
{
    const struct energy e = energy_of_gpu(p, i, p->from_ns, p->to_ns);
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
    return out;
}

struct job_energy job_power_energy(const struct job_context *c, const struct job_power *p)
{
    struct job_energy sum = drawn_by(c, p, 0);
    for (size_t i = 1; i < p->n; i++) { /* one that is unknown makes the sum NAN */
        const struct job_energy one = drawn_by(c, p, i);
        sum.energy_j += one.energy_j;
        sum.integral_j += one.integral_j;
        sum.edge_j += one.edge_j;
        sum.counter_j += one.counter_j;
        sum.why = sum.why ? sum.why : one.why;
    }
    if (p->shared) {
        sum.energy_j = NAN;
        sum.why = p->shared;
    }
    return sum;
}

/* Of one GPU, with more around the bucket where it has no reading. */
static double mean_w_of(const struct job_power *p, size_t i, int64_t from_ns, int64_t to_ns)
{
    struct energy e = energy_of_gpu(p, i, from_ns, to_ns);
    for (double more_s = fmax(p->interval_s, p->gpus[i].meter.update_s);
         e.how == ENERGY_EXCLUDED && p->logs[i].n && more_s < 2 * ns_to_s(p->to_ns - p->from_ns);
         more_s *= 2)
        e = energy_of_gpu(p, i, from_ns - ns_from_s(more_s), to_ns + ns_from_s(more_s));
    return e.duration_s > 0 ? e.joules / e.duration_s : (double)NAN;
}

double job_power_mean_w(void *self, double from_s, double to_s)
{
    const struct job_power *p = self;
    double sum = p->shared ? (double)NAN : 0;
    for (size_t i = 0; i < p->n; i++)
        sum += mean_w_of(p, i, p->from_ns + ns_from_s(from_s), p->from_ns + ns_from_s(to_s));
    return sum;
}

enum st job_power_alone(const struct job_power *p, struct err *e)
{
    if (!p->on || !p->shared)
        return ST_OK;
    if (p->server) {
        err_set(e, ST_REJECTED, "energy.record: %s", p->shared);
        return err_hint(e,
                        "its power cannot be told from the server's; all but the energy is kept");
    }
    err_set(e, ST_REJECTED, "energy.record: %s: what they drew cannot be told apart", p->shared);
    return err_hint(e, "nvidia-smi lists them; all but the energy is kept");
}

/* ---- what stands in the meta ----------------------------------------------------------------- */

static void put_energy(struct arena *a, struct node *map, const struct job_energy *e)
{
    node_put(a, map, "integral_j", node_number(a, e->integral_j));
    node_put(a, map, "edge_j", node_number(a, e->edge_j));
    node_put(a, map, "counter_j", node_number(a, e->counter_j));
}

static struct node *gpus_node(const struct job_context *c, struct job_power *p)
{
    struct node *list = node_new(c->a, NODE_LIST);
    for (size_t i = 0; i < p->n; i++) {
        const struct job_energy e = drawn_by(c, p, i);
        struct node *map = node_new(c->a, NODE_MAP);
        meter_facts(&p->gpus[i].meter, c->a, map);
        put_energy(c->a, map, &e);
        node_push(c->a, list, map);
    }
    return list;
}

static struct node *server_node(struct arena *a, const struct job_power *p)
{
    struct node *map = node_new(a, NODE_MAP);
    node_put(a, map, "pid", node_int(a, p->server_pid));
    node_put(a, map, "processes", node_int(a, p->server_processes));
    node_put(a, map, "contained", node_bool(a, server_gpus_contained(p->server)));
    return map;
}

struct node *job_power_node(const struct job_context *c, struct job_power *p)
{
    struct arena *a = c->a;
    const struct job_energy e = job_power_energy(c, p);
    struct node *map = node_new(a, NODE_MAP);
    if (p->n == 1)
        meter_facts(&p->gpus->meter, a, map);
    else
        node_put(a, map, "gpus", gpus_node(c, p));
    if (p->server)
        node_put(a, map, "server", server_node(a, p));
    node_put(a, map, "other_processes",
             p->others < 0 ? node_new(a, NODE_NULL) : node_int(a, p->others));
    node_put(a, map, "window_s", node_number(a, e.duration_s));
    put_energy(a, map, &e);
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
