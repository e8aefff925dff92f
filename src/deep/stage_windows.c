#include "deep/stage_windows.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* ---- instances open at a time ---- */

enum { MOST_OPEN = 1024 };

struct range_moment {
    uint32_t process;
    int64_t at_ns;
    uint32_t index; /* of a range, or of an operation */
};
typedef VEC(struct range_moment) moment_list;

static int by_moment(const void *x, const void *y)
{
    const struct range_moment *a = x, *b = y;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static uint32_t process_of_range(const struct kernels *k, uint32_t r)
{
    return k->t->dict.threads[k->t->ranges[r].thread].process;
}

static uint32_t process_of_op(const struct kernels *k, size_t i)
{
    return k->t->dict.sigs[k->t->ops.sig[i]].process;
}

static moment_list instances_by_start(const struct kernels *k, const struct deep_instances *x)
{
    moment_list list = {0};
    for (uint32_t r = 0; r < k->t->n_ranges; r++)
        if (x->owner[r] == r)
            vec_push(&list,
                     ((struct range_moment){process_of_range(k, r), k->t->ranges[r].start_ns, r}));
    if (list.n)
        qsort(list.p, list.n, sizeof *list.p, by_moment);
    return list;
}

static moment_list strays_by_launch(const struct deep_stages *s, const struct kernels *k)
{
    const struct trace *t = k->t;
    moment_list list = {0};
    for (size_t i = 0; i < t->ops.n; i++) {
        uint32_t call = t->ops.call[i];
        int64_t at_ns = call == TRACE_NONE ? t->ops.start_ns[i] : t->calls.start_ns[call];
        if (s->of_op[i] < 0)
            vec_push(&list, ((struct range_moment){process_of_op(k, i), at_ns, (uint32_t)i}));
    }
    if (list.n)
        qsort(list.p, list.n, sizeof *list.p, by_moment);
    return list;
}

/* The deepest of the open instances, the youngest of these, that another thread opened; forgets
 * those that ended. */
static uint32_t innermost(const struct deep_stages *s, const struct kernels *k,
                          const struct deep_instances *x, moment_list *open,
                          const struct range_moment *stray)
{
    const struct trace *t = k->t;
    uint32_t call = t->ops.call[stray->index], best = TRACE_NONE;
    size_t kept = 0;
    if (!open->n)
        return TRACE_NONE;
    for (size_t i = 0; i < open->n; i++) {
        uint32_t r = open->p[i].index;
        if (open->p[i].process != stray->process || t->ranges[r].end_ns <= stray->at_ns)
            continue;
        open->p[kept++] = open->p[i];
        bool same = call != TRACE_NONE && t->calls.thread[call] == t->ranges[r].thread;
        bool deeper = best == TRACE_NONE || s->p[x->stage[r]].depth >= s->p[x->stage[best]].depth;
        if (!same && deeper)
            best = r;
    }
    size_t old =
        kept > MOST_OPEN ? kept - MOST_OPEN : 0; /* of a trace that was made to have them */
    memmove(open->p, open->p + old, (kept - old) * sizeof *open->p);
    open->n = kept - old;
    return best;
}

void deep_windows_strays(struct deep_stages *s, const struct kernels *k,
                         const struct deep_instances *x, uint32_t *owner)
{
    const struct trace_ops *o = &k->t->ops;
    moment_list instances = instances_by_start(k, x), strays = strays_by_launch(s, k), open = {0};
    size_t next = 0;
    for (size_t i = 0; i < o->n; i++)
        owner[i] = TRACE_NONE;
    for (size_t i = 0; i < strays.n; i++) {
        const struct range_moment *stray = &strays.p[i];
        while (next < instances.n && (instances.p[next].process < stray->process ||
                                      (instances.p[next].process == stray->process &&
                                       instances.p[next].at_ns <= stray->at_ns))) {
            vec_push(&open, instances.p[next]);
            next++;
        }
        uint32_t r = innermost(s, k, x, &open, stray);
        if (r == TRACE_NONE)
            continue;
        owner[stray->index] = r;
        s->of_op[stray->index] = x->stage[r];
        s->strays.operations++;
        s->strays.gpu_ns += kernels_duration(k, stray->index);
    }
    vec_free(&instances);
    vec_free(&strays);
    vec_free(&open);
}

/* ---- time ---- */

/* Disjoint spans of one process, ascending, with the time of those before each. */
struct spans {
    VEC(int64_t) start;
    VEC(int64_t) end;
    VEC(int64_t) before; /* [n] */
};

static void spans_add(struct spans *s, int64_t start, int64_t end)
{
    if (s->end.n && start <= vec_last(&s->end)) {
        vec_last(&s->end) = end > vec_last(&s->end) ? end : vec_last(&s->end);
        return;
    }
    int64_t before = 0;
    if (s->end.n)
        before = vec_last(&s->before) + vec_last(&s->end) - vec_last(&s->start);
    vec_push(&s->start, start);
    vec_push(&s->end, end);
    vec_push(&s->before, before);
}

static void spans_free(struct spans *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        vec_free(&s[i].start);
        vec_free(&s[i].end);
        vec_free(&s[i].before);
    }
    mem_free(s);
}

