#include "replay/worker.h"

#include <math.h>

#include "gpu/watch.h"
#include "replay/extract.h"
#include "replay/measure.h"
#include "replay/node_times.h"
#include "replay/verify.h"
#include "text/json.h"

static const struct field order_rows[] = {
    FIELD(struct worker_order, dir),
    FIELD(struct worker_order, gpu),
    FIELD(struct worker_order, trial),
    FIELD(struct worker_order, verify),
    FIELD(struct worker_order, time),
    FIELD(struct worker_order, hold),
    FIELD_LIST(struct worker_order, classes, n_classes, "classes"),
    FIELD(struct worker_order, hold_s),
    FIELD_LIST(struct worker_order, alone, n_alone, "alone"),
    FIELD_LIST(struct worker_order, pooled, n_pooled, "pooled"),
    FIELD(struct worker_order, from_loop),
    FIELD(struct worker_order, again),
    FIELD_LIST(struct worker_order, in_front, n_in_front, "in_front"),
    FIELD(struct worker_order, streams),
    FIELD(struct worker_order, cold),
    FIELD(struct worker_order, repeated),
    FIELD(struct worker_order, samples),
    FIELD(struct worker_order, sample_s),
    FIELD(struct worker_order, region_runs),
    FIELD(struct worker_order, tolerance),
    FIELD(struct worker_order, dtype),
    FIELD(struct worker_order, dispatch, .min = -1, .max = 1e9),
    FIELD(struct worker_order, from_class),
    FIELD(struct worker_order, region_s, .optional = true),
    FIELD(struct worker_order, extract, .optional = true),
};
const struct fields worker_order_fields = FIELDS(struct worker_order, order_rows);

static const struct field timing_rows[] = {
    FIELD(struct timing, n),           FIELD(struct timing, runs),
    FIELD(struct timing, median_s),    FIELD(struct timing, low_s),
    FIELD(struct timing, high_s),      FIELD(struct timing, min_s),
    FIELD(struct timing, max_s),       FIELD(struct timing, start_wall_ns),
    FIELD(struct timing, end_wall_ns),
};
const struct fields worker_timing_fields = FIELDS(struct timing, timing_rows);

struct replay_worker {
    struct arena *a;
    struct worker_order order;
    const volatile sig_atomic_t *stop;
    struct capsule capsule;
    struct place place;
    struct load load;
    struct program program;
    struct issue issue;
    struct replay_classes classes;
    bool *chosen;   /* [classes.n] */
    bool *timed;    /* [classes.n] alone, by this process */
    bool *in_front; /* [classes.n] */
    struct measure measure;
    struct gpu_watch *watch;
};

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(struct replay_worker *w, const char *key, struct node *value)
{
    struct node *map = node_new(w->a, NODE_MAP);
    struct buf text = {0};
    node_put(w->a, map, key, value);
    json_write(&text, map, 0, false);
    printf("%s\n", buf_str(&text));
    fflush(stdout);
    buf_free(&text);
}

static void answer_error(struct replay_worker *w, const struct err *e)
{
    struct node *map = node_new(w->a, NODE_MAP);
    struct node *list = node_put(w->a, map, "causes", node_new(w->a, NODE_LIST));
    for (int i = 0; err_cause(e, i); i++)
        node_push(w->a, list, node_str(w->a, err_cause(e, i)));
    node_put(w->a, map, "status", node_int(w->a, e->st));
    node_put(w->a, map, "hint", node_str_or_null(w->a, err_hint_text(e)));
    answer(w, "error", map);
}

static struct node *timing_node(struct replay_worker *w, const struct timing *t)
{
    return fields_node(w->a, &worker_timing_fields, t);
}

static struct node *triple(struct arena *a, const uint32_t v[3])
{
    struct node *list = node_new(a, NODE_LIST);
    for (int i = 0; i < 3; i++)
        node_push(a, list, node_int(a, v[i]));
    return list;
}

