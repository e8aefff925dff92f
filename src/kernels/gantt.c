/* Timeline as SVG: ranges of the host above, streams of the GPUs below. Times are per cent of the
 * width, so that it fits any; heights and text are pixels. */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "kernels/ranges.h"
#include "text/html.h"
#include "text/svg.h"

enum { WIDTH = 1200, LANE = 36, LABEL = 16, BAR = 14, TOP = 26, MOST_LANES = 48 };

/* At the nominal width of 1200 pixels. */
static const double THIN_PX = 0.33, TEXT_PX = 40;

/* Colours, by what a bar is. */
enum { RANGE_COLOUR = 6 };
static const int tier_colour[] = {0, 4, 0, 2}; /* by tier from 1 */

struct lane {
    uint64_t key; /* device and stream; or thread and depth, with the highest bit set */
    int y;
    double until_px; /* end of what is drawn; 0 = nothing */
};

struct chart {
    const struct kernels *k;
    struct buf *out;
    int64_t start_ns, span_ns;
    struct lane lanes[MOST_LANES];
    int n_lanes;
    bool more_lanes;
};

static double x_of(const struct chart *c, int64_t at_ns)
{
    return (double)(at_ns - c->start_ns) / (double)c->span_ns * WIDTH;
}

static double percent(double px)
{
    return 100 * px / WIDTH;
}

static struct lane *lane_of(struct chart *c, uint64_t key)
{
    for (int i = 0; i < c->n_lanes; i++)
        if (c->lanes[i].key == key)
            return &c->lanes[i];
    return NULL;
}

static int by_key(const void *x, const void *y)
{
    const struct lane *a = x, *b = y;
    bool host_a = a->key >> 63, host_b = b->key >> 63;
    if (host_a != host_b)
        return host_a ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

static void need_lane(struct chart *c, uint64_t key)
{
    if (lane_of(c, key))
        return;
    if (c->n_lanes == MOST_LANES)
        c->more_lanes = true;
    else
        c->lanes[c->n_lanes++] = (struct lane){.key = key};
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

static void put_title(struct buf *out, const char *name, int64_t ns)
{
    buf_puts(out, "<title>");
    html_escape(out, name);
    buf_printf(out, ", %.3f µs</title>", (double)ns / 1e3);
}

/* Draws a bar with the range's name inside, clipped by an inner svg. */
static void put_named_bar(struct chart *c, double from, double width, int y, const char *name,
                          int64_t ns)
{
    buf_printf(c->out, "<svg x=\"%.3f%%\" y=\"%d\" width=\"%.3f%%\" height=\"%d\">", percent(from),
               y, percent(width), BAR);
    put_title(c->out, name, ns);
    buf_printf(c->out,
               "<rect class=\"b%d\" width=\"100%%\" height=\"100%%\"/>"
               "<text class=\"name\" x=\"3\" y=\"%d\">",
               RANGE_COLOUR, BAR - 3);
    html_escape(c->out, name);
    buf_puts(c->out, "</text></svg>\n");
}

/* Draws a bar; skips one hidden under what its lane already shows. */
static void put_bar(struct chart *c, struct lane *l, int64_t from_ns, int64_t to_ns, int colour,
                    const char *name)
{
    double x0 = x_of(c, from_ns), x1 = x_of(c, to_ns);
    x0 = x0 < 0 ? 0 : x0;
    x1 = x1 > WIDTH ? WIDTH : x1;
    if (x1 < l->until_px + THIN_PX && l->until_px > 0)
        return;
    double from = x0 > l->until_px ? x0 : l->until_px;
    double width = x1 - from > THIN_PX ? x1 - from : THIN_PX;
    l->until_px = from + width;
    if (colour == RANGE_COLOUR && width > TEXT_PX) {
        put_named_bar(c, from, width, l->y + LABEL, name, to_ns - from_ns);
        return;
    }
    buf_printf(c->out, "<rect class=\"b%d\" x=\"%.3f%%\" y=\"%d\" width=\"%.3f%%\" height=\"%d\"",
               colour, percent(from), l->y + LABEL, percent(width), BAR);
    if (width > 2) {
        buf_puts(c->out, ">");
        put_title(c->out, name, to_ns - from_ns);
        buf_puts(c->out, "</rect>\n");
    } else {
        buf_puts(c->out, "/>\n");
    }
}

static void find_lanes(struct chart *c)
{
    const struct trace *t = c->k->t;
    for (uint32_t i = 0; i < t->n_ranges; i++)
        if (kernels_has_style(STYLES_NVTX, t->ranges[i].style) && range_key(c->k, i))
            need_lane(c, range_key(c->k, i));
    for (uint32_t i = 0; i < t->dict.n_sigs; i++)
        if (t->ops.n)
            need_lane(c,
                      (uint64_t)(t->dict.sigs[i].device & 0x7fffff) << 32 | t->dict.sigs[i].stream);
    if (c->n_lanes)
        qsort(c->lanes, (size_t)c->n_lanes, sizeof *c->lanes, by_key);
    for (int i = 0; i < c->n_lanes; i++)
        c->lanes[i].y = TOP + i * LANE;
}

/* Draws a lane's label above its bars. */
static void put_labels(struct chart *c)
{
    for (int i = 0; i < c->n_lanes; i++) {
        uint64_t key = c->lanes[i].key;
        buf_printf(c->out, "<text y=\"%d\">", c->lanes[i].y + LABEL - 4);
        if (!(key >> 63))
            buf_printf(c->out, "GPU %u stream %u", (uint32_t)(key >> 32), (uint32_t)key);
        else if (key & 0xff)
            buf_printf(c->out, "thread %u, depth %u",
                       c->k->t->dict.threads[(key >> 8) & UINT32_MAX].tid, (uint32_t)(key & 0xff));
        else
            buf_printf(c->out, "thread %u", c->k->t->dict.threads[(key >> 8) & UINT32_MAX].tid);
        buf_puts(c->out, "</text>\n");
    }
}

/* Draws at most five steps of 1, 2 or 5, so that labels fit on a phone. */
static void put_axis(struct chart *c, int bottom)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}};
    enum { MOST = 5, UNITS = sizeof units / sizeof *units };
    double span = (double)c->span_ns, step = pow(10, floor(log10(span / MOST)));
    step *= span / step <= MOST       ? 1
            : span / step <= 2 * MOST ? 2
            : span / step <= 5 * MOST ? 5
                                      : 10;
    size_t u = 0;
    while (u + 1 < UNITS && units[u].ns > step)
        u++;
    for (int i = 0; (double)i * step <= span && i <= MOST; i++) {
        double x = 100 * (double)i * step / span;
        buf_printf(c->out, "<line class=\"grid\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"%d\" y2=\"%d\"/>",
                   x, x, TOP - 6, bottom);
        buf_printf(c->out, "<text x=\"%.3f%%\" y=\"%d\"%s>%g %s</text>\n", x, TOP - 10,
                   x > 90 ? " text-anchor=\"end\"" : "", (double)i * step / units[u].ns,
                   units[u].name);
    }
}

