#include "replay/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/order.h"
#include "base/stats.h"
#include "base/vec.h"

enum {
    FIRST_STEPS = 8,  /* of the graph that shows how long a step is */
    MOST_STEPS = 512, /* of a graph, unless there are more of a kind */
    COLD_STEPS = 32,  /* of a graph with writes between, unless there are up to twice as many */
    MOST_LAUNCHES = 10000,
};
static const size_t default_l2_bytes = (size_t)64 << 20;

/* ---- statistics ------------------------------------------------------------------------------ */

void timing_set(struct timing *t, double *samples, size_t n)
{
    if (n == 0)
        return;
    qsort(samples, n, sizeof *samples, order_double);
    t->n = (int64_t)n;
    t->min_s = samples[0];
    t->low_s = stats_percentile(samples, n, 25);
    t->median_s = stats_percentile(samples, n, 50);
    t->high_s = stats_percentile(samples, n, 75);
    t->max_s = samples[n - 1];
}

void timing_stamp(int64_t wall_ns, char out[TIMING_TEXT])
{
    const time_t s = (time_t)(wall_ns / NS_PER_S);
    const int ms = (int)(wall_ns % NS_PER_S / NS_PER_MS);
    struct tm tm;
    out[0] = 0;
    if (wall_ns > 0 && localtime_r(&s, &tm))
        snprintf(out, TIMING_TEXT, "%04d-%02d-%02d %02d:%02d:%02d.%03d",
                 (tm.tm_year + 1900) % 10000, tm.tm_mon % 12 + 1, tm.tm_mday % 32, tm.tm_hour % 24,
                 tm.tm_min % 60, tm.tm_sec % 61, ms);
}

/* ---- the timer ------------------------------------------------------------------------------- */

static enum st open_parts(struct timer *t, struct err *e)
{
    TRY(gpu_stream_open(t->g, &t->stream, e));
    TRY(gpu_event_open(t->g, true, &t->start, e));
    TRY(gpu_event_open(t->g, true, &t->end, e));
    return gpu_event_open(t->g, true, &t->third, e);
}

enum st timer_open(const struct gpu *g, const struct timer_params *p, struct timer *out,
                   struct err *e)
{
    *out = (struct timer){.g = g, .p = *p};
    if (out->p.samples <= 0)
        out->p.samples = 20;
    if (out->p.sample_s <= 0)
        out->p.sample_s = 0.005;
    if (out->p.warm_up_s <= 0)
        out->p.warm_up_s = fmin(0.05, 10 * out->p.sample_s);
    out->samples = mem_alloc((size_t)out->p.samples * sizeof *out->samples);
    const enum st st = open_parts(out, e);
    if (st != ST_OK)
        timer_close(out);
    return st;
}

void timer_close(struct timer *t)
{
    if (t->g) {
        gpu_free(t->g, &t->flush);
        gpu_event_close(t->g, &t->start);
        gpu_event_close(t->g, &t->end);
        gpu_event_close(t->g, &t->third);
        gpu_stream_close(t->g, &t->stream);
    }
    mem_free(t->samples);
    *t = (struct timer){0};
}

