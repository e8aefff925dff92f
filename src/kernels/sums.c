/* Reports of `nsys stats` over operations and calls. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reports.h"
#include "kernels/rows.h"

/* ---- kernels, copies and sets by name ---- */

/* Bits of enum trace_kind. */
enum { ONLY_KERNELS = 1u << TRACE_KERNEL | 1u << TRACE_GRAPH, ONLY_MEMORY = 6 };
_Static_assert(ONLY_MEMORY == (1u << TRACE_COPY | 1u << TRACE_SET), "kinds");

static uint32_t *op_groups(const struct kernels *k, unsigned kinds)
{
    const struct trace_ops *o = &k->t->ops;
    uint32_t *group = mem_alloc(o->n * sizeof *group);
    uint32_t *of_sig = mem_alloc(k->t->dict.n_sigs * sizeof *of_sig);
    for (uint32_t i = 0; i < k->t->dict.n_sigs; i++)
        of_sig[i] = kinds >> k->kind[k->name[i]] & 1 ? k->name[i] : TRACE_NONE;
    for (size_t i = 0; i < o->n; i++)
        group[i] = of_sig[o->sig[i]];
    mem_free(of_sig);
    return group;
}

/* A row for each group, by its total, and the group's end. */
static void put_groups(struct table *out, struct kernels_groups *g, const char *const *names)
{
    struct kernels_rows rows = kernels_rows_of(g, names);
    for (size_t i = 0; i < rows.list.n; i++) {
        kernels_put_sum(out, &rows, &rows.list.p[i]);
        table_cell(out, "%s", rows.list.p[i].name);
    }
    vec_free(&rows.list);
    kernels_groups_free(g);
}

static void sum_by_name(const struct kernels *k, unsigned kinds, struct table *out)
{
    uint32_t *group = op_groups(k, kinds);
    struct kernels_groups g = kernels_group(group, k->t->ops.n, k->n_names, kernels_op_time, k);
    put_groups(out, &g, k->names);
    mem_free(group);
}

void kernels_gpu_kern_sum(const struct kernels *k, struct table *out)
{
    sum_by_name(k, ONLY_KERNELS, out);
}

void kernels_mem_time_sum(const struct kernels *k, struct table *out)
{
    sum_by_name(k, ONLY_MEMORY, out);
}

static int64_t op_bytes(const void *self, size_t i)
{
    const struct kernels *k = self;
    return k->t->dict.sigs[k->t->ops.sig[i]].bytes;
}

void kernels_mem_size_sum(const struct kernels *k, struct table *out)
{
    uint32_t *group = op_groups(k, ONLY_MEMORY);
    struct kernels_groups g = kernels_group(group, k->t->ops.n, k->n_names, op_bytes, k);
    struct kernels_rows rows = kernels_rows_of(&g, k->names);
    for (size_t i = 0; i < rows.list.n; i++) {
        const struct kernels_stats *s = &rows.list.p[i].s;
        table_cell(out, "%.3f", (double)s->sum / 1e6);
        table_cell(out, "%zu", s->n);
        table_cell(out, "%.3f", s->mean / 1e6);
        table_cell(out, "%.3f", s->median / 1e6);
        table_cell(out, "%.3f", (double)s->min / 1e6);
        table_cell(out, "%.3f", (double)s->max / 1e6);
        table_cell(out, "%.3f", isnan(s->stddev) ? 0 : s->stddev / 1e6); /* as nsys writes it */
        table_cell(out, "%s", rows.list.p[i].name);
    }
    vec_free(&rows.list);
    kernels_groups_free(&g);
    mem_free(group);
}

/* ---- calls ---- */

static int64_t call_time(const void *self, size_t i)
{
    const struct trace_calls *c = self;
    return c->end_ns[i] - c->start_ns[i];
}

static const char **text_list(const struct trace *t)
{
    const char **names = mem_alloc(t->dict.n_strings * sizeof *names);
    for (uint32_t i = 0; i < t->dict.n_strings; i++)
        names[i] = t->dict.strings[i].p;
    return names;
}

void kernels_api_sum(const struct kernels *k, struct table *out)
{
    const struct trace *t = k->t;
    struct kernels_groups g =
        kernels_group(t->calls.name, t->calls.n, t->dict.n_strings, call_time, &t->calls);
    const char **names = text_list(t);
    put_groups(out, &g, names);
    mem_free(names);
}

/* ---- launch, queue and execution ---- */

static int64_t exec_total(const void *self, size_t i)
{
    const struct trace *t = ((const struct kernels *)self)->t;
    int64_t call_end = t->calls.end_ns[t->ops.call[i]], end = t->ops.end_ns[i];
    return (end > call_end ? end : call_end) - t->calls.start_ns[t->ops.call[i]];
}

static int64_t exec_api(const void *self, size_t i)
{
    const struct trace *t = ((const struct kernels *)self)->t;
    return call_time(&t->calls, t->ops.call[i]);
}

