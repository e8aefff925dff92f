#include "deep/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- joining ncu's launches to the trace's kernels ---- */

static const char *plain_name(struct arena *a, struct map *seen, const char *kernel)
{
    bool is_new;
    struct map_entry *entry = map_put(seen, kernel, strlen(kernel), &is_new);
    if (is_new)
        entry->cp = trace_demangle(a, kernel);
    return entry->cp;
}

static void put_name(struct map *m, const char *name, uint32_t id)
{
    bool is_new;
    struct map_entry *entry = map_put(m, name, strlen(name), &is_new);
    entry->i = is_new ? (int64_t)id : -1; /* -1: several have it */
}

struct deep_join deep_join_make(struct arena *a, const struct kernels *k, const struct ncu_table *t)
{
    struct deep_join j = {.k = k, .t = t};
    struct map seen, full, shorts;
    if (!t)
        return j;
    map_init(&seen, a);
    map_init(&full, a);
    map_init(&shorts, a);
    for (uint32_t i = 0; k && i < k->n_names; i++)
        if (k->kind[i] == TRACE_KERNEL) {
            put_name(&full, k->names[i], i);
            put_name(&shorts, k->shorts[i], i);
        }
    j.names = arena_array(a, const char *, t->launches.n + 1);
    j.name_of = arena_array(a, uint32_t, t->launches.n + 1);
    for (size_t i = 0; i < t->launches.n; i++) {
        const char *name = plain_name(a, &seen, t->launches.p[i].kernel);
        const struct map_entry *entry = map_find(&full, name, strlen(name));
        if (!entry || entry->i < 0) {
            const char *function = trace_short_name(a, name);
            entry = map_find(&shorts, function, strlen(function));
        }
        j.names[i] = name;
        j.name_of[i] = entry && entry->i >= 0 ? (uint32_t)entry->i : TRACE_NONE;
        j.unmatched += k && j.name_of[i] == TRACE_NONE;
    }
    if (!k)
        j.labels = trace_labels(a, j.names, t->launches.n);
    return j;
}

/* ---- a scope ---- */

static bool path_has(const struct kernels *k, uint32_t path, const char *pattern)
{
    for (; path != TRACE_NONE; path = k->paths[path].parent) {
        const struct kernels_class *c = &k->classes[k->paths[path].class];
        if (c->style != TRACE_OPERATOR &&
            deep_matches(pattern, sv_of(trace_text(&k->t->dict, c->text))))
            return true;
    }
    return false;
}

static bool in_scope(const struct kernels *k, const struct deep_scope *s, size_t op)
{
    const struct trace_sig *sig = &k->t->dict.sigs[k->t->ops.sig[op]];
    if ((s->process >= 0 && sig->process != (uint32_t)s->process) ||
        (s->device >= 0 && sig->device != (uint32_t)s->device))
        return false;
    if (s->pattern)
        return path_has(k, kernels_path_of(k, op), s->pattern);
    if (!s->stages || (s->stage < 0 && !s->any_stage))
        return true;
    int stage = deep_stage_of(s->stages, k, op);
    return s->any_stage ? stage >= 0 : deep_stage_within(s->stages, stage, s->stage);
}

/* A launch without ranges may be anywhere. Beside a trace it speaks for its kernel in all
 * processes: under Nsight Compute they have other numbers. */
static bool launch_in_scope(const struct deep_join *j, const struct deep_scope *s,
                            const struct ncu_launch *l)
{
    if (!j->k &&
        ((s->process >= 0 && l->pid != s->process) || (s->device >= 0 && l->device != s->device)))
        return false;
    if (!*l->ranges)
        return true;
    if (s->pattern)
        return ncu_inside(l, s->pattern);
    if (!s->stages || s->stage < 0)
        return true;
    for (int i = s->stage; i >= 0; i = s->stages->p[i].parent)
        if (!ncu_inside(l, s->stages->p[i].pattern))
            return false;
    return true;
}

static bool any_matches(struct texts patterns, const char *name, const char *short_name)
{
    for (size_t i = 0; i < patterns.n; i++)
        if (deep_matches(patterns.items[i], sv_of(name)) ||
            deep_matches(patterns.items[i], sv_of(short_name)))
            return true;
    return false;
}

static bool wanted(const struct deep_scope *s, const char *name, const char *short_name)
{
    return (!s->include.n || any_matches(s->include, name, short_name)) &&
           !any_matches(s->exclude, name, short_name);
}

/* ---- configurations ---- */

struct launch_config { /* of one kernel: its launches of a grid and block */
    uint32_t kernel;
    int64_t calls, timed, total_ns; /* in the trace */
    int64_t profiled;
    struct deep_mean mean;
    int64_t elsewhere; /* profiled outside the scope; count only where none was inside */
    struct deep_mean outside;
};

