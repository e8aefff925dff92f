/* Reports of `nsys stats` over NVTX ranges. */
#include <stdlib.h>
#include <string.h>

#include "kernels/reports.h"
#include "kernels/rows.h"

/* ---- ranges on the host ---- */

static int64_t range_time(const void *self, size_t i)
{
    const struct trace_range *r = self;
    return r[i].end_ns - r[i].start_ns;
}

/* Dense ids for (name, domain, style) of the ranges that have one of the styles. */
struct range_names {
    struct kernels_keys text, all;
    uint32_t *group;       /* [n_ranges] */
    VEC(uint32_t) example; /* a range of each id */
};

static struct range_names name_ranges(const struct kernels *k, unsigned styles)
{
    struct range_names n = {0};
    const struct trace *t = k->t;
    n.group = mem_alloc(t->n_ranges * sizeof *n.group);
    for (size_t i = 0; i < t->n_ranges; i++) {
        const struct trace_range *r = &t->ranges[i];
        n.group[i] = TRACE_NONE;
        if (!kernels_has_style(styles, r->style))
            continue;
        n.group[i] = kernels_key(
            &n.all, kernels_pair(kernels_key(&n.text, kernels_pair(r->text, r->domain)), r->style));
        if (n.group[i] == n.example.n)
            vec_push(&n.example, (uint32_t)i);
    }
    return n;
}

static void free_names(struct range_names *n)
{
    kernels_keys_free(&n->text);
    kernels_keys_free(&n->all);
    mem_free(n->group);
    vec_free(&n->example);
}

static const char *name_of_range(struct arena *a, const struct kernels *k, uint32_t range)
{
    const struct trace_range *r = &k->t->ranges[range];
    return kernels_range_name(a, k, r->text, r->domain);
}

void kernels_nvtx_sum(const struct kernels *k, struct table *out)
{
    const struct trace *t = k->t;
    struct arena *a = arena_new();
    struct range_names names = name_ranges(k, STYLES_NVTX);
    struct kernels_groups g =
        kernels_group(names.group, t->n_ranges, (uint32_t)names.example.n, range_time, t->ranges);
    const char **texts = arena_array(a, const char *, names.example.n);
    for (size_t i = 0; i < names.example.n; i++)
        texts[i] = name_of_range(a, k, names.example.p[i]);
    struct kernels_rows rows = kernels_rows_of(&g, texts);
    for (size_t i = 0; i < rows.list.n; i++) {
        kernels_put_sum(out, &rows, &rows.list.p[i]);
        table_cell(out, "%s",
                   kernels_style_name(t->ranges[names.example.p[rows.list.p[i].id]].style));
        table_cell(out, "%s", rows.list.p[i].name);
    }
    vec_free(&rows.list);
    kernels_groups_free(&g);
    free_names(&names);
    arena_free(&a);
}

/* ---- ranges projected on the GPU ---- */

static int64_t projected(const void *self, size_t i)
{
    const struct range_sum *s = self;
    return s[i].last_ns - s[i].first_ns;
}

struct range_projection {
    int64_t range_ns;
    uint64_t launches, level, children;
};

/* The shortest range on its thread that encloses it entirely: as in nsys, where a start/end range
 * is no parent of a range that outlasts it. */
static uint32_t holder_of(const struct kernels *k, uint32_t range)
{
    const struct trace_range *r = k->t->ranges;
    uint32_t best = TRACE_NONE, p = k->range_parent[range];
    int64_t shortest = INT64_MAX;
    for (int depth = 0; p != TRACE_NONE && depth < KERNELS_MAX_DEPTH; depth++) {
        int64_t time = range_time(r, p);
        if (kernels_has_style(STYLES_NVTX, r[p].style) && r[p].end_ns >= r[range].end_ns &&
            r[p].end_thread == r[p].thread && time < shortest) {
            best = p;
            shortest = time;
        }
        p = k->range_parent[p];
    }
    return best;
}

