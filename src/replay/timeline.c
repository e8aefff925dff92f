#include "replay/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "kernels/products.h"
#include "replay/program.h"
#include "text/json.h"
#include "trace/trace.h"

/* As kernels/gantt.c: at 1200 pixels, bars thinner than a third of one beside a neighbour are left
 * out, and those above two have a name. */
enum { WIDTH = 1200, MOST_LANES = 48 };
static const double THIN_PX = 0.33, NAME_PX = 2;

struct timeline {
    struct arena *a;
    const struct capsule *c;
    int64_t from_ns, to_ns;
    double *until_px;    /* [n_streams] end of what is drawn; 0 = nothing */
    int64_t *lane_of;    /* [n_streams] -1 = none */
    struct map names;    /* text -> number */
    const char **texts;  /* [g.n_names] */
    const char **shorts; /* [n_functions] */
    uint8_t *tiers;      /* [n_functions] */
    struct kernels_gantt g;
};

static bool is_timed(const struct capsule_op *o)
{
    return program_is_work(o) && o->start_ns != CAPSULE_NO_TIME && o->end_ns != CAPSULE_NO_TIME &&
           o->end_ns >= o->start_ns;
}

static void find_span(struct timeline *t)
{
    t->from_ns = INT64_MAX;
    t->to_ns = INT64_MIN;
    for (size_t i = 0; i < t->c->n_ops; i++) {
        const struct capsule_op *o = &t->c->ops[i];
        if (!is_timed(o))
            continue;
        t->from_ns = o->start_ns < t->from_ns ? o->start_ns : t->from_ns;
        t->to_ns = o->end_ns > t->to_ns ? o->end_ns : t->to_ns;
    }
}

static void find_lanes(struct timeline *t)
{
    const char **lanes = arena_array(t->a, const char *, MOST_LANES);
    for (size_t s = 0; s < t->c->n_streams; s++)
        t->lane_of[s] = -1;
    for (size_t i = 0; i < t->c->n_ops; i++) {
        const struct capsule_op *o = &t->c->ops[i];
        if (!is_timed(o) || t->lane_of[o->stream] >= 0)
            continue;
        if (t->g.n_lanes == MOST_LANES) {
            t->g.more_lanes = true;
            continue;
        }
        const bool legacy = t->c->streams[o->stream].flags & CAPSULE_STREAM_LEGACY;
        lanes[t->g.n_lanes] =
            legacy ? "default stream" : arena_printf(t->a, "stream %u", (unsigned)o->stream);
        t->lane_of[o->stream] = (int64_t)t->g.n_lanes++;
    }
    t->g.lanes = lanes;
}

/* Short, and by which tier. */
static const char *name_of(struct timeline *t, const struct capsule_op *o, enum kernels_bar *kind)
{
    *kind = KERNELS_BAR_COPY;
    if (o->kind == CAPSULE_SET)
        return "Memset";
    if (o->kind == CAPSULE_COPY) {
        const struct capsule_copy *x = &t->c->copies[o->item];
        const bool from = x->from_place == CAPSULE_ON_DEVICE, to = x->to_place == CAPSULE_ON_DEVICE;
        return from && to ? "Memcpy DtoD"
               : from     ? "Memcpy DtoH"
               : to       ? "Memcpy HtoD"
                          : "Memcpy HtoH";
    }
    const uint32_t f = t->c->launches[o->item].function;
    if (!t->shorts[f]) {
        const struct sv mangled = capsule_text(t->c, t->c->functions[f].name);
        const char *full = trace_demangle(t->a, arena_strn(t->a, mangled.p, mangled.n));
        t->shorts[f] = trace_short_name(t->a, full);
        t->tiers[f] = (uint8_t)kernels_tier(TRACE_KERNEL, full);
    }
    *kind = (enum kernels_bar)t->tiers[f];
    return t->shorts[f];
}

static double number_of(struct timeline *t, const char *name)
{
    bool new;
    struct map_entry *entry = map_put(&t->names, name, strlen(name), &new);
    if (new) {
        entry->i = (int64_t)t->g.n_names;
        t->texts[t->g.n_names++] = name;
    }
    return (double)entry->i;
}