static struct node *class_node(struct arena *a, const struct replay_class *k, bool chosen)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "chosen", node_bool(a, chosen));
    node_put(a, n, "class", node_int(a, (int64_t)k->number));
    node_put(a, n, "name", node_str(a, k->name));
    node_put(a, n, "mangled", node_str_or_null(a, k->mangled));
    node_put(a, n, "tier", node_int(a, k->tier));
    node_put(a, n, "count", node_int(a, (int64_t)k->n));
    node_put(a, n, "first", node_int(a, (int64_t)k->ops[0]));
    node_put(a, n, "app_s", node_number(a, k->app_s));
    node_put(a, n, "sets", node_int(a, (int64_t)k->sets));
    if (k->mangled) {
        node_put(a, n, "grid", triple(a, k->grid));
        node_put(a, n, "block", triple(a, k->block));
        node_put(a, n, "shared_bytes", node_int(a, k->shared_bytes));
    } else {
        node_put(a, n, "bytes", node_int(a, (int64_t)k->bytes));
    }
    return n;
}

/* Whether the program launched most of its operations in graphs. */
static bool mostly_graphs(const struct capsule *c)
{
    size_t work = 0, in_graphs = 0;
    for (size_t i = 0; i < c->n_ops; i++) {
        work += program_is_work(&c->ops[i]);
        in_graphs += program_is_work(&c->ops[i]) && c->ops[i].graph;
    }
    return 2 * in_graphs > work;
}

static void answer_loaded(struct replay_worker *w)
{
    struct arena *a = w->a;
    const struct gpu_device *d = &w->load.g.facts;
    struct node *n = node_new(a, NODE_MAP), *list = node_new(a, NODE_LIST);
    char uuid[GPU_UUID_TEXT];
    gpu_uuid_text(d->uuid, uuid);
    node_put(a, n, "gpu", node_str(a, d->name));
    node_put(a, n, "uuid", node_str(a, uuid));
    for (size_t i = 0; i < w->classes.n; i++)
        node_push(a, list, class_node(a, &w->classes.p[i], w->chosen[i]));
    node_put(a, n, "classes", list);
    node_put(a, n, "app_s", node_number(a, w->classes.app_s));
    node_put(a, n, "app_wall_s", node_float(a, (double)w->capsule.facts->wall_ns / 1e9));
    node_put(a, n, "operations", node_int(a, (int64_t)w->program.n_ops));
    node_put(a, n, "graphs", node_bool(a, mostly_graphs(&w->capsule)));
    answer(w, "loaded", n);
}

static struct node *apart_node(struct arena *a, const struct verified *v,
                               const struct verify_apart *x)
{
    struct node *list = node_new(a, v->apart_known ? NODE_LIST : NODE_NULL);
    if (v->apart_known) {
        node_push(a, list, node_int(a, (int64_t)x->low));
        node_push(a, list, node_int(a, (int64_t)x->high));
    }
    return list;
}

/* An operation by its number and name. */
static struct node *op_node(struct replay_worker *w, size_t op)
{
    struct node *n = node_new(w->a, NODE_MAP);
    node_put(w->a, n, "dispatch", node_int(w->a, (int64_t)op));
    node_put(w->a, n, "name", node_str(w->a, load_name(&w->load, op)));
    return n;
}

static struct node *source_node(struct replay_worker *w, const struct source *s)
{
    if (!s->found)
        return node_new(w->a, NODE_NULL);
    struct node *n = op_node(w, s->last);
    node_put(w->a, n, "first_dispatch", node_int(w->a, (int64_t)s->first));
    return n;
}

static struct node *writers_node(struct replay_worker *w, const struct verified *v)
{
    struct node *list = node_new(w->a, NODE_LIST);
    for (size_t i = 0; i < v->n_writers; i++) {
        const struct verify_writer *x = &v->writers[i];
        struct node *n = op_node(w, x->op);
        node_put(w->a, n, "bytes", node_int(w->a, (int64_t)x->bytes));
        node_put(w->a, n, "wrong_bytes", node_int(w->a, (int64_t)x->wrong));
        node_put(w->a, n, "unsettled_bytes", node_int(w->a, (int64_t)x->unsettled));
        node_push(w->a, list, n);
    }
    return list;
}

