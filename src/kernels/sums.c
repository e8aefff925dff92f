/* The reports of `nsys stats` over operations and calls. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "kernels/ranges.h"

#define STATS_TIME "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"

/* ---- rows ---- */

/* One row before it is printed: its figures, and what it is about. */
struct row {
    struct kern_stats s;
    const char *name;
    uint32_t id;
};

typedef VEC(struct row) row_list;

static int by_total(const void *x, const void *y)
{
    const struct row *a = x, *b = y;
    if (a->s.sum != b->s.sum)
        return a->s.sum > b->s.sum ? -1 : 1;
    int c = strcmp(a->name, b->name);
    return c ? c : (a->id < b->id ? -1 : a->id > b->id);
}

static void sort_rows(row_list *rows)
{
    if (rows->n)
        qsort(rows->p, rows->n, sizeof *rows->p, by_total);
}

static double percent(const row_list *rows, int64_t part)
{
    double total = 0;
    for (size_t i = 0; i < rows->n; i++)
        total += (double)rows->p[i].s.sum;
    return total > 0 ? 100 * (double)part / total : 0;
}

static void put_time(struct table *t, const struct kern_stats *s)
{
    table_cell(t, "%.1f", s->mean);
    table_cell(t, "%.1f", s->median);
    table_cell(t, "%lld", (long long)s->min);
    table_cell(t, "%lld", (long long)s->max);
    table_cell(t, "%.1f", s->stddev);
}

static void put_sum(struct table *t, const row_list *rows, const struct row *r)
{
    table_cell(t, "%.1f", percent(rows, r->s.sum));
    table_cell(t, "%lld", (long long)r->s.sum);
    table_cell(t, "%zu", r->s.n);
    put_time(t, &r->s);
}

/* Groups to rows: those that are not empty. */
static void rows_of(row_list *rows, struct kern_groups *g, const char *const *names)
{
    for (uint32_t i = 0; i < g->n_groups; i++) {
        size_t n = g->first[i + 1] - g->first[i];
        if (n)
            vec_push(rows, (struct row){kern_stats_of(g->values + g->first[i], n), names[i], i});
    }
    sort_rows(rows);
}

static int64_t op_time(const void *self, size_t i)
{
    return kernels_duration(self, i);
}

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

static void sum_by_name(const struct kernels *k, unsigned kinds, struct table *out)
{
    uint32_t *group = op_groups(k, kinds);
    struct kern_groups g = kern_group(group, k->t->ops.n, k->n_names, op_time, k);
    row_list rows = {0};
    rows_of(&rows, &g, k->names);
    for (size_t i = 0; i < rows.n; i++) {
        put_sum(out, &rows, &rows.p[i]);
        table_cell(out, "%s", rows.p[i].name);
    }
    vec_free(&rows);
    kern_groups_free(&g);
    mem_free(group);
}

static void kern_sum(const struct kernels *k, const struct kernels_report *r, struct table *out)
{
    (void)r;
    sum_by_name(k, ONLY_KERNELS, out);
}

static void mem_time_sum(const struct kernels *k, const struct kernels_report *r, struct table *out)
{
    (void)r;
    sum_by_name(k, ONLY_MEMORY, out);
}

static int64_t op_bytes(const void *self, size_t i)
{
    const struct kernels *k = self;
    return k->t->dict.sigs[k->t->ops.sig[i]].bytes;
}