static enum st stopped(const struct timer *t, struct err *e)
{
    return t->p.stop && *t->p.stop ? err_set(e, ST_INTERRUPTED, "interrupted") : ST_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* A step with a write of the whole L2 cache before it; without one it is that write alone. */
struct flushed {
    struct timer *t;
    timer_step *step;
    void *self;
};

static enum st step_flushed(void *self, int64_t i, CUstream stream, struct err *e)
{
    const struct flushed *f = self;
    TRY(gpu_fill(f->t->g, f->t->flush, (unsigned char)i, f->t->flush_bytes, stream, e));
    return f->step ? f->step(f->self, i, stream, e) : ST_OK;
}

enum st timer_capture(struct timer *t, timer_step *step, void *self, int64_t n, CUgraphExec *out,
                      struct err *e)
{
    struct err ended = {0};
    enum st st = ST_OK;
    *out = NULL;
    TRY(gpu_capture_begin(t->g, t->stream, e));
    for (int64_t i = 0; st == ST_OK && i < n; i++)
        st = step(self, i, t->stream, e);
    const enum st end = gpu_capture_end(t->g, t->stream, out, NULL, &ended);
    if (st == ST_OK && end != ST_OK) {
        *e = ended;
        st = end;
    }
    if (st != ST_OK)
        gpu_graph_close(t->g, out);
    return st;
}

static enum st before(struct timer *t, struct err *e)
{
    return t->before ? t->before(t->before_self, t->stream, e) : ST_OK;
}

/* Seconds of device time of n launches. */
static enum st time_launches(struct timer *t, CUgraphExec graph, int64_t n, double *s,
                             struct err *e)
{
    TRY(before(t, e));
    TRY(gpu_event_record(t->g, t->start, t->stream, e));
    for (int64_t i = 0; i < n; i++)
        TRY(gpu_graph_launch(t->g, graph, t->stream, e));
    TRY(gpu_event_record(t->g, t->end, t->stream, e));
    TRY(gpu_event_wait(t->g, t->end, e));
    return gpu_event_s(t->g, t->start, t->end, s, e);
}

/* Launches it until clocks had time to rise; *launches: how many fill a sample. */
static enum st warm_up(struct timer *t, CUgraphExec graph, int64_t *launches, struct err *e)
{
    const int64_t until_ns = clock_mono_ns() + ns_from_s(t->p.warm_up_s);
    double s;
    TRY(stopped(t, e));
    TRY(time_launches(t, graph, 1, &s, e)); /* loads what is loaded late */
    int64_t n = 1;
    do {
        const int64_t from_ns = clock_mono_ns();
        TRY(time_launches(t, graph, n, &s, e));
        s = fmax(s, ns_to_s(clock_mono_ns() - from_ns));
        const double fit = s > 0 ? t->p.sample_s / (s / (double)n) : 1;
        n = fit < 1 ? 1 : fit > MOST_LAUNCHES ? MOST_LAUNCHES : (int64_t)fit + 1;
    } while (clock_mono_ns() < until_ns);
    *launches = n;
    return ST_OK;
}

static void finish(struct timer *t, int64_t runs, int64_t start_wall_ns, struct timing *out)
{
    out->start_wall_ns = start_wall_ns;
    out->end_wall_ns = clock_wall_ns();
    out->runs = runs;
    timing_set(out, t->samples, (size_t)t->p.samples);
}

enum st timer_graph(struct timer *t, CUgraphExec graph, int64_t steps, struct timing *out,
                    struct err *e)
{
    int64_t launches;
    *out = (struct timing){0};
    TRY(warm_up(t, graph, &launches, e));
    const int64_t start_wall_ns = clock_wall_ns();
    for (int64_t i = 0; i < t->p.samples; i++) {
        double s;
        TRY(stopped(t, e));
        TRY(time_launches(t, graph, launches, &s, e));
        t->samples[i] = s / (double)(launches * steps);
    }
    finish(t, t->p.samples * launches * steps, start_wall_ns, out);
    return ST_OK;
}

/* A multiple of cycle, `want` or a little more. */
static int64_t multiple(int64_t want, int64_t cycle)
{
    return (want + cycle - 1) / cycle * cycle;
}

/* How many steps a graph should have, after a look at how long one is. */
static enum st choose_steps(struct timer *t, timer_step *step, void *self, int64_t cycle,
                            int64_t *out, struct err *e)
{
    CUgraphExec graph;
    double s = 0;
    const int64_t first = multiple(FIRST_STEPS, cycle);
    TRY(timer_capture(t, step, self, first, &graph, e));
    enum st st = ST_OK;
    int64_t from_ns = 0;
    for (int i = 0; st == ST_OK && i < 2; i++) {
        from_ns = clock_mono_ns();
        st = time_launches(t, graph, 1, &s, e);
    }
    s = fmax(s, ns_to_s(clock_mono_ns() - from_ns));
    gpu_graph_close(t->g, &graph);
    const double fit = s > 0 ? t->p.sample_s / (s / (double)first) : MOST_STEPS;
    *out = multiple(fit < 1 ? 1 : fit > MOST_STEPS ? MOST_STEPS : (int64_t)fit, cycle);
    return st;
}

enum st timer_warm(struct timer *t, timer_step *step, void *self, int64_t cycle, struct timing *out,
                   struct err *e)
{
    CUgraphExec graph;
    int64_t steps;
    *out = (struct timing){0};
    TRY(choose_steps(t, step, self, cycle, &steps, e));
    TRY(timer_capture(t, step, self, steps, &graph, e));
    const enum st st = timer_graph(t, graph, steps, out, e);
    gpu_graph_close(t->g, &graph);
    return st;
}

static enum st alloc_flush(struct timer *t, struct err *e)
{
    if (t->flush)
        return ST_OK;
    const size_t l2 = t->g->facts.l2_bytes ? t->g->facts.l2_bytes : default_l2_bytes;
    t->flush_bytes = 2 * l2;
    return gpu_alloc(t->g, t->flush_bytes, "the buffer that takes the place of the L2 cache's data",
                     &t->flush, e);
}

/* Samples of `with` less those of `without`, taken in turn. */
static enum st sample_cold(struct timer *t, CUgraphExec with, CUgraphExec without, int64_t steps,
                           struct timing *out, struct err *e)
{
    int64_t launches;
    TRY(warm_up(t, with, &launches, e));
    const int64_t start_wall_ns = clock_wall_ns();
    for (int64_t i = 0; i < t->p.samples; i++) {
        double s, flush_s;
        TRY(stopped(t, e));
        TRY(time_launches(t, with, launches, &s, e));
        TRY(time_launches(t, without, launches, &flush_s, e));
        t->samples[i] = (s - flush_s) / (double)(launches * steps);
    }
    finish(t, t->p.samples * launches * steps, start_wall_ns, out);
    return ST_OK;
}

enum st timer_cold(struct timer *t, timer_step *step, void *self, int64_t cycle, struct timing *out,
                   struct err *e)
{
    struct flushed both = {t, step, self}, alone = {t, NULL, NULL};
    const int64_t steps = multiple(COLD_STEPS, cycle <= 2 * COLD_STEPS ? cycle : 1);
    CUgraphExec with = NULL, without = NULL;
    *out = (struct timing){0};
    TRY(alloc_flush(t, e));
    enum st st = timer_capture(t, step_flushed, &both, steps, &with, e);
    if (st == ST_OK)
        st = timer_capture(t, step_flushed, &alone, steps, &without, e);
    if (st == ST_OK)
        st = sample_cold(t, with, without, steps, out, e);
    gpu_graph_close(t->g, &with);
    gpu_graph_close(t->g, &without);
    return st;
}

/* ---- held ------------------------------------------------------------------------------------ */

static enum st round_of(struct timer *t, CUgraphExec graph, int64_t launches, CUevent end,
                        struct err *e)
{
    TRY(before(t, e));
    for (int64_t i = 0; i < launches; i++)
        TRY(gpu_graph_launch(t->g, graph, t->stream, e));
    return gpu_event_record(t->g, end, t->stream, e);
}

typedef VEC(double) sample_list;

/* Round k ends with event k % 3: one is the last that was waited for, one is waited for, one is in
 * the queue. */
static enum st hold_rounds(struct timer *t, CUgraphExec graph, int64_t launches, int64_t steps,
                           int64_t least_rounds, double s, sample_list *samples, struct timing *out,
                           struct err *e)
{
    CUevent ends[] = {t->start, t->end, t->third};
    int64_t until_ns = 0;
    TRY(round_of(t, graph, launches, ends[0], e));
    for (int64_t k = 0;; k++) {
        double each;
        TRY(stopped(t, e));
        TRY(round_of(t, graph, launches, ends[(k + 1) % 3], e));
        TRY(gpu_event_wait(t->g, ends[k % 3], e));
        out->end_wall_ns = clock_wall_ns();
        if (k == 0) {
            out->start_wall_ns = out->end_wall_ns;
            until_ns = clock_mono_ns() + ns_from_s(s);
            continue;
        }
        TRY(gpu_event_s(t->g, ends[(k - 1) % 3], ends[k % 3], &each, e));
        vec_push(samples, each / (double)(launches * steps));
        out->runs += launches * steps;
        if (k >= least_rounds && clock_mono_ns() >= until_ns)
            return gpu_event_wait(t->g, ends[(k + 1) % 3], e);
    }
}

enum st timer_hold_graph(struct timer *t, CUgraphExec graph, int64_t steps, int64_t least_launches,
                         double s, struct timing *out, struct err *e)
{
    enum { LEAST_ROUNDS = 3 };
    sample_list samples = {0};
    int64_t launches;
    *out = (struct timing){0};
    TRY(warm_up(t, graph, &launches, e));
    const int64_t rounds = (least_launches + launches - 1) / launches;
    const enum st st =
        hold_rounds(t, graph, launches, steps, rounds > LEAST_ROUNDS ? rounds : LEAST_ROUNDS, s,
                    &samples, out, e);
    if (st == ST_OK)
        timing_set(out, samples.p, samples.n);
    vec_free(&samples);
    return st;
}

enum st timer_hold(struct timer *t, timer_step *step, void *self, int64_t cycle, double s,
                   struct timing *out, struct err *e)
{
    CUgraphExec graph;
    int64_t steps;
    TRY(choose_steps(t, step, self, cycle, &steps, e));
    TRY(timer_capture(t, step, self, steps, &graph, e));
    const enum st st = timer_hold_graph(t, graph, steps, 0, s, out, e);
    gpu_graph_close(t->g, &graph);
    return st;
}
