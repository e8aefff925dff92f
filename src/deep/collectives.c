#include "deep/collectives.h"

#include <string.h>

#include "base/vec.h"
#include "deep/ncu_csv.h"

/* The calls of one name in one process, by start. */
struct calls {
    VEC(size_t) ops;
};

/* calls[name * processes + process], of matching names. */
static struct calls *collect(struct arena *a, const struct kernels *k,
                             const struct deep_stages *stages, const char *pattern)
{
    const struct trace *t = k->t;
    uint32_t processes = t->dict.n_processes;
    struct calls *calls = arena_array(a, struct calls, (size_t)k->n_names * processes + 1);
    bool *wanted = arena_array(a, bool, k->n_names + 1);
    for (uint32_t i = 0; i < k->n_names; i++)
        wanted[i] = k->kind[i] == TRACE_KERNEL && deep_matches(pattern, sv_of(k->shorts[i]));
    for (size_t i = 0; i < t->ops.n; i++) {
        uint32_t name = k->name[t->ops.sig[i]], process = t->dict.sigs[t->ops.sig[i]].process;
        if (wanted[name] && (!stages || deep_stage_of(stages, k, i) >= 0))
            vec_push(&calls[(size_t)name * processes + process].ops, i);
    }
    return calls;
}

/* Adds the rows of one name. False: the processes that have it do not call it equally often. */
static bool add_name(struct arena *a, const struct kernels *k, uint32_t name,
                     const struct calls *calls, struct deep_collective_row *rows, size_t *n)
{
    const struct trace *t = k->t;
    uint32_t processes = t->dict.n_processes, ranks = 0;
    size_t most = 0;
    for (uint32_t p = 0; p < processes; p++) {
        ranks += calls[p].ops.n > 0;
        most = calls[p].ops.n > most ? calls[p].ops.n : most;
    }
    for (uint32_t p = 0; p < processes; p++)
        if (calls[p].ops.n && calls[p].ops.n != most)
            return false;
    if (ranks < 2)
        return ranks == 0;
    int64_t *last = mem_alloc(most * sizeof *last); /* start of the last rank */
    for (size_t i = 0; i < most; i++)
        last[i] = INT64_MIN;
    for (uint32_t p = 0; p < processes; p++)
        for (size_t i = 0; i < calls[p].ops.n; i++)
            if (t->ops.start_ns[calls[p].ops.p[i]] > last[i])
                last[i] = t->ops.start_ns[calls[p].ops.p[i]];
    for (uint32_t p = 0; p < processes; p++) {
        int64_t total = 0, waiting = 0;
        for (size_t i = 0; i < calls[p].ops.n; i++) {
            size_t op = calls[p].ops.p[i];
            int64_t start = t->ops.start_ns[op], time = t->ops.end_ns[op] - start;
            total += time;
            waiting += last[i] - start < time ? last[i] - start : time;
        }
        if (!calls[p].ops.n)
            continue;
        const struct trace_sig *sig = &t->dict.sigs[t->ops.sig[calls[p].ops.p[0]]];
        rows[(*n)++] = (struct deep_collective_row){.name = arena_str(a, k->shorts[name]),
                                                    .process = t->dict.processes[p].pid,
                                                    .device = sig->device,
                                                    .calls = (double)calls[p].ops.n,
                                                    .total_ms = (double)total / 1e6,
                                                    .waiting_ms = (double)waiting / 1e6,
                                                    .moving_ms = (double)(total - waiting) / 1e6};
    }
    mem_free(last);
    return true;
}

struct deep_collective_row *deep_collectives_of(struct arena *a, const struct kernels *k,
                                                const struct deep_stages *stages,
                                                const char *pattern, size_t *n, size_t *uneven)
{
    uint32_t processes = k->t->dict.n_processes;
    *n = *uneven = 0;
    if (processes < 2)
        return NULL;
    struct arena *scratch = arena_new();
    struct calls *calls = collect(scratch, k, stages, pattern);
    size_t most = 0;
    for (size_t i = 0; i < (size_t)k->n_names * processes; i++)
        most += calls[i].ops.n > 0;
    struct deep_collective_row *rows = arena_array(a, struct deep_collective_row, most + 1);
    for (uint32_t name = 0; name < k->n_names; name++)
        *uneven += !add_name(a, k, name, &calls[(size_t)name * processes], rows, n);
    for (size_t i = 0; i < (size_t)k->n_names * processes; i++)
        vec_free(&calls[i].ops);
    arena_free(&scratch);
    return rows;
}
