/* energy run: a captured region, replayed whole and kernel by kernel, with its power. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "capsule/capsule.h"
#include "cmd/energy.h"
#include "energy/whole_run.h"
#include "replay/replay.h"
#include "replay/timeline.h"

enum { DEFAULT_RUNS = 1000 };
#define POOLED_BELOW 0.01 /* of the region's time: a class that takes less shares a loop */
#define ROUND_S      0.02 /* of what is held: long for a launch, short for the window */

struct region_run {
    const char *capsule;
    int gpu;
    struct replay_limits limits;
    struct texts classes;
    struct replay_region times; /* of the quick look */
    double alone_sum_s;
};

/* Which classes run alone, which together; numbers of kernels. */
struct loops {
    int64_t *alone, *pooled, *in_front; /* in_front: of alone */
    size_t n_alone, n_pooled, n_in_front;
    int64_t pooled_ops;   /* in the region */
    bool of_application;  /* times inside the region are the application's */
    double *in_context_s; /* [kernels] of one operation; NAN = unknown */
};

static struct timing_window window_of(const struct timing *t)
{
    return (struct timing_window){
        .from_ns = t->start_wall_ns, .to_ns = t->end_wall_ns, .zoned = true};
}

static struct timing_under under_of(struct arena *a, const struct gpu_conditions *c)
{
    return (struct timing_under){.sm_mhz = c->samples ? c->sm_mhz : (double)NAN,
                                 .memory_mhz = c->samples ? c->memory_mhz : (double)NAN,
                                 .celsius_high = c->samples ? c->celsius_high : (double)NAN,
                                 .clock_limits =
                                     c->samples ? gpu_reason_words(a, c->reasons) : NULL};
}

/* Times inside the region: of the replay, else, where CUPTI does not tell them, of the application.
 */
static void take_times(struct arena *a, const struct replay_report *r, struct loops *out)
{
    bool replayed = true, application = true;
    out->in_context_s = arena_array(a, double, r->kernels.n);
    for (size_t i = 0; i < r->kernels.n; i++) {
        replayed = replayed && isfinite(r->kernels.p[i].in_context_s);
        application = application && isfinite(r->kernels.p[i].app_s);
    }
    out->of_application = !replayed && application;
    for (size_t i = 0; i < r->kernels.n; i++)
        out->in_context_s[i] =
            out->of_application ? r->kernels.p[i].app_s : r->kernels.p[i].in_context_s;
}

