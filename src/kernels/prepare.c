#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "kernels/ranges.h"

/* ---- patterns ---- */

bool kernels_match(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

static bool any_match(const char *const *patterns, size_t n, const char *full, const char *brief)
{
    for (size_t i = 0; i < n; i++)
        if (kernels_match(patterns[i], full) || kernels_match(patterns[i], brief))
            return true;
    return false;
}

/* ---- names ---- */

/* nsys' names of copies and sets. */
static const char *operation_name(struct arena *a, const struct trace *t, const struct trace_sig *s)
{
    if (s->kind == TRACE_SET)
        return "[CUDA memset]";
    if (s->kind == TRACE_COPY)
        return arena_printf(a, "[CUDA memcpy %s]", trace_copy_name(s->copy_kind));
    if (s->kind == TRACE_GRAPH)
        return arena_printf(a, "[CUDA graph %u]", s->graph);
    return trace_demangle(a, trace_text(&t->dict, s->name));
}

static void name_sigs(struct kernels *k)
{
    const struct trace *t = k->t;
    struct map known;
    map_init(&known, k->a);
    uint32_t n = t->dict.n_sigs;
    k->name = arena_array(k->a, uint32_t, n);
    k->names = arena_array(k->a, const char *, n);
    k->shorts = arena_array(k->a, const char *, n);
    k->kind = arena_array(k->a, uint8_t, n);
    struct kernels_keys recorded = {0}; /* kernels with one recorded name are demangled once */
    uint32_t *of_recorded = arena_array(k->a, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct trace_sig *s = &t->dict.sigs[i];
        uint32_t before = recorded.n;
        uint32_t id = s->kind == TRACE_KERNEL ? kernels_key(&recorded, s->name) : TRACE_NONE;
        if (id < before) {
            k->name[i] = of_recorded[id];
            continue;
        }
        const char *full = operation_name(k->a, t, s);
        bool new;
        struct map_entry *e = map_put(&known, full, strlen(full), &new);
        if (new) {
            e->i = k->n_names;
            k->names[k->n_names] = full;
            k->shorts[k->n_names] = s->kind == TRACE_KERNEL ? trace_short_name(k->a, full) : full;
            k->kind[k->n_names++] = (uint8_t)s->kind;
        }
        k->name[i] = (uint32_t)e->i;
        if (id != TRACE_NONE)
            of_recorded[id] = k->name[i];
    }
    kernels_keys_free(&recorded);
    k->labels = trace_labels(k->a, k->names, k->n_names);
}

static void drop_ops(struct kernels *k, struct trace *t, const struct kernels_params *p)
{
    if (!p || (!p->n_include && !p->n_exclude))
        return;
    bool *keep = arena_array(k->a, bool, k->n_names);
    for (uint32_t i = 0; i < k->n_names; i++)
        keep[i] =
            (!p->n_include || any_match(p->include, p->n_include, k->names[i], k->shorts[i])) &&
            !any_match(p->exclude, p->n_exclude, k->names[i], k->shorts[i]);
    struct trace_ops *o = &t->ops;
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++) {
        if (!keep[k->name[o->sig[i]]])
            continue;
        o->start_ns[n] = o->start_ns[i];
        o->end_ns[n] = o->end_ns[i];
        o->sig[n] = o->sig[i];
        o->correlation[n] = o->correlation[i];
        o->call[n] = o->call[i];
        if (o->external)
            o->external[n] = o->external[i];
        if (o->range)
            o->range[n] = o->range[i];
        if (o->graph_node)
            o->graph_node[n] = o->graph_node[i];
        n++;
    }
    o->n = n;
}

/* ---- ranges around calls ---- */

/* Bytes of a range's text before what torch.autograd.profiler.emit_nvtx adds to an operator's name:
 * ", seq = 4", ", op_id = 12", ", sizes = [[2, 3]]", ", input_op_ids = [...]". All without it. */
static size_t base_length(const char *text)
{
    static const char *const added[] = {
        ", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "};
    for (const char *p = text; (p = strchr(p, ',')); p++)
        for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
            size_t n = strlen(added[i]);
            if (p > text && strncmp(p, added[i], n) == 0 && p[n] && strchr("0123456789[", p[n]))
                return (size_t)(p - text);
        }
    return strlen(text);
}