struct configs {
    struct map index;
    VEC(struct launch_config) list;
};

static struct launch_config *config_at(struct configs *c, uint32_t kernel, const int64_t grid[3],
                                       const int64_t block[3])
{
    const int64_t key[] = {kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2]};
    bool is_new;
    struct map_entry *entry = map_put(&c->index, (const char *)key, sizeof key, &is_new);
    if (is_new) {
        entry->i = (int64_t)c->list.n;
        vec_push(&c->list, (struct launch_config){.kernel = kernel});
    }
    return &c->list.p[entry->i];
}

/* ---- figures ---- */

/* Weights of configurations: calls in the trace; where it has none of them, launches profiled. */
static void weigh(struct arena *a, struct deep_kernel *out, struct launch_config *const *all,
                  size_t n, bool of_trace, const struct deep_roofs *roofs)
{
    struct deep_mean mean = {0};
    int64_t calls = 0, time_ns = 0;
    for (size_t i = 0; i < n; i++) {
        if (!all[i]->profiled && all[i]->calls && all[i]->elsewhere) {
            all[i]->mean = all[i]->outside;
            all[i]->profiled = all[i]->elsewhere;
        }
        out->profiled += all[i]->profiled;
        if (all[i]->profiled) {
            calls += all[i]->calls;
            time_ns += all[i]->total_ns;
        }
    }
    out->app_ns = calls ? (double)time_ns / (double)calls : (double)NAN;
    if (!out->profiled)
        return;
    if (!of_trace)
        out->app_ns = NAN;
    for (size_t i = 0; i < n; i++) {
        double weight = calls ? (double)all[i]->calls : (double)all[i]->profiled;
        struct deep_figures one = deep_mean_of(&all[i]->mean);
        if (all[i]->profiled && weight > 0)
            deep_mean_add(&mean, &one, weight);
    }
    out->figures = deep_mean_of(&mean);
    out->place = deep_place_of(a, &out->figures, roofs);
}

static int by_kernel(const void *x, const void *y)
{
    const struct launch_config *a = *(struct launch_config *const *)x,
                               *b = *(struct launch_config *const *)y;
    return a->kernel != b->kernel ? (a->kernel < b->kernel ? -1 : 1) : (a < b ? -1 : a > b);
}

static int by_total(const void *x, const void *y)
{
    const struct deep_kernel *a = x, *b = y;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    if (a->calls != b->calls)
        return a->calls > b->calls ? -1 : 1;
    return strcmp(a->name, b->name);
}

static struct deep_kernel kernel_named(struct arena *a, const struct deep_join *j, uint32_t id,
                                       const size_t *only_ncu)
{
    struct deep_kernel out = {.app_ns = NAN};
    out.figures.duration_ns = NAN;
    if (j->k) {
        out.name = j->k->names[id];
        out.short_name = j->k->shorts[id];
        out.label = j->k->labels[id];
        out.kind = j->k->kind[id];
    } else {
        out.name = j->names[only_ncu[id]];
        out.short_name = trace_short_name(a, out.name);
        out.label = j->labels[only_ncu[id]];
        out.kind = TRACE_KERNEL;
    }
    return out;
}

/* ---- the table ---- */

struct making {
    struct arena *a, *scratch;
    const struct deep_join *j;
    const struct deep_scope *scope;
    struct configs configs;
    struct map only_ncu_ids;
    VEC(size_t) only_ncu; /* kernels without a trace: their first launch */
    const char **mangled; /* [n_names] */
    int64_t *running_ns;  /* [n_names] */
    int64_t *until_ns;    /* [n_names * processes]: the end of what ran there */
};

/* Operations are in the order of their starts. */
static void add_running(struct making *m, uint32_t name, uint32_t process, size_t op)
{
    const struct kernels *k = m->j->k;
    int64_t *until = &m->until_ns[(size_t)name * k->t->dict.n_processes + process];
    int64_t start = k->t->ops.start_ns[op], end = k->t->ops.end_ns[op];
    int64_t from = start > *until ? start : *until;
    m->running_ns[name] += end > from ? end - from : 0;
    *until = end > *until ? end : *until;
}