/* By time inside the region, or alone where that is not known. */
static void choose_loops(struct arena *a, const struct replay_report *r, struct loops *out)
{
    const size_t n = r->kernels.n;
    double *s = arena_array(a, double, n), sum = 0;
    *out = (struct loops){.alone = arena_array(a, int64_t, n),
                          .pooled = arena_array(a, int64_t, n),
                          .in_front = arena_array(a, int64_t, n)};
    take_times(a, r, out);
    for (size_t i = 0; i < n; i++) {
        const struct replay_kernel *k = &r->kernels.p[i];
        const double one_s = isfinite(out->in_context_s[i]) ? out->in_context_s[i]
                             : k->warm.n                    ? k->warm.median_s
                                                            : 0;
        s[i] = one_s * (double)k->count;
        sum += s[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (r->kernels.p[i].warm.n == 0) /* it fails alone, or is not wanted */
            continue;
        if (r->kernels.p[i].in_front)
            out->in_front[out->n_in_front++] = (int64_t)i;
        if (s[i] >= POOLED_BELOW * sum || r->kernels.p[i].in_front) {
            out->alone[out->n_alone++] = (int64_t)i;
            continue;
        }
        out->pooled[out->n_pooled++] = (int64_t)i;
        out->pooled_ops += r->kernels.p[i].count;
    }
    if (out->n_pooled == 1) /* no pool */
        out->alone[out->n_alone++] = out->pooled[--out->n_pooled];
}

/* The part of a loop that kernels or sets take: kernels_s of them in one round of it. */
static double share_of(const struct replay_held *h, double kernels_s, int64_t loop_ops)
{
    const double round_s = h->time.median_s * (double)loop_ops;
    return kernels_s > 0 && round_s > 0 ? fmin(1, kernels_s / round_s) : NAN;
}

/* sets_s: of the time of one, what its sets take. */
static void set_kernel(struct arena *a, const struct replay_held *h, int64_t loop_ops,
                       double kernels_s, double sets_s, struct kernel_timing *k)
{
    if (h->time.n == 0)
        return;
    k->window = window_of(&h->time);
    k->under = under_of(a, &h->under);
    k->busy_share = share_of(h, kernels_s, loop_ops);
    k->sets_share = share_of(h, sets_s, loop_ops);
    k->benchmark_runs = k->pooled ? h->time.runs / loop_ops * k->invocation_count : h->time.runs;
    if (!k->pooled)
        k->single_time_us = (h->time.median_s - sets_s) * 1e6;
}

static void take_kernels(struct arena *a, const struct replay_report *timed,
                         const struct replay_report *held, const struct loops *loops,
                         struct isolated_timing *out)
{
    out->in_context_from = loops->of_application ? "application" : "replay";
    out->n = timed->kernels.n;
    out->kernels = arena_array(a, struct kernel_timing, out->n);
    for (size_t i = 0; i < out->n; i++) {
        const struct replay_kernel *k = &timed->kernels.p[i];
        out->kernels[i] = (struct kernel_timing){
            .name = k->name,
            .tier = k->tier,
            .invocation_count = k->count,
            .single_time_us = k->warm.n ? k->warm.median_s * 1e6 : (double)NAN,
            .in_context_us = loops->in_context_s[i] * 1e6,
            .as_launched_us = k->as_launched_s * 1e6,
            .application_us = k->app_s * 1e6,
            .with_sets = k->sets,
            .faster_when_repeated = replay_is_suspect(k),
            .busy_share = NAN,
            .sets_share = NAN,
            .under = under_of(a, &(struct gpu_conditions){0})};
    }
    double pooled_s = 0; /* NAN as soon as one is */
    for (size_t i = 0; i < loops->n_pooled; i++) {
        const struct replay_kernel *k = &timed->kernels.p[loops->pooled[i]];
        pooled_s += k->alone_s * (double)k->count;
    }
    for (size_t i = 0; i < loops->n_alone; i++) {
        const struct replay_kernel *k = &timed->kernels.p[loops->alone[i]];
        set_kernel(a, &held->held[1 + i], 1, k->alone_s, k->sets_s, &out->kernels[loops->alone[i]]);
    }
    for (size_t i = 0; i < loops->n_pooled; i++) {
        struct kernel_timing *k = &out->kernels[loops->pooled[i]];
        k->pooled = true;
        set_kernel(a, &held->held[1 + loops->n_alone], loops->pooled_ops, pooled_s, 0, k);
    }
}

static void tell_apart(const struct replay_region *r)
{
    struct replay_apart ways[REPLAY_WAYS];
    replay_apart_of(r, ways);
    for (int i = 0; i < REPLAY_WAYS; i++)
        if (isfinite(ways[i].sum_s) && ways[i].judged && !ways[i].within)
            log_warn("%s, operations take %.1f %% %s in the application: the limit is %g %%",
                     ways[i].way, fabs(ways[i].percent),
                     ways[i].percent < 0 ? "less than" : "more than", ways[i].limit);
}

static void tell_suspects(const struct replay_kernels *k)
{
    for (size_t i = 0; i < k->n; i++)
        if (replay_is_suspect(&k->p[i]))
            log_warn("%.80s: %.3f us repeated, %.3f us inside the region: its power may be that of "
                     "other work",
                     k->p[i].name, k->p[i].warm.median_s * 1e6, k->p[i].in_context_s * 1e6);
}

/* A quick look at all times, which also says what may share a loop; then the loops, in a process
 * that CUPTI is not attached to. */
static enum st replay(void *self, struct arena *a, const struct energy_wish *wish,
                      struct full_timing *full, struct isolated_timing *isolated, struct err *e)
{
    struct region_run *region = self;
    struct replay_capsule_params p = {
        .dir = region->capsule,
        .task = REPLAY_TIME,
        .gpu = region->gpu,
        .timer = {.samples = 5, .sample_s = fmin(0.002, wish->window_s), .stop = &job_stop},
        .limits = region->limits,
        .classes = region->classes,
        .dispatch = -1};
    struct replay_report timed = {0}, held = {0};
    struct loops loops;
    TRY(replay_capsule(a, &p, &timed, e));
    if (timed.region.time.n == 0)
        return err_set(e, ST_INPUT, "%s: the region was not timed", region->capsule);
    region->times = timed.region;
    region->alone_sum_s = replay_sum_s(&timed.kernels);
    choose_loops(a, &timed, &loops);
    tell_apart(&timed.region);
    tell_suspects(&timed.kernels);
    if (timed.region.why_no_nodes)
        log_warn("no times inside the replayed region: %s", timed.region.why_no_nodes);
    p.task = REPLAY_HOLD;
    p.timer.sample_s = fmin(ROUND_S, wish->window_s / 4);
    p.classes = (struct texts){0};
    p.region_runs = wish->runs;
    p.hold_s = wish->window_s;
    p.alone = loops.alone;
    p.n_alone = loops.n_alone;
    p.pooled = loops.pooled;
    p.n_pooled = loops.n_pooled;
    p.in_front = loops.in_front;
    p.n_in_front = loops.n_in_front;
    TRY(replay_capsule(a, &p, &held, e));
    const struct timing *t = &held.held[0].time;
    *full = (struct full_timing){.window = window_of(t),
                                 .num_runs = t->runs,
                                 .inference_us = t->median_s * 1e6,
                                 .min_us = t->min_s * 1e6,
                                 .max_us = t->max_s * 1e6,
                                 .under = under_of(a, &held.held[0].under)};
    take_kernels(a, &timed, &held, &loops, isolated);
    return ST_OK;
}

/* runs= is a list of folders for compare. */
static enum st runs_of(const struct plan *p, int64_t *out, struct err *e)
{
    *out = DEFAULT_RUNS;
    if (p->compare.runs.n == 0)
        return ST_OK;
    if (p->compare.runs.n == 1 && str_int64(sv_of(p->compare.runs.items[0]), out) && *out >= 1 &&
        *out <= 1000000000)
        return ST_OK;
    return err_set(e, ST_USAGE, "runs: energy run takes a number from 1 to 1000000000, got '%s'",
                   p->compare.runs.items[0]);
}

static struct node *window_node(struct arena *a, const struct energy_window *w)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "seconds", node_number(a, w->s));
    node_put(a, n, "from", node_str(a, energy_window_from_name(w->from)));
    node_put(a, n, "percent", node_number(a, w->percent));
    node_put(a, n, "sensor", node_str_or_null(a, w->sensor));
    node_put(a, n, "update_s", node_number(a, w->update_s));
    return n;
}