static void answer_verified(struct replay_worker *w, const struct verified *v)
{
    static const char *const verdicts[] = {[VERIFY_SAME] = "same",
                                           [VERIFY_WRONG] = "wrong",
                                           [VERIFY_UNLIKE] = "unlike",
                                           [VERIFY_UNCHANGED] = "unchanged"};
    struct arena *a = w->a;
    struct node *n = node_new(a, NODE_MAP);
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {{"compared_bytes", v->compared},   {"changed_bytes", v->changed},
                {"rewritten_bytes", v->rewritten}, {"wrong_bytes", v->wrong},
                {"unsettled_bytes", v->unsettled}, {"nondeterministic_bytes", v->nondeterministic},
                {"undefined_bytes", v->undefined}, {"tolerated_bytes", v->tolerated},
                {"replays", (uint64_t)v->replays}, {"more_writers", v->more_writers}};
    node_put(a, n, "verdict", node_str(a, verdicts[v->verdict]));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        node_put(a, n, rows[i].key, node_int(a, (int64_t)rows[i].value));
    node_put(a, n, "first_wrong",
             v->first_wrong
                 ? node_str(a, arena_printf(a, "0x%llx", (unsigned long long)v->first_wrong))
                 : node_new(a, NODE_NULL));
    node_put(a, n, "worst_tolerated",
             v->tolerated ? node_number(a, v->worst) : node_new(a, NODE_NULL));
    node_put(a, n, "replays_apart_bytes", apart_node(a, v, &v->replays_apart));
    node_put(a, n, "program_apart_bytes", apart_node(a, v, &v->program_apart));
    node_put(a, n, "varies_from", source_node(w, &v->source));
    node_put(a, n, "writers", writers_node(w, v));
    node_put(a, n, "writers_complete", node_bool(a, !v->writers_cut));
    answer(w, "verified", n);
}

static struct node *conditions_node(struct replay_worker *w)
{
    const struct gpu_conditions c = gpu_watch_take(w->watch);
    struct node *n = node_new(w->a, NODE_MAP);
    node_put(w->a, n, "samples", node_int(w->a, c.samples));
    node_put(w->a, n, "sm_mhz", node_number(w->a, c.sm_mhz));
    node_put(w->a, n, "sm_mhz_low", node_number(w->a, c.sm_mhz_low));
    node_put(w->a, n, "memory_mhz", node_number(w->a, c.memory_mhz));
    node_put(w->a, n, "power_w", node_number(w->a, c.power_w));
    node_put(w->a, n, "celsius_high", node_number(w->a, c.celsius_high));
    node_put(w->a, n, "reasons", node_int(w->a, (int64_t)c.reasons));
    return n;
}

/* ---- work ------------------------------------------------------------------------------------ */

static enum st do_trial(struct replay_worker *w, struct err *e)
{
    TRY(load_restore(&w->load, 0, e));
    TRY(issue_serial(&w->load, &w->program, NULL, NULL, e));
    answer(w, "trial", node_bool(w->a, true));
    return ST_OK;
}

static enum st do_verify(struct replay_worker *w, struct err *e)
{
    const struct verify_params p = {.streams = w->order.streams,
                                    .tolerance = w->order.tolerance,
                                    .dtype = (enum verify_dtype)w->order.dtype,
                                    .stop = w->stop};
    struct verified v;
    TRY(verify_region(&w->load, &w->program, &p, &v, e));
    answer_verified(w, &v);
    return ST_OK;
}

static enum st time_repeated(struct replay_worker *w, size_t i, double region_s,
                             const struct measured_class *alone, struct err *e)
{
    struct timing repeated;
    struct node *n = node_new(w->a, NODE_MAP);
    answer(w, "begin_repeated", node_int(w->a, (int64_t)i));
    TRY(measure_repeated(&w->measure, i, region_s, alone, &repeated, e));
    node_put(w->a, n, "class", node_int(w->a, (int64_t)i));
    node_put(w->a, n, "timing", timing_node(w, &repeated));
    answer(w, "repeated", n);
    return ST_OK;
}

static enum st time_class(struct replay_worker *w, size_t i, double region_s, struct err *e)
{
    struct measured_class alone;
    struct node *n = node_new(w->a, NODE_MAP);
    answer(w, "begin", node_int(w->a, (int64_t)i));
    TRY(measure_class(&w->measure, i, w->order.cold, &alone, e));
    node_put(w->a, n, "class", node_int(w->a, (int64_t)i));
    node_put(w->a, n, "warm", timing_node(w, &alone.warm));
    node_put(w->a, n, "cold", timing_node(w, &alone.cold));
    node_put(w->a, n, "sets_s", node_number(w->a, alone.sets_s));
    answer(w, "class", n);
    w->timed[i] = true;
    return w->order.repeated && w->order.dispatch < 0 ? time_repeated(w, i, region_s, &alone, e)
                                                      : ST_OK;
}

typedef enum st times_of(struct load *l, struct issue *i, double *op_s, const char **why,
                         struct err *e);

