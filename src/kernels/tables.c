/* Markdown tables: kernels, operators, regions. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "kernels/ranges.h"

/* One line: what, total, calls, mean, share of the total. */
struct total_line {
    const char *name;
    int64_t total_ns;
    uint64_t calls;
    const char *label; /* in place of the name where tables are to be read; NULL = the name, cut */
};

static int by_total(const void *x, const void *y)
{
    const struct total_line *a = x, *b = y;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Begin and end of a long name: template names have thousands of bytes, and a table is as wide as
 * its widest cell. The CSV reports have full names. */
static const char *readable(struct arena *a, const char *name)
{
    enum { LONGEST = 120, HEAD = 80, TAIL = 37 };
    const size_t n = strlen(name);
    if (n <= LONGEST)
        return name;
    size_t head = HEAD, tail = n - TAIL;
    while (head > 0 && ((unsigned char)name[head] & 0xc0) == 0x80)
        head--;
    while (tail < n && ((unsigned char)name[tail] & 0xc0) == 0x80)
        tail++;
    return arena_printf(a, "%.*s...%s", (int)head, name, name + tail);
}

struct line_sum {
    int64_t total_ns;
    uint64_t calls;
};

/* Sorts the lines by their totals. */
static struct table *line_table(struct arena *a, const char *what, struct total_line *lines,
                                size_t n, bool cut, struct line_sum *sum)
{
    struct table *t = table_new(a, 5);
    const char *const head[] = {what, "Total (ms)", "Calls", "Mean (ms)", "Share (%)"};
    for (int i = 0; i < 5; i++)
        table_cell(t, "%s", head[i]);
    if (n)
        qsort(lines, n, sizeof *lines, by_total);
    *sum = (struct line_sum){0};
    for (size_t i = 0; i < n; i++) {
        sum->total_ns += lines[i].total_ns;
        sum->calls += lines[i].calls;
    }
    for (size_t i = 0; i < n; i++) {
        double ms = (double)lines[i].total_ns / 1e6;
        table_cell(t, "%s",
                   !cut             ? lines[i].name
                   : lines[i].label ? lines[i].label
                                    : readable(a, lines[i].name));
        table_cell(t, "%.6f", ms);
        table_cell(t, "%llu", (unsigned long long)lines[i].calls);
        table_cell(t, "%.6f", ms / (double)lines[i].calls);
        if (sum->total_ns)
            table_cell(t, "%.2f", 100 * (double)lines[i].total_ns / (double)sum->total_ns);
        else
            table_cell(t, "n/a");
    }
    return t;
}

static void put_lines(struct arena *a, struct buf *out, const char *what, struct total_line *lines,
                      size_t n)
{
    struct line_sum sum;
    table_markdown(out, line_table(a, what, lines, n, true, &sum));
    buf_printf(out, "\n%zu names, %llu calls, %.6f ms\n", n, (unsigned long long)sum.calls,
               (double)sum.total_ns / 1e6);
}

/* Sums by name: all operations, or those launched on paths with member[path]. */
static void put_kernels(const struct kernels *k, struct buf *out, const bool *member)
{
    const struct trace *t = k->t;
    struct total_line *lines = mem_alloc((k->n_names + 1) * sizeof *lines);
    for (size_t i = 0; i < t->ops.n; i++) {
        uint32_t path = kernels_path_of(k, i);
        if (member && (path == TRACE_NONE || !member[path]))
            continue;
        struct total_line *l = &lines[k->name[t->ops.sig[i]]];
        l->total_ns += kernels_duration(k, i);
        l->calls++;
    }
    size_t n = 0;
    for (uint32_t i = 0; i < k->n_names; i++)
        if (lines[i].calls)
            lines[n++] =
                (struct total_line){k->names[i], lines[i].total_ns, lines[i].calls, k->labels[i]};
    put_lines(k->a, out, "Kernel", lines, n);
    mem_free(lines);
}

void kernels_markdown(struct buf *out, const struct kernels *k)
{
    buf_puts(out,
             "# Kernels\n\nTime on the GPU by name; copies and sets in brackets; names without "
             "namespaces and parameters, long ones cut in the middle.\n\n");
    put_kernels(k, out, NULL);
}

void kernels_diff_markdown(struct buf *out, const struct table *diff)
{
    struct arena *a = arena_new();
    struct table *t = table_new(a, table_columns(diff));
    size_t rows = (size_t)table_rows(diff);
    const char **names = arena_array(a, const char *, rows + 1), **labels;
    for (size_t row = 1; row < rows; row++)
        names[row - 1] = table_at(diff, (int)row, 0);
    labels = trace_labels(a, names, rows ? rows - 1 : 0);
    for (int row = 0; row < table_rows(diff); row++) {
        table_cell(t, "%s", row ? labels[row - 1] : table_at(diff, 0, 0));
        for (int c = 1; c < table_columns(diff); c++)
            table_cell(t, "%s", table_at(diff, row, c));
    }
    buf_puts(
        out,
        "# Kernels, before and after\n\nNames without namespaces and parameters, long ones cut in "
        "the middle: kernels_diff.csv has them in full.\n\n");
    table_markdown(out, t);
    arena_free(&a);
}

/* "LLM:decode": as kernels_range_name, without what emit_nvtx adds. */
static const char *bare_name(const struct kernels *k, const struct kernels_class *c)
{
    return arena_printf(k->a, "%s:%s", trace_text(&k->t->dict, c->domain), c->name);
}

static const char *range_name(const struct kernels *k, const struct kernels_class *c)
{
    const char *name = bare_name(k, c);
    return c->open ? arena_printf(k->a, "%s (never closed)", name) : name;
}

/* ---- operators ---- */

static bool has_operators(const struct kernels *k)
{
    for (uint32_t i = 0; i < k->n_classes; i++)
        if (k->classes[i].style == TRACE_OPERATOR)
            return true;
    return false;
}

typedef VEC(struct total_line) line_list;

/* Exclusive times by operator, or by range; work outside comes last. */
static void find_operators(const struct kernels *k, bool operators, line_list *lines)
{
    const struct trace *t = k->t;
    unsigned styles = operators ? STYLES_OPERATORS : STYLES_NVTX;
    const struct range_sum *sums = kernels_range_sums(k, styles);
    struct kernels_keys texts = {0}, names = {0};
    struct total_line outside = {.name = "(outside)"};
    for (size_t i = 0; i < t->n_ranges; i++) {
        const struct kernels_class *c = &k->classes[k->range_class[i]];
        if (!sums[i].exclusive_ns)
            continue;
        uint32_t id = kernels_key(
            &names, kernels_pair(kernels_key(&texts, kernels_pair(c->base, c->domain)), c->open));
        if (id == lines->n) {
            const char *name = operators ? c->name : range_name(k, c);
            vec_push(lines, (struct total_line){.name = name});
        }
        lines->p[id].total_ns += sums[i].exclusive_ns;
        lines->p[id].calls++;
    }
    uint32_t chain[KERNELS_MAX_DEPTH];
    for (size_t i = 0; i < t->ops.n; i++)
        if (!kernels_chain(k, i, styles, chain)) {
            outside.total_ns += kernels_duration(k, i);
            outside.calls++;
        }
    if (outside.calls)
        vec_push(lines, outside);
    kernels_keys_free(&texts);
    kernels_keys_free(&names);
}

void kernels_operators_markdown(struct buf *out, const struct kernels *k)
{
    bool operators = has_operators(k);
    line_list lines = {0};
    find_operators(k, operators, &lines);
    buf_printf(out,
               "# Operators\n\nTime on the GPU by %s, each launch charged to the innermost; calls "
               "are instances that launched something themselves.\n\n",
               operators ? "PyTorch operator" : "NVTX range");
    put_lines(k->a, out, operators ? "Operator" : "Range", lines.p, lines.n);
    vec_free(&lines);
}

struct table *kernels_operator_table(struct arena *a, const struct kernels *k)
{
    bool operators = has_operators(k);
    line_list lines = {0};
    struct line_sum sum;
    find_operators(k, operators, &lines);
    struct table *t =
        line_table(a, operators ? "Operator" : "Range", lines.p, lines.n, false, &sum);
    vec_free(&lines);
    return t;
}

/* ---- regions ---- */

/* A path of NVTX ranges, ignoring operators between them. */
struct region_row {
    uint32_t parent, class;
    int depth;
    uint64_t instances, ops;
    int64_t host_ns, inclusive_ns, exclusive_ns;
};

struct region_tree {
    struct kernels_keys keys; /* (parent + 1, class without its thread and style) */
    struct kernels_keys names;
    VEC(struct region_row) list;
    uint32_t *of_range; /* [n_ranges] */
};

static uint32_t region_below(struct region_tree *g, const struct kernels *k, uint32_t parent,
                             uint32_t class)
{
    const struct kernels_class *c = &k->classes[class];
    uint32_t name = kernels_key(&g->names, kernels_pair(c->base, c->domain));
    uint32_t id = kernels_key(&g->keys, kernels_pair(parent + 1, name << 1 | c->open));
    if (id == g->list.n) {
        int depth = parent == TRACE_NONE ? 0 : g->list.p[parent].depth + 1;
        vec_push(&g->list, (struct region_row){.parent = parent, .class = class, .depth = depth});
    }
    return id;
}

/* The nearest enclosing region that contains the start of this one. */
static uint32_t region_parent(const struct kernels *k, const struct region_tree *g, uint32_t range)
{
    const struct trace_range *r = k->t->ranges;
    uint32_t p = k->range_parent[range];
    for (int depth = 0; p != TRACE_NONE && depth < KERNELS_MAX_DEPTH; depth++) {
        if (g->of_range[p] != TRACE_NONE && r[p].end_ns > r[range].start_ns)
            return g->list.p[g->of_range[p]].depth < KERNELS_MAX_DEPTH ? g->of_range[p]
                                                                       : TRACE_NONE;
        p = k->range_parent[p];
    }
    return TRACE_NONE;
}

static void find_regions(const struct kernels *k, const struct range_sum *sums,
                         struct region_tree *g)
{
    const struct trace *t = k->t;
    g->of_range = mem_alloc(t->n_ranges * sizeof *g->of_range);
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        g->of_range[i] = TRACE_NONE;
        if (!kernels_has_style(STYLES_NVTX, t->ranges[i].style))
            continue;
        uint32_t id = region_below(g, k, region_parent(k, g, i), k->range_class[i]);
        struct region_row *r = &g->list.p[id];
        g->of_range[i] = id;
        r->instances++;
        r->host_ns += t->ranges[i].end_ns - t->ranges[i].start_ns;
        r->ops += sums[i].n_ops;
        r->inclusive_ns += sums[i].inclusive_ns;
        r->exclusive_ns += sums[i].exclusive_ns;
    }
}