static void name_class(struct map *bases, struct kernels *k, struct kernels_class *c)
{
    const char *text = trace_text(&k->t->dict, c->text);
    struct map_entry *e = map_put(bases, text, base_length(text), NULL);
    c->base = (uint32_t)(e - bases->entries);
    c->name = e->key;
}

static void classify(struct kernels *k)
{
    const struct trace *t = k->t;
    struct map known, bases;
    map_init(&known, k->a);
    map_init(&bases, k->a);
    k->range_class = mem_alloc(t->n_ranges * sizeof *k->range_class);
    k->range_parent = mem_alloc(t->n_ranges * sizeof *k->range_parent);
    VEC(struct kernels_class) classes = {0};
    for (size_t i = 0; i < t->n_ranges; i++) {
        const struct trace_range *r = &t->ranges[i];
        uint32_t key[4] = {r->text, r->domain, r->thread, (uint32_t)(r->style << 1 | r->open)};
        bool new;
        struct map_entry *e = map_put(&known, (const char *)key, sizeof key, &new);
        if (new) {
            e->i = (int64_t)classes.n;
            struct kernels_class c = {r->text, r->domain, r->thread, r->style, r->open, 0, NULL};
            name_class(&bases, k, &c);
            vec_push(&classes, c);
        }
        k->range_class[i] = (uint32_t)e->i;
    }
    k->classes = classes.p;
    k->n_classes = (uint32_t)classes.n;
}

/* State of the sweep over one thread's ranges and calls in order of time. */
struct thread_sweep {
    struct kernels *k;
    struct kernels_keys path_keys; /* (parent path + 1, class) */
    VEC(struct kernels_path) paths;
    VEC(uint32_t) open;   /* ranges by start; may include ended ones below the top */
    uint32_t *range_path; /* [n_ranges] path of a range if all enclosing ones outlast it */
    bool *nested;         /* [n_ranges] they do outlast it */
};

static uint32_t path_below(struct thread_sweep *s, uint32_t parent, uint32_t class)
{
    uint32_t before = s->path_keys.n;
    uint32_t id = kernels_key(&s->path_keys, kernels_pair(parent + 1, class));
    if (id == before) {
        uint32_t depth = parent == TRACE_NONE ? 0 : s->paths.p[parent].depth + 1;
        vec_push(&s->paths, (struct kernels_path){parent, class, depth});
    }
    return id;
}

static void close_ranges(struct thread_sweep *s, int64_t at_ns)
{
    const struct trace_range *r = s->k->t->ranges;
    while (s->open.n && r[vec_last(&s->open)].end_ns <= at_ns)
        (void)vec_pop(&s->open);
}

/* Parent of a new range: the youngest open one. A closed range is never inside a never-closed one.
 */
static uint32_t parent_of(const struct thread_sweep *s, uint32_t i)
{
    const struct trace_range *r = s->k->t->ranges;
    size_t n = s->open.n;
    if (n == 0 || r[i].open || !r[s->open.p[n - 1]].open)
        return n ? s->open.p[n - 1] : TRACE_NONE;
    while (n > 0 && (r[s->open.p[n - 1]].open || r[s->open.p[n - 1]].end_ns <= r[i].start_ns))
        n--;
    return n ? s->open.p[n - 1] : TRACE_NONE;
}

/* The chain of enclosing ranges that last until end_ns, when some do not. */
static uint32_t broken_chain(struct thread_sweep *s, uint32_t innermost, int64_t end_ns)
{
    uint32_t chain[KERNELS_MAX_DEPTH];
    int n = 0;
    for (uint32_t i = innermost; i != TRACE_NONE && n < KERNELS_MAX_DEPTH;
         i = s->k->range_parent[i])
        if (s->k->t->ranges[i].end_ns >= end_ns)
            chain[n++] = s->k->range_class[i];
    uint32_t path = TRACE_NONE;
    while (n > 0)
        path = path_below(s, path, chain[--n]);
    return path;
}