static void mem_size_sum(const struct kernels *k, const struct kernels_report *r, struct table *out)
{
    (void)r;
    uint32_t *group = op_groups(k, ONLY_MEMORY);
    struct kern_groups g = kern_group(group, k->t->ops.n, k->n_names, op_bytes, k);
    row_list rows = {0};
    rows_of(&rows, &g, k->names);
    for (size_t i = 0; i < rows.n; i++) {
        const struct kern_stats *s = &rows.p[i].s;
        table_cell(out, "%.3f", (double)s->sum / 1e6);
        table_cell(out, "%zu", s->n);
        table_cell(out, "%.3f", s->mean / 1e6);
        table_cell(out, "%.3f", s->median / 1e6);
        table_cell(out, "%.3f", (double)s->min / 1e6);
        table_cell(out, "%.3f", (double)s->max / 1e6);
        table_cell(out, "%.3f", s->stddev / 1e6);
        table_cell(out, "%s", rows.p[i].name);
    }
    vec_free(&rows);
    kern_groups_free(&g);
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

static void api_sum(const struct kernels *k, const struct kernels_report *r, struct table *out)
{
    (void)r;
    const struct trace *t = k->t;
    struct kern_groups g =
        kern_group(t->calls.name, t->calls.n, t->dict.n_strings, call_time, &t->calls);
    row_list rows = {0};
    const char **names = text_list(t);
    rows_of(&rows, &g, names);
    for (size_t i = 0; i < rows.n; i++) {
        put_sum(out, &rows, &rows.p[i]);
        table_cell(out, "%s", rows.p[i].name);
    }
    vec_free(&rows);
    kern_groups_free(&g);
    mem_free(names);
}

/* ---- launch, queue and execution ---- */

static int64_t exec_total(const void *self, size_t i)
{
    const struct trace *t = ((const struct kernels *)self)->t;
    return t->ops.end_ns[i] - t->calls.start_ns[t->ops.call[i]];
}

static int64_t exec_api(const void *self, size_t i)
{
    const struct trace *t = ((const struct kernels *)self)->t;
    return call_time(&t->calls, t->ops.call[i]);
}

/* From the return of the launch to the start on the GPU; no time when it began before. */
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
    struct kern_keys where = {0}, what = {0}, both = {0};
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
        group[i] = kern_key(&both, kern_pair(kern_key(&where, kern_pair(key.thread, key.device)),
                                             kern_key(&what, kern_pair(key.api, key.name))));
        if (group[i] == list.n)
            vec_push(&list, key);
    }
    kern_keys_free(&where);
    kern_keys_free(&what);
    kern_keys_free(&both);
    *keys = list.p;
    *n = (uint32_t)list.n;
    return group;
}

/* The positive ones of a group, moved to its front. */
static size_t positive(int64_t *v, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i] > 0)
            v[kept++] = v[i];
    return kept;
}

static void exec_sum(const struct kernels *k, const struct kernels_report *r, struct table *out)
{
    (void)r;
    static kern_value_fn *const parts[] = {exec_total, exec_api, exec_queue, op_time};
    enum { TOTAL, API, QUEUE, KERNEL, PARTS };
    const struct trace *t = k->t;
    struct exec_key *keys;
    uint32_t n;
    uint32_t *group = exec_groups(k, &keys, &n);
    struct kern_stats(*stats)[PARTS] = mem_alloc(n * sizeof *stats);
    row_list rows = {0};
    for (int part = 0; part < PARTS; part++) {
        struct kern_groups g = kern_group(group, t->ops.n, n, parts[part], k);
        for (uint32_t i = 0; i < n; i++) {
            size_t count = g.first[i + 1] - g.first[i];
            if (part == QUEUE)
                count = positive(g.values + g.first[i], count);
            stats[i][part] = kern_stats_of(g.values + g.first[i], count);
        }
        kern_groups_free(&g);
    }
    for (uint32_t i = 0; i < n; i++)
        vec_push(&rows, (struct row){stats[i][TOTAL], k->names[keys[i].name], i});
    sort_rows(&rows);
    for (size_t j = 0; j < rows.n; j++) {
        uint32_t i = rows.p[j].id;
        const struct trace_thread *thread = &t->dict.threads[keys[i].thread];
        table_cell(out, "%u", t->dict.processes[thread->process].pid);
        table_cell(out, "%u", thread->tid);
        table_cell(out, "%u", keys[i].device);
        table_cell(out, "%zu", stats[i][TOTAL].n);
        table_cell(out, "%zu", stats[i][QUEUE].n);
        for (int part = 0; part < PARTS; part++)
            put_time(out, &stats[i][part]);
        table_cell(out, "%s", trace_text(&t->dict, keys[i].api));
        table_cell(out, "%s", rows.p[j].name);
    }
    vec_free(&rows);
    mem_free(stats);
    mem_free(keys);
    mem_free(group);
}

/* ---- ranges on the host ---- */

static int64_t range_time(const void *self, size_t i)
{
    const struct trace_range *r = self;
    return r[i].end_ns - r[i].start_ns;
}

/* Dense ids for (name, domain, style) of the ranges that have one of the styles. */
struct range_names {
    struct kern_keys text, all;
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
        if (!kern_has_style(styles, r->style))
            continue;
        n.group[i] =
            kern_key(&n.all, kern_pair(kern_key(&n.text, kern_pair(r->text, r->domain)), r->style));
        if (n.group[i] == n.example.n)
            vec_push(&n.example, (uint32_t)i);
    }
    return n;
}

