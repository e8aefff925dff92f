#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "trace/join.h"

/* ---- filling ---- */

static size_t grown(size_t cap)
{
    return cap ? cap * 2 : 1024;
}

#define GROW(p, cap) ((p) = mem_resize((p), (cap) * sizeof *(p)))

/* Record indices have 32 bits. */
static enum st check_room(size_t n, struct err *e)
{
    return n < TRACE_NONE - 1 ? ST_OK : err_set(e, ST_INPUT, "more than %zu records", n);
}

static enum st add_op(void *self, const struct trace_op *r, struct err *e)
{
    struct trace_ops *o = &((struct trace *)self)->ops;
    TRY(check_room(o->n, e));
    if (o->n == o->cap) {
        o->cap = grown(o->cap);
        GROW(o->start_ns, o->cap);
        GROW(o->end_ns, o->cap);
        GROW(o->sig, o->cap);
        GROW(o->correlation, o->cap);
        if (o->graph_node)
            GROW(o->graph_node, o->cap);
        if (o->external)
            GROW(o->external, o->cap);
    }
    if (r->graph_node && !o->graph_node)
        o->graph_node = mem_alloc(o->cap * sizeof *o->graph_node);
    if (r->external && !o->external)
        o->external = mem_alloc(o->cap * sizeof *o->external);
    size_t i = o->n++;
    o->start_ns[i] = r->start_ns;
    o->end_ns[i] = r->end_ns;
    o->sig[i] = r->sig;
    o->correlation[i] = r->correlation;
    if (o->graph_node)
        o->graph_node[i] = r->graph_node;
    if (o->external)
        o->external[i] = r->external;
    return ST_OK;
}

static enum st add_call(void *self, const struct trace_call *r, struct err *e)
{
    struct trace_calls *c = &((struct trace *)self)->calls;
    TRY(check_room(c->n, e));
    if (c->n == c->cap) {
        c->cap = grown(c->cap);
        GROW(c->start_ns, c->cap);
        GROW(c->end_ns, c->cap);
        GROW(c->correlation, c->cap);
        GROW(c->thread, c->cap);
        GROW(c->name, c->cap);
    }
    size_t i = c->n++;
    c->start_ns[i] = r->start_ns;
    c->end_ns[i] = r->end_ns;
    c->correlation[i] = r->correlation;
    c->thread[i] = r->thread;
    c->name[i] = r->name;
    return ST_OK;
}

static enum st add_range(void *self, const struct trace_range *r, struct err *e)
{
    (void)e;
    struct trace *t = self;
    if (t->n_ranges == t->ranges_cap) {
        t->ranges_cap = grown(t->ranges_cap);
        GROW(t->ranges, t->ranges_cap);
    }
    t->ranges[t->n_ranges++] = *r;
    return ST_OK;
}

static enum st add_sync(void *self, const struct trace_sync *r, struct err *e)
{
    (void)e;
    struct trace *t = self;
    if (t->n_syncs == t->syncs_cap) {
        t->syncs_cap = grown(t->syncs_cap);
        GROW(t->syncs, t->syncs_cap);
    }
    t->syncs[t->n_syncs++] = *r;
    return ST_OK;
}

void trace_begin(struct trace *t)
{
    *t = (struct trace){0};
    trace_dict_init(&t->dict);
}

struct trace_sink trace_sink_of(struct trace *t)
{
    return (struct trace_sink){t, add_op, add_call, add_range, add_sync};
}

void trace_free(struct trace *t)
{
    mem_free(t->ops.start_ns);
    mem_free(t->ops.end_ns);
    mem_free(t->ops.sig);
    mem_free(t->ops.correlation);
    mem_free(t->ops.call);
    mem_free(t->ops.graph_node);
    mem_free(t->ops.external);
    mem_free(t->ops.range);
    mem_free(t->calls.start_ns);
    mem_free(t->calls.end_ns);
    mem_free(t->calls.correlation);
    mem_free(t->calls.thread);
    mem_free(t->calls.name);
    mem_free(t->ranges);
    mem_free(t->syncs);
    trace_dict_free(&t->dict);
    *t = (struct trace){0};
}

