#include "replay/measure.h"

#include <math.h>

#include "base/clock.h"
#include "gpu/stream.h"

enum { MOST_INSTANCES = 512, MOST_TIMES = 9 };

static enum st time_graph(struct measure *m, const struct issue_repeat *repeat, struct timing *out,
                          struct err *e)
{
    CUgraphExec graph;
    TRY(issue_graph(m->issue, repeat, &graph, e));
    const enum st st = timer_graph(&m->timer, graph, 1, out, e);
    gpu_graph_close(&m->l->g, &graph);
    return st;
}

/* Event to event around the streams' work: the host's calls count where the GPU waits for them. */
static enum st time_streams(struct measure *m, struct timing *out, struct err *e)
{
    struct timer *t = &m->timer;
    const struct gpu *g = &m->l->g;
    *out = (struct timing){.runs = t->p.samples, .start_wall_ns = clock_wall_ns()};
    for (int64_t i = -1; i < t->p.samples; i++) { /* the first warms up */
        TRY(gpu_event_record(g, t->start, m->issue->origin, e));
        TRY(issue_streams(m->issue, NULL, e));
        TRY(gpu_event_record(g, t->end, m->issue->origin, e));
        TRY(gpu_event_wait(g, t->end, e));
        TRY(gpu_event_s(g, t->start, t->end, &t->samples[i < 0 ? 0 : i], e));
    }
    out->end_wall_ns = clock_wall_ns();
    timing_set(out, t->samples, (size_t)t->p.samples);
    return ST_OK;
}

enum st measure_region(struct measure *m, bool streams, struct timing *out, struct err *e)
{
    TRY(load_reset(m->l, e));
    const enum st st = streams ? time_streams(m, out, e) : time_graph(m, NULL, out, e);
    return st == ST_OK ? ST_OK : err_add(e, "cannot time the region");
}

/* ---- classes --------------------------------------------------------------------------------- */

struct instances {
    struct load *l;
    const uint32_t *ops;
    size_t n;
    const struct reach_sets *with; /* [n_ops of the capsule] */
    const bool *listed;            /* [n_ops] is among ops; NULL = no set is */
};

static struct instances instances_of(const struct measure *m, const uint32_t *ops, size_t n)
{
    return (struct instances){.l = m->l, .ops = ops, .n = n, .with = m->classes->with};
}

/* Memory as the operations find it that are repeated: at the region's begin, or in front of the
 * first, which is the only one left then. Nothing puts it back between samples there. */
static enum st set_memory(struct measure *m, bool in_front, struct instances *x, struct err *e)
{
    struct program before;
    TRY(load_reset(m->l, e));
    if (!in_front)
        return ST_OK;
    x->n = 1;
    m->timer.before = NULL;
    program_build(m->l->a, m->l->c, 0, x->ops[0], &before);
    return issue_serial(m->l, &before, NULL, NULL, e);
}

static bool is_in_front(const struct measure *m, size_t class)
{
    return m->in_front && m->in_front[class];
}

static enum st step_sets(void *self, int64_t i, CUstream stream, struct err *e)
{
    const struct instances *x = self;
    const struct reach_sets *sets = &x->with[x->ops[(size_t)i % x->n]];
    for (size_t k = 0; k < sets->n; k++)
        if (!x->listed || !x->listed[sets->ops[k]])
            TRY(issue_op(x->l, sets->ops[k], false, stream, e));
    return ST_OK;
}

static enum st step(void *self, int64_t i, CUstream stream, struct err *e)
{
    const struct instances *x = self;
    TRY(step_sets(self, i, stream, e));
    return issue_op(x->l, x->ops[(size_t)i % x->n], false, stream, e);
}

static void take_off(struct timing *t, double s)
{
    t->median_s -= s;
    t->low_s -= s;
    t->high_s -= s;
    t->min_s -= s;
    t->max_s -= s;
}

/* Their sets alone, off the times of both. */
static enum st time_sets(struct measure *m, struct instances *x, struct measured_class *out,
                         struct err *e)
{
    struct timing sets;
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        n += x->with[x->ops[i]].n;
    if (n == 0)
        return ST_OK;
    TRY(timer_warm(&m->timer, step_sets, x, (int64_t)x->n, &sets, e));
    out->sets_s = sets.median_s;
    take_off(&out->warm, sets.median_s);
    if (out->cold.n == 0)
        return ST_OK;
    TRY(timer_cold(&m->timer, step_sets, x, (int64_t)x->n, &sets, e));
    take_off(&out->cold, sets.median_s);
    return ST_OK;
}