static const char *region_name(const struct kernels *k, const struct region_row *r)
{
    return range_name(k, &k->classes[r->class]);
}

static void put_region(const struct kernels *k, const struct region_tree *g, uint32_t id,
                       struct table *t)
{
    const struct region_row *r = &g->list.p[id];
    struct buf indent = {0};
    for (int i = 0; i < r->depth; i++)
        buf_puts(&indent, "· ");
    table_cell(t, "%s%s", buf_str(&indent), region_name(k, r));
    table_cell(t, "%llu", (unsigned long long)r->instances);
    table_cell(t, "%.6f", (double)r->host_ns / 1e6);
    table_cell(t, "%.6f", (double)r->inclusive_ns / 1e6);
    table_cell(t, "%.6f", (double)r->exclusive_ns / 1e6);
    table_cell(t, "%llu", (unsigned long long)r->ops);
    buf_free(&indent);
}

/* Writes regions depth first, in order of first appearance, those without work on a GPU behind the
 * others beside them; children are linked through first and next. */
static void put_regions(const struct kernels *k, const struct region_tree *g, struct table *t)
{
    size_t n = g->list.n;
    uint32_t *first = mem_alloc((n + 1) * sizeof *first), *next = mem_alloc((n + 1) * sizeof *next);
    VEC(uint32_t) stack = {0};
    for (size_t j = 2 * n; j-- > 0;) { /* 0 = none; entry n is the root */
        size_t i = j % n;
        if ((j >= n) != (g->list.p[i].ops == 0))
            continue;
        size_t parent = g->list.p[i].parent == TRACE_NONE ? n : g->list.p[i].parent;
        next[i] = first[parent];
        first[parent] = (uint32_t)i + 1;
    }
    for (uint32_t at = first[n]; at || stack.n;) {
        if (!at) {
            at = vec_pop(&stack);
            continue;
        }
        put_region(k, g, at - 1, t);
        vec_push(&stack, next[at - 1]);
        at = first[at - 1];
    }
    vec_free(&stack);
    mem_free(first);
    mem_free(next);
}