static void draw(struct buf *out, const struct kernels *k, bool alone)
{
    const struct trace *t = k->t;
    struct chart *c = mem_alloc(sizeof *c);
    *c = (struct chart){.k = k, .out = out, .start_ns = t->start_ns};
    c->span_ns = t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 1;
    find_lanes(c);
    int bottom = TOP + c->n_lanes * LANE, height = bottom + 24 + (c->more_lanes ? 18 : 0);
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart gantt\" width=\"%s\""
               " height=\"%d\" role=\"img\"><style>%s",
               alone ? "1200" : "100%", height, svg_css);
    for (int i = 0; i < 8 && alone; i++)
        buf_printf(out, ".gantt .b%d{fill:var(--chart-%d)}", i, i);
    buf_puts(out, alone ? ".gantt .b6{opacity:.45}" : "");
    buf_puts(out, "</style>\n<title>Timeline</title>\n");
    put_axis(c, bottom);
    put_labels(c);
    uint8_t *colour = mem_alloc(k->n_names + 1);
    for (uint32_t i = 0; i < k->n_names; i++) {
        colour[i] = (uint8_t)tier_colour[kernels_tier(k->kind[i], k->names[i])];
    }
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        uint64_t key = range_key(k, i);
        struct lane *l =
            key && kernels_has_style(STYLES_NVTX, t->ranges[i].style) ? lane_of(c, key) : NULL;
        if (l)
            put_bar(c, l, t->ranges[i].start_ns, t->ranges[i].end_ns, RANGE_COLOUR,
                    trace_text(&t->dict, t->ranges[i].text));
    }
    for (size_t i = 0; i < t->ops.n; i++) {
        struct lane *l = lane_of(c, op_key(k, i));
        uint32_t name = k->name[t->ops.sig[i]];
        if (l)
            put_bar(c, l, t->ops.start_ns[i], t->ops.end_ns[i], colour[name], k->shorts[name]);
    }
    static const struct {
        const char *name;
        int x;
    } legend[] = {{NULL, 0}, {"copies, sets", 0}, {"matrix products", 98}, {"other kernels", 216}};
    for (int tier = 1; tier <= 3; tier++)
        buf_printf(out,
                   "<rect class=\"b%d\" x=\"%d\" y=\"%d\" width=\"10\" height=\"10\"/>"
                   "<text x=\"%d\" y=\"%d\">%s</text>\n",
                   tier_colour[tier], legend[tier].x, bottom + 6, legend[tier].x + 14, bottom + 15,
                   legend[tier].name);
    if (c->more_lanes)
        buf_printf(out, "<text y=\"%d\">The first %d lanes; more are not shown.</text>\n",
                   bottom + 33, (int)MOST_LANES);
    buf_puts(out, "</svg>\n");
    mem_free(colour);
    mem_free(c);
}

void kernels_gantt_svg(struct buf *out, const struct kernels *k)
{
    draw(out, k, true);
}

void kernels_gantt_inline(struct buf *out, const struct kernels *k)
{
    draw(out, k, false);
}