/* Levels count all enclosing ranges, children only those with launches. */
static struct range_projection *
projections(const struct kernels *k, const struct range_names *names, const struct range_sum *sums)
{
    struct range_projection *p = mem_alloc(names->example.n * sizeof *p);
    uint32_t *level = mem_alloc(k->t->n_ranges * sizeof *level);
    for (uint32_t i = 0; i < k->t->n_ranges; i++) {
        uint32_t id = names->group[i];
        if (!kernels_has_style(STYLES_NVTX, k->t->ranges[i].style))
            continue;
        uint32_t parent = holder_of(k, i);
        level[i] = parent == TRACE_NONE ? 0 : level[parent] + 1;
        if (id == TRACE_NONE)
            continue;
        p[id].range_ns += range_time(k->t->ranges, i);
        p[id].launches += sums[i].n_launches;
        p[id].level += level[i];
        if (parent != TRACE_NONE && names->group[parent] != TRACE_NONE)
            p[names->group[parent]].children++;
    }
    mem_free(level);
    return p;
}

void kernels_proj_sum(const struct kernels *k, struct table *out)
{
    const struct trace *t = k->t;
    struct arena *a = arena_new();
    const struct range_sum *sums = kernels_range_sums(k, STYLES_NVTX);
    struct range_names names = name_ranges(k, STYLES_NVTX);
    for (size_t i = 0; i < t->n_ranges; i++)
        if (!sums[i].n_ops)
            names.group[i] = TRACE_NONE;
    struct range_projection *p = projections(k, &names, sums);
    struct kernels_groups g =
        kernels_group(names.group, t->n_ranges, (uint32_t)names.example.n, projected, sums);
    const char **texts = arena_array(a, const char *, names.example.n);
    for (size_t i = 0; i < names.example.n; i++)
        texts[i] = name_of_range(a, k, names.example.p[i]);
    struct kernels_rows rows = kernels_rows_of(&g, texts);
    for (size_t i = 0; i < rows.list.n; i++) {
        const struct kernels_row *w = &rows.list.p[i];
        double n = (double)w->s.n;
        table_cell(out, "%s", w->name);
        table_cell(out, "%s", kernels_style_name(t->ranges[names.example.p[w->id]].style));
        table_cell(out, "%lld", (long long)w->s.sum);
        table_cell(out, "%lld", (long long)p[w->id].range_ns);
        table_cell(out, "%zu", w->s.n);
        kernels_put_time(out, &w->s);
        table_cell(out, "%llu", (unsigned long long)p[w->id].launches);
        kernels_put_rounded(out, (double)p[w->id].launches / n);
        kernels_put_rounded(out, (double)p[w->id].level / n);
        kernels_put_rounded(out, (double)p[w->id].children / n);
    }
    vec_free(&rows.list);
    kernels_groups_free(&g);
    mem_free(p);
    free_names(&names);
    arena_free(&a);
}

/* ---- kernels by range ---- */

/* Groups of operations: launched on one path of ranges, of one name. A pair (class of range,
 * kernel) is summed from the leaves with that class on their path. */
struct leaves {
    struct kernels_keys keys; /* (path, name) */
    uint32_t *group;          /* [ops.n] leaf */
    struct kernels_groups times;
};

static struct leaves find_leaves(const struct kernels *k)
{
    const struct trace *t = k->t;
    struct leaves l = {0};
    l.group = mem_alloc(t->ops.n * sizeof *l.group);
    for (size_t i = 0; i < t->ops.n; i++) {
        uint32_t path = kernels_path_of(k, i);
        bool counts = path != TRACE_NONE && t->dict.sigs[t->ops.sig[i]].kind == TRACE_KERNEL;
        l.group[i] =
            counts ? kernels_key(&l.keys, kernels_pair(path, k->name[t->ops.sig[i]])) : TRACE_NONE;
    }
    l.times = kernels_group(l.group, t->ops.n, l.keys.n, kernels_op_time, k);
    return l;
}

