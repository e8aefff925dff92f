/* A recorder's folder becomes a capsule: what the spool knows of the region is joined to it. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "capture/capture.h"
#include "trace/spool.h"
#include "trace/trace.h"

/* The sections that are added or changed, with room of their own. */
struct sealing {
    struct arena *a;
    struct trace *t;
    struct capsule c;
    struct capsule_op *ops;
    struct buf bytes; /* CAPSULE_BYTES, longer */
    int64_t start_ns; /* of the region, on the trace's clock */
    int64_t end_ns;
};

/* ---- GPU times ---- */

struct timed_op { /* an operation of the trace, by correlation */
    uint32_t correlation;
    uint64_t graph_node;
    size_t i;
};

static int by_launch(const void *x, const void *y)
{
    const struct timed_op *a = x, *b = y;
    if (a->correlation != b->correlation)
        return a->correlation < b->correlation ? -1 : 1;
    if (a->graph_node != b->graph_node)
        return a->graph_node < b->graph_node ? -1 : 1;
    return a->i < b->i ? -1 : a->i > b->i;
}

static const struct trace_sig *sig_of(const struct trace *t, size_t i)
{
    return &t->dict.sigs[t->ops.sig[i]];
}

static enum trace_kind kind_wanted(uint32_t op)
{
    return op == CAPSULE_LAUNCH ? TRACE_KERNEL : op == CAPSULE_COPY ? TRACE_COPY : TRACE_SET;
}

static bool is_work(const struct capsule_op *o)
{
    return o->kind == CAPSULE_LAUNCH || o->kind == CAPSULE_COPY || o->kind == CAPSULE_SET;
}

/* The spool cuts long texts. */
static bool is_text_of(const char *text, struct sv name)
{
    const size_t n = strlen(text), cut = SPOOL_STRING_MAX_BYTES - 3;
    return sv_eq(name, text) || (name.n > SPOOL_STRING_MAX_BYTES && n == SPOOL_STRING_MAX_BYTES &&
                                 memcmp(text, name.p, cut) == 0);
}

static bool agrees(const struct sealing *s, const struct capsule_op *o, size_t i)
{
    const struct trace_sig *sig = sig_of(s->t, i);
    if (sig->kind != kind_wanted(o->kind))
        return false;
    if (o->kind != CAPSULE_LAUNCH)
        return true;
    const struct capsule_launch *l = &s->c.launches[o->item];
    return is_text_of(trace_text(&s->t->dict, sig->name),
                      capsule_text(&s->c, s->c.functions[l->function].name));
}

static void take(struct sealing *s, struct capsule_op *o, const struct timed_op *v)
{
    o->start_ns = s->t->ops.start_ns[v->i] - s->start_ns;
    o->end_ns = s->t->ops.end_ns[v->i] - s->start_ns;
    o->graph_node = v->graph_node;
}

/* Operations [from, to) share one launch. A graph's records are in the order of its nodes; they are
 * taken only if all agree. */
static void join(struct sealing *s, size_t from, size_t to, const struct timed_op *v, size_t n)
{
    size_t work = 0, k = 0;
    for (size_t i = from; i < to; i++)
        work += is_work(&s->ops[i]);
    if (work != n)
        return;
    for (size_t i = from; i < to; i++)
        if (is_work(&s->ops[i]) && !agrees(s, &s->ops[i], v[k++].i))
            return;
    k = 0;
    for (size_t i = from; i < to; i++)
        if (is_work(&s->ops[i]))
            take(s, &s->ops[i], &v[k++]);
}

static struct timed_op *sorted_ops(struct arena *a, const struct trace *t)
{
    struct timed_op *v = arena_array(a, struct timed_op, t->ops.n);
    for (size_t i = 0; i < t->ops.n; i++)
        v[i] = (struct timed_op){t->ops.correlation[i],
                                 t->ops.graph_node ? t->ops.graph_node[i] : 0, i};
    qsort(v, t->ops.n, sizeof *v, by_launch);
    return v;
}

