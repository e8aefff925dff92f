#include "trace/join.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* ---- calls by correlation ---- */

struct sparse_key {
    int64_t start_ns;
    uint32_t id, at;
};

static int by_id(const void *x, const void *y)
{
    const struct sparse_key *a = x, *b = y;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Correlation ids of one process. CUPTI counts up, so a table from the least to the largest is
 * small; sparse ids (or hostile ones) are searched in a sorted list instead. */
struct launch_index {
    uint32_t min, max;
    size_t count;
    uint32_t *call;            /* [max - min + 1] by correlation - min */
    struct sparse_key *sparse; /* [n_sparse] by correlation */
    size_t n_sparse;
};

static struct launch_index *launches_of(struct launch_index *all, const struct trace *t,
                                        size_t call)
{
    return t->calls.correlation[call] ? &all[t->dict.threads[t->calls.thread[call]].process] : NULL;
}

static void launches_count(struct launch_index *all, const struct trace *t)
{
    for (size_t i = 0; i < t->calls.n; i++) {
        struct launch_index *l = launches_of(all, t, i);
        if (!l)
            continue;
        uint32_t c = t->calls.correlation[i];
        l->min = l->count == 0 || c < l->min ? c : l->min;
        l->max = c > l->max ? c : l->max;
        l->count++;
    }
}

static void launches_allocate(struct launch_index *l)
{
    size_t span = (size_t)(l->max - l->min) + 1;
    if (l->count && span <= 16 * l->count + 1024) {
        l->call = mem_alloc(span * sizeof *l->call);
        memset(l->call, 0xff, span * sizeof *l->call);
    } else if (l->count) {
        l->sparse = mem_alloc(l->count * sizeof *l->sparse);
    }
}

static void launches_fill(struct launch_index *all, const struct trace *t)
{
    for (size_t i = 0; i < t->calls.n; i++) {
        struct launch_index *l = launches_of(all, t, i);
        if (!l)
            continue;
        uint32_t c = t->calls.correlation[i];
        if (l->sparse) {
            l->sparse[l->n_sparse++] = (struct sparse_key){t->calls.start_ns[i], c, (uint32_t)i};
            continue;
        }
        /* a runtime call and the driver call in it may share the id: take the outer one */
        uint32_t *at = &l->call[c - l->min];
        if (*at == TRACE_NONE || t->calls.start_ns[i] < t->calls.start_ns[*at])
            *at = (uint32_t)i;
    }
}

static uint32_t launches_find(const struct launch_index *l, uint32_t correlation)
{
    if (l->call)
        return correlation >= l->min && correlation <= l->max ? l->call[correlation - l->min]
                                                              : TRACE_NONE;
    size_t lo = 0, hi = l->n_sparse;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (l->sparse[mid].id < correlation)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < l->n_sparse && l->sparse[lo].id == correlation ? l->sparse[lo].at : TRACE_NONE;
}

static struct launch_index *launches_open(const struct trace *t)
{
    uint32_t n = t->dict.n_processes;
    struct launch_index *l = mem_alloc((n + 1) * sizeof *l);
    launches_count(l, t);
    for (uint32_t i = 0; i < n; i++)
        launches_allocate(&l[i]);
    launches_fill(l, t);
    for (uint32_t i = 0; i < n; i++)
        if (l[i].sparse)
            qsort(l[i].sparse, l[i].n_sparse, sizeof *l[i].sparse, by_id);
    return l;
}

static void launches_close(struct launch_index *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        mem_free(l[i].call);
        mem_free(l[i].sparse);
    }
    mem_free(l);
}

/* ---- operations of teams ---- */

enum { NOBODY = UINT32_MAX, SEVERAL = UINT32_MAX - 1 };
enum { MOST_SEARCHED = 1024 }; /* processes; a file that was made to have more is not settled */

static uint32_t one_of(uint32_t so_far, uint32_t process)
{
    return so_far == NOBODY || so_far == process ? process : SEVERAL;
}

/* The process of that team with a call of that correlation, with `before` one that began before the
 * operation; SEVERAL, NOBODY. */
static uint32_t launcher_of(const struct trace *t, const struct launch_index *l, uint32_t team,
                            size_t op, bool before)
{
    uint32_t found = NOBODY;
    for (uint32_t p = 0; p < t->dict.n_processes && t->ops.correlation[op]; p++) {
        uint32_t call = t->dict.processes[p].team == team
                            ? launches_find(&l[p], t->ops.correlation[op])
                            : TRACE_NONE;
        if (call != TRACE_NONE && (!before || t->calls.start_ns[call] <= t->ops.start_ns[op]))
            found = one_of(found, p);
    }
    return found;
}

static void give_to(struct trace *t, size_t op, uint32_t process)
{
    struct trace_sig sig = t->dict.sigs[t->ops.sig[op]];
    if (sig.process == process)
        return;
    sig.process = process;
    t->ops.sig[op] = trace_sig_id(&t->dict, &sig);
}

/* owner[device * teams + team]: the process that launched all operations of that GPU whose
 * correlation one process alone has. Such a GPU is taken to be that process's where every process
 * of the team that launches has one: SEVERAL and NOBODY otherwise. */
