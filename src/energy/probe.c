#include "energy/probe.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/stream.h"
#include "metrics/metrics.h"

/* ---- pure parts ------------------------------------------------------------------------------ */

/* When power first passed the level, on the line between two samples; NAN = never. */
static double crossing_s(const struct power_log *log, int64_t from_ns, int64_t end_ns, double level)
{
    double before_w = NAN;
    int64_t before_ns = 0;
    for (size_t i = 0; i < log->n; i++) {
        const struct power_sample *s = &log->p[i];
        if (isnan(s->power_w) || s->ns > end_ns)
            continue;
        if (s->ns >= from_ns && s->power_w >= level) {
            if (isnan(before_w) || before_w >= level || s->power_w == before_w)
                return ns_to_s(s->ns - from_ns);
            const double part = (level - before_w) / (s->power_w - before_w);
            return ns_to_s(before_ns - from_ns) + part * ns_to_s(s->ns - before_ns);
        }
        before_w = s->power_w;
        before_ns = s->ns;
    }
    return NAN;
}

struct probe_step probe_step_of(const struct power_log *log, int64_t from_ns, int64_t step_ns,
                                int64_t end_ns)
{
    const int64_t settled_ns = end_ns - (end_ns - step_ns) / 3;
    const struct power_mean base = power_mean_of(log, from_ns, step_ns);
    const struct power_mean top = power_mean_of(log, settled_ns, end_ns);
    struct probe_step out = {base.mean_w, top.mean_w, NAN, NAN};
    const double height = top.mean_w - base.mean_w;
    const double scatter =
        fmax(isnan(base.spread_w) ? 0 : base.spread_w, isnan(top.spread_w) ? 0 : top.spread_w);
    if (!(height > 5 * scatter) || height <= 0)
        return out;
    const double low_s = crossing_s(log, step_ns, end_ns, base.mean_w + 0.1 * height);
    const double half_s = crossing_s(log, step_ns, end_ns, base.mean_w + 0.5 * height);
    const double high_s = crossing_s(log, step_ns, end_ns, base.mean_w + 0.9 * height);
    out.averages_s = (high_s - low_s) / 0.8;
    out.lag_s = half_s;
    return out;
}

