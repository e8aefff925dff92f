#include "kernels/serving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/stats.h"
#include "base/vec.h"

enum { COPY_TO_HOST = 2 /* CUpti_ActivityMemcpyKind: device to host */ };

/* An engine waits for requests where the time between two iterations, without waits for the GPU, is
 * this many times the median, and at least as long as IDLE_LEAST_NS. */
enum { IDLE_MEDIANS = 5, IDLE_LEAST_NS = 20000000 };

const char *serving_kind_name(unsigned kind)
{
    static const char *const names[SERVING_KINDS] = {"full", "piecewise", "none"};
    return kind < SERVING_KINDS ? names[kind] : NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What a call launched. */
struct host_call {
    uint32_t operations, graph_operations, kernels;
    uint32_t graph; /* id; 0 = none */
    bool graph_launch, to_host;
};

static struct host_call *calls_of(const struct kernels *k)
{
    const struct trace *t = k->t;
    struct host_call *calls = mem_alloc((t->calls.n + 1) * sizeof *calls);
    for (size_t i = 0; i < t->ops.n; i++) {
        if (t->ops.call[i] == TRACE_NONE)
            continue;
        struct host_call *c = &calls[t->ops.call[i]];
        const struct trace_sig *s = &t->dict.sigs[t->ops.sig[i]];
        const bool in_graph =
            s->graph || s->kind == TRACE_GRAPH || (t->ops.graph_node && t->ops.graph_node[i]);
        c->operations++;
        c->graph_operations += in_graph;
        c->graph = s->graph ? s->graph : c->graph;
        c->kernels += s->kind == TRACE_KERNEL;
        c->to_host |= s->kind == TRACE_COPY && s->copy_kind == COPY_TO_HOST && !in_graph;
    }
    for (size_t i = 0; i < t->calls.n; i++) {
        struct host_call *c = &calls[i];
        c->graph_launch = c->graph_operations > 0 ||
                          strstr(trace_text(&t->dict, t->calls.name[i]), "GraphLaunch") != NULL;
        if (!c->graph_launch)
            continue;
        c->graph_operations = c->operations;
        c->kernels = 0;
        c->to_host = false;
    }
    return calls;
}

/* The thread that launched most operations. */
static uint32_t engine_thread(const struct trace *t, const struct host_call *calls)
{
    uint64_t *launched = mem_alloc((t->dict.n_threads + 1) * sizeof *launched);
    uint32_t most = 0;
    for (size_t i = 0; i < t->calls.n; i++)
        launched[t->calls.thread[i]] += calls[i].operations;
    for (uint32_t i = 1; i < t->dict.n_threads; i++)
        if (launched[i] > launched[most])
            most = i;
    mem_free(launched);
    return most;
}

/* ---- iterations ------------------------------------------------------------------------------ */

struct serving_search {
    const struct kernels *k;
    const struct host_call *calls;
    struct serving *out;
    VEC(struct serving_iteration) list;
    /* The one that is being found. */
    struct serving_iteration now;
    bool any, between; /* it has a launch; a kernel came behind a graph */
    bool pieces;       /* and a graph behind that */
    uint32_t most;     /* operations of its largest graph */
};

static void begin(struct serving_search *f)
{
    f->now = (struct serving_iteration){.before_ns = -1};
    f->any = f->between = f->pieces = false;
    f->most = 0;
}

static void add_call(struct serving_search *f, size_t i)
{
    const struct trace_calls *c = &f->k->t->calls;
    const struct host_call *x = &f->calls[i];
    struct serving_iteration *s = &f->now;
    if (!f->any) {
        s->first_call = i;
        s->launch_from_ns = c->start_ns[i];
    }
    f->any = true;
    s->last_call = i;
    s->launch_to_ns = c->end_ns[i];
    s->calls++;
    s->operations += x->operations;
    s->graph_operations += x->graph_operations;
    if (!x->graph_launch) {
        f->between |= x->kernels && s->graphs;
        return;
    }
    f->pieces |= f->between;
    s->graphs++;
    if (x->graph_operations > f->most) {
        f->most = x->graph_operations;
        s->graph = x->graph;
    }
}

/* An iteration computes something before it copies. */
static void end(struct serving_search *f)
{
    struct serving_iteration *s = &f->now;
    s->kind = s->graphs == 0 ? SERVING_NONE : f->pieces ? SERVING_PIECES : SERVING_FULL;
    vec_push(&f->list, *s);
    begin(f);
}

static void walk_calls(struct serving_search *f)
{
    const struct trace_calls *c = &f->k->t->calls;
    bool copied = false, computed = false;
    int64_t until = INT64_MAX;
    begin(f);
    for (size_t i = 0; i < c->n; i++) {
        const struct host_call *x = &f->calls[i];
        if (c->thread[i] != f->out->thread || !x->operations)
            continue;
        if (copied && !x->to_host) {
            end(f);
            copied = computed = false;
        } else if (f->list.n == 0 && until < c->start_ns[i] - SERVING_PAUSE_NS) {
            begin(f);
            computed = false;
        }
        add_call(f, i);
        computed |= x->kernels || x->graph_operations;
        copied = x->to_host && computed;
        until = c->end_ns[i];
    }
    if (copied)
        end(f);
}

/* ---- on the GPU ------------------------------------------------------------------------------ */

/* [calls.n] number of the iteration of each, TRACE_NONE = none. */
static uint32_t *iteration_of_calls(const struct serving_search *f)
{
    const size_t n = f->k->t->calls.n;
    uint32_t *of = mem_alloc((n + 1) * sizeof *of);
    for (size_t i = 0; i < n; i++)
        of[i] = TRACE_NONE;
    for (size_t j = 0; j < f->list.n; j++)
        for (size_t i = f->list.p[j].first_call; i <= f->list.p[j].last_call; i++)
            of[i] = (uint32_t)j;
    return of;
}

static void add_operations(struct arena *a, struct serving_search *f)
{
    const struct trace *t = f->k->t;
    const uint8_t *classes = kernels_classes_of(a, f->k);
    uint32_t *of = iteration_of_calls(f);
    for (size_t i = 0; i < t->ops.n; i++) { /* by their starts */
        const uint32_t call = t->ops.call[i], j = call == TRACE_NONE ? TRACE_NONE : of[call];
        if (j == TRACE_NONE) {
            f->out->elsewhere++;
            continue;
        }
        struct serving_iteration *s = &f->list.p[j];
        const int64_t start = t->ops.start_ns[i], stop = t->ops.end_ns[i];
        const int64_t from = s->to_ns > start && s->busy_ns ? s->to_ns : start;
        if (!s->from_ns)
            s->from_ns = start;
        s->busy_ns += stop > from ? stop - from : 0;
        s->to_ns = stop > s->to_ns ? stop : s->to_ns;
        s->class_ns[classes[f->k->name[t->ops.sig[i]]]] += stop - start;
    }
    mem_free(of);
}

/* ---- the host between ------------------------------------------------------------------------ */

/* Time of [from, to) in which some thread of the process waited for the GPU. *at: the first wait
 * that may reach into it; syncs come by their starts. */
static int64_t waits_in(const struct trace *t, uint32_t process, size_t *at, int64_t from,
                        int64_t to)
{
    int64_t sum = 0, until = from;
    while (*at < t->n_syncs && t->syncs[*at].end_ns <= from)
        (*at)++;
    for (size_t i = *at; i < t->n_syncs && t->syncs[i].start_ns < to; i++) {
        const struct trace_sync *s = &t->syncs[i];
        const int64_t begins = s->start_ns > until ? s->start_ns : until;
        const int64_t ends = s->end_ns < to ? s->end_ns : to;
        if (s->process != process || ends <= begins)
            continue;
        sum += ends - begins;
        until = ends;
    }
    return sum;
}

/* The same of a trace without waits: until the last copy that had ended when iteration j began. */
static int64_t wait_for_copy(const struct serving_search *f, size_t j)
{
    const struct serving_iteration *s = &f->list.p[j];
    int64_t until = s[-1].launch_to_ns;
    for (size_t back = 1; back <= 2 && back <= j; back++)
        if (s[-(ptrdiff_t)back].to_ns <= s->launch_from_ns && s[-(ptrdiff_t)back].to_ns > until)
            until = s[-(ptrdiff_t)back].to_ns;
    return until - s[-1].launch_to_ns;
}

static int64_t tokens_of(const struct serving_search *f, size_t j)
{
    const struct serving_iteration *s = &f->list.p[j], *next = s + 1;
    const bool ahead = j + 1 < f->list.n && next->launch_from_ns < s->to_ns;
    return ahead && next->launch_to_ns > s->to_ns ? next->launch_to_ns : s->to_ns;
}

static void add_host(struct serving_search *f)
{
    const struct trace *t = f->k->t;
    const uint32_t process = t->dict.threads[f->out->thread].process;
    int64_t *before = mem_alloc((f->list.n + 1) * sizeof *before);
    size_t n = 0, at = 0;
    for (size_t j = 1; j < f->list.n; j++) {
        struct serving_iteration *s = &f->list.p[j];
        const int64_t from = s[-1].launch_to_ns, to = s->launch_from_ns;
        s->wait_ns = t->n_syncs ? waits_in(t, process, &at, from, to) : wait_for_copy(f, j);
        s->before_ns = to - from - s->wait_ns;
        before[n++] = s->before_ns;
    }
    const double most = stats_median_int64(before, n) * IDLE_MEDIANS;
    mem_free(before);
    for (size_t j = 0; j < f->list.n; j++) {
        struct serving_iteration *s = &f->list.p[j];
        s->after_idle = j == 0 || (s->before_ns >= IDLE_LEAST_NS && (double)s->before_ns > most);
        if (s->after_idle)
            s->before_ns = -1;
        s->tokens_ns = tokens_of(f, j);
        const int64_t from = s->after_idle ? s->launch_from_ns : s[-1].to_ns;
        s->period_ns = s->to_ns > from ? s->to_ns - from : 0;
    }
}

/* ---- the device alone ------------------------------------------------------------------------ */

/* Gap behind an operation where the GPU waits for nothing. */
static double usual_gap_ns(const struct serving_search *f)
{
    double *v = mem_alloc((f->list.n + 1) * sizeof *v);
    size_t n = 0;
    for (size_t i = 0; i < f->list.n; i++) {
        const struct serving_iteration *x = &f->list.p[i];
        if (x->kind == SERVING_FULL && !x->after_idle)
            v[n++] = (double)(x->to_ns - x->from_ns - x->busy_ns) / x->operations;
    }
    if (n)
        qsort(v, n, sizeof *v, order_double);
    const double gap = n ? v[n / 2] : 0;
    mem_free(v);
    return gap;
}

static void add_device(struct serving_search *f)
{
    const double gap = usual_gap_ns(f);
    for (size_t i = 0; i < f->list.n; i++) {
        struct serving_iteration *x = &f->list.p[i];
        const int64_t most = x->to_ns - x->from_ns;
        x->device_ns = x->busy_ns + llround(gap * x->operations);
        x->device_ns = x->device_ns < most ? x->device_ns : most;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum st check_found(const struct serving_search *f, struct err *e)
{
    const struct trace *t = f->k->t;
    if (t->calls.n == 0) {
        err_set(e, ST_INPUT, "%s holds no launches on the host, by which iterations are found",
                t->path);
        return err_hint(e, "record with trace.launches=true");
    }
    if (f->list.n == 0) {
        err_set(e, ST_INPUT, "%s holds no iterations: no work is followed by a copy to the host",
                t->path);
        return err_hint(e, "record with trace.copies=true; of engines that mark their steps with "
                           "ranges kernels.composition takes these");
    }
    return ST_OK;
}

enum st serving_find(struct arena *a, const struct kernels *k, struct serving *out, struct err *e)
{
    struct host_call *calls = calls_of(k);
    struct serving_search f = {.k = k, .calls = calls, .out = out};
    *out = (struct serving){.thread = engine_thread(k->t, calls), .agreement = (double)NAN};
    walk_calls(&f);
    const enum st st = check_found(&f, e);
    if (st == ST_OK) {
        add_operations(a, &f);
        add_host(&f);
        add_device(&f);
        out->n = f.list.n;
        out->of = arena_array(a, struct serving_iteration, out->n);
        memcpy(out->of, f.list.p, out->n * sizeof *out->of);
    }
    vec_free(&f.list);
    mem_free(calls);
    return st;
}
