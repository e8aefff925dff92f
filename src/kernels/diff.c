/* Comparison of two traces, kernel by kernel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "kernels/kernels.h"

struct pair {
    const char *name;
    int64_t total_ns[2]; /* before, after */
    uint64_t calls[2];
};

typedef VEC(struct pair) pair_list;

static void add_side(struct map *known, pair_list *pairs, const struct kernels *k, int side)
{
    uint32_t *pair_of = arena_array(k->a, uint32_t, k->n_names);
    for (uint32_t i = 0; i < k->n_names; i++) {
        bool new;
        struct map_entry *e = map_put(known, k->names[i], strlen(k->names[i]), &new);
        if (new) {
            e->i = (int64_t)pairs->n;
            vec_push(pairs, (struct pair){.name = k->names[i]});
        }
        pair_of[i] = (uint32_t)e->i;
    }
    for (size_t i = 0; i < k->t->ops.n; i++) {
        struct pair *p = &pairs->p[pair_of[k->name[k->t->ops.sig[i]]]];
        p->total_ns[side] += kernels_duration(k, i);
        p->calls[side]++;
    }
}

static int by_change(const void *x, const void *y)
{
    const struct pair *a = x, *b = y;
    int64_t da = llabs(a->total_ns[1] - a->total_ns[0]),
            db = llabs(b->total_ns[1] - b->total_ns[0]);
    if (da != db)
        return da > db ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void put_change(struct table *t, double before, double after)
{
    if (before > 0)
        table_cell(t, "%.1f", 100 * (after - before) / before);
    else
        table_cell(t, "n/a");
}

static void put_pair(struct table *t, const struct pair *p)
{
    double before = (double)p->total_ns[0] / 1e6, after = (double)p->total_ns[1] / 1e6;
    table_cell(t, "%s", p->name);
    table_cell(t, "%s", !p->calls[0] ? "new" : !p->calls[1] ? "gone" : "both");
    table_cell(t, "%.6f", before);
    table_cell(t, "%.6f", after);
    table_cell(t, "%.6f", after - before);
    put_change(t, before, after);
    for (int side = 0; side < 2; side++)
        table_cell(t, "%llu", (unsigned long long)p->calls[side]);
    for (int side = 0; side < 2; side++) {
        if (p->calls[side])
            table_cell(t, "%.6f", (double)p->total_ns[side] / 1e6 / (double)p->calls[side]);
        else
            table_cell(t, "n/a");
    }
}

struct table *kernels_diff_table(struct arena *a, const struct kernels *before,
                                 const struct kernels *after)
{
    static const char *const head[] = {
        "Name",       "Status",       "Before (ms)", "After (ms)",       "Change (ms)",
        "Change (%)", "Calls before", "Calls after", "Mean before (ms)", "Mean after (ms)"};
    enum { COLUMNS = sizeof head / sizeof *head };
    struct map known;
    pair_list pairs = {0};
    struct pair total = {.name = "(all)"};
    map_init(&known, a);
    add_side(&known, &pairs, before, 0);
    add_side(&known, &pairs, after, 1);
    struct table *t = table_new(a, COLUMNS);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, "%s", head[i]);
    size_t n = 0; /* skips names that patterns excluded on both sides */
    for (size_t i = 0; i < pairs.n; i++)
        if (pairs.p[i].calls[0] + pairs.p[i].calls[1])
            pairs.p[n++] = pairs.p[i];
    if (n)
        qsort(pairs.p, n, sizeof *pairs.p, by_change);
    for (size_t i = 0; i < n; i++) {
        for (int side = 0; side < 2; side++) {
            total.total_ns[side] += pairs.p[i].total_ns[side];
            total.calls[side] += pairs.p[i].calls[side];
        }
    }
    put_pair(t, &total);
    for (size_t i = 0; i < n; i++)
        put_pair(t, &pairs.p[i]);
    vec_free(&pairs);
    return t;
}
