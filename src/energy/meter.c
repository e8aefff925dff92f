#include "energy/meter.h"

#include <math.h>

#include "base/clock.h"
#include "energy/stamp.h"

enum { WATCH_MS = 200 };
static const double USUAL_UPDATE_S = 0.1; /* of NVIDIA's boards */

static void learn(struct meter *m)
{
    const struct recorder_sensor power = recorder_sensor(m->recorder, SAMPLER_POWER),
                                 counter = recorder_sensor(m->recorder, SAMPLER_ENERGY);
    const struct recorder_sensor *gives = power.ops ? &power : &counter;
    m->sensor = gives->ops->name;
    m->averages_s = isnan(gives->ops->averages_s) ? 0 : gives->ops->averages_s;
    m->update_s = gives->update_s;
    if (isnan(m->update_s)) /* an idle board's power may stand still, its counter does not */
        m->update_s = isnan(counter.update_s) ? USUAL_UPDATE_S : counter.update_s;
}

enum st meter_open_board(struct arena *a, const struct board *board, const struct meter_params *p,
                         struct meter *out, struct err *e)
{
    struct recorder_params rp = {.interval_s = p->interval_s, .learn_s = 2};
    *out = (struct meter){
        .board = *board, .own = p->own, .utc_offset_s = stamp_utc_offset_s(clock_wall_ns())};
    rp.sampler.uuid = out->board.uuid;
    TRY(recorder_pick(a, p->sampler, &rp, e));
    TRY(recorder_open(a, &rp, &out->recorder, e));
    gpu_watch_open(out->board.uuid, WATCH_MS, &out->watch);
    out->limits = gpu_watch_limits(out->watch);
    learn(out);
    return ST_OK;
}

enum st meter_open(struct arena *a, const struct meter_params *p, struct meter *out, struct err *e)
{
    struct board board;
    *out = (struct meter){0};
    TRY(board_open(p->gpu, &board, e));
    return meter_open_board(a, &board, p, out, e);
}

void meter_close(struct meter *m)
{
    recorder_close(&m->recorder);
    gpu_watch_close(&m->watch);
}

/* ---- for profiles -----------------------------------------------------------------------------
 */

static struct power_reading mean(void *self, int64_t from_ns, int64_t to_ns)
{
    struct meter *m = self;
    struct arena *a = arena_new();
    struct power_log log;
    recorder_so_far(a, m->recorder, m->board.name, &log);
    const struct power_mean w =
        power_mean_of(&log, recorder_at(m->recorder, from_ns), recorder_at(m->recorder, to_ns));
    arena_free(&a);
    return (struct power_reading){w.mean_w, w.half_w, w.readings};
}

static struct power_conditions conditions(void *self)
{
    const struct meter *m = self;
    const struct gpu_conditions c = gpu_watch_take(m->watch);
    return (struct power_conditions){c.sm_mhz, c.sm_mhz_low, c.celsius_high,
                                     m->limits.power_limit_w, c.reasons};
}

static const char *words(struct arena *a, unsigned long long reasons)
{
    return gpu_reason_words(a, reasons);
}

static enum st check(void *self, unsigned long long reasons, struct err *e)
{
    const struct meter *m = self;
    TRY(board_alone(&m->board, m->own, e));
    if (!gpu_reasons_reject(reasons))
        return ST_OK;
    struct arena *a = arena_new();
    err_set(e, ST_REJECTED, "the clocks were held down: %s", gpu_reason_words(a, reasons));
    arena_free(&a);
    return e->st;
}

struct power_meter meter_of_profile(struct meter *m)
{
    return (struct power_meter){.self = m,
                                .sensor = m->sensor,
                                .update_s = m->update_s,
                                .settle_s = m->averages_s + 2 * m->update_s,
                                .mean = mean,
                                .conditions = conditions,
                                .words = words,
                                .check = check};
}

/* ---- what is kept of it -----------------------------------------------------------------------
 */

struct node *recorder_sensor_node(struct arena *a, const struct recorder_sensor *s)
{
    if (!s->ops)
        return node_new(a, NODE_NULL);
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "sampler", node_str(a, s->ops->name));
    node_put(a, n, "averages_s", node_number(a, s->ops->averages_s));
    node_put(a, n, "update_s", node_number(a, s->update_s));
    node_put(a, n, "read_s", node_number(a, s->read_s));
    return n;
}

void meter_facts(struct meter *m, struct arena *a, struct node *map)
{
    const struct recorder_counts n = recorder_counts(m->recorder);
    const struct recorder_sensor power = recorder_sensor(m->recorder, SAMPLER_POWER),
                                 counter = recorder_sensor(m->recorder, SAMPLER_ENERGY);
    const struct gpu_conditions under = gpu_watch_take(m->watch);
    node_put(a, map, "gpu", node_int(a, m->board.gpu));
    node_put(a, map, "gpu_name", node_str(a, arena_str(a, m->board.name)));
    node_put(a, map, "gpu_uuid", node_str(a, arena_str(a, m->board.uuid)));
    node_put(a, map, "power_limit_w", node_number(a, m->limits.power_limit_w));
    node_put(a, map, "utc_offset_s", node_int(a, m->utc_offset_s));
    node_put(a, map, "power_sensor", recorder_sensor_node(a, &power));
    node_put(a, map, "energy_sensor", recorder_sensor_node(a, &counter));
    node_put(a, map, "samples", node_int(a, n.samples));
    node_put(a, map, "failed_readings", node_int(a, n.failed));
    node_put(a, map, "late", node_int(a, n.late));
    node_put(a, map, "under", gpu_conditions_node(a, &under));
}
