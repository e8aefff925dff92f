#include "replay/reach.h"

#include <string.h>

#include "base/vec.h"

const struct capsule_allocation *reach_allocation(const struct capsule *c, uint64_t at)
{
    const struct capsule_allocation *found = NULL;
    for (size_t i = 0; i < c->n_allocations; i++) {
        const struct capsule_allocation *x = &c->allocations[i];
        if (at >= x->address && at - x->address < x->bytes &&
            (!found || !(x->flags & CAPSULE_GONE)))
            found = x;
    }
    return found;
}

struct finder {
    const struct capsule *c;
    const struct capsule_op *kernel;
    VEC(uint32_t) sets; /* falling */
};

static bool reaches(const struct finder *f, const struct capsule_set *set)
{
    const struct capsule_allocation *to = reach_allocation(f->c, set->to);
    const struct sv params = capsule_text(f->c, f->c->launches[f->kernel->item].params);
    for (size_t i = 0; to && i + 8 <= params.n; i += 8) {
        uint64_t word;
        memcpy(&word, params.p + i, sizeof word);
        if (reach_allocation(f->c, word) == to)
            return true;
    }
    return false;
}

static void take(struct finder *f, size_t i)
{
    const struct capsule_op *op = &f->c->ops[i];
    if (op->kind == CAPSULE_SET && reaches(f, &f->c->sets[op->item]))
        vec_push(&f->sets, (uint32_t)i);
}

/* Operations of the kernel's stream from i - 1 back to a kernel. */
static void look_in_stream(struct finder *f, size_t i)
{
    while (i-- > 0) {
        const struct capsule_op *op = &f->c->ops[i];
        if (op->stream != f->kernel->stream)
            continue;
        if (op->kind == CAPSULE_LAUNCH)
            return;
        take(f, i);
    }
}

/* What the kernel waits for in its graph, back to kernels; at the graph's start on in the stream.
 */
static void look_in_graph(struct finder *f)
{
    const struct capsule_op *ops = f->c->ops;
    const size_t at = (size_t)(f->kernel - ops);
    size_t first = at;
    bool start = false;
    while (first > 0 && ops[first - 1].graph == ops[at].graph)
        first--;
    bool *wanted = mem_alloc(at - first + 1);
    memset(wanted, 0, at - first + 1);
    wanted[at - first] = true;
    for (size_t i = at + 1; i-- > first;) {
        if (!wanted[i - first] || (i != at && ops[i].kind == CAPSULE_LAUNCH))
            continue;
        take(f, i);
        start = start || ops[i].n_edges == 0;
        for (uint32_t k = 0; k < ops[i].n_edges; k++) {
            const uint32_t before = f->c->edges[ops[i].first_edge + k].op;
            if (before >= first && before < i)
                wanted[before - first] = true;
        }
    }
    mem_free(wanted);
    if (start)
        look_in_stream(f, first);
}

struct reach_sets reach_sets(struct arena *a, const struct capsule *c, size_t op)
{
    struct finder f = {.c = c, .kernel = &c->ops[op]};
    struct reach_sets out = {0};
    if (f.kernel->kind != CAPSULE_LAUNCH)
        return out;
    if (f.kernel->graph)
        look_in_graph(&f);
    else
        look_in_stream(&f, op);
    out.ops = arena_array(a, uint32_t, f.sets.n);
    while (out.n < f.sets.n) {
        out.ops[out.n] = f.sets.p[f.sets.n - 1 - out.n];
        out.n++;
    }
    vec_free(&f.sets);
    return out;
}