static void free_names(struct range_names *n)
{
    kern_keys_free(&n->text);
    kern_keys_free(&n->all);
    mem_free(n->group);
    vec_free(&n->example);
}

static const char *name_of_range(struct arena *a, const struct kernels *k, uint32_t range)
{
    const struct trace_range *r = &k->t->ranges[range];
    return kernels_range_name(a, k, r->text, r->domain);
}

static void nvtx_sum(const struct kernels *k, const struct kernels_report *r, struct table *out)
{
    (void)r;
    const struct trace *t = k->t;
    struct arena *a = arena_new();
    struct range_names names = name_ranges(k, STYLES_NVTX);
    struct kern_groups g =
        kern_group(names.group, t->n_ranges, (uint32_t)names.example.n, range_time, t->ranges);
    const char **texts = arena_array(a, const char *, names.example.n);
    for (size_t i = 0; i < names.example.n; i++)
        texts[i] = name_of_range(a, k, names.example.p[i]);
    row_list rows = {0};
    rows_of(&rows, &g, texts);
    for (size_t i = 0; i < rows.n; i++) {
        put_sum(out, &rows, &rows.p[i]);
        table_cell(out, "%s", kernels_style_name(t->ranges[names.example.p[rows.p[i].id]].style));
        table_cell(out, "%s", rows.p[i].name);
    }
    vec_free(&rows);
    kern_groups_free(&g);
    free_names(&names);
    arena_free(&a);
}

/* ---- ranges projected on the GPU ---- */

static int64_t projected(const void *self, size_t i)
{
    const struct range_sum *s = self;
    return s[i].last_ns - s[i].first_ns;
}

struct projection {
    int64_t range_ns;
    uint64_t ops, level, children;
};

static uint32_t parent_of(const struct kernels *k, uint32_t range, const uint32_t *group)
{
    const struct trace_range *r = k->t->ranges;
    uint32_t parent = k->range_parent[range];
    for (int depth = 0; parent != TRACE_NONE && depth < KERNELS_MAX_DEPTH; depth++) {
        if (group[parent] != TRACE_NONE && r[parent].end_ns > r[range].start_ns)
            return parent;
        parent = k->range_parent[parent];
    }
    return TRACE_NONE;
}

/* Levels and children count ranges that launched something. */
static struct projection *projections(const struct kernels *k, const struct range_names *names,
                                      const struct range_sum *sums)
{
    struct projection *p = mem_alloc(names->example.n * sizeof *p);
    uint32_t *level = mem_alloc(k->t->n_ranges * sizeof *level);
    for (uint32_t i = 0; i < k->t->n_ranges; i++) {
        uint32_t id = names->group[i];
        if (id == TRACE_NONE)
            continue;
        uint32_t parent = parent_of(k, i, names->group);
        level[i] = parent == TRACE_NONE ? 0 : level[parent] + 1;
        p[id].range_ns += range_time(k->t->ranges, i);
        p[id].ops += sums[i].n_ops;
        p[id].level += level[i];
        if (parent != TRACE_NONE)
            p[names->group[parent]].children++;
    }
    mem_free(level);
    return p;
}

static void proj_sum(const struct kernels *k, const struct kernels_report *r, struct table *out)
{
    (void)r;
    const struct trace *t = k->t;
    struct arena *a = arena_new();
    struct range_sum *sums = kern_range_sums(k, STYLES_NVTX);
    struct range_names names = name_ranges(k, STYLES_NVTX);
    for (size_t i = 0; i < t->n_ranges; i++)
        if (!sums[i].n_ops)
            names.group[i] = TRACE_NONE;
    struct projection *p = projections(k, &names, sums);
    struct kern_groups g =
        kern_group(names.group, t->n_ranges, (uint32_t)names.example.n, projected, sums);
    const char **texts = arena_array(a, const char *, names.example.n);
    for (size_t i = 0; i < names.example.n; i++)
        texts[i] = name_of_range(a, k, names.example.p[i]);
    row_list rows = {0};
    rows_of(&rows, &g, texts);
    for (size_t i = 0; i < rows.n; i++) {
        const struct row *w = &rows.p[i];
        double n = (double)w->s.n;
        table_cell(out, "%s", w->name);
        table_cell(out, "%s", kernels_style_name(t->ranges[names.example.p[w->id]].style));
        table_cell(out, "%lld", (long long)w->s.sum);
        table_cell(out, "%lld", (long long)p[w->id].range_ns);
        table_cell(out, "%zu", w->s.n);
        put_time(out, &w->s);
        table_cell(out, "%llu", (unsigned long long)p[w->id].ops);
        table_cell(out, "%.1f", (double)p[w->id].ops / n);
        table_cell(out, "%.1f", (double)p[w->id].level / n);
        table_cell(out, "%.1f", (double)p[w->id].children / n);
    }
    vec_free(&rows);
    kern_groups_free(&g);
    mem_free(p);
    mem_free(sums);
    free_names(&names);
    arena_free(&a);
}