static void free_leaves(struct leaves *l)
{
    kernels_keys_free(&l->keys);
    kernels_groups_free(&l->times);
    mem_free(l->group);
}

struct pair_leaf {
    uint32_t pair, leaf;
};

static int by_pair(const void *x, const void *y)
{
    const struct pair_leaf *a = x, *b = y;
    if (a->pair != b->pair)
        return a->pair < b->pair ? -1 : 1;
    return a->leaf < b->leaf ? -1 : a->leaf > b->leaf;
}

struct pair_row {
    struct kernels_stats
        s;          /* a kernel inside two instances of the range counts twice, as in nsys */
    size_t kernels; /* it counts once */
    const char *range, *name;
    uint32_t pair; /* TRACE_NONE: outside of ranges */
    uint32_t pid, tid;
    bool has_thread;
};

static int by_range_then_total(const void *x, const void *y)
{
    const struct pair_row *a = x, *b = y;
    int c = strcmp(a->range, b->range);
    if (c)
        return c;
    c = kernels_compare(a->has_thread, b->has_thread);
    c = c ? c : kernels_compare(a->pid, b->pid);
    c = c ? c : kernels_compare(a->tid, b->tid);
    c = c ? c : kernels_compare(b->s.sum, a->s.sum);
    c = c ? c : strcmp(a->name, b->name);
    return c ? c : kernels_compare(a->pair, b->pair);
}

struct range_kernels {
    struct kernels_keys pairs; /* (class, name) */
    VEC(struct pair_leaf) list;
    size_t *first_of_leaf; /* [leaves + 1] into pair_of */
    VEC(uint32_t) pair_of; /* pairs of each leaf, outermost class first */
};

static void find_pairs(const struct kernels *k, const struct leaves *l, struct range_kernels *out)
{
    out->first_of_leaf = mem_alloc(((size_t)l->keys.n + 1) * sizeof *out->first_of_leaf);
    for (uint32_t leaf = 0; leaf < l->keys.n; leaf++) {
        uint32_t chain[KERNELS_MAX_DEPTH + 1];
        int n = 0;
        out->first_of_leaf[leaf] = out->pair_of.n;
        for (uint32_t p = (uint32_t)(l->keys.keys[leaf] >> 32);
             p != TRACE_NONE && n <= KERNELS_MAX_DEPTH; p = k->paths[p].parent)
            if (kernels_has_style(STYLES_NVTX, k->classes[k->paths[p].class].style))
                chain[n++] = k->paths[p].class;
        uint32_t name = (uint32_t)l->keys.keys[leaf];
        while (n > 0) {
            uint32_t pair = kernels_key(&out->pairs, kernels_pair(chain[--n], name));
            vec_push(&out->pair_of, pair);
            vec_push(&out->list, (struct pair_leaf){pair, leaf});
        }
    }
    out->first_of_leaf[l->keys.n] = out->pair_of.n;
    if (out->list.n)
        qsort(out->list.p, out->list.n, sizeof *out->list.p, by_pair);
}

