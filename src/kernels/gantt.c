/* Timeline as SVG. Times are per cent of the width, so that it fits any; heights and text are
 * pixels. */
#include "kernels/gantt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "kernels/ranges.h"
#include "text/html.h"
#include "text/svg.h"

enum { WIDTH = 1200, LANE = 36, LABEL = 16, BAR = 14, TOP = 26, MOST_LANES = 48 };

/* At the nominal width of 1200 pixels. */
static const double THIN_PX = 0.33, NAME_PX = 2, TEXT_PX = 40;

/* ---- what to draw -------------------------------------------------------------------------- */

struct gantt_lane {
    uint64_t key;    /* device and stream; or thread and depth, with the highest bit set */
    double until_px; /* end of what is drawn; 0 = nothing */
};

typedef VEC(double) column;

struct gantt_chart {
    const struct kernels *k;
    int64_t start_ns, span_ns, end_ns;
    bool whole; /* all of the trace */
    struct gantt_lane lanes[MOST_LANES];
    int n_lanes;
    bool more_lanes;
    struct kernels_keys names; /* (is a range's, its text or the number of a kernel's name) */
    column lane, kind, start_percent, width_percent, name, duration_ns;
};

static double x_of(const struct gantt_chart *c, int64_t at_ns)
{
    return (double)(at_ns - c->start_ns) / (double)c->span_ns * WIDTH;
}

/* To as many digits as are drawn. */
static double percent(double px)
{
    return round(100e3 * px / WIDTH) / 1e3;
}

static struct gantt_lane *lane_of(struct gantt_chart *c, uint64_t key)
{
    for (int i = 0; i < c->n_lanes; i++)
        if (c->lanes[i].key == key)
            return &c->lanes[i];
    return NULL;
}

static int by_key(const void *x, const void *y)
{
    const struct gantt_lane *a = x, *b = y;
    bool host_a = a->key >> 63, host_b = b->key >> 63;
    if (host_a != host_b)
        return host_a ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

static void need_lane(struct gantt_chart *c, uint64_t key)
{
    if (lane_of(c, key))
        return;
    if (c->n_lanes == MOST_LANES)
        c->more_lanes = true;
    else
        c->lanes[c->n_lanes++] = (struct gantt_lane){.key = key};
}

static uint64_t op_key(const struct kernels *k, size_t i)
{
    const struct trace_sig *s = &k->t->dict.sigs[k->t->ops.sig[i]];
    return (uint64_t)(s->device & 0x7fffff) << 32 | s->stream;
}

enum { MOST_DEPTH = 6 };

static uint64_t range_key(const struct kernels *k, uint32_t i)
{
    int depth = 0, steps = 0;
    for (uint32_t p = k->range_parent[i];
         p != TRACE_NONE && depth < MOST_DEPTH && steps < KERNELS_MAX_DEPTH;
         p = k->range_parent[p], steps++)
        depth += kernels_has_style(STYLES_NVTX, k->t->ranges[p].style);
    return depth < MOST_DEPTH
               ? UINT64_C(1) << 63 | (uint64_t)k->t->ranges[i].thread << 8 | (uint64_t)depth
               : 0;
}

/* Adds a bar; skips one hidden under what its lane already shows. */
static void add_bar(struct gantt_chart *c, struct gantt_lane *l, int64_t from_ns, int64_t to_ns,
                    enum kernels_bar kind, uint32_t name)
{
    double x0 = x_of(c, from_ns), x1 = x_of(c, to_ns);
    x0 = x0 < 0 ? 0 : x0 > WIDTH ? WIDTH : x0;
    x1 = x1 > WIDTH ? WIDTH : x1;
    if (x1 < l->until_px + THIN_PX && l->until_px > 0)
        return;
    const double from = x0 > l->until_px ? x0 : l->until_px;
    const double width = x1 - from > THIN_PX ? x1 - from : THIN_PX;
    const bool named = width > NAME_PX;
    l->until_px = from + width;
    vec_push(&c->lane, (double)(l - c->lanes));
    vec_push(&c->kind, (double)kind);
    vec_push(&c->start_percent, percent(from));
    vec_push(&c->width_percent, percent(width));
    vec_push(&c->name,
             named ? (double)kernels_key(&c->names, kernels_pair(!kind, name)) : (double)NAN);
    vec_push(&c->duration_ns, named ? (double)(to_ns - from_ns) : (double)NAN);
}

static bool shows(const struct gantt_chart *c, int64_t from_ns, int64_t to_ns)
{
    return c->whole || (to_ns > c->start_ns && from_ns < c->end_ns);
}

static void find_lanes(struct gantt_chart *c)
{
    const struct trace *t = c->k->t;
    for (uint32_t i = 0; i < t->n_ranges; i++)
        if (kernels_has_style(STYLES_NVTX, t->ranges[i].style) && range_key(c->k, i) &&
            shows(c, t->ranges[i].start_ns, t->ranges[i].end_ns))
            need_lane(c, range_key(c->k, i));
    for (uint32_t i = 0; c->whole && i < t->dict.n_sigs; i++)
        if (t->ops.n)
            need_lane(c,
                      (uint64_t)(t->dict.sigs[i].device & 0x7fffff) << 32 | t->dict.sigs[i].stream);
    for (size_t i = 0; !c->whole && i < t->ops.n; i++)
        if (shows(c, t->ops.start_ns[i], t->ops.end_ns[i]))
            need_lane(c, op_key(c->k, i));
    if (c->n_lanes)
        qsort(c->lanes, (size_t)c->n_lanes, sizeof *c->lanes, by_key);
}

static const char *lane_label(struct arena *a, const struct gantt_chart *c, uint64_t key)
{
    if (!(key >> 63))
        return arena_printf(a, "GPU %u stream %u", (uint32_t)(key >> 32), (uint32_t)key);
    const struct trace_dict *d = &c->k->t->dict;
    const uint32_t tid = d->threads[(key >> 8) & UINT32_MAX].tid;
    const char *of = "";
    if (d->n_processes > 1)
        of = arena_printf(a, "process %u, ",
                          d->processes[d->threads[(key >> 8) & UINT32_MAX].process].pid);
    return key & 0xff ? arena_printf(a, "%sthread %u, depth %u", of, tid, (uint32_t)(key & 0xff))
                      : arena_printf(a, "%sthread %u", of, tid);
}

static void add_ranges(struct gantt_chart *c)
{
    const struct trace *t = c->k->t;
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        const uint64_t key = range_key(c->k, i);
        struct gantt_lane *l =
            key && kernels_has_style(STYLES_NVTX, t->ranges[i].style) ? lane_of(c, key) : NULL;
        if (l && shows(c, t->ranges[i].start_ns, t->ranges[i].end_ns))
            add_bar(c, l, t->ranges[i].start_ns, t->ranges[i].end_ns, KERNELS_BAR_RANGE,
                    t->ranges[i].text);
    }
}

