/* Idle times of the GPU, by cause. */
#include <math.h>
#include <stdlib.h>

#include "base/vec.h"
#include "kernels/kernels.h"

static uint32_t number_of(const struct kernels *k, size_t i)
{
    return k->t->dict.sigs[k->t->ops.sig[i]].device;
}

static int64_t overlap(int64_t a0, int64_t a1, int64_t b0, int64_t b1)
{
    int64_t from = a0 > b0 ? a0 : b0, to = a1 < b1 ? a1 : b1;
    return to > from ? to - from : 0;
}

/* Charges the gap [from, to) that operation i ends: before its launch to the host, during the call
 * to launching, after it to the queue. */
static void charge_gap(const struct kernels *k, struct kernels_device *d, int64_t from, int64_t to,
                       size_t i)
{
    uint32_t call = k->t->ops.call[i];
    d->gaps++;
    if (call == TRACE_NONE) {
        d->idle_unknown_ns += to - from;
        return;
    }
    int64_t start = k->t->calls.start_ns[call], end = k->t->calls.end_ns[call];
    d->idle_host_ns += overlap(from, to, INT64_MIN, start);
    d->idle_launch_ns += overlap(from, to, start, end);
    d->idle_queue_ns += overlap(from, to, end > start ? end : start, INT64_MAX);
}

/* Time covered by spans that come in the order of their starts. */
struct span_cover {
    int64_t until_ns, sum_ns;
};

static void cover_add(struct span_cover *c, int64_t start, int64_t end)
{
    int64_t from = start > c->until_ns ? start : c->until_ns;
    c->sum_ns += end > from ? end - from : 0;
    c->until_ns = end > c->until_ns ? end : c->until_ns;
}

enum { COMPUTE, COMMUNICATION, EITHER, COVERS };

static void take_op(const struct kernels *k, struct kernels_device *d, size_t i)
{
    int64_t start = k->t->ops.start_ns[i], end = k->t->ops.end_ns[i];
    if (d->operations++ == 0) {
        d->first_ns = start;
        d->last_ns = start;
    }
    if (start > d->last_ns)
        charge_gap(k, d, d->last_ns, start, i);
    d->busy_ns += overlap(start, end, d->last_ns, INT64_MAX);
    d->sum_ns += end - start;
    d->last_ns = end > d->last_ns ? end : d->last_ns;
}

/* Computing and communicating, by device. */
static void split_kernels(const struct kernels *k, struct kernels_keys *devices,
                          struct kernels_timeline *t)
{
    struct span_cover(*covers)[COVERS] = mem_alloc((t->n_devices + 1) * sizeof *covers);
    bool *communicates = mem_alloc(k->n_names + 1);
    for (uint32_t n = 0; n < k->n_names; n++)
        communicates[n] = kernels_communicates(k->kind[n], k->names[n], k->shorts[n]);
    for (size_t d = 0; d < t->n_devices; d++)
        for (int c = 0; c < COVERS; c++)
            covers[d][c].until_ns = INT64_MIN;
    for (size_t i = 0; i < k->t->ops.n; i++) {
        const uint32_t name = k->name[k->t->ops.sig[i]];
        struct span_cover *c = covers[kernels_key(devices, number_of(k, i))];
        if (k->kind[name] == TRACE_COPY || k->kind[name] == TRACE_SET)
            continue;
        cover_add(&c[communicates[name] ? COMMUNICATION : COMPUTE], k->t->ops.start_ns[i],
                  k->t->ops.end_ns[i]);
        cover_add(&c[EITHER], k->t->ops.start_ns[i], k->t->ops.end_ns[i]);
    }
    for (size_t d = 0; d < t->n_devices; d++) {
        const struct span_cover *c = covers[d];
        t->devices[d].compute_ns = (double)c[COMPUTE].sum_ns;
        t->devices[d].communication_ns = (double)c[COMMUNICATION].sum_ns;
        t->devices[d].overlap_ns =
            (double)(c[COMPUTE].sum_ns + c[COMMUNICATION].sum_ns - c[EITHER].sum_ns);
    }
    mem_free(covers);
    mem_free(communicates);
}

/* Times between two launches of one thread, and from a launch's return to the start on the GPU. */
static void launch_figures(struct kernels_timeline *out, const struct kernels *k)
{
    const struct trace *t = k->t;
    VEC(int64_t) gaps = {0}, calls = {0}, queues = {0};
    bool *launches = mem_alloc((t->calls.n + 1) * sizeof *launches);
    for (size_t i = 0; i < t->ops.n; i++) {
        uint32_t call = t->ops.call[i];
        if (call == TRACE_NONE)
            continue;
        launches[call] = true;
        int64_t queue = t->ops.start_ns[i] - t->calls.end_ns[call];
        vec_push(&queues, queue > 0 ? queue : 0);
    }
    uint32_t before = TRACE_NONE;
    for (uint32_t c = 0; c < t->calls.n; c++) {
        if (!launches[c])
            continue;
        vec_push(&calls, t->calls.end_ns[c] - t->calls.start_ns[c]);
        if (before != TRACE_NONE && t->calls.thread[before] == t->calls.thread[c]) {
            int64_t gap = t->calls.start_ns[c] - t->calls.end_ns[before];
            vec_push(&gaps, gap > 0 ? gap : 0);
        }
        before = c;
    }
    out->launch_gap = kernels_stats_of(gaps.p, gaps.n);
    out->launch_call = kernels_stats_of(calls.p, calls.n);
    out->queue = kernels_stats_of(queues.p, queues.n);
    vec_free(&gaps);
    vec_free(&calls);
    vec_free(&queues);
    mem_free(launches);
}