static void open_range(struct thread_sweep *s, uint32_t i)
{
    struct kernels *k = s->k;
    const struct trace_range *r = k->t->ranges;
    close_ranges(s, r[i].start_ns);
    uint32_t parent = parent_of(s, i);
    k->range_parent[i] = parent;
    s->nested[i] =
        parent == TRACE_NONE || (s->nested[parent] && r[parent].end_ns >= r[i].end_ns &&
                                 s->paths.p[s->range_path[parent]].depth < KERNELS_MAX_DEPTH);
    if (s->nested[i])
        s->range_path[i] = path_below(s, parent == TRACE_NONE ? TRACE_NONE : s->range_path[parent],
                                      k->range_class[i]);
    vec_push(&s->open, i);
    if (k->range_path)
        k->range_path[i] = s->nested[i] ? s->range_path[i] : broken_chain(s, i, r[i].end_ns);
}

static void place_call(struct thread_sweep *s, size_t call)
{
    struct kernels *k = s->k;
    int64_t end_ns = k->t->calls.end_ns[call];
    close_ranges(s, k->t->calls.start_ns[call]);
    k->call_range[call] = k->call_path[call] = TRACE_NONE;
    if (!s->open.n)
        return;
    uint32_t innermost = vec_last(&s->open);
    k->call_range[call] = innermost;
    bool whole = s->nested[innermost] && k->t->ranges[innermost].end_ns >= end_ns;
    k->call_path[call] = whole ? s->range_path[innermost] : broken_chain(s, innermost, end_ns);
}

static void place_calls(struct kernels *k)
{
    const struct trace *t = k->t;
    struct thread_sweep s = {.k = k};
    s.range_path = mem_alloc(t->n_ranges * sizeof *s.range_path);
    s.nested = mem_alloc(t->n_ranges * sizeof *s.nested);
    k->call_range = mem_alloc(t->calls.n * sizeof *k->call_range);
    k->call_path = mem_alloc(t->calls.n * sizeof *k->call_path);
    if (t->ops.range)
        k->range_path = mem_alloc(t->n_ranges * sizeof *k->range_path);
    size_t range = 0;
    uint32_t thread = TRACE_NONE;
    for (size_t call = 0; call <= t->calls.n; call++) {
        bool end = call == t->calls.n;
        uint32_t at = end ? TRACE_NONE : t->calls.thread[call];
        while (range < t->n_ranges && (t->ranges[range].thread < at ||
                                       (t->ranges[range].thread == at &&
                                        t->ranges[range].start_ns <= t->calls.start_ns[call]))) {
            if (t->ranges[range].thread != thread) {
                thread = t->ranges[range].thread;
                vec_clear(&s.open);
            }
            open_range(&s, (uint32_t)range++);
        }
        if (end)
            break;
        if (at != thread) {
            thread = at;
            vec_clear(&s.open);
        }
        place_call(&s, call);
    }
    k->paths = s.paths.p;
    k->n_paths = (uint32_t)s.paths.n;
    kernels_keys_free(&s.path_keys);
    vec_free(&s.open);
    mem_free(s.range_path);
    mem_free(s.nested);
}

void kernels_open(struct kernels *k, struct trace *t, const struct kernels_params *p)
{
    *k = (struct kernels){.a = arena_new(), .t = t};
    name_sigs(k);
    drop_ops(k, t, p);
    classify(k);
    place_calls(k);
    kernels_make_range_sums(k);
}

void kernels_close(struct kernels *k)
{
    if (!k->a)
        return;
    mem_free(k->call_range);
    mem_free(k->call_path);
    mem_free(k->range_class);
    mem_free(k->range_parent);
    mem_free(k->range_path);
    mem_free(k->classes);
    mem_free(k->paths);
    mem_free(k->nvtx_sums);
    mem_free(k->operator_sums);
    arena_free(&k->a);
    *k = (struct kernels){0};
}

/* ---- words ---- */

const char *kernels_range_name(struct arena *a, const struct kernels *k, uint32_t text,
                               uint32_t domain)
{
    const struct trace_dict *d = &k->t->dict;
    return arena_printf(a, "%s:%s", trace_text(d, domain), trace_text(d, text));
}

const char *kernels_style_name(uint8_t style)
{
    static const char *const names[TRACE_STYLES] = {"PushPop", "StartEnd", "Annotation",
                                                    "Operator"};
    return style < TRACE_STYLES ? names[style] : "Unknown";
}