/* Times of the region and of its operations, summed, in the replay and in the program. */
static struct node *region_node(struct arena *a, const struct region_run *region)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "region_us", node_number(a, region->times.time.median_s * 1e6));
    node_put(a, n, "in_context_sum_us", node_number(a, region->times.nodes_s * 1e6));
    node_put(a, n, "as_launched_sum_us", node_number(a, region->times.as_launched_s * 1e6));
    node_put(a, n, "alone_sum_us", node_number(a, region->alone_sum_s * 1e6));
    node_put(a, n, "application_sum_us", node_number(a, region->times.app_nodes_s * 1e6));
    node_put(a, n, "sums", replay_apart_node(a, &region->times));
    node_put(a, n, "no_as_launched_times", node_str_or_null(a, region->times.why_not_as_launched));
    node_put(a, n, "application_wall_us", node_number(a, region->times.app_wall_s * 1e6));
    return n;
}

static struct node *extra_of(struct job_context *c, const struct energy_run *r,
                             const struct region_run *region)
{
    struct arena *a = c->a;
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "capsule", node_str(a, c->plan->replay.dir));
    node_put(a, n, "gpu", node_int(a, r->board.gpu));
    node_put(a, n, "gpu_name", node_str(a, r->board.name));
    node_put(a, n, "gpu_uuid", node_str(a, r->board.uuid));
    node_put(a, n, "utc_offset_s", node_int(a, r->utc_offset_s));
    node_put(a, n, "power_sensor", energy_sensor_node(a, &r->sensors[SAMPLER_POWER]));
    node_put(a, n, "energy_sensor", energy_sensor_node(a, &r->sensors[SAMPLER_ENERGY]));
    node_put(a, n, "samples", node_int(a, r->counts.samples));
    node_put(a, n, "failed_readings", node_int(a, r->counts.failed));
    node_put(a, n, "late", node_int(a, r->counts.late));
    node_put(a, n, "window", window_node(a, &r->window));
    node_put(a, n, "region", region_node(a, region));
    node_put(a, n, "idle_before", idle_node(a, &r->before));
    node_put(a, n, "idle_after", idle_node(a, &r->after));
    node_put(a, n, "under", gpu_conditions_node(a, &r->under));
    return n;
}