static size_t first_of(const struct timed_op *v, size_t n, uint32_t correlation)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (v[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_times(struct sealing *s)
{
    size_t n = s->t->ops.n;
    const struct timed_op *v = sorted_ops(s->a, s->t);
    for (size_t from = 0, to; from < s->c.n_ops; from = to) {
        uint32_t correlation = s->ops[from].correlation;
        for (to = from + 1; to < s->c.n_ops && s->ops[to].correlation == correlation;)
            to++;
        size_t first = first_of(v, n, correlation), last = first;
        while (last < n && v[last].correlation == correlation)
            last++;
        if (correlation != 0 && last > first)
            join(s, from, to, v + first, last - first);
    }
}

/* ---- ranges ---- */

static struct capsule_span put_text(struct sealing *s, uint32_t string)
{
    const char *text = trace_text(&s->t->dict, string);
    struct capsule_span span = {s->bytes.n, strlen(text)};
    buf_puts(&s->bytes, text);
    return span;
}

static bool is_inside(const struct sealing *s, const struct trace_range *r)
{
    return (r->style == TRACE_PUSH_POP || r->style == TRACE_START_END) && r->end_ns > s->start_ns &&
           r->start_ns < s->end_ns;
}

struct placed_range { /* a range of the capsule, and where it is in the trace */
    const struct trace_range *r;
    uint32_t depth;
};

static int by_start(const void *x, const void *y)
{
    const struct placed_range *a = x, *b = y;
    if (a->r->start_ns != b->r->start_ns)
        return a->r->start_ns < b->r->start_ns ? -1 : 1;
    return a->r < b->r ? -1 : a->r > b->r;
}

/* Ranges of a thread that enclose it: they stand before it there. */
static uint32_t depth_of(const struct trace *t, size_t i)
{
    uint32_t depth = 0;
    for (size_t k = i; k-- > 0 && t->ranges[k].thread == t->ranges[i].thread;)
        depth += t->ranges[k].end_ns >= t->ranges[i].end_ns;
    return depth;
}

static void add_ranges(struct sealing *s, struct placed_range **out)
{
    const struct trace *t = s->t;
    size_t n = 0;
    struct placed_range *v = arena_array(s->a, struct placed_range, t->n_ranges);
    for (size_t i = 0; i < t->n_ranges; i++)
        if (is_inside(s, &t->ranges[i]))
            v[n++] = (struct placed_range){&t->ranges[i], depth_of(t, i)};
    qsort(v, n, sizeof *v, by_start);
    struct capsule_range *ranges = arena_array(s->a, struct capsule_range, n);
    for (size_t i = 0; i < n; i++)
        ranges[i] = (struct capsule_range){.name = put_text(s, v[i].r->text),
                                           .domain = put_text(s, v[i].r->domain),
                                           .start_ns = v[i].r->start_ns - s->start_ns,
                                           .end_ns = v[i].r->open ? CAPSULE_NO_TIME
                                                                  : v[i].r->end_ns - s->start_ns,
                                           .depth = v[i].depth,
                                           .thread = v[i].r->thread};
    s->c.ranges = ranges;
    s->c.n_ranges = n;
    *out = v;
}

/* The innermost range around the call of each operation, on its thread. */
static void name_ops(struct sealing *s, const struct placed_range *v)
{
    const struct trace_calls *calls = &s->t->calls;
    struct timed_op *by = arena_array(s->a, struct timed_op, calls->n);
    for (size_t i = 0; i < calls->n; i++)
        by[i] = (struct timed_op){calls->correlation[i], 0, i};
    qsort(by, calls->n, sizeof *by, by_launch);
    for (size_t i = 0; i < s->c.n_ops; i++) {
        struct capsule_op *o = &s->ops[i];
        size_t call = first_of(by, calls->n, o->correlation);
        if (call == calls->n || by[call].correlation != o->correlation)
            continue;
        uint32_t thread = calls->thread[by[call].i];
        int64_t at_ns = calls->start_ns[by[call].i];
        for (size_t k = 0; k < s->c.n_ranges; k++)
            if (v[k].r->style == TRACE_PUSH_POP && v[k].r->thread == thread &&
                v[k].r->start_ns <= at_ns && v[k].r->end_ns >= at_ns)
                o->range = (uint32_t)k; /* later ones begin later: the last is the innermost */
    }
}

/* ---- occurrences ---- */

/* Of the region's range: each enters it while no other is open. */
static void add_walls(struct sealing *s, const char *range)
{
    const struct trace *t = s->t;
    struct placed_range *v = arena_array(s->a, struct placed_range, t->n_ranges);
    size_t n = 0, n_walls = 0;
    for (size_t i = 0; i < t->n_ranges; i++)
        if (t->ranges[i].style == TRACE_PUSH_POP && !t->ranges[i].open &&
            strcmp(trace_text(&t->dict, t->ranges[i].text), range) == 0)
            v[n++].r = &t->ranges[i];
    qsort(v, n, sizeof *v, by_start);
    struct capsule_wall *walls = arena_array(s->a, struct capsule_wall, n);
    int64_t end_ns = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        if (v[i].r->start_ns < end_ns)
            continue;
        end_ns = v[i].r->end_ns;
        struct capsule_wall *w = &walls[n_walls++];
        *w = (struct capsule_wall){.occurrence = (uint32_t)n_walls,
                                   .captured = n_walls == s->c.facts->occurrence,
                                   .wall_ns = end_ns - v[i].r->start_ns};
        for (size_t k = 0; k < t->ops.n; k++) {
            uint32_t call = t->ops.call[k];
            if (call == TRACE_NONE || t->calls.start_ns[call] < v[i].r->start_ns ||
                t->calls.start_ns[call] > end_ns)
                continue;
            w->busy_ns += t->ops.end_ns[k] - t->ops.start_ns[k];
            w->kernels += sig_of(t, k)->kind == TRACE_KERNEL;
            w->others += sig_of(t, k)->kind != TRACE_KERNEL;
        }
    }
    s->c.walls = walls;
    s->c.n_walls = n_walls;
}

/* ---- all of it ---- */

/* NULL = the region is one of launches of CUDA graphs. */
static const char *range_name(struct sealing *s)
{
    struct sv text = capsule_text(&s->c, s->c.facts->region);
    char *name = arena_strn(s->a, text.p, text.n), *end = strrchr(name, '#');
    if (!end)
        return NULL;
    *end = 0;
    end = strchr(name, '@');
    if (end)
        *end = 0;
    return name;
}

static void join_spool(struct sealing *s)
{
    struct placed_range *ranges;
    struct capsule_op *ops = arena_copy(s->a, s->c.ops, s->c.n_ops * sizeof *ops);
    s->ops = ops;
    s->start_ns = s->c.facts->start_ns;
    s->end_ns = s->start_ns + s->c.facts->wall_ns;
    buf_add(&s->bytes, s->c.bytes, s->c.n_bytes);
    add_times(s);
    add_ranges(s, &ranges);
    name_ops(s, ranges);
    const char *range = range_name(s);
    if (range)
        add_walls(s, range);
    s->c.ops = ops;
    s->c.bytes = (const unsigned char *)s->bytes.p;
    s->c.n_bytes = s->bytes.n;
}

static void summarize(const struct capsule *c, struct capture_summary *out)
{
    *out = (struct capture_summary){.launches = (int64_t)c->n_launches,
                                    .bytes = (int64_t)c->facts->live_bytes,
                                    .wall_ns = c->facts->wall_ns,
                                    .stopped_ns = c->facts->snapshot_ns,
                                    .device = c->facts->device};
    for (size_t i = 0; i < c->n_ops; i++) {
        out->ops += is_work(&c->ops[i]);
        out->timed += c->ops[i].start_ns != CAPSULE_NO_TIME;
    }
}

/* Contents, until a signal comes: packing gigabytes takes a while. */
struct contents_until {
    struct capsule_contents *contents;
    const volatile sig_atomic_t *stop;
};

static enum st page_until(void *self, bool after, const struct capsule_page *p, void *to,
                          struct err *e)
{
    const struct contents_until *of = self;
    if (of->stop && *of->stop)
        return err_set(e, ST_INTERRUPTED, "interrupted");
    return capsule_contents_page(of->contents, after, p, to, e);
}

static enum st image_until(void *self, size_t module, struct sv *out, struct err *e)
{
    const struct contents_until *of = self;
    return capsule_contents_image(of->contents, module, out, e);
}

enum st capture_seal(struct arena *a, const struct capture_found *found, struct artifact *art,
                     const struct node *extra, const volatile sig_atomic_t *stop,
                     struct capture_summary *out, struct err *e)
{
    struct trace t = {0};
    struct sealing s = {.a = a, .t = &t};
    struct capsule recorded;
    struct capsule_contents contents;
    struct contents_until of = {&contents, stop};
    TRY(capsule_open_recorded(a, found->dir, &recorded, e));
    enum st st = capsule_contents_open(a, &recorded, &contents, e);
    if (st != ST_OK) {
        capsule_close(&recorded);
        return st;
    }
    s.c = recorded;
    st = trace_load(&t, found->spool, NULL, e);
    if (st == ST_OK) {
        join_spool(&s);
        summarize(&s.c, out);
        if (out->timed < out->ops)
            log_warn("%lld of %lld operations have no times of the program",
                     (long long)(out->ops - out->timed), (long long)out->ops);
        const struct capsule_source from = {page_until, image_until, &of};
        st = capsule_write(a, &s.c, &from, art, extra, e);
    }
    trace_free(&t);
    buf_free(&s.bytes);
    capsule_contents_close(&contents);
    capsule_close(&recorded);
    return st;
}