/* Mean of one of each class, and the sum of all. */
static enum st do_nodes(struct replay_worker *w, const char *key, times_of *of, struct err *e)
{
    const char *why;
    double *op_s = arena_array(w->a, double, w->capsule.n_ops), sum = 0;
    struct node *n = node_new(w->a, NODE_MAP), *list = node_new(w->a, NODE_LIST);
    TRY(load_reset(&w->load, e));
    TRY(of(&w->load, &w->issue, op_s, &why, e));
    for (size_t k = 0; !why && k < w->classes.n; k++) {
        const struct replay_class *c = &w->classes.p[k];
        double s = 0;
        for (size_t i = 0; i < c->n; i++)
            s += op_s[c->ops[i]];
        sum += s;
        node_push(w->a, list, node_number(w->a, s / (double)c->n));
    }
    node_put(w->a, n, "classes", list);
    node_put(w->a, n, "sum_s", why ? node_new(w->a, NODE_NULL) : node_number(w->a, sum));
    node_put(w->a, n, "why", node_str_or_null(w->a, why));
    answer(w, key, n);
    return ST_OK;
}

static enum st graph_alone(void *self, size_t i, CUgraphExec *out, int64_t *ops, const char **name,
                           struct err *e)
{
    struct replay_worker *w = self;
    *name = w->classes.p[i].mangled;
    return w->timed[i] ? measure_class_graph(&w->measure, i, out, ops, e) : ST_OK;
}

/* How long one of each class runs alone, without the gap to the next. */
static enum st do_alone(struct replay_worker *w, struct err *e)
{
    const char *why;
    double *alone_s = arena_array(w->a, double, w->classes.n + 1);
    struct node *list = node_new(w->a, NODE_LIST);
    TRY(node_times_alone(&w->load, w->measure.timer.stream, graph_alone, w, w->classes.n, alone_s,
                         &why, e));
    for (size_t i = 0; i < w->classes.n; i++)
        node_push(w->a, list, node_number(w->a, alone_s[i]));
    answer(w, "alone", list);
    return ST_OK;
}

/* Where so many launches are wanted that the samples must be longer, a few short ones say how long.
 */
static enum st time_region(struct replay_worker *w, struct timing *out, struct err *e)
{
    struct timer_params *p = &w->measure.timer.p;
    const struct timer_params as_given = *p;
    if (w->order.region_runs > 0 && !w->order.streams) {
        p->samples = p->samples < 3 ? p->samples : 3;
        p->sample_s = fmin(p->sample_s, 0.02);
        TRY(measure_region(&w->measure, false, out, e));
        *p = as_given;
        p->sample_s =
            fmax(p->sample_s, out->median_s * (double)w->order.region_runs / (double)p->samples);
    }
    const enum st st = measure_region(&w->measure, w->order.streams, out, e);
    *p = as_given;
    return st;
}

static enum st put_back(void *self, CUstream stream, struct err *e)
{
    return load_again(self, stream, e);
}

/* Memory is put back between samples where the region, or a class, cannot be repeated otherwise. */
static void set_again(struct replay_worker *w)
{
    if (!w->order.again)
        return;
    w->measure.timer.before = put_back;
    w->measure.timer.before_self = &w->load;
}

static enum st do_time(struct replay_worker *w, struct err *e)
{
    const struct timer_params p = {
        .samples = w->order.samples, .sample_s = w->order.sample_s, .stop = w->stop};
    double region_s = w->order.region_s;
    struct timing region;
    w->measure = (struct measure){
        .l = &w->load, .classes = &w->classes, .issue = &w->issue, .in_front = w->in_front};
    TRY(timer_open(&w->load.g, &p, &w->measure.timer, e));
    set_again(w);
    TRY(load_restore(&w->load, 0, e));
    if (w->order.dispatch > 0) { /* what it reads is what those before it leave */
        struct program before;
        program_build(w->a, &w->capsule, 0, (size_t)w->order.dispatch, &before);
        TRY(issue_serial(&w->load, &before, NULL, NULL, e));
        w->load.as_it_is = true;
    } else {
        TRY(load_keep(&w->load, e));
    }
    gpu_watch_take(w->watch);
    if (w->order.dispatch < 0 && w->order.from_class == 0) {
        TRY(time_region(w, &region, e));
        region_s = region.median_s;
        answer(w, "region", timing_node(w, &region));
    }
    for (size_t i = (size_t)w->order.from_class; i < w->classes.n; i++)
        if (w->chosen[i])
            TRY(time_class(w, i, region_s, e));
    if (w->order.dispatch >= 0)
        return ST_OK;
    answer(w, "begin_nodes", node_bool(w->a, true));
    TRY(do_nodes(w, "nodes", node_times, e));
    TRY(do_nodes(w, "as_launched", node_times_as_launched, e));
    return do_alone(w, e);
}