static void add_operations(struct gantt_chart *c)
{
    const struct kernels *k = c->k;
    const struct trace *t = k->t;
    uint8_t *tier = mem_alloc(k->n_names + 1);
    for (uint32_t i = 0; i < k->n_names; i++)
        tier[i] = kernels_communicates(k->kind[i], k->names[i], k->shorts[i])
                      ? KERNELS_BAR_COLLECTIVE
                      : (uint8_t)kernels_tier(k->kind[i], k->names[i]);
    for (size_t i = 0; i < t->ops.n; i++) {
        struct gantt_lane *l = lane_of(c, op_key(k, i));
        const uint32_t name = k->name[t->ops.sig[i]];
        if (l && shows(c, t->ops.start_ns[i], t->ops.end_ns[i]))
            add_bar(c, l, t->ops.start_ns[i], t->ops.end_ns[i], (enum kernels_bar)tier[name], name);
    }
    mem_free(tier);
}

static void take_texts(struct arena *a, const struct gantt_chart *c, struct kernels_gantt *g)
{
    const char **lanes = arena_array(a, const char *, c->n_lanes);
    const char **names = arena_array(a, const char *, c->names.n);
    for (int i = 0; i < c->n_lanes; i++)
        lanes[i] = lane_label(a, c, c->lanes[i].key);
    for (uint32_t i = 0; i < c->names.n; i++) {
        const uint32_t of = (uint32_t)c->names.keys[i];
        names[i] = arena_str(a, c->names.keys[i] >> 32 ? trace_text(&c->k->t->dict, of)
                                                       : c->k->shorts[of]);
    }
    g->lanes = lanes;
    g->n_lanes = (size_t)c->n_lanes;
    g->names = names;
    g->n_names = c->names.n;
}

static struct doubles column_of(struct arena *a, column *v)
{
    const struct doubles d = {v->n ? arena_copy(a, v->p, v->n * sizeof *v->p) : NULL, v->n};
    vec_free(v);
    return d;
}

struct kernels_gantt kernels_gantt_of(struct arena *a, const struct kernels *k)
{
    return kernels_gantt_between(a, k, k->t->start_ns, k->t->end_ns);
}