enum st measure_class(struct measure *m, size_t class, bool cold, struct measured_class *out,
                      struct err *e)
{
    const struct replay_class *k = &m->classes->p[class];
    struct instances x = instances_of(m, k->ops, k->n < MOST_INSTANCES ? k->n : MOST_INSTANCES);
    const struct timer as_it_was = m->timer;
    *out = (struct measured_class){0};
    enum st st = set_memory(m, is_in_front(m, class), &x, e);
    if (st == ST_OK)
        st = timer_warm(&m->timer, step, &x, (int64_t)x.n, &out->warm, e);
    if (st == ST_OK && cold)
        st = timer_cold(&m->timer, step, &x, (int64_t)x.n, &out->cold, e);
    if (st == ST_OK)
        st = time_sets(m, &x, out, e);
    m->timer.before = as_it_was.before;
    return st == ST_OK ? ST_OK : err_add(e, "cannot time %.200s alone", k->name);
}

enum st measure_class_graph(struct measure *m, size_t class, CUgraphExec *out, int64_t *ops,
                            struct err *e)
{
    enum { MOST_RECORDED = 64 };
    const struct replay_class *k = &m->classes->p[class];
    struct instances x = instances_of(m, k->ops, k->n < MOST_RECORDED ? k->n : MOST_RECORDED);
    const struct timer as_it_was = m->timer;
    TRY(set_memory(m, is_in_front(m, class), &x, e));
    m->timer.before = as_it_was.before; /* of no use to a graph that is only captured */
    *ops = (int64_t)x.n;
    return timer_capture(&m->timer, step, &x, *ops, out, e);
}

/* ---- for a sensor of power ------------------------------------------------------------------- */

enum st measure_hold_region(struct measure *m, int64_t launches, double s, struct timing *out,
                            struct err *e)
{
    CUgraphExec graph;
    TRY(load_reset(m->l, e));
    TRY(issue_graph(m->issue, NULL, &graph, e));
    const enum st st = timer_hold_graph(&m->timer, graph, 1, launches, s, out, e);
    gpu_graph_close(&m->l->g, &graph);
    return st == ST_OK ? ST_OK : err_add(e, "cannot repeat the region");
}

enum st measure_hold(struct measure *m, const uint32_t *ops, size_t n, bool in_front, double s,
                     struct timing *out, struct err *e)
{
    struct instances x = instances_of(m, ops, n);
    bool *listed = arena_array(m->l->a, bool, m->l->c->n_ops);
    const struct timer as_it_was = m->timer;
    *out = (struct timing){0};
    for (size_t i = 0; i < n; i++)
        listed[ops[i]] = true;
    x.listed = listed;
    enum st st = set_memory(m, in_front, &x, e);
    if (st == ST_OK)
        st = timer_hold(&m->timer, step, &x, (int64_t)x.n, s, out, e);
    m->timer.before = as_it_was.before;
    return st == ST_OK ? ST_OK : err_add(e, "cannot repeat %zu operations alone", x.n);
}

enum st measure_repeated(struct measure *m, size_t class, double region_s,
                         const struct measured_class *alone, struct timing *out, struct err *e)
{
    const struct replay_class *k = &m->classes->p[class];
    const double once_s = alone->warm.median_s * (double)k->n;
    double more = once_s > 0 ? ceil(region_s / 5 / once_s) : 1;
    more = more < 1 ? 1 : more > MOST_TIMES - 1 ? MOST_TIMES - 1 : more;
    const struct issue_repeat repeat = {m->classes->of, (uint32_t) class, 1 + (int)more,
                                        m->classes->with};
    struct timing t;
    *out = (struct timing){0};
    TRY(load_reset(m->l, e));
    if (time_graph(m, &repeat, &t, e) != ST_OK)
        return err_add(e, "cannot time the region with %.200s repeated", k->name);
    const double extra = more * (double)k->n;
    *out = t;
    out->median_s = (t.median_s - region_s) / extra;
    out->low_s = (t.low_s - region_s) / extra;
    out->high_s = (t.high_s - region_s) / extra;
    out->min_s = (t.min_s - region_s) / extra;
    out->max_s = (t.max_s - region_s) / extra;
    take_off(out, alone->sets_s);
    return ST_OK;
}