/* To as many digits as are drawn. */
static double percent(double px)
{
    return round(100e3 * px / WIDTH) / 1e3;
}

static void add(struct timeline *t, const struct capsule_op *o)
{
    struct kernels_gantt *g = &t->g;
    double *until = &t->until_px[o->stream];
    const double x0 = (double)(o->start_ns - t->from_ns) / (double)g->span_ns * WIDTH;
    const double x1 = (double)(o->end_ns - t->from_ns) / (double)g->span_ns * WIDTH;
    if (t->lane_of[o->stream] < 0 || (x1<*until + THIN_PX && * until> 0))
        return;
    const double from = x0 > *until ? x0 : *until;
    const double width = x1 - from > THIN_PX ? x1 - from : THIN_PX;
    const bool named = width > NAME_PX;
    const size_t i = g->lane.n++;
    enum kernels_bar kind;
    const char *name = name_of(t, o, &kind);
    *until = from + width;
    g->lane.v[i] = (double)t->lane_of[o->stream];
    g->kind.v[i] = (double)kind;
    g->start_percent.v[i] = percent(from);
    g->width_percent.v[i] = percent(width);
    g->name.v[i] = named ? number_of(t, name) : (double)NAN;
    g->duration_ns.v[i] = named ? (double)(o->end_ns - o->start_ns) : (double)NAN;
}

static int by_start(const void *x, const void *y)
{
    const struct capsule_op *a = *(const struct capsule_op *const *)x,
                            *b = *(const struct capsule_op *const *)y;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns ? 1 : (a > b) - (a < b);
}

static void add_all(struct timeline *t)
{
    const struct capsule_op **ops = arena_array(t->a, const struct capsule_op *, t->c->n_ops);
    size_t n = 0;
    for (size_t i = 0; i < t->c->n_ops; i++)
        if (is_timed(&t->c->ops[i]))
            ops[n++] = &t->c->ops[i];
    qsort(ops, n, sizeof *ops, by_start);
    struct doubles *columns[] = {&t->g.lane,          &t->g.kind, &t->g.start_percent,
                                 &t->g.width_percent, &t->g.name, &t->g.duration_ns};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        columns[i]->v = arena_array(t->a, double, n);
    for (size_t i = 0; i < n; i++)
        add(t, ops[i]);
    for (size_t i = 1; i < sizeof columns / sizeof *columns; i++)
        columns[i]->n = t->g.lane.n;
}

struct kernels_gantt replay_timeline(struct arena *a, const struct capsule *c)
{
    struct timeline t = {.a = a, .c = c, .g = {.span_ns = 1}};
    find_span(&t);
    if (t.from_ns > t.to_ns)
        return t.g;
    t.g.span_ns = t.to_ns - t.from_ns > 0 ? t.to_ns - t.from_ns : 1;
    t.until_px = arena_array(a, double, c->n_streams);
    t.lane_of = arena_array(a, int64_t, c->n_streams);
    t.shorts = arena_array(a, const char *, c->n_functions);
    t.tiers = arena_array(a, uint8_t, c->n_functions);
    t.texts = arena_array(a, const char *, c->n_functions + 8); /* and those of copies and sets */
    map_init(&t.names, a);
    find_lanes(&t);
    add_all(&t);
    t.g.names = t.texts;
    return t.g;
}

enum st replay_timeline_write(struct arena *a, const struct artifact *art, const char *dir,
                              struct err *e)
{
    struct capsule c;
    struct buf text = {0};
    TRY(capsule_open(a, dir, &c, e));
    const struct kernels_gantt g = replay_timeline(a, &c);
    json_write(&text, fields_node(a, &kernels_gantt_fields, &g), 0, true);
    const enum st st = g.lane.n ? artifact_write(art, "timeline.json", &text, e) : ST_OK;
    buf_free(&text);
    capsule_close(&c);
    return st;
}