/* Kernels outside all ranges, by launching thread (0: unknown) and name. */
static void outside_rows(const struct kernels *k, const struct leaves *l,
                         const struct range_kernels *rk, struct pair_row **rows, size_t *n)
{
    const struct trace *t = k->t;
    struct kernels_keys keys = {0};
    uint32_t *group = mem_alloc(t->ops.n * sizeof *group);
    for (size_t i = 0; i < t->ops.n; i++) {
        uint32_t leaf = l->group[i], call = t->ops.call[i];
        group[i] = TRACE_NONE;
        if (t->dict.sigs[t->ops.sig[i]].kind != TRACE_KERNEL ||
            (leaf != TRACE_NONE && rk->first_of_leaf[leaf + 1] > rk->first_of_leaf[leaf]))
            continue;
        uint32_t thread = call == TRACE_NONE ? 0 : t->calls.thread[call] + 1;
        group[i] = kernels_key(&keys, kernels_pair(thread, k->name[t->ops.sig[i]]));
    }
    struct kernels_groups g = kernels_group(group, t->ops.n, keys.n, kernels_op_time, k);
    *rows = mem_resize(*rows, (*n + keys.n + 1) * sizeof **rows);
    for (uint32_t i = 0; i < keys.n; i++) {
        struct pair_row row = {
            .s = kernels_stats_of(g.values + g.first[i], g.first[i + 1] - g.first[i]),
            .range = "",
            .name = k->names[(uint32_t)keys.keys[i]],
            .pair = TRACE_NONE};
        uint32_t thread = (uint32_t)(keys.keys[i] >> 32);
        if (thread > 0) {
            row.tid = t->dict.threads[thread - 1].tid;
            row.pid = t->dict.processes[t->dict.threads[thread - 1].process].pid;
        }
        row.kernels = row.s.n;
        row.has_thread = thread > 0;
        (*rows)[(*n)++] = row;
    }
    kernels_groups_free(&g);
    kernels_keys_free(&keys);
    mem_free(group);
}

/* Pairs of a leaf, outermost first, [*n]; NULL = of no range: pair_of may hold nothing to point
 * into. */
static const uint32_t *pairs_of(const struct range_kernels *rk, uint32_t leaf, size_t *n)
{
    *n = rk->first_of_leaf[leaf + 1] - rk->first_of_leaf[leaf];
    return *n ? rk->pair_of.p + rk->first_of_leaf[leaf] : NULL;
}

/* Adds those of operations without a call, whose operator is known by its id. */
static void count_by_id(const struct kernels *k, const struct leaves *l,
                        const struct range_kernels *rk, uint32_t *count)
{
    const struct trace *t = k->t;
    struct kernels_keys seen = {0};
    for (size_t i = 0; i < t->ops.n && t->ops.range; i++) {
        uint32_t chain[KERNELS_MAX_DEPTH];
        size_t known;
        if (t->ops.call[i] != TRACE_NONE || l->group[i] == TRACE_NONE)
            continue;
        const uint32_t *pair = pairs_of(rk, l->group[i], &known);
        if (!pair)
            continue;
        int depth = kernels_chain(k, i, STYLES_NVTX, chain);
        for (size_t d = 0; depth > 0 && d < known; d++) {
            uint32_t before = seen.n;
            count[pair[d]] += kernels_key(&seen, kernels_pair(pair[d], chain[--depth])) == before;
        }
    }
    kernels_keys_free(&seen);
}

/* Instances of ranges that launched each pair's kernel. Calls come in order of time, thread by
 * thread, so a range's first launch comes after those of ranges that began before it; the ranges
 * around a launch are visited from the outermost in. */
static uint32_t *count_instances(const struct kernels *k, const struct leaves *l,
                                 const struct range_kernels *rk)
{
    const struct trace *t = k->t;
    uint32_t *count = mem_alloc((rk->pairs.n + 1) * sizeof *count);
    uint32_t *latest = mem_alloc((rk->pairs.n + 1) * sizeof *latest); /* range + 1 */
    uint32_t *order = mem_alloc(t->ops.n * sizeof *order);
    size_t *first = mem_alloc((t->calls.n + 1) * sizeof *first);
    for (size_t i = 0; i < t->ops.n; i++)
        if (t->ops.call[i] != TRACE_NONE)
            first[t->ops.call[i] + 1]++;
    for (size_t c = 0; c < t->calls.n; c++)
        first[c + 1] += first[c];
    size_t n = first[t->calls.n];
    for (size_t i = t->ops.n; i-- > 0;)
        if (t->ops.call[i] != TRACE_NONE)
            order[--first[t->ops.call[i] + 1]] = (uint32_t)i;
    for (size_t j = 0; j < n; j++) {
        uint32_t i = order[j], chain[KERNELS_MAX_DEPTH];
        size_t known;
        if (l->group[i] == TRACE_NONE)
            continue;
        const uint32_t *pair = pairs_of(rk, l->group[i], &known);
        if (!pair)
            continue;
        int depth = kernels_chain(k, i, STYLES_NVTX, chain);
        for (size_t d = 0; depth > 0 && d < known; d++) {
            uint32_t range = chain[--depth] + 1;
            if (range > latest[pair[d]]) {
                latest[pair[d]] = range;
                count[pair[d]]++;
            }
        }
    }
    mem_free(latest);
    mem_free(order);
    mem_free(first);
    count_by_id(k, l, rk, count);
    return count;
}