/* Writes the kernels of all instances of the ranges with that name, inclusive. */
static void put_region_kernels(const struct kernels *k, struct buf *out, const char *name,
                               const struct kernels_class *of)
{
    bool *member = mem_alloc((k->n_paths + 1) * sizeof *member);
    for (uint32_t p = 0; p < k->n_paths; p++) { /* parents come before their children */
        const struct kernels_class *c = &k->classes[k->paths[p].class];
        member[p] = (k->paths[p].parent != TRACE_NONE && member[k->paths[p].parent]) ||
                    (kernels_has_style(STYLES_NVTX, c->style) && c->base == of->base &&
                     c->domain == of->domain && c->open == of->open);
    }
    buf_puts(out, "\n## ");
    table_markdown_text(out, name);
    buf_puts(out, "\n\n");
    put_kernels(k, out, member);
    mem_free(member);
}

static bool wanted(const char *name, const struct region_row *r, const char *const *patterns,
                   size_t n)
{
    if (n == 0)
        return r->depth == 0;
    for (size_t i = 0; i < n; i++)
        if (kernels_match(patterns[i], name) ||
            (name[0] == ':' && kernels_match(patterns[i], name + 1)))
            return true;
    return false;
}

static struct table *region_table(struct arena *a, const struct kernels *k,
                                  const struct region_tree *g)
{
    static const char *const head[] = {"Region",         "Instances",      "Host (ms)",
                                       "Inclusive (ms)", "Exclusive (ms)", "GPU ops"};
    struct table *t = table_new(a, 6);
    for (int i = 0; i < 6; i++)
        table_cell(t, "%s", head[i]);
    put_regions(k, g, t);
    return t;
}