/* ---- loops for a sensor of power ------------------------------------------------------------- */

static enum st check_loops(const struct replay_worker *w, struct err *e)
{
    const struct worker_order *o = &w->order;
    bool ok = true;
    for (size_t i = 0; i < o->n_alone; i++)
        ok = ok && o->alone[i] >= 0 && (uint64_t)o->alone[i] < w->classes.n;
    for (size_t i = 0; i < o->n_pooled; i++)
        ok = ok && o->pooled[i] >= 0 && (uint64_t)o->pooled[i] < w->classes.n;
    return ok ? ST_OK
              : err_set(e, ST_INPUT, "the capsule has changed: it has %zu kinds of operations",
                        w->classes.n);
}

/* The operations of the pooled classes, in the order of the region. */
static uint32_t *pooled_ops(struct replay_worker *w, size_t *n)
{
    bool *in = arena_array(w->a, bool, w->classes.n);
    uint32_t *ops = arena_array(w->a, uint32_t, w->capsule.n_ops);
    *n = 0;
    for (size_t i = 0; i < w->order.n_pooled; i++)
        in[w->order.pooled[i]] = true;
    for (size_t i = 0; i < w->capsule.n_ops; i++)
        if (w->classes.of[i] != CAPSULE_NONE && in[w->classes.of[i]])
            ops[(*n)++] = (uint32_t)i;
    return ops;
}

static enum st hold_loop(struct replay_worker *w, size_t loop, struct timing *out, struct err *e)
{
    const struct worker_order *o = &w->order;
    if (loop == 0) /* its window loses its edges (energy_trim) */
        return measure_hold_region(&w->measure, o->region_runs, 2 * o->hold_s, out, e);
    if (loop <= o->n_alone) {
        const struct replay_class *k = &w->classes.p[o->alone[loop - 1]];
        return measure_hold(&w->measure, k->ops, k->n, w->in_front[o->alone[loop - 1]], o->hold_s,
                            out, e);
    }
    size_t n;
    const uint32_t *ops = pooled_ops(w, &n);
    return measure_hold(&w->measure, ops, n, false, o->hold_s, out, e);
}

static enum st do_hold(struct replay_worker *w, struct err *e)
{
    const struct worker_order *o = &w->order;
    const struct timer_params p = {.samples = o->samples, .sample_s = o->sample_s, .stop = w->stop};
    const size_t loops = 1 + o->n_alone + (o->n_pooled > 0);
    w->measure = (struct measure){
        .l = &w->load, .classes = &w->classes, .issue = &w->issue, .in_front = w->in_front};
    TRY(check_loops(w, e));
    TRY(timer_open(&w->load.g, &p, &w->measure.timer, e));
    set_again(w);
    TRY(load_restore(&w->load, 0, e));
    TRY(load_keep(&w->load, e));
    for (size_t loop = (size_t)o->from_loop; loop < loops; loop++) {
        struct timing t;
        struct node *n = node_new(w->a, NODE_MAP);
        answer(w, "begin", node_int(w->a, (int64_t)loop));
        gpu_watch_take(w->watch);
        TRY(hold_loop(w, loop, &t, e));
        node_put(w->a, n, "loop", node_int(w->a, (int64_t)loop));
        node_put(w->a, n, "timing", timing_node(w, &t));
        node_put(w->a, n, "under", conditions_node(w));
        answer(w, "held", n);
    }
    return ST_OK;
}

static enum st do_extract(struct replay_worker *w, struct err *e)
{
    struct extracted x;
    struct node *n = node_new(w->a, NODE_MAP);
    TRY(extract_op(&w->load, (size_t)w->order.dispatch, w->order.extract, &x, e));
    node_put(w->a, n, "bytes", node_int(w->a, (int64_t)x.memory_bytes));
    node_put(w->a, n, "file_bytes", node_int(w->a, (int64_t)x.file_bytes));
    node_put(w->a, n, "allocations", node_int(w->a, (int64_t)x.allocations));
    node_put(w->a, n, "sets", node_int(w->a, (int64_t)x.sets));
    answer(w, "extracted", n);
    return ST_OK;
}