/* ---- kernels by range ---- */

/* Operations alike: launched on one path of ranges, of one name. What is asked of a pair (class of
 * range, kernel) is put together from the leaves that have the class on their path. */
struct leaves {
    struct kern_keys keys; /* (path, name) */
    uint32_t *group;       /* [ops.n] leaf */
    struct kern_groups times;
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
            counts ? kern_key(&l.keys, kern_pair(path, k->name[t->ops.sig[i]])) : TRACE_NONE;
    }
    l.times = kern_group(l.group, t->ops.n, l.keys.n, op_time, k);
    return l;
}

static void free_leaves(struct leaves *l)
{
    kern_keys_free(&l->keys);
    kern_groups_free(&l->times);
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

struct range_kernels {
    struct kern_keys pairs; /* (class, name) */
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
            if (kern_has_style(STYLES_NVTX, k->classes[k->paths[p].class].style))
                chain[n++] = k->paths[p].class;
        uint32_t name = (uint32_t)l->keys.keys[leaf];
        while (n > 0) {
            uint32_t pair = kern_key(&out->pairs, kern_pair(chain[--n], name));
            vec_push(&out->pair_of, pair);
            vec_push(&out->list, (struct pair_leaf){pair, leaf});
        }
    }
    out->first_of_leaf[l->keys.n] = out->pair_of.n;
    if (out->list.n)
        qsort(out->list.p, out->list.n, sizeof *out->list.p, by_pair);
}

/* Instances of ranges that launched each pair's kernel. Calls come in order of time, thread by
 * thread, so a range's first launch comes after those of ranges that began before it; and what is
 * around a launch is passed from the outermost in. */
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
        if (l->group[i] == TRACE_NONE)
            continue;
        int depth = kern_chain(k, i, STYLES_NVTX, chain);
        const uint32_t *pair = rk->pair_of.p + rk->first_of_leaf[l->group[i]];
        size_t known = rk->first_of_leaf[l->group[i] + 1] - rk->first_of_leaf[l->group[i]];
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
    return count;
}

struct pair_row {
    struct kern_stats s;
    const char *range;
    uint32_t pair;
};

static int by_range_then_total(const void *x, const void *y)
{
    const struct pair_row *a = x, *b = y;
    int c = strcmp(a->range, b->range);
    if (c)
        return c;
    if (a->s.sum != b->s.sum)
        return a->s.sum > b->s.sum ? -1 : 1;
    return a->pair < b->pair ? -1 : a->pair > b->pair;
}

/* The times of each pair, from its leaves. */
static struct pair_row *pair_rows(struct arena *a, const struct kernels *k, const struct leaves *l,
                                  const struct range_kernels *rk)
{
    struct pair_row *rows = mem_alloc((rk->pairs.n + 1) * sizeof *rows);
    VEC(int64_t) times = {0};
    for (size_t i = 0; i < rk->list.n;) {
        uint32_t pair = rk->list.p[i].pair;
        vec_clear(&times);
        for (; i < rk->list.n && rk->list.p[i].pair == pair; i++) {
            const size_t *first = &l->times.first[rk->list.p[i].leaf];
            size_t n = first[1] - first[0];
            vec_reserve(&times, times.n + n);
            memcpy(times.p + times.n, l->times.values + first[0], n * sizeof *times.p);
            times.n += n;
        }
        const struct kernels_class *c = &k->classes[rk->pairs.keys[pair] >> 32];
        rows[pair] = (struct pair_row){kern_stats_of(times.p, times.n),
                                       kernels_range_name(a, k, c->text, c->domain), pair};
    }
    vec_free(&times);
    return rows;
}