/* The times of each pair, from its leaves. */
static struct pair_row *pair_rows(struct arena *a, const struct kernels *k, const struct leaves *l,
                                  const struct range_kernels *rk)
{
    struct pair_row *rows = mem_alloc((rk->pairs.n + 1) * sizeof *rows);
    VEC(int64_t) times = {0};
    for (size_t i = 0; i < rk->list.n;) {
        uint32_t pair = rk->list.p[i].pair, leaf = TRACE_NONE;
        size_t kernels = 0;
        vec_clear(&times);
        for (; i < rk->list.n && rk->list.p[i].pair == pair; i++) {
            const size_t *first = &l->times.first[rk->list.p[i].leaf];
            size_t n = first[1] - first[0];
            vec_reserve(&times, times.n + n);
            memcpy(times.p + times.n, l->times.values + first[0], n * sizeof *times.p);
            times.n += n;
            kernels += rk->list.p[i].leaf == leaf ? 0 : n;
            leaf = rk->list.p[i].leaf;
        }
        const struct kernels_class *c = &k->classes[rk->pairs.keys[pair] >> 32];
        const struct trace_thread *thread = &k->t->dict.threads[c->thread];
        rows[pair] = (struct pair_row){.s = kernels_stats_of(times.p, times.n),
                                       .kernels = kernels,
                                       .range = kernels_range_name(a, k, c->text, c->domain),
                                       .name = k->names[(uint32_t)rk->pairs.keys[pair]],
                                       .pair = pair,
                                       .pid = k->t->dict.processes[thread->process].pid,
                                       .tid = thread->tid,
                                       .has_thread = true};
    }
    vec_free(&times);
    return rows;
}

void kernels_nvtx_kern_sum(const struct kernels *k, struct table *out)
{
    struct arena *a = arena_new();
    struct leaves l = find_leaves(k);
    struct range_kernels rk = {0};
    find_pairs(k, &l, &rk);
    uint32_t *instances = count_instances(k, &l, &rk);
    struct pair_row *rows = pair_rows(a, k, &l, &rk);
    size_t n = rk.pairs.n;
    outside_rows(k, &l, &rk, &rows, &n);
    if (n)
        qsort(rows, n, sizeof *rows, by_range_then_total);
    for (size_t i = 0; i < n; i++) {
        const struct pair_row *w = &rows[i];
        bool inside = w->pair != TRACE_NONE;
        uint32_t class = inside ? (uint32_t)(rk.pairs.keys[w->pair] >> 32) : 0;
        table_cell(out, "%s", w->range);
        table_cell(out, "%s", inside ? kernels_style_name(k->classes[class].style) : "");
        if (w->has_thread) {
            table_cell(out, "%u", w->pid);
            table_cell(out, "%u", w->tid);
        } else {
            table_cell(out, "%s", "");
            table_cell(out, "%s", "");
        }
        table_cell(out, "%u", inside ? instances[w->pair] : 0);
        table_cell(out, "%zu", w->kernels);
        table_cell(out, "%lld", (long long)w->s.sum);
        kernels_put_time(out, &w->s);
        table_cell(out, "%s", w->name);
    }
    mem_free(rows);
    mem_free(instances);
    mem_free(rk.first_of_leaf);
    vec_free(&rk.list);
    vec_free(&rk.pair_of);
    kernels_keys_free(&rk.pairs);
    free_leaves(&l);
    arena_free(&a);
}