struct kernels_gantt kernels_gantt_between(struct arena *a, const struct kernels *k,
                                           int64_t from_ns, int64_t to_ns)
{
    const struct trace *t = k->t;
    struct gantt_chart *c = mem_alloc(sizeof *c);
    *c = (struct gantt_chart){.k = k,
                              .start_ns = from_ns,
                              .end_ns = to_ns,
                              .whole = from_ns <= t->start_ns && to_ns >= t->end_ns};
    c->span_ns = to_ns > from_ns ? to_ns - from_ns : 1;
    find_lanes(c);
    add_ranges(c);
    add_operations(c);
    struct kernels_gantt g = {.span_ns = c->span_ns,
                              .more_lanes = c->more_lanes,
                              .lane = column_of(a, &c->lane),
                              .kind = column_of(a, &c->kind),
                              .start_percent = column_of(a, &c->start_percent),
                              .width_percent = column_of(a, &c->width_percent),
                              .name = column_of(a, &c->name),
                              .duration_ns = column_of(a, &c->duration_ns)};
    take_texts(a, c, &g);
    kernels_keys_free(&c->names);
    mem_free(c);
    return g;
}

/* ---- in kernels.json ----------------------------------------------------------------------- */

#define BARS(m, ...) FIELD(struct kernels_gantt, m, __VA_ARGS__)
static const struct field gantt_rows[] = {
    FIELD(struct kernels_gantt, span_ns, .min = 1, .max = (double)INT64_MAX),
    FIELD_LIST(struct kernels_gantt, lanes, n_lanes, "lanes"),
    FIELD_LIST(struct kernels_gantt, names, n_names, "names"),
    FIELD(struct kernels_gantt, more_lanes),
    BARS(lane),
    BARS(kind),
    BARS(start_percent),
    BARS(width_percent),
    BARS(name, .nulls = true),
    BARS(duration_ns, .nulls = true),
};
const struct fields kernels_gantt_fields = FIELDS(struct kernels_gantt, gantt_rows);

static bool is_number_below(double v, size_t n)
{
    return v >= 0 && v < (double)n && v == floor(v);
}

bool kernels_gantt_ok(const struct kernels_gantt *g)
{
    const size_t n = g->lane.n;
    if (g->n_lanes > MOST_LANES || g->kind.n != n || g->start_percent.n != n ||
        g->width_percent.n != n || g->name.n != n || g->duration_ns.n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_number_below(g->lane.v[i], g->n_lanes) ||
            !is_number_below(g->kind.v[i], KERNELS_BARS) ||
            !(g->start_percent.v[i] >= 0 && g->width_percent.v[i] >= 0 &&
              g->start_percent.v[i] + g->width_percent.v[i] <= 101) ||
            (!isnan(g->name.v[i]) && !is_number_below(g->name.v[i], g->n_names)))
            return false;
    return true;
}

/* ---- drawing ------------------------------------------------------------------------------- */

static const int colours[] = {[KERNELS_BAR_RANGE] = 6,
                              [KERNELS_BAR_COPY] = 4,
                              [KERNELS_BAR_MATRIX] = 0,
                              [KERNELS_BAR_OTHER] = 2,
                              [KERNELS_BAR_COLLECTIVE] = 5};

static bool has_kind(const struct kernels_gantt *g, enum kernels_bar kind)
{
    for (size_t i = 0; i < g->kind.n; i++)
        if ((int)g->kind.v[i] == (int)kind)
            return true;
    return false;
}

static int y_of(size_t lane)
{
    return TOP + (int)lane * LANE;
}

/* Draws a lane's label above its bars. */
static void put_labels(struct buf *out, const struct kernels_gantt *g)
{
    for (size_t i = 0; i < g->n_lanes; i++) {
        buf_printf(out, "<text y=\"%d\">", y_of(i) + LABEL - 4);
        html_escape(out, g->lanes[i]);
        buf_puts(out, "</text>\n");
    }
}

static void put_title(struct buf *out, const char *name, double ns)
{
    buf_puts(out, "<title>");
    html_escape(out, name);
    buf_printf(out, ", %.3f µs</title>", ns / 1e3);
}

/* Draws a bar with the range's name inside, clipped by an inner svg. */
static void put_named_bar(struct buf *out, const struct kernels_gantt *g, size_t i, int y)
{
    const char *name = g->names[(size_t)g->name.v[i]];
    buf_printf(out, "<svg x=\"%.3f%%\" y=\"%d\" width=\"%.3f%%\" height=\"%d\">",
               g->start_percent.v[i], y, g->width_percent.v[i], BAR);
    put_title(out, name, g->duration_ns.v[i]);
    buf_printf(out,
               "<rect class=\"b%d\" width=\"100%%\" height=\"100%%\"/>"
               "<text class=\"name\" x=\"3\" y=\"%d\">",
               colours[KERNELS_BAR_RANGE], BAR - 3);
    html_escape(out, name);
    buf_puts(out, "</text></svg>\n");
}