static enum st write_all(struct job_context *c, const struct energy_run *r,
                         const struct region_run *region, const char *id, struct artifact *art,
                         struct err *e)
{
    struct arena *a = c->a;
    TRY(energy_write_report(a, art, &r->report, e));
    TRY(artifact_write_json(art, "full_model_timing.json", full_timing_node(a, &r->full), e));
    TRY(artifact_write_json(art, "isolated_kernels_timing.json",
                            isolated_timing_node(a, &r->isolated), e));
    TRY(replay_timeline_write(a, art, c->plan->replay.dir, e));
    TRY(energy_write_log(art, &r->log, r->board.gpu, r->utc_offset_s, false, e));
    TRY(job_snapshot(c, art, e));
    return artifact_commit(art, energy_meta(c, id, art, "energy", extra_of(c, r, region)), e);
}

static void tell_idle(const char *when, const struct idle *i)
{
    log_info("idle power %s: %.2f W (%.2f to %.2f), SM at %.0f MHz, %.0f C", when, i->power_w,
             i->low_w, i->high_w, i->under.sm_mhz, i->under.celsius_high);
}

/* Before the sensors are probed and idle power is measured, which takes many seconds. */
static enum st check_capsule(struct arena *a, const char *dir, struct err *e)
{
    struct capsule capsule;
    struct capsule_contents contents;
    TRY(capsule_open(a, dir, &capsule, e));
    const enum st st = capsule_contents_open(a, &capsule, &contents, e);
    if (st == ST_OK)
        capsule_contents_close(&contents);
    capsule_close(&capsule);
    return st;
}

enum st energy_run_capsule(struct job_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    struct region_run region = {.capsule = p->replay.dir,
                                .gpu = (int)p->energy.gpu,
                                .limits = p->replay.limits,
                                .classes = p->replay.classes};
    region.limits.stop = &job_stop;
    const struct energy_subject subject = {&region, true, replay};
    struct energy_application application;
    struct energy_run r;
    struct artifact art;
    const char *id, *dir = job_out_dir(c, "energy", &id);
    if (!p->replay.dir) {
        err_set(e, ST_USAGE, "capsule is not set");
        return err_hint(e, "twinfer energy run capsule=runs/capsules/c1 runs=1000");
    }
    struct energy_run_params params = {.gpu = region.gpu,
                                       .interval_s = p->energy.interval_s,
                                       .idle_s = p->energy.duration_s,
                                       .wish = {.window_s = p->energy.window_s},
                                       .percent = p->energy.percent,
                                       .sampler = p->energy.sampler,
                                       .stop = &job_stop};
    TRY(runs_of(p, &params.wish.runs, e));
    TRY(energy_read_application(c, &application, e));
    params.application = application.has_timing;
    params.application_power = application.has_power;
    if (params.application && !params.application_power) {
        err_set(e, ST_USAGE, "application_power is not set: the application ran at another time");
        return err_hint(e, "the folder or file of the energy log that ran beside it");
    }
    TRY(check_capsule(c->a, p->replay.dir, e));
    job_catch_signals();
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = energy_run(c->a, &params, &subject, &r, e);
    if (st == ST_OK)
        st = write_all(c, &r, &region, id, &art, e);
    artifact_discard(&art);
    if (st != ST_OK)
        return st;
    tell_idle("before", &r.before);
    tell_idle("after", &r.after);
    energy_print_report(c, &r.report, dir);
    return ST_OK;
}