/* ---- order ---- */

/* Sorting moves a key of 16 bytes per record, then each column once; records already in order, the
 * usual case, cost one pass. */
struct key {
    int64_t time;
    uint32_t thread, at;
};

static int by_key(const void *x, const void *y)
{
    const struct key *a = x, *b = y;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static bool in_order(const int64_t *time, const uint32_t *thread, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (thread && thread[i - 1] != thread[i] ? thread[i - 1] > thread[i]
                                                 : time[i - 1] > time[i])
            return false;
    return true;
}

static struct key *sorted_keys(const int64_t *time, const uint32_t *thread, size_t n)
{
    struct key *k = mem_alloc(n * sizeof *k);
    for (size_t i = 0; i < n; i++)
        k[i] = (struct key){time[i], thread ? thread[i] : 0, (uint32_t)i};
    qsort(k, n, sizeof *k, by_key);
    return k;
}

static void *permuted(void *column, size_t size, const struct key *k, size_t n)
{
    char *from = column, *to;
    if (!column)
        return NULL;
    to = mem_alloc(n * size);
    if (size == 8)
        for (size_t i = 0; i < n; i++)
            memcpy(to + 8 * i, from + (size_t)8 * k[i].at, 8);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(to + 4 * i, from + (size_t)4 * k[i].at, 4);
    mem_free(column);
    return to;
}

#define PERMUTE(column, k, n) ((column) = permuted((column), sizeof *(column), (k), (n)))

static void sort_ops(struct trace_ops *o)
{
    if (in_order(o->start_ns, NULL, o->n))
        return;
    struct key *k = sorted_keys(o->start_ns, NULL, o->n);
    PERMUTE(o->start_ns, k, o->n);
    PERMUTE(o->end_ns, k, o->n);
    PERMUTE(o->sig, k, o->n);
    PERMUTE(o->correlation, k, o->n);
    PERMUTE(o->graph_node, k, o->n);
    PERMUTE(o->external, k, o->n);
    o->cap = o->n;
    mem_free(k);
}

static void sort_calls(struct trace_calls *c)
{
    if (in_order(c->start_ns, c->thread, c->n))
        return;
    struct key *k = sorted_keys(c->start_ns, c->thread, c->n);
    PERMUTE(c->start_ns, k, c->n);
    PERMUTE(c->end_ns, k, c->n);
    PERMUTE(c->correlation, k, c->n);
    PERMUTE(c->thread, k, c->n);
    PERMUTE(c->name, k, c->n);
    c->cap = c->n;
    mem_free(k);
}

static int by_range(const void *x, const void *y)
{
    const struct trace_range *a = x, *b = y;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    /* of two with equal times the operator is inside */
    return a->style != b->style ? (a->style < b->style ? -1 : 1)
                                : (a->text < b->text ? -1 : a->text > b->text);
}

static int by_sync(const void *x, const void *y)
{
    const struct trace_sync *a = x, *b = y;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

static void widen(int64_t *start, int64_t *end, int64_t from, int64_t to)
{
    *start = from < *start ? from : *start;
    *end = to > *end ? to : *end;
}

static void find_extent(struct trace *t)
{
    int64_t start = INT64_MAX, end = INT64_MIN;
    for (size_t i = 0; i < t->ops.n; i++)
        widen(&start, &end, t->ops.start_ns[i], t->ops.end_ns[i]);
    for (size_t i = 0; i < t->calls.n; i++)
        widen(&start, &end, t->calls.start_ns[i], t->calls.end_ns[i]);
    for (size_t i = 0; i < t->n_ranges; i++)
        widen(&start, &end, t->ranges[i].start_ns, t->ranges[i].end_ns);
    for (size_t i = 0; i < t->n_syncs; i++)
        widen(&start, &end, t->syncs[i].start_ns, t->syncs[i].end_ns);
    t->start_ns = start <= end ? start : 0;
    t->end_ns = start <= end ? end : 0;
}

/* ---- records far from all others ---- */

static int by_time(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

/* Median start of operations, else of calls, ranges or waits. */
static int64_t middle(const struct trace *t)
{
    if (t->ops.n)
        return t->ops.start_ns[t->ops.n / 2]; /* sorted by now */
    size_t n = t->calls.n ? t->calls.n : t->n_ranges ? t->n_ranges : t->n_syncs;
    int64_t *v = mem_alloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = t->calls.n    ? t->calls.start_ns[i]
               : t->n_ranges ? t->ranges[i].start_ns
                             : t->syncs[i].start_ns;
    qsort(v, n, sizeof *v, by_time);
    int64_t out = v[n / 2];
    mem_free(v);
    return out;
}

static bool near(int64_t middle_ns, int64_t start_ns, int64_t end_ns)
{
    return start_ns > middle_ns - TRACE_SPAN_MAX_NS / 2 &&
           end_ns < middle_ns + TRACE_SPAN_MAX_NS / 2;
}

/* Drops records whose times are possible alone but far from all others; keeps the order of the
 * rest. */
static void drop_far(struct trace *t)
{
    struct trace_ops *o = &t->ops;
    struct trace_calls *c = &t->calls;
    int64_t at = middle(t);
    size_t n_ops = 0, n_calls = 0, n_ranges = 0, n_syncs = 0;
    for (size_t i = 0; i < o->n; i++) {
        if (!near(at, o->start_ns[i], o->end_ns[i]))
            continue;
        o->start_ns[n_ops] = o->start_ns[i];
        o->end_ns[n_ops] = o->end_ns[i];
        o->sig[n_ops] = o->sig[i];
        o->correlation[n_ops] = o->correlation[i];
        if (o->graph_node)
            o->graph_node[n_ops] = o->graph_node[i];
        if (o->external)
            o->external[n_ops] = o->external[i];
        n_ops++;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (!near(at, c->start_ns[i], c->end_ns[i]))
            continue;
        c->start_ns[n_calls] = c->start_ns[i];
        c->end_ns[n_calls] = c->end_ns[i];
        c->correlation[n_calls] = c->correlation[i];
        c->thread[n_calls] = c->thread[i];
        c->name[n_calls++] = c->name[i];
    }
    for (size_t i = 0; i < t->n_ranges; i++)
        if (near(at, t->ranges[i].start_ns, t->ranges[i].end_ns))
            t->ranges[n_ranges++] = t->ranges[i];
    for (size_t i = 0; i < t->n_syncs; i++)
        if (near(at, t->syncs[i].start_ns, t->syncs[i].end_ns))
            t->syncs[n_syncs++] = t->syncs[i];
    t->dict.impossible[TRACE_OP] += o->n - n_ops;
    t->dict.impossible[TRACE_CALL] += c->n - n_calls;
    t->dict.impossible[TRACE_RANGE] += t->n_ranges - n_ranges;
    t->dict.impossible[TRACE_SYNC] += t->n_syncs - n_syncs;
    o->n = n_ops;
    c->n = n_calls;
    t->n_ranges = n_ranges;
    t->n_syncs = n_syncs;
}

void trace_finish(struct trace *t)
{
    sort_ops(&t->ops);
    sort_calls(&t->calls);
    if (t->n_ranges)
        qsort(t->ranges, t->n_ranges, sizeof *t->ranges, by_range);
    if (t->n_syncs)
        qsort(t->syncs, t->n_syncs, sizeof *t->syncs, by_sync);
    find_extent(t);
    if (t->end_ns - t->start_ns > TRACE_SPAN_MAX_NS) {
        drop_far(t);
        find_extent(t);
    }
    trace_join(t);
}