static void put_bar(struct buf *out, const struct kernels_gantt *g, size_t i)
{
    const int y = y_of((size_t)g->lane.v[i]) + LABEL, kind = (int)g->kind.v[i];
    const bool named = !isnan(g->name.v[i]);
    if (named && kind == KERNELS_BAR_RANGE && g->width_percent.v[i] > 100 * TEXT_PX / WIDTH) {
        put_named_bar(out, g, i, y);
        return;
    }
    buf_printf(out, "<rect class=\"b%d\" x=\"%.3f%%\" y=\"%d\" width=\"%.3f%%\" height=\"%d\"",
               colours[kind], g->start_percent.v[i], y, g->width_percent.v[i], BAR);
    if (named) {
        buf_puts(out, ">");
        put_title(out, g->names[(size_t)g->name.v[i]], g->duration_ns.v[i]);
        buf_puts(out, "</rect>\n");
    } else {
        buf_puts(out, "/>\n");
    }
}

/* Draws at most five steps of 1, 2 or 5, so that labels fit on a phone. */
static void put_axis(struct buf *out, double span, int bottom)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}};
    enum { MOST = 5, UNITS = sizeof units / sizeof *units };
    double step = pow(10, floor(log10(span / MOST)));
    step *= span / step <= MOST       ? 1
            : span / step <= 2 * MOST ? 2
            : span / step <= 5 * MOST ? 5
                                      : 10;
    size_t u = 0;
    while (u + 1 < UNITS && units[u].ns > step)
        u++;
    for (int i = 0; (double)i * step <= span && i <= MOST; i++) {
        double x = 100 * (double)i * step / span;
        buf_printf(out, "<line class=\"grid\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"%d\" y2=\"%d\"/>", x,
                   x, TOP - 6, bottom);
        buf_printf(out, "<text x=\"%.3f%%\" y=\"%d\"%s>%g %s</text>\n", x, TOP - 10,
                   x > 90 ? " text-anchor=\"end\"" : "", (double)i * step / units[u].ns,
                   units[u].name);
    }
}

void kernels_gantt_draw(struct buf *out, const struct kernels_gantt *g, bool alone)
{
    const int bottom = y_of(g->n_lanes);
    const int legend_rows = has_kind(g, KERNELS_BAR_COLLECTIVE) ? 2 : 1;
    const int below = bottom + 18 * legend_rows, height = below + 6 + (g->more_lanes ? 18 : 0);
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart gantt\" width=\"%s\""
               " height=\"%d\" role=\"img\"><style>%s",
               alone ? "1200" : "100%", height, svg_css);
    for (int i = 0; i < 8 && alone; i++)
        buf_printf(out, ".gantt .b%d{fill:var(--chart-%d)}", i, i);
    buf_puts(out, alone ? ".gantt .b6{opacity:.45}" : "");
    buf_puts(out, "</style>\n<title>Timeline</title>\n");
    put_axis(out, (double)g->span_ns, bottom);
    put_labels(out, g);
    for (size_t i = 0; i < g->lane.n; i++)
        put_bar(out, g, i);
    static const struct {
        const char *name;
        int x, row;
    } legend[] = {[KERNELS_BAR_COPY] = {"copies, sets", 0, 0},
                  [KERNELS_BAR_MATRIX] = {"matrix products", 98, 0},
                  [KERNELS_BAR_OTHER] = {"other kernels", 216, 0},
                  [KERNELS_BAR_COLLECTIVE] = {"communication (NCCL)", 0, 1}};
    for (int kind = KERNELS_BAR_COPY; kind < KERNELS_BARS; kind++) {
        const int y = bottom + 18 * legend[kind].row;
        if (legend[kind].row >= legend_rows)
            continue;
        buf_printf(out,
                   "<rect class=\"b%d\" x=\"%d\" y=\"%d\" width=\"10\" height=\"10\"/>"
                   "<text x=\"%d\" y=\"%d\">%s</text>\n",
                   colours[kind], legend[kind].x, y + 6, legend[kind].x + 14, y + 15,
                   legend[kind].name);
    }
    if (g->more_lanes)
        buf_printf(out, "<text y=\"%d\">The first %d lanes; more are not shown.</text>\n",
                   below + 15, (int)MOST_LANES);
    buf_puts(out, "</svg>\n");
}