/* The last that starts at or before the time, + 1. */
static size_t spans_find(const struct spans *s, int64_t at_ns)
{
    size_t lo = 0, hi = s->start.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->start.p[mid] <= at_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Time of the spans before a moment. */
static int64_t spans_until(const struct spans *s, int64_t at_ns)
{
    size_t i = spans_find(s, at_ns);
    if (!i)
        return 0;
    int64_t end = s->end.p[i - 1] < at_ns ? s->end.p[i - 1] : at_ns;
    return s->before.p[i - 1] + end - s->start.p[i - 1];
}

static bool spans_hold(const struct spans *s, int64_t at_ns)
{
    size_t i = spans_find(s, at_ns);
    return i && at_ns < s->end.p[i - 1];
}

void deep_windows_busy(struct deep_stages *s, const struct kernels *k,
                       const struct deep_instances *x)
{
    const struct trace *t = k->t;
    struct spans *busy = mem_alloc((s->n_processes + 1) * sizeof *busy);
    for (size_t i = 0; i < t->ops.n; i++) /* by start */
        spans_add(&busy[process_of_op(k, i)], t->ops.start_ns[i], t->ops.end_ns[i]);
    for (uint32_t r = 0; r < t->n_ranges; r++)
        if (x->owner[r] == r) {
            uint32_t process = process_of_range(k, r);
            s->p[x->stage[r]].by_process[process].busy_ns +=
                spans_until(&busy[process], x->last_ns[r]) -
                spans_until(&busy[process], t->ranges[r].start_ns);
        }
    spans_free(busy, s->n_processes);
}

void deep_windows_beside(struct deep_stages *s, const struct kernels *k,
                         const struct deep_instances *x)
{
    const struct trace *t = k->t;
    struct spans *windows = mem_alloc((s->n_processes + 1) * sizeof *windows);
    moment_list instances = instances_by_start(k, x);
    for (size_t i = 0; i < instances.n; i++) {
        uint32_t r = instances.p[i].index;
        if (s->p[x->stage[r]].parent < 0)
            spans_add(&windows[instances.p[i].process], t->ranges[r].start_ns, x->last_ns[r]);
    }
    for (size_t i = 0; i < t->ops.n; i++) {
        if (s->of_op[i] >= 0)
            continue;
        bool beside = spans_hold(&windows[process_of_op(k, i)], t->ops.start_ns[i]);
        struct deep_work *sum = beside ? &s->ran_beside : &s->outside;
        sum->operations++;
        sum->gpu_ns += kernels_duration(k, i);
    }
    vec_free(&instances);
    spans_free(windows, s->n_processes);
}
