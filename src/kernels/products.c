#include "kernels/products.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "text/json.h"

/* Operators that multiply, with the positions of the two factors among their inputs. */
static const struct {
    const char *name;
    uint32_t left, right;
    bool transposed; /* the right factor is (n x k), as the weight of linear */
} multiplying[] = {
    {"aten::mm", 0, 1, false},      {"aten::addmm", 1, 2, false},      {"aten::bmm", 0, 1, false},
    {"aten::baddbmm", 1, 2, false}, {"aten::_scaled_mm", 0, 1, false}, {"aten::linear", 0, 1, true},
    {"aten::matmul", 0, 1, false},
};

static int64_t dim(const struct node *list, uint32_t i)
{
    const struct node *n = i < list->n ? list->items[i] : NULL;
    return n && n->kind == NODE_INT && n->i > 0 && n->i < INT32_MAX ? n->i : 0;
}

/* Product of all dimensions but the last two (or, for a matrix left of a matrix, all but the last).
 * 0 when one of them is invalid. */
static int64_t leading(const struct node *list, uint32_t n)
{
    int64_t v = 1;
    for (uint32_t i = 0; i < n; i++) {
        int64_t d = dim(list, i);
        if (d == 0 || v > INT32_MAX / d)
            return 0;
        v *= d;
    }
    return v;
}

static bool factor(const struct node *dims, uint32_t i, const struct node **out)
{
    *out = i < dims->n ? dims->items[i] : NULL;
    return *out && (*out)->kind == NODE_LIST && (*out)->n >= 2;
}

/* {0} when the shapes do not fit a product. */
static struct product multiply(const struct node *dims, size_t how)
{
    const struct node *l, *r;
    struct product p = {0};
    if (dims->kind != NODE_LIST || !factor(dims, multiplying[how].left, &l) ||
        !factor(dims, multiplying[how].right, &r))
        return p;
    bool matrix = r->n == 2; /* flattens the rows of the left factor */
    int64_t inner = dim(r, r->n - (multiplying[how].transposed ? 1 : 2));
    p.n = dim(r, r->n - (multiplying[how].transposed ? 2 : 1));
    p.k = dim(l, l->n - 1);
    p.m = matrix ? leading(l, l->n - 1) : dim(l, l->n - 2);
    p.batch = matrix ? 1 : leading(l, l->n - 2);
    bool fits = p.m && p.n && p.k && p.batch && inner == p.k;
    return fits ? p : (struct product){0};
}

static size_t how_of(const char *name)
{
    size_t i = 0;
    while (i < sizeof multiplying / sizeof *multiplying && strcmp(multiplying[i].name, name) != 0)
        i++;
    return i;
}

struct parsed {
    const struct node *dims, *types;
};

/* Parses a shapes string, each once. */
static struct parsed *parse(const struct kernels *k, struct map *known, const struct trace_range *r)
{
    uint32_t key[2] = {r->shapes, r->types};
    bool new;
    struct map_entry *e = map_put(known, (const char *)key, sizeof key, &new);
    if (!new)
        return e->p;
    struct parsed *p = arena_one(k->a, struct parsed);
    struct err ignored = {0};
    struct node *n;
    if (json_parse(k->a, "shapes", k->t->dict.strings[r->shapes], NULL, &n, &ignored) == ST_OK)
        p->dims = n;
    if (r->types &&
        json_parse(k->a, "types", k->t->dict.strings[r->types], NULL, &n, &ignored) == ST_OK)
        p->types = n;
    map_find(known, (const char *)key, sizeof key)->p = p;
    return p;
}

static struct product product_of(const struct kernels *k, struct map *known, struct map *types,
                                 const struct trace_range *r)
{
    size_t how = how_of(trace_text(&k->t->dict, r->text));
    if (!r->shapes || how == sizeof multiplying / sizeof *multiplying)
        return (struct product){0};
    const struct parsed *x = parse(k, known, r);
    if (!x->dims)
        return (struct product){0};
    struct product p = multiply(x->dims, how);
    p.op = p.batch ? r->text : 0;
    const struct node *type =
        x->types && x->types->kind == NODE_LIST && multiplying[how].left < x->types->n
            ? x->types->items[multiplying[how].left]
            : NULL;
    if (p.batch && type && type->kind == NODE_STR && type->s.n) {
        bool new;
        struct map_entry *e = map_put(types, type->s.p, type->s.n, &new);
        if (new)
            e->i = types->n;
        p.dtype = (uint32_t)e->i;
    }
    return p;
}

struct product *kernels_products(const struct kernels *k, struct map *types)
{
    const struct trace *t = k->t;
    struct product *p = mem_alloc(t->n_ranges * sizeof *p);
    struct map known;
    map_init(&known, k->a);
    for (size_t i = 0; i < t->n_ranges; i++)
        if (t->ranges[i].style == TRACE_OPERATOR)
            p[i] = product_of(k, &known, types, &t->ranges[i]);
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        if (!p[i].batch)
            continue;
        uint32_t parent = k->range_parent[i];
        for (int d = 0; parent != TRACE_NONE && d < KERNELS_MAX_DEPTH; d++) {
            if (t->ranges[parent].end_ns >= t->ranges[i].end_ns)
                p[parent].batch = 0;
            parent = k->range_parent[parent];
        }
    }
    return p;
}

/* ---- linear_shapes.jsonl ---- */

struct shape_line {
    struct product p;
    uint64_t count;
    int64_t gpu_ns;
};

static int by_time(const void *x, const void *y)
{
    const struct shape_line *a = x, *b = y;
    if (a->gpu_ns != b->gpu_ns)
        return a->gpu_ns > b->gpu_ns ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return memcmp(&a->p, &b->p, sizeof a->p);
}

void kernels_linear_jsonl(struct buf *out, const struct kernels *k, size_t *n)
{
    const struct trace *t = k->t;
    struct map types, known;
    map_init(&types, k->a);
    map_init(&known, k->a);
    struct product *products = kernels_products(k, &types);
    const struct range_sum *sums = kernels_range_sums(k, STYLES_OPERATORS);
    VEC(struct shape_line) lines = {0};
    for (size_t i = 0; i < t->n_ranges; i++) {
        if (!products[i].batch)
            continue;
        bool new;
        struct map_entry *e = map_put(&known, (const char *)&products[i], sizeof products[i], &new);
        if (new) {
            e->i = (int64_t)lines.n;
            vec_push(&lines, (struct shape_line){.p = products[i]});
        }
        lines.p[e->i].count++;
        lines.p[e->i].gpu_ns += sums[i].inclusive_ns;
    }
    if (lines.n)
        qsort(lines.p, lines.n, sizeof *lines.p, by_time);
    for (size_t i = 0; i < lines.n; i++) {
        const struct product *p = &lines.p[i].p;
        buf_puts(out, "{\"op\": ");
        json_quote(out, t->dict.strings[p->op]);
        buf_printf(out, ", \"batch\": %lld, \"M\": %lld, \"N\": %lld, \"K\": %lld, \"dtype\": ",
                   (long long)p->batch, (long long)p->m, (long long)p->n, (long long)p->k);
        if (p->dtype)
            json_quote(out, sv_of(types.entries[p->dtype - 1].key));
        else
            buf_puts(out, "null");
        buf_printf(out, ", \"count\": %llu, \"gpu_time_ns\": %lld}\n",
                   (unsigned long long)lines.p[i].count, (long long)lines.p[i].gpu_ns);
    }
    *n = lines.n;
    vec_free(&lines);
    mem_free(products);
}