double probe_window_s(const struct power_mean *p, double update_s, double averages_s,
                      double percent)
{
    enum { LEAST = 10 };
    if (isnan(p->spread_w) || !(p->mean_w > 0) || !(update_s > 0) || !(percent > 0))
        return NAN;
    const double each = p->spread_w / p->mean_w * 100 / percent;
    const double correlated = (1 + p->correlation) / (1 - p->correlation);
    double n = LEAST;
    for (;;) { /* Student's factor depends on n */
        const double alone = fmin(1e6, fmax(3, n / correlated));
        const double t = stats_student_95((size_t)alone - 1);
        if (n >= t * t * each * each * correlated)
            break;
        n = n < 100 ? n + 1 : n * 1.01;
    }
    return (averages_s > 2 * update_s ? averages_s : 0) + n * update_s;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static enum st stopped(const volatile sig_atomic_t *stop, struct err *e)
{
    return stop && *stop ? err_set(e, ST_INTERRUPTED, "interrupted") : ST_OK;
}

/* Waits, looking for a signal. */
static enum st rest(double s, const volatile sig_atomic_t *stop, struct err *e)
{
    const int64_t end = clock_mono_ns() + ns_from_s(s);
    while (clock_mono_ns() < end) {
        TRY(stopped(stop, e));
        const int64_t next = clock_mono_ns() + 20 * NS_PER_MS;
        clock_sleep_until_ns(next < end ? next : end);
    }
    return stopped(stop, e);
}

enum { LEAST_READINGS = 3 };

/* So long, and until there are readings that began in that time: with a busy machine that may take
 * longer. */
static enum st rest_beside(struct recorder *const *recorders, size_t n, double s,
                           const volatile sig_atomic_t *stop, struct err *e)
{
    int64_t rounds[PROBE_SENSORS] = {0};
    for (size_t i = 0; i < n; i++)
        rounds[i] = recorders[i] ? recorder_rounds(recorders[i]) : 0;
    TRY(rest(s, stop, e));
    for (size_t i = 0; i < n; i++)
        if (recorders[i])
            recorder_await(recorders[i], rounds[i] + 1 + LEAST_READINGS, stop);
    return stopped(stop, e);
}

struct probe_run {
    const struct probe_params *p;
    struct probe *out;
    struct gpu g;
    struct gpu_watch *watch;
    struct recorder *recorders[PROBE_SENSORS];
    int64_t idle_from_ns, step_ns, end_ns; /* of recorder_now() */
};

static enum st open_sensors(struct arena *a, struct probe_run *m, struct err *e)
{
    static const struct sampler_ops *const ops[PROBE_SENSORS] = {
        &sampler_nvml_counter, &sampler_nvml_instant, &sampler_nvml_average};
    struct err first = {0};
    size_t answer = 0;
    m->out->n = PROBE_SENSORS;
    for (int i = 0; i < PROBE_SENSORS; i++) {
        struct err no = {0};
        struct probe_sensor *s = &m->out->sensors[i];
        struct recorder_params r = {.sampler = {.uuid = m->out->board.uuid},
                                    .interval_s = 0.01,
                                    .learn_s = m->p->learn_s > 0 ? m->p->learn_s : 2,
                                    .stop = m->p->stop};
        *(ops[i]->kind == SAMPLER_POWER ? &r.power : &r.energy) = ops[i];
        *s = (struct probe_sensor){.name = ops[i]->name,
                                   .what = ops[i]->what,
                                   .stated_averages_s = ops[i]->averages_s,
                                   .update_s = NAN,
                                   .read_s = NAN,
                                   .averages_s = NAN,
                                   .lag_s = NAN,
                                   .idle_w = NAN,
                                   .idle_spread_w = NAN,
                                   .load_w = NAN,
                                   .load_spread_w = NAN,
                                   .window_s = NAN};
        if (recorder_open(a, &r, &m->recorders[i], &no) == ST_OK) {
            const struct recorder_sensor learned = recorder_sensor(m->recorders[i], ops[i]->kind);
            s->updates = learned.updates;
            s->update_s = learned.update_s;
            s->read_s = learned.read_s;
            answer++;
            continue;
        }
        s->missing = arena_str(a, err_cause(&no, no.n - 1));
        if (first.st == ST_OK)
            first = no;
    }
    if (answer > 0)
        return ST_OK;
    *e = first;
    return err_add(e, "no sensor of the GPU answers");
}

static enum st step_load(struct probe_run *m, struct recorder *r, struct err *e)
{
    const struct probe_params *p = m->p;
    const double idle_s = p->idle_s > 0 ? p->idle_s : 2, load_s = p->load_s > 0 ? p->load_s : 3;
    gpu_watch_take(m->watch);
    m->idle_from_ns = recorder_now(r);
    TRY(rest_beside(m->recorders, PROBE_SENSORS, idle_s, p->stop, e));
    m->out->idle_under = gpu_watch_take(m->watch);
    m->step_ns = recorder_now(r);
    TRY(board_load(&m->g, clock_mono_ns() + ns_from_s(load_s), p->stop, e));
    m->end_ns = recorder_now(r);
    m->out->load_under = gpu_watch_take(m->watch);
    return stopped(p->stop, e);
}

/* Mean and scatter before the step and in the last two thirds behind it. */
static void judge(struct arena *a, struct probe_run *m, int i)
{
    struct probe_sensor *s = &m->out->sensors[i];
    struct power_log log;
    recorder_log(a, m->recorders[i], s->name, &log);
    const struct power_mean idle = power_mean_of(&log, m->idle_from_ns, m->step_ns);
    const struct power_mean load =
        power_mean_of(&log, m->end_ns - (m->end_ns - m->step_ns) / 2, m->end_ns);
    const struct probe_step step = probe_step_of(&log, m->idle_from_ns, m->step_ns, m->end_ns);
    s->idle_w = idle.mean_w;
    s->idle_spread_w = idle.spread_w;
    s->load_w = load.mean_w;
    s->load_spread_w = load.spread_w;
    s->averages_s = step.averages_s;
    s->lag_s = step.lag_s;
    s->window_s = probe_window_s(&load, s->update_s, s->averages_s, m->p->percent);
    /* The sensor with the narrowest interval speaks for the board. */
    const double half_w = (m->out->idle_high_w - m->out->idle_low_w) / 2;
    if (!isnan(idle.mean_w) && (isnan(m->out->idle_w) || isnan(half_w) || idle.half_w < half_w)) {
        m->out->idle_w = idle.mean_w;
        m->out->idle_low_w = idle.mean_w - idle.half_w;
        m->out->idle_high_w = idle.mean_w + idle.half_w;
        m->out->load_w = load.mean_w;
    }
}

static enum st measure(struct arena *a, struct probe_run *m, struct err *e)
{
    struct probe *out = m->out;
    TRY(board_alone(&out->board, false, e));
    TRY(gpu_open(m->p->gpu, &m->g, e));
    gpu_watch_open(out->board.uuid, 100, &m->watch);
    out->limits = gpu_watch_limits(m->watch);
    TRY(open_sensors(a, m, e));
    struct recorder *any = NULL;
    for (int i = 0; i < PROBE_SENSORS; i++)
        any = any ? any : m->recorders[i];
    TRY(step_load(m, any, e));
    for (int i = 0; i < PROBE_SENSORS; i++)
        if (m->recorders[i]) {
            TRY(recorder_stop(m->recorders[i], e));
            judge(a, m, i);
        }
    TRY(board_alone(&out->board, true, e));
    if (!gpu_reasons_reject(out->idle_under.reasons | out->load_under.reasons))
        return ST_OK;
    return err_set(e, ST_REJECTED, "the clocks were held down: %s",
                   gpu_reason_words(a, out->idle_under.reasons | out->load_under.reasons));
}

enum st probe_run(struct arena *a, const struct probe_params *p, struct probe *out, struct err *e)
{
    struct probe_run m = {.p = p, .out = out};
    *out = (struct probe){
        .percent = p->percent, .idle_w = NAN, .idle_low_w = NAN, .idle_high_w = NAN, .load_w = NAN};
    TRY(board_open(p->gpu, &out->board, e));
    const enum st st = measure(a, &m, e);
    for (int i = 0; i < PROBE_SENSORS; i++)
        recorder_close(&m.recorders[i]);
    gpu_watch_close(&m.watch);
    gpu_close(&m.g);
    return st;
}

/* ---- idle power ------------------------------------------------------------------------------ */

/* Until the mean of a second differs from that of the second before by less than 1 %: clocks, and
 * power with them, fall for several seconds after the last work. */
static enum st settle(struct arena *a, struct recorder *r, const struct idle_params *p,
                      struct err *e)
{
    enum { MOST_S = 20 };
    const double step_s = p->duration_s < 1 ? p->duration_s : 1;
    double before_w = NAN;
    for (int i = 0; i < MOST_S; i++) {
        struct power_log log;
        const int64_t from_ns = recorder_now(r);
        TRY(rest(step_s, p->stop, e));
        recorder_so_far(a, r, "GPU", &log);
        const double w = power_mean_of(&log, from_ns, recorder_now(r)).mean_w;
        if (fabs(w - before_w) < 0.01 * before_w)
            break;
        before_w = w;
    }
    return ST_OK;
}

static enum st idle_measure(struct arena *a, const struct idle_params *p, struct idle *out,
                            struct gpu *g, struct gpu_watch **watch, struct recorder **r,
                            struct err *e)
{
    struct recorder_params rp = {.sampler = {.uuid = out->board.uuid}, .interval_s = 0.02};
    struct power_log log;
    TRY(board_alone(&out->board, false, e));
    if (p->context)
        TRY(gpu_open(p->gpu, g, e));
    TRY(recorder_pick(a, p->sampler, &rp, e));
    gpu_watch_open(out->board.uuid, 200, watch);
    TRY(recorder_open(a, &rp, r, e));
    TRY(settle(a, *r, p, e));
    gpu_watch_take(*watch);
    const int64_t from_ns = recorder_now(*r);
    TRY(rest_beside(r, 1, p->duration_s, p->stop, e));
    const int64_t to_ns = recorder_now(*r);
    out->under = gpu_watch_take(*watch);
    TRY(recorder_stop(*r, e));
    TRY(board_alone(&out->board, p->context, e));
    recorder_log(a, *r, "GPU", &log);
    const struct power_mean mean = power_mean_of(&log, from_ns, to_ns);
    const struct energy energy = energy_of(&log, from_ns, to_ns);
    out->duration_s = energy.duration_s;
    out->power_w = mean.mean_w;
    out->low_w = mean.mean_w - mean.half_w;
    out->high_w = mean.mean_w + mean.half_w;
    out->spread_w = mean.spread_w;
    out->readings = mean.readings;
    out->counter_w = energy.counter_j / energy.duration_s;
    return ST_OK;
}

enum st idle_run(struct arena *a, const struct idle_params *p, struct idle *out, struct err *e)
{
    struct gpu g = {0};
    struct gpu_watch *watch = NULL;
    struct recorder *r = NULL;
    *out = (struct idle){.context = p->context};
    TRY(board_open(p->gpu, &out->board, e));
    const enum st st = idle_measure(a, p, out, &g, &watch, &r, e);
    recorder_close(&r);
    gpu_watch_close(&watch);
    gpu_close(&g);
    return st;
}
