#include "energy/whole_run.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "energy/stamp.h"

/* ---- others on the GPU ----------------------------------------------------------------------- */

/* Looks every 200 ms who computes there. A process that has just ended may still be listed, so
 * those count that two looks in a row see. */
struct lookout {
    const struct board *board;
    pthread_t thread;
    pthread_mutex_t lock;
    bool running, stop;
    int last, most; /* last: INT_MAX before the first */
};

/* Lock held. */
static void seen(struct lookout *l, int n)
{
    const int both = n < l->last ? n : l->last;
    l->most = both > l->most ? both : l->most;
    l->last = n;
}

static void *look(void *arg)
{
    struct lookout *l = arg;
    bool stop = false;
    while (!stop) {
        const int n = board_others(l->board, false);
        pthread_mutex_lock(&l->lock);
        seen(l, n);
        stop = l->stop;
        pthread_mutex_unlock(&l->lock);
        for (int i = 0; i < 20 && !stop; i++) {
            clock_sleep_until_ns(clock_mono_ns() + 10 * NS_PER_MS);
            pthread_mutex_lock(&l->lock);
            stop = l->stop;
            pthread_mutex_unlock(&l->lock);
        }
    }
    return NULL;
}

static void lookout_start(struct lookout *l, const struct board *b)
{
    *l = (struct lookout){.board = b, .last = INT_MAX};
    pthread_mutex_init(&l->lock, NULL);
    l->running = pthread_create(&l->thread, NULL, look, l) == 0;
}

/* The most that were seen at once, now included: the thread may not have come to look. */
static int lookout_end(struct lookout *l)
{
    const int now = board_others(l->board, false);
    pthread_mutex_lock(&l->lock);
    seen(l, now);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    if (l->running)
        pthread_join(l->thread, NULL);
    pthread_mutex_destroy(&l->lock);
    return l->most;
}

/* ---- windows --------------------------------------------------------------------------------- */

void energy_trim(struct full_timing *t)
{
    struct timing_window *w = &t->window;
    const double all_s = ns_to_s(w->to_ns - w->from_ns);
    if (all_s < 1 || t->num_runs < 2)
        return;
    const double each_s = all_s / (double)t->num_runs;
    const int64_t first = (int64_t)ceil(0.2 / each_s), last = (int64_t)ceil(0.1 / each_s);
    if (first + last >= t->num_runs)
        return;
    const int64_t from_ns = w->from_ns + ns_from_s((double)first * each_s);
    w->to_ns -= ns_from_s((double)last * each_s);
    w->from_ns = from_ns;
    t->num_runs -= first + last;
}

static void name_windows(struct arena *a, struct energy_run *r)
{
    struct timing_window *w = &r->full.window;
    const int64_t east_s = r->utc_offset_s;
    int64_t from_ns = INT64_MAX, to_ns = 0;
    *w = timing_window_of(a, w->from_ns, w->to_ns, east_s);
    r->full.source = r->isolated.source = "the replay";
    r->isolated.zoned = true;
    for (size_t i = 0; i < r->isolated.n; i++) {
        struct kernel_timing *k = &r->isolated.kernels[i];
        if (k->benchmark_runs == 0)
            continue;
        k->window = timing_window_of(a, k->window.from_ns, k->window.to_ns, east_s);
        from_ns = k->window.from_ns < from_ns ? k->window.from_ns : from_ns;
        to_ns = k->window.to_ns > to_ns ? k->window.to_ns : to_ns;
    }
    if (to_ns)
        r->isolated.window = timing_window_of(a, from_ns, to_ns, east_s);
}

/* ---- how long -------------------------------------------------------------------------------- */

const char *energy_window_from_name(unsigned from)
{
    static const char *const names[] = {"given", "probe", "assumed"};
    return from < sizeof names / sizeof *names ? names[from] : NULL;
}

struct energy_window energy_window_of(const struct probe *p, const char *sensor, bool averaged)
{
    struct energy_window w = {.s = ENERGY_WINDOW_S + (averaged ? 1 : 0),
                              .from = ENERGY_WINDOW_ASSUMED,
                              .percent = p->percent,
                              .update_s = NAN,
                              .sensor = sensor};
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->sensors[i].name, sensor) != 0)
            continue;
        w.update_s = p->sensors[i].update_s;
        if (isnan(p->sensors[i].window_s))
            continue;
        w.s = energy_settle_s(averaged) + p->sensors[i].window_s;
        w.from = ENERGY_WINDOW_PROBED;
    }
    return w;
}