/* Time from the return of the launch to the start on the GPU; none when it began before. */
static int64_t exec_queue(const void *self, size_t i)
{
    const struct trace *t = ((const struct kernels *)self)->t;
    return t->ops.start_ns[i] - t->calls.end_ns[t->ops.call[i]];
}

struct exec_key {
    uint32_t thread, device, api, name;
};

/* Kernels whose launch was recorded, by thread, device, call and name. */
static uint32_t *exec_groups(const struct kernels *k, struct exec_key **keys, uint32_t *n)
{
    const struct trace *t = k->t;
    struct kernels_keys where = {0}, what = {0}, both = {0};
    VEC(struct exec_key) list = {0};
    uint32_t *group = mem_alloc(t->ops.n * sizeof *group);
    for (size_t i = 0; i < t->ops.n; i++) {
        const struct trace_sig *s = &t->dict.sigs[t->ops.sig[i]];
        uint32_t call = t->ops.call[i];
        group[i] = TRACE_NONE;
        if (call == TRACE_NONE || s->kind != TRACE_KERNEL)
            continue;
        struct exec_key key = {t->calls.thread[call], s->device, t->calls.name[call],
                               k->name[t->ops.sig[i]]};
        group[i] = kernels_key(
            &both, kernels_pair(kernels_key(&where, kernels_pair(key.thread, key.device)),
                                kernels_key(&what, kernels_pair(key.api, key.name))));
        if (group[i] == list.n)
            vec_push(&list, key);
    }
    kernels_keys_free(&where);
    kernels_keys_free(&what);
    kernels_keys_free(&both);
    *keys = list.p;
    *n = (uint32_t)list.n;
    return group;
}

/* Moves the non-negative values of a group to its front. */
static size_t not_negative(int64_t *v, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i] >= 0)
            v[kept++] = v[i];
    return kept;
}

enum { TOTAL, API, QUEUE, KERNEL, PARTS };

struct exec_row {
    struct kernels_stats s[PARTS];
    uint32_t pid, tid, device;
    const char *api, *name;
};

static int by_mean(const void *x, const void *y)
{
    const struct exec_row *a = x, *b = y;
    double mean_a = kernels_rounded(a->s[TOTAL].mean), mean_b = kernels_rounded(b->s[TOTAL].mean);
    if (mean_a != mean_b)
        return mean_a > mean_b ? -1 : 1;
    int c = kernels_compare(a->pid, b->pid);
    c = c ? c : kernels_compare(a->tid, b->tid);
    c = c ? c : kernels_compare(a->device, b->device);
    c = c ? c : strcmp(a->api, b->api);
    return c ? c : strcmp(a->name, b->name);
}

static struct exec_row *exec_rows(const struct kernels *k, uint32_t *n)
{
    static kernels_value_fn *const values[PARTS] = {exec_total, exec_api, exec_queue,
                                                    kernels_op_time};
    const struct trace *t = k->t;
    struct exec_key *keys;
    uint32_t *group = exec_groups(k, &keys, n);
    struct exec_row *rows = mem_alloc((*n + 1) * sizeof *rows);
    for (uint32_t i = 0; i < *n; i++) {
        const struct trace_thread *thread = &t->dict.threads[keys[i].thread];
        rows[i] = (struct exec_row){.pid = t->dict.processes[thread->process].pid,
                                    .tid = thread->tid,
                                    .device = keys[i].device,
                                    .api = trace_text(&t->dict, keys[i].api),
                                    .name = k->names[keys[i].name]};
    }
    for (int part = 0; part < PARTS; part++) {
        struct kernels_groups g = kernels_group(group, t->ops.n, *n, values[part], k);
        for (uint32_t i = 0; i < *n; i++) {
            size_t count = g.first[i + 1] - g.first[i];
            if (part == QUEUE)
                count = not_negative(g.values + g.first[i], count);
            rows[i].s[part] = kernels_stats_of(g.values + g.first[i], count);
        }
        kernels_groups_free(&g);
    }
    mem_free(keys);
    mem_free(group);
    return rows;
}

void kernels_exec_sum(const struct kernels *k, struct table *out)
{
    uint32_t n;
    struct exec_row *rows = exec_rows(k, &n);
    if (n)
        qsort(rows, n, sizeof *rows, by_mean);
    for (uint32_t i = 0; i < n; i++) {
        const struct exec_row *r = &rows[i];
        table_cell(out, "%u", r->pid);
        table_cell(out, "%u", r->tid);
        table_cell(out, "%u", r->device);
        table_cell(out, "%zu", r->s[TOTAL].n);
        table_cell(out, "%zu", r->s[QUEUE].n);
        for (int part = 0; part < PARTS; part++)
            kernels_put_time(out, &r->s[part]);
        table_cell(out, "%s", r->api);
        table_cell(out, "%s", r->name);
    }
    mem_free(rows);
}
