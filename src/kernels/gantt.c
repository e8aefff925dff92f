/* The timeline as a picture: ranges of the host above, streams of the GPUs below. */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "kernels/ranges.h"
#include "text/html.h"
#include "text/svg.h"

enum { WIDTH = 1200, LEFT = 150, RIGHT = 12, LANE = 22, BAR = 16, TOP = 46, MOST_LANES = 48 };

/* Colours, by what a bar is. */
enum { RANGE_COLOUR = 6 };
static const int tier_colour[] = {0, 4, 0, 2}; /* by tier from 1 */

struct lane {
    uint64_t key; /* device and stream; or thread and depth, with the highest bit set */
    int y;
    double until_px; /* what is drawn ends there */
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
    return LEFT + (double)(at_ns - c->start_ns) / (double)c->span_ns * (WIDTH - LEFT - RIGHT);
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
        depth += kern_has_style(STYLES_NVTX, k->t->ranges[p].style);
    return depth < MOST_DEPTH
               ? UINT64_C(1) << 63 | (uint64_t)k->t->ranges[i].thread << 8 | (uint64_t)depth
               : 0;
}

/* A bar that would hide under what its lane shows already is left out: less than a third of a
 * pixel is new. */
static void put_bar(struct chart *c, struct lane *l, int64_t from_ns, int64_t to_ns, int colour,
                    const char *name)
{
    double x0 = x_of(c, from_ns), x1 = x_of(c, to_ns);
    x0 = x0 < LEFT ? LEFT : x0;
    x1 = x1 > WIDTH - RIGHT ? WIDTH - RIGHT : x1;
    if (x1 < l->until_px + 0.33 && l->until_px > 0)
        return;
    double from = x0 > l->until_px ? x0 : l->until_px;
    double width = x1 - from > 0.33 ? x1 - from : 0.33;
    buf_printf(c->out, "<rect class=\"b%d\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"",
               colour, from, l->y, width, BAR);
    if (width > 2) {
        buf_puts(c->out, "><title>");
        html_escape(c->out, name);
        buf_printf(c->out, ", %.3f us</title></rect>\n", (double)(to_ns - from_ns) / 1e3);
    } else {
        buf_puts(c->out, "/>\n");
    }
    if (colour == RANGE_COLOUR && width > 60) {
        size_t most = (size_t)(width / 7);
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)(most < 60 ? most : 60), name);
        buf_printf(c->out, "<text x=\"%.2f\" y=\"%d\">", from + 3, l->y + BAR - 4);
        html_escape(c->out, text);
        buf_puts(c->out, "</text>\n");
    }
    l->until_px = from + width;
}

static void find_lanes(struct chart *c)
{
    const struct trace *t = c->k->t;
    for (uint32_t i = 0; i < t->n_ranges; i++)
        if (kern_has_style(STYLES_NVTX, t->ranges[i].style) && range_key(c->k, i))
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

static void put_labels(struct chart *c)
{
    for (int i = 0; i < c->n_lanes; i++) {
        uint64_t key = c->lanes[i].key;
        buf_printf(c->out, "<text x=\"4\" y=\"%d\">", c->lanes[i].y + BAR - 4);
        if (key >> 63)
            buf_printf(c->out, "%s thread %u", key & 0xff ? "·" : "",
                       c->k->t->dict.threads[(key >> 8) & UINT32_MAX].tid);
        else
            buf_printf(c->out, "GPU %u stream %u", (uint32_t)(key >> 32), (uint32_t)key);
        buf_puts(c->out, "</text>\n");
    }
}

static void put_axis(struct chart *c, int bottom)
{
    double span_ms = (double)c->span_ns / 1e6, step = pow(10, floor(log10(span_ms / 4)));
    step *= span_ms / step > 20 ? 5 : span_ms / step > 8 ? 2 : 1;
    for (int i = 0; (double)i * step <= span_ms && i < 40; i++) {
        double x = x_of(c, c->start_ns + (int64_t)((double)i * step * 1e6));
        buf_printf(
            c->out,
            "<path class=\"grid\" d=\"M%.2f %dV%d\"/><text x=\"%.2f\" y=\"%d\">%g ms</text>\n", x,
            TOP - 6, bottom, x + 2, TOP - 10, (double)i * step);
    }
}

static void draw(struct buf *out, const struct kernels *k, bool alone)
{
    const struct trace *t = k->t;
    struct chart *c = mem_alloc(sizeof *c);
    *c = (struct chart){.k = k, .out = out, .start_ns = t->start_ns};
    c->span_ns = t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 1;
    find_lanes(c);
    int height = TOP + c->n_lanes * LANE + 24, bottom = TOP + c->n_lanes * LANE;
    buf_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart gantt\" viewBox=\"0 0 %d %d\""
        " width=\"%d\" height=\"%d\" role=\"img\"><style>%s",
        WIDTH, height, WIDTH, height, svg_css);
    for (int i = 0; i < 8 && alone; i++)
        buf_printf(out, ".gantt .b%d{fill:var(--chart-%d)}", i, i);
    buf_puts(out, alone ? ".gantt .b6{opacity:.45}" : "");
    buf_puts(out, "</style>\n"
                  "<text class=\"title\" x=\"4\" y=\"18\">Timeline</text>\n");
    put_axis(c, bottom);
    put_labels(c);
    uint8_t *colour = mem_alloc(k->n_names + 1);
    for (uint32_t i = 0; i < k->n_names; i++) {
        colour[i] = (uint8_t)tier_colour[kernels_tier(k->kind[i], k->names[i])];
    }
    for (uint32_t i = 0; i < t->n_ranges; i++) {
        uint64_t key = range_key(k, i);
        struct lane *l =
            key && kern_has_style(STYLES_NVTX, t->ranges[i].style) ? lane_of(c, key) : NULL;
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
    static const char *const legend[] = {"", "copies and sets", "matrix products", "other kernels"};
    for (int tier = 1, x = LEFT; tier <= 3; tier++, x += 160)
        buf_printf(out,
                   "<rect class=\"b%d\" x=\"%d\" y=\"%d\" width=\"10\" height=\"10\"/>"
                   "<text x=\"%d\" y=\"%d\">%s</text>\n",
                   tier_colour[tier], x, bottom + 6, x + 14, bottom + 15, legend[tier]);
    if (c->more_lanes)
        buf_printf(out, "<text x=\"%d\" y=\"%d\">more lanes are not shown</text>\n", LEFT + 500,
                   bottom + 15);
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