static uint32_t *find_owners(const struct trace *t, const struct launch_index *l, uint32_t devices,
                             uint32_t teams)
{
    const struct trace_dict *d = &t->dict;
    size_t n = (size_t)devices * teams;
    uint32_t *owner = mem_alloc((n + 1) * sizeof *owner);
    bool *owns = mem_alloc(d->n_processes + 1), *shared = mem_alloc(teams + 1);
    memset(owner, 0xff, (n + 1) * sizeof *owner);
    for (size_t i = 0; i < t->ops.n; i++) {
        const struct trace_sig *s = &d->sigs[t->ops.sig[i]];
        uint32_t team = d->processes[s->process].team, one = NOBODY;
        if (team)
            one = launcher_of(t, l, team, i, false);
        if (one < SEVERAL)
            owner[s->device * teams + team] = one_of(owner[s->device * teams + team], one);
    }
    for (size_t i = 0; i < n; i++)
        if (owner[i] < SEVERAL)
            owns[owner[i]] = true;
    for (uint32_t p = 0; p < d->n_processes; p++)
        shared[d->processes[p].team] |= l[p].count > 0 && !owns[p];
    for (size_t i = 0; i < n; i++)
        if (shared[i % teams])
            owner[i] = NOBODY;
    mem_free(owns);
    mem_free(shared);
    return owner;
}

/* Where processes count correlations alike, operations go to the owner of the GPU. What remains is
 * of no process, and of no range. */
static void settle_teams(struct trace *t, const struct launch_index *l)
{
    struct trace_ops *o = &t->ops;
    uint32_t devices = 0, teams = t->dict.n_teams + 1, nobody = TRACE_NONE;
    size_t unknown = 0;
    for (uint32_t i = 0; i < t->dict.n_sigs; i++)
        devices = t->dict.sigs[i].device >= devices ? t->dict.sigs[i].device + 1 : devices;
    bool many = t->dict.n_processes > MOST_SEARCHED;
    uint32_t *owner = many ? NULL : find_owners(t, l, devices, teams);
    for (size_t i = 0; i < o->n; i++) {
        const struct trace_sig *s = &t->dict.sigs[o->sig[i]];
        uint32_t team = t->dict.processes[s->process].team, process;
        if (!team)
            continue;
        process = many ? SEVERAL : launcher_of(t, l, team, i, true);
        if (process >= SEVERAL && !many)
            process = owner[s->device * teams + team];
        if (process < SEVERAL) {
            give_to(t, i, process);
            continue;
        }
        if (nobody == TRACE_NONE)
            nobody = trace_process_of(&t->dict, 0, 0);
        give_to(t, i, nobody);
        o->correlation[i] = 0;
        unknown++;
    }
    if (unknown)
        trace_note(&t->dict, LOG_WARN,
                   "several processes launch, and %zu operation%s not say which of them did: of no "
                   "process, operator or region here",
                   unknown, unknown == 1 ? " does" : "s do");
    mem_free(owner);
}

/* ---- operators by their ids ---- */

struct external {
    int64_t start_ns;
    uint32_t process, id, range;
};

static int by_external(const void *x, const void *y)
{
    const struct external *a = x, *b = y;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->range < b->range ? -1 : a->range > b->range;
}

/* The last that is not behind `want`; TRACE_NONE where it has another process or id. */
static uint32_t external_find(const struct external *v, size_t n, const struct external *want)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (by_external(&v[mid], want) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    bool is = lo > 0 && v[lo - 1].process == want->process && v[lo - 1].id == want->id;
    return is ? v[lo - 1].range : TRACE_NONE;
}

static void join_externals(struct trace *t)
{
    struct trace_ops *o = &t->ops;
    size_t missing = 0, n = 0;
    for (size_t i = 0; i < o->n && o->external; i++)
        missing += o->call[i] == TRACE_NONE && o->external[i];
    if (!missing)
        return;
    struct external *v = mem_alloc((t->n_ranges + 1) * sizeof *v);
    for (size_t i = 0; i < t->n_ranges; i++)
        if (t->ranges[i].external && t->ranges[i].style == TRACE_OPERATOR)
            v[n++] = (struct external){t->ranges[i].start_ns,
                                       t->dict.threads[t->ranges[i].thread].process,
                                       t->ranges[i].external, (uint32_t)i};
    qsort(v, n, sizeof *v, by_external);
    o->range = mem_alloc(o->n * sizeof *o->range);
    for (size_t i = 0; i < o->n; i++) {
        struct external want = {o->start_ns[i], t->dict.sigs[o->sig[i]].process, o->external[i],
                                TRACE_NONE};
        bool by_id_alone = o->call[i] == TRACE_NONE && o->external[i];
        o->range[i] = by_id_alone ? external_find(v, n, &want) : TRACE_NONE;
    }
    mem_free(v);
}

void trace_join(struct trace *t)
{
    struct trace_ops *o = &t->ops;
    uint32_t n = t->dict.n_processes;
    struct launch_index *l = launches_open(t);
    if (t->dict.n_teams)
        settle_teams(t, l); /* may add a process without calls */
    o->call = mem_resize(o->call, (o->n ? o->n : 1) * sizeof *o->call);
    for (size_t i = 0; i < o->n; i++) {
        uint32_t process = t->dict.sigs[o->sig[i]].process;
        o->call[i] = o->correlation[i] && process < n
                         ? launches_find(&l[process], o->correlation[i])
                         : TRACE_NONE;
    }
    launches_close(l, n);
    join_externals(t);
}