static void nvtx_kern_sum(const struct kernels *k, const struct kernels_report *r,
                          struct table *out)
{
    (void)r;
    const struct trace *t = k->t;
    struct arena *a = arena_new();
    struct leaves l = find_leaves(k);
    struct range_kernels rk = {0};
    find_pairs(k, &l, &rk);
    uint32_t *instances = count_instances(k, &l, &rk);
    struct pair_row *rows = pair_rows(a, k, &l, &rk);
    if (rk.pairs.n)
        qsort(rows, rk.pairs.n, sizeof *rows, by_range_then_total);
    for (uint32_t i = 0; i < rk.pairs.n; i++) {
        const struct pair_row *w = &rows[i];
        const struct kernels_class *c = &k->classes[rk.pairs.keys[w->pair] >> 32];
        const struct trace_thread *thread = &t->dict.threads[c->thread];
        table_cell(out, "%s", w->range);
        table_cell(out, "%s", kernels_style_name(c->style));
        table_cell(out, "%u", t->dict.processes[thread->process].pid);
        table_cell(out, "%u", thread->tid);
        table_cell(out, "%u", instances[w->pair]);
        table_cell(out, "%zu", w->s.n);
        table_cell(out, "%lld", (long long)w->s.sum);
        put_time(out, &w->s);
        table_cell(out, "%s", k->names[(uint32_t)rk.pairs.keys[w->pair]]);
    }
    mem_free(rows);
    mem_free(instances);
    mem_free(rk.first_of_leaf);
    vec_free(&rk.list);
    vec_free(&rk.pair_of);
    kern_keys_free(&rk.pairs);
    free_leaves(&l);
    arena_free(&a);
}

/* ---- the table ---- */

#define COLUMNS(...) ((const char *const[]){__VA_ARGS__, NULL})

const struct kernels_report kernels_reports[] = {
    {"cuda_gpu_kern_sum", "time of kernels by name",
     COLUMNS("Time (%)", "Total Time (ns)", "Instances", STATS_TIME, "Name"), kern_sum},
    {"nvtx_kern_sum", "time of kernels by NVTX range and name",
     COLUMNS("NVTX Range", "Style", "PID", "TID", "NVTX Inst", "Kern Inst", "Total Time (ns)",
             STATS_TIME, "Kernel Name"),
     nvtx_kern_sum},
    {"nvtx_gpu_proj_sum", "NVTX ranges projected on the GPU",
     COLUMNS("Range", "Style", "Total Proj Time (ns)", "Total Range Time (ns)", "Range Instances",
             "Proj Avg (ns)", "Proj Med (ns)", "Proj Min (ns)", "Proj Max (ns)", "Proj StdDev (ns)",
             "Total GPU Ops", "Avg GPU Ops", "Avg Range Lvl", "Avg Num Child"),
     proj_sum},
    {"cuda_api_sum", "time of API calls by name",
     COLUMNS("Time (%)", "Total Time (ns)", "Num Calls", STATS_TIME, "Name"), api_sum},
    {"cuda_kern_exec_sum", "launch, queue and execution times by kernel",
     COLUMNS("PID", "TID", "DevId", "Count", "QCount", "TAvg (ns)", "TMed (ns)", "TMin (ns)",
             "TMax (ns)", "TStdDev (ns)", "AAvg (ns)", "AMed (ns)", "AMin (ns)", "AMax (ns)",
             "AStdDev (ns)", "QAvg (ns)", "QMed (ns)", "QMin (ns)", "QMax (ns)", "QStdDev (ns)",
             "KAvg (ns)", "KMed (ns)", "KMin (ns)", "KMax (ns)", "KStdDev (ns)", "API Name",
             "Kernel Name"),
     exec_sum},
    {"cuda_gpu_mem_time_sum", "time of copies and sets",
     COLUMNS("Time (%)", "Total Time (ns)", "Count", STATS_TIME, "Operation"), mem_time_sum},
    {"cuda_gpu_mem_size_sum", "bytes of copies and sets",
     COLUMNS("Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)",
             "Operation"),
     mem_size_sum},
    {"nvtx_sum", "time of NVTX ranges on the host",
     COLUMNS("Time (%)", "Total Time (ns)", "Instances", STATS_TIME, "Style", "Range"), nvtx_sum},
    {0},
};

struct table *kernels_report_table(struct arena *a, const struct kernels *k,
                                   const struct kernels_report *r)
{
    int columns = 0;
    while (r->columns[columns])
        columns++;
    struct table *t = table_new(a, columns);
    for (int i = 0; i < columns; i++)
        table_cell(t, "%s", r->columns[i]);
    r->rows(k, r, t);
    return t;
}