static enum st find_window(struct arena *a, const struct energy_run_params *p,
                           const struct recorder_params *rp, struct energy_window *out,
                           struct err *e)
{
    const struct sampler_ops *ops = rp->power ? rp->power : rp->energy;
    const struct probe_params pp = {.gpu = p->gpu,
                                    .idle_s = p->idle_s > 0 && p->idle_s < 2 ? p->idle_s : 2,
                                    .load_s = p->probe_s,
                                    .percent = p->percent > 0 ? p->percent : 1,
                                    .stop = p->stop};
    struct probe probe;
    *out = (struct energy_window){
        .s = p->wish.window_s, .from = ENERGY_WINDOW_GIVEN, .percent = NAN, .update_s = NAN};
    if (p->wish.window_s > 0)
        return ST_OK;
    if (probe_run(a, &pp, &probe, e) != ST_OK)
        return err_add(e, "cannot find out how long the sensor needs");
    *out = energy_window_of(&probe, ops->name, ops->averages_s > 0.5);
    if (out->from == ENERGY_WINDOW_ASSUMED)
        log_warn("the probe does not say how long %s needs: each kernel runs %.2f s", ops->name,
                 out->s);
    else
        log_info("%s: +-%g %% takes %.2f s a kernel", ops->name, pp.percent, out->s);
    return ST_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

static enum st measure_idle(struct arena *a, const struct energy_run_params *p, struct idle *out,
                            struct err *e)
{
    const struct idle_params ip = {.gpu = p->gpu,
                                   .duration_s = p->idle_s > 0 ? p->idle_s : 3,
                                   .context = true,
                                   .sampler = p->sampler,
                                   .stop = p->stop};
    if (idle_run(a, &ip, out, e) != ST_OK)
        return err_add(e, "cannot measure the idle power");
    log_info("idle power %.2f W", out->power_w);
    return ST_OK;
}

/* The subject, under the recorder. */
static enum st record(struct arena *a, const struct energy_run_params *p,
                      const struct energy_subject *s, struct energy_run *out, struct recorder *r,
                      struct err *e)
{
    struct lookout lookout;
    struct gpu_watch *watch;
    recorder_await(r, 1, p->stop); /* the first window has a sample before it */
    gpu_watch_open(out->board.uuid, 200, &watch);
    lookout_start(&lookout, &out->board);
    const struct energy_wish wish = {.runs = p->wish.runs, .window_s = out->window.s};
    enum st st = s->run(s->self, a, &wish, &out->full, &out->isolated, e);
    const int most = lookout_end(&lookout);
    out->under = gpu_watch_take(watch);
    gpu_watch_close(&watch);
    const int others = most - (s->child ? 1 : 0);
    if (st == ST_OK && others > 0) {
        err_set(
            e, ST_REJECTED,
            "%d other process%s computed on GPU %d meanwhile: what they draw cannot be told apart",
            others, others == 1 ? "" : "es", p->gpu);
        st = err_hint(e, "nvidia-smi lists them; measure when they have ended");
    }
    if (st == ST_OK && gpu_reasons_reject(out->under.reasons)) {
        err_set(e, ST_REJECTED, "the clocks were held down: %s",
                gpu_reason_words(a, out->under.reasons));
        st = err_hint(e, "let the GPU cool down and measure again");
    }
    if (st == ST_OK) /* a sensor shows the last window's end up to an update late */
        clock_sleep_until_ns(clock_mono_ns() + 150 * NS_PER_MS);
    return st == ST_OK ? recorder_stop(r, e) : st;
}

static void keep_recording(struct arena *a, struct recorder *r, struct energy_run *out)
{
    out->sensors[SAMPLER_POWER] = recorder_sensor(r, SAMPLER_POWER);
    out->sensors[SAMPLER_ENERGY] = recorder_sensor(r, SAMPLER_ENERGY);
    out->counts = recorder_counts(r);
    recorder_log(a, r, "GPU", &out->log);
}

static enum st make_report(struct arena *a, const struct energy_run_params *p,
                           struct energy_run *out, struct err *e)
{
    const double before_w = out->before.power_w, after_w = out->after.power_w;
    const double half_w = fmax((out->before.high_w - out->before.low_w) / 2,
                               (out->after.high_w - out->after.low_w) / 2);
    const struct energy_inputs in = {
        .power = &out->log,
        .full = &out->full,
        .isolated = &out->isolated,
        .application = p->application,
        .application_power = p->application_power,
        .idle_w = (before_w + after_w) / 2,
        .idle_half_w = fmax(isnan(half_w) ? 0 : half_w, fabs(before_w - after_w) / 2)};
    energy_trim(&out->full);
    name_windows(a, out);
    return energy_report_make(a, &in, &out->report, e);
}

enum st energy_run(struct arena *a, const struct energy_run_params *p,
                   const struct energy_subject *s, struct energy_run *out, struct err *e)
{
    struct recorder_params rp = {.interval_s = p->interval_s, .learn_s = 2, .stop = p->stop};
    struct recorder *r;
    *out = (struct energy_run){.utc_offset_s = stamp_utc_offset_s(clock_wall_ns())};
    TRY(board_open(p->gpu, &out->board, e));
    rp.sampler.uuid = out->board.uuid;
    TRY(recorder_pick(a, p->sampler, &rp, e));
    TRY(find_window(a, p, &rp, &out->window, e));
    TRY(measure_idle(a, p, &out->before, e));
    TRY(recorder_open(a, &rp, &r, e));
    const enum st st = record(a, p, s, out, r, e);
    if (st == ST_OK)
        keep_recording(a, r, out);
    recorder_close(&r);
    if (st != ST_OK)
        return st;
    TRY(measure_idle(a, p, &out->after, e));
    return make_report(a, p, out, e);
}