/* The operation alone: the only one of its class. */
static void keep_dispatch(struct replay_worker *w)
{
    const uint32_t op = (uint32_t)w->order.dispatch;
    struct replay_class *k = &w->classes.p[w->classes.of[op]];
    k->ops = arena_copy(w->a, &op, sizeof op);
    k->n = 1;
    k->sets = w->classes.with[op].n;
    w->chosen[0] = true;
    w->classes.p = k;
    w->classes.n = 1;
}

static enum st check_dispatch(const struct replay_worker *w, struct err *e)
{
    const int64_t i = w->order.dispatch;
    if (i < 0 || ((uint64_t)i < w->capsule.n_ops && program_is_work(&w->capsule.ops[i])))
        return ST_OK;
    err_set(e, ST_INPUT, "the capsule has no launch, copy or set with number %lld", (long long)i);
    return err_hint(e,
                    "isolated_kernels_timing.json of a replay has the number of the first of each "
                    "kind, first_dispatch; they count from 0 to %zu",
                    w->capsule.n_ops ? w->capsule.n_ops - 1 : 0);
}

static enum st work(struct replay_worker *w, struct err *e)
{
    const struct worker_order *o = &w->order;
    char uuid[GPU_UUID_TEXT];
    TRY(capsule_open(w->a, o->dir, &w->capsule, e));
    TRY(check_dispatch(w, e));
    TRY(place_plan(w->a, &w->capsule, &w->place, e));
    enum st st = place_check(&w->place, e);
    if (st == ST_OK)
        st = load_open(w->a, &w->capsule, &w->place, (int)o->gpu, &w->load, e);
    if (st != ST_OK && w->place.taken) {
        err_clear(e);
        answer(w, "taken",
               node_str(w->a, arena_printf(w->a, "0x%llx", (unsigned long long)w->place.taken)));
        return ST_OK;
    }
    TRY(st);
    program_build(w->a, &w->capsule, 0, w->capsule.n_ops, &w->program);
    replay_classes_find(&w->load, &w->classes);
    w->chosen = arena_array(w->a, bool, w->classes.n + 1);
    w->timed = arena_array(w->a, bool, w->classes.n + 1);
    w->in_front = arena_array(w->a, bool, w->classes.n + 1);
    for (size_t i = 0; i < o->n_in_front; i++)
        if (o->in_front[i] >= 0 && (uint64_t)o->in_front[i] < w->classes.n)
            w->in_front[o->in_front[i]] = true;
    TRY(replay_classes_choose(w->classes.p, w->classes.n, o->classes, o->n_classes, w->chosen, e));
    if (o->dispatch >= 0 && !o->extract)
        keep_dispatch(w);
    TRY(issue_open(&w->load, &w->program, &w->issue, e));
    gpu_uuid_text(w->load.g.facts.uuid, uuid);
    gpu_watch_open(uuid, o->hold ? 50 : 20, &w->watch); /* a call takes milliseconds */
    answer_loaded(w);
    if (o->trial)
        TRY(do_trial(w, e));
    if (o->verify)
        TRY(do_verify(w, e));
    if (o->extract)
        TRY(do_extract(w, e));
    if (o->time)
        TRY(do_time(w, e));
    if (o->hold)
        TRY(do_hold(w, e));
    answer(w, "done", conditions_node(w));
    return ST_OK;
}

static void close_all(struct replay_worker *w)
{
    gpu_watch_close(&w->watch);
    timer_close(&w->measure.timer);
    issue_close(&w->issue);
    load_close(&w->load);
    capsule_close(&w->capsule);
    arena_free(&w->a);
}

int replay_worker(const char *order, const volatile sig_atomic_t *stop)
{
    struct replay_worker w = {.a = arena_new(), .stop = stop};
    static struct err e; /* static because it is large */
    struct node *map;
    enum st st = json_parse(w.a, "the order", sv_of(order), NULL, &map, &e);
    if (st == ST_OK)
        st = fields_read(w.a, &worker_order_fields, map, &w.order, &e);
    if (st == ST_OK)
        st = work(&w, &e);
    if (st != ST_OK)
        answer_error(&w, &e);
    close_all(&w);
    return 0;
}