static int by_number(const void *x, const void *y)
{
    const struct kernels_device *a = x, *b = y;
    return a->number < b->number ? -1 : a->number > b->number;
}

struct kernels_timeline kernels_timeline_of(struct arena *a, const struct kernels *k)
{
    struct kernels_timeline t = {0};
    struct kernels_keys seen = {0};
    for (uint32_t i = 0; i < k->t->dict.n_sigs; i++)
        kernels_key(&seen, k->t->dict.sigs[i].device);
    t.devices = arena_array(a, struct kernels_device, seen.n);
    for (uint32_t i = 0; i < seen.n; i++)
        t.devices[i].number = (uint32_t)seen.keys[i];
    t.n_devices = seen.n;
    for (size_t i = 0; i < k->t->ops.n; i++)
        take_op(k, &t.devices[kernels_key(&seen, number_of(k, i))], i);
    split_kernels(k, &seen, &t);
    kernels_keys_free(&seen);
    size_t n = 0; /* windows and patterns may leave devices without work */
    for (size_t i = 0; i < t.n_devices; i++)
        if (t.devices[i].operations)
            t.devices[n++] = t.devices[i];
    t.n_devices = n;
    if (n)
        qsort(t.devices, n, sizeof *t.devices, by_number);
    launch_figures(&t, k);
    return t;
}

static void put_stats(struct buf *out, const char *key, const struct kernels_stats *s)
{
    buf_printf(out, "  \"%s\": ", key);
    if (!s->n) {
        buf_puts(out, "null");
        return;
    }
    buf_printf(out,
               "{\"n\": %zu, \"mean_ns\": %.1f, \"median_ns\": %.1f, \"min_ns\": %lld, "
               "\"max_ns\": %lld, \"stddev_ns\": ",
               s->n, s->mean, s->median, (long long)s->min, (long long)s->max);
    if (isnan(s->stddev))
        buf_puts(out, "null}");
    else
        buf_printf(out, "%.1f}", s->stddev);
}

void kernels_timeline_json(struct buf *out, const struct kernels_timeline *t)
{
    buf_puts(out, "{\n  \"devices\": [");
    for (size_t i = 0; i < t->n_devices; i++) {
        const struct kernels_device *d = &t->devices[i];
        buf_printf(out,
                   "%s\n    {\"device\": %u, \"operations\": %llu, \"span_ns\": %lld, "
                   "\"busy_ns\": %lld, \"sum_ns\": %lld, \"gaps\": %llu, \"idle_host_ns\": %lld, "
                   "\"idle_launch_ns\": %lld, \"idle_queue_ns\": %lld, \"idle_unknown_ns\": %lld",
                   i ? "," : "", d->number, (unsigned long long)d->operations,
                   (long long)(d->last_ns - d->first_ns), (long long)d->busy_ns,
                   (long long)d->sum_ns, (unsigned long long)d->gaps, (long long)d->idle_host_ns,
                   (long long)d->idle_launch_ns, (long long)d->idle_queue_ns,
                   (long long)d->idle_unknown_ns);
        if (d->communication_ns > 0)
            buf_printf(out,
                       ", \"compute_ns\": %.0f, \"communication_ns\": %.0f, \"overlap_ns\": %.0f",
                       d->compute_ns, d->communication_ns, d->overlap_ns);
        buf_puts(out, "}");
    }
    buf_puts(out, t->n_devices ? "\n  ],\n" : "],\n");
    put_stats(out, "launch_call", &t->launch_call);
    buf_puts(out, ",\n");
    put_stats(out, "launch_gap", &t->launch_gap);
    buf_puts(out, ",\n");
    put_stats(out, "queue", &t->queue);
    buf_puts(out, "\n}\n");
}

/* ---- in kernels.json ----------------------------------------------------------------------- */

#define T struct kernels_device
static const struct field device_rows[] = {
    FIELD_AS(T, number, "device"),
    FIELD(T, operations),
    FIELD(T, gaps),
    FIELD(T, first_ns),
    FIELD(T, last_ns),
    FIELD(T, busy_ns),
    FIELD(T, sum_ns),
    FIELD(T, idle_host_ns),
    FIELD(T, idle_launch_ns),
    FIELD(T, idle_queue_ns),
    FIELD(T, idle_unknown_ns),
    FIELD(T, compute_ns, .optional = true),
    FIELD(T, communication_ns, .optional = true),
    FIELD(T, overlap_ns, .optional = true),
};
static const struct fields device_fields = FIELDS(T, device_rows);
#undef T

#define T struct kernels_stats
static const struct field stats_rows[] = {
    FIELD(T, n),
    FIELD_AS(T, sum, "sum_ns"),
    FIELD_AS(T, min, "min_ns"),
    FIELD_AS(T, max, "max_ns"),
    FIELD_AS(T, mean, "mean_ns", .optional = true),
    FIELD_AS(T, median, "median_ns", .optional = true),
    FIELD_AS(T, stddev, "stddev_ns", .optional = true),
};
static const struct fields stats_fields = FIELDS(T, stats_rows);
#undef T

#define T struct kernels_timeline
static const struct field timeline_rows[] = {
    FIELD_MAPS(T, devices, n_devices, "devices", &device_fields),
    FIELD_MAP(T, launch_call, "launch_call", &stats_fields),
    FIELD_MAP(T, launch_gap, "launch_gap", &stats_fields),
    FIELD_MAP(T, queue, "queue", &stats_fields),
};
const struct fields kernels_timeline_fields = FIELDS(T, timeline_rows);
#undef T