static void free_regions(struct region_tree *g)
{
    vec_free(&g->list);
    kernels_keys_free(&g->keys);
    kernels_keys_free(&g->names);
    mem_free(g->of_range);
}

struct table *kernels_region_table(struct arena *a, const struct kernels *k)
{
    const struct range_sum *sums = kernels_range_sums(k, STYLES_NVTX);
    struct region_tree g = {0};
    find_regions(k, sums, &g);
    struct table *t = region_table(a, k, &g);
    free_regions(&g);
    return t;
}

void kernels_regions_markdown(struct buf *out, const struct kernels *k, const char *const *patterns,
                              size_t n_patterns)
{
    enum { MOST = 200 }; /* bounds the number of tables */
    const struct range_sum *sums = kernels_range_sums(k, STYLES_NVTX);
    struct region_tree g = {0};
    find_regions(k, sums, &g);
    buf_puts(out, "# Regions\n\nA launch counts for the ranges open around it on its thread: "
                  "exclusive time goes to the innermost, inclusive time to all.\n\n");
    table_markdown(out, region_table(k->a, k, &g));
    struct map done;
    map_init(&done, k->a);
    for (size_t i = 0; i < g.list.n && done.n < MOST; i++) {
        const struct kernels_class *c = &k->classes[g.list.p[i].class];
        const char *bare = bare_name(k, c);
        const char *name = region_name(k, &g.list.p[i]);
        bool new;
        if (!g.list.p[i].ops || !wanted(bare, &g.list.p[i], patterns, n_patterns))
            continue;
        map_put(&done, name, strlen(name), &new);
        if (new)
            put_region_kernels(k, out, name, c);
    }
    free_regions(&g);
}