static void take_trace(struct making *m, int64_t *gpu_ns)
{
    const struct kernels *k = m->j->k;
    size_t lanes = (size_t)k->n_names * k->t->dict.n_processes;
    m->mangled = arena_array(m->scratch, const char *, k->n_names + 1);
    m->running_ns = arena_array(m->scratch, int64_t, k->n_names + 1);
    m->until_ns = arena_array(m->scratch, int64_t, lanes + 1);
    for (size_t i = 0; i < lanes; i++)
        m->until_ns[i] = INT64_MIN;
    for (size_t i = 0; i < k->t->ops.n; i++) {
        if (!in_scope(k, m->scope, i))
            continue;
        const struct trace_sig *sig = &k->t->dict.sigs[k->t->ops.sig[i]];
        uint32_t name = k->name[k->t->ops.sig[i]];
        *gpu_ns += kernels_duration(k, i);
        const int64_t grid[3] = {sig->grid[0], sig->grid[1], sig->grid[2]};
        const int64_t block[3] = {sig->block[0], sig->block[1], sig->block[2]};
        struct launch_config *c = config_at(&m->configs, name, grid, block);
        c->calls++;
        c->timed++;
        c->total_ns += kernels_duration(k, i);
        add_running(m, name, sig->process, i);
        m->mangled[name] = trace_text(&k->t->dict, sig->name);
    }
}

static uint32_t ncu_kernel(struct making *m, size_t launch)
{
    bool is_new;
    if (m->j->k)
        return m->j->name_of[launch];
    const char *name = m->j->names[launch];
    struct map_entry *entry = map_put(&m->only_ncu_ids, name, strlen(name), &is_new);
    if (is_new) {
        entry->i = (int64_t)m->only_ncu.n;
        vec_push(&m->only_ncu, launch);
    }
    return (uint32_t)entry->i;
}

static void take_ncu(struct making *m, int64_t *gpu_ns)
{
    const struct ncu_table *t = m->j->t;
    for (size_t i = 0; t && i < t->launches.n; i++) {
        const struct ncu_launch *l = &t->launches.p[i];
        uint32_t kernel = ncu_kernel(m, i);
        bool inside = launch_in_scope(m->j, m->scope, l);
        if (kernel == TRACE_NONE || (!inside && !m->j->k))
            continue;
        struct deep_figures f = deep_figures_of(t, l);
        struct launch_config *c = config_at(&m->configs, kernel, l->grid, l->block);
        if (!inside) {
            deep_mean_add(&c->outside, &f, (double)l->count);
            c->elsewhere += l->count;
            continue;
        }
        deep_mean_add(&c->mean, &f, (double)l->count);
        c->profiled += l->count;
        if (!m->j->k) {
            double ns = f.duration_ns * (double)l->count;
            c->calls += l->count;
            if (!(ns > 0 && ns < 1e17))
                continue;
            c->timed += l->count;
            c->total_ns += (int64_t)ns;
            *gpu_ns += (int64_t)ns;
        }
    }
}

struct deep_kernel *deep_kernels_of(struct arena *a, const struct deep_join *j,
                                    const struct deep_scope *scope, const struct deep_roofs *roofs,
                                    size_t *n, int64_t *gpu_ns)
{
    struct making m = {.a = a, .scratch = arena_new(), .j = j, .scope = scope};
    int64_t all_ns = 0;
    map_init(&m.configs.index, m.scratch);
    map_init(&m.only_ncu_ids, m.scratch);
    if (j->k)
        take_trace(&m, &all_ns);
    take_ncu(&m, &all_ns);
    size_t n_configs = m.configs.list.n;
    struct launch_config **order = arena_array(m.scratch, struct launch_config *, n_configs + 1);
    for (size_t i = 0; i < n_configs; i++)
        order[i] = &m.configs.list.p[i];
    qsort(order, n_configs, sizeof *order, by_kernel);
    struct deep_kernel *out = arena_array(a, struct deep_kernel, n_configs + 1);
    *n = 0;
    for (size_t i = 0, end; i < n_configs; i = end) {
        struct deep_kernel x = kernel_named(a, j, order[i]->kernel, m.only_ncu.p);
        for (end = i; end < n_configs && order[end]->kernel == order[i]->kernel; end++) {
            x.calls += order[end]->calls;
            x.timed += order[end]->timed;
            x.total_ns += order[end]->total_ns;
        }
        if (!x.calls || !wanted(scope, x.name, x.short_name))
            continue;
        x.share = all_ns > 0 ? (double)x.total_ns / (double)all_ns : 0;
        x.running_ns = j->k ? m.running_ns[order[i]->kernel] : x.total_ns;
        x.mangled = j->k ? m.mangled[order[i]->kernel] : NULL;
        weigh(a, &x, order + i, end - i, j->k != NULL, roofs);
        out[(*n)++] = x;
    }
    qsort(out, *n, sizeof *out, by_total);
    if (gpu_ns)
        *gpu_ns = all_ns;
    vec_free(&m.configs.list);
    vec_free(&m.only_ncu);
    arena_free(&m.scratch);
    return out;
}
