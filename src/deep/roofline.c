#include "deep/roofline.h"

#include <math.h>
#include <string.h>

#include "text/html.h"
#include "text/svg.h"
#include "text/svg_scale.h"

enum { LEFT = 52, LABEL_PX = 14, KEY_PX = 24, CHAR_PX = 7 };

struct roofline_drawing {
    struct buf *out;
    const struct deep_result *r;
    int width, height, right, top, bottom; /* of the picture, of the plot */
    struct scale x, y;
    double last_label; /* y of the roofs' labels, from the top down */
};

static const struct {
    const char *class;
    int colour;
} classes[] = {{"compute-bound", 1},
               {"memory-bound", 0},
               {"balanced", 2},
               {"latency-bound", 5},
               {"unknown", 6}};
enum { N_CLASSES = sizeof classes / sizeof *classes };

static int colour_of(const struct deep_kernel_row *k)
{
    for (int i = 0; i < N_CLASSES; i++)
        if (k->class && strcmp(k->class, classes[i].class) == 0)
            return classes[i].colour;
    return 6;
}

bool deep_roofline_places(const struct deep_kernel_row *k)
{
    return k->intensity > 0 && k->tflop_per_s > 0 && isfinite(k->intensity) &&
           isfinite(k->tflop_per_s);
}

static double rate(const struct deep_result *r, const char *name)
{
    for (size_t i = 0; i < r->n_roof_rows; i++)
        if (strcmp(r->roof_rows[i].name, name) == 0)
            return r->roof_rows[i].per_s;
    return NAN;
}

/* A kernel spends operations on that unit. */
static bool used(const struct deep_result *r, const char *unit)
{
    size_t n = strlen(unit);
    for (size_t i = 0; i < r->n_kernels; i++)
        for (const char *p = r->kernels[i].units; p && *p; p = strstr(p, ", "), p = p ? p + 2 : p)
            if (strncmp(p, unit, n) == 0 && p[n] == ' ')
                return true;
    return false;
}

static bool is_memory(const char *name)
{
    return strcmp(name, "dram") == 0 || strcmp(name, "l2") == 0;
}

bool deep_roofline_any(const struct deep_result *r)
{
    for (size_t i = 0; i < r->n_kernels; i++)
        if (deep_roofline_places(&r->kernels[i]))
            return r->n_roof_rows > 0;
    return false;
}

/* ---- scales ---- */

static void choose_scales(struct roofline_drawing *d)
{
    const struct deep_result *r = d->r;
    double x0 = 0.1, x1 = 1000, y0 = INFINITY, y1 = 0, dram = rate(r, "dram");
    for (size_t i = 0; i < r->n_kernels; i++) {
        const struct deep_kernel_row *k = &r->kernels[i];
        if (!deep_roofline_places(k))
            continue;
        x0 = fmin(x0, k->intensity);
        x1 = fmax(x1, k->intensity);
        y0 = fmin(y0, k->tflop_per_s * 1e12);
        y1 = fmax(y1, k->tflop_per_s * 1e12);
    }
    for (size_t i = 0; i < r->n_roof_rows; i++)
        if (!is_memory(r->roof_rows[i].name) && used(r, r->roof_rows[i].name)) {
            y1 = fmax(y1, r->roof_rows[i].per_s);
            if (dram > 0)
                x1 = fmax(x1, 2 * r->roof_rows[i].per_s / dram);
        }
    if (dram > 0)
        y0 = fmin(y0, dram * 0.1);
    x0 = fmax(x0, 1e-6);
    x1 = fmin(x1, 1e9);
    y0 = fmin(fmax(y0, 1e3), 1e20);
    y1 = fmin(fmax(y1, y0 * 10), 1e22);
    d->x = svg_scale_log(x0, x1);
    d->y = svg_scale_log(y0, y1 * 1.5);
}

static double px(const struct roofline_drawing *d, double v)
{
    return LEFT + svg_scale_at(&d->x, v) * (d->right - LEFT);
}

static double py(const struct roofline_drawing *d, double v)
{
    return d->bottom - svg_scale_at(&d->y, v) * (d->bottom - d->top);
}

/* ---- pieces ---- */

static void put_text(struct buf *out, double x, double y, const char *anchor, const char *class,
                     const char *text)
{
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\"", x, y);
    if (anchor)
        buf_printf(out, " text-anchor=\"%s\"", anchor);
    if (class)
        buf_printf(out, " class=\"%s\"", class);
    buf_putc(out, '>');
    html_escape(out, text);
    buf_puts(out, "</text>\n");
}

static void put_axes(struct roofline_drawing *d)
{
    buf_puts(d->out, "<path class=\"grid\" d=\"");
    for (int i = 0; i < d->y.n_ticks; i++)
        buf_printf(d->out, "M%d %.1fH%d", LEFT, py(d, d->y.ticks[i]), d->right);
    for (int i = 0; i < d->x.n_ticks; i++)
        buf_printf(d->out, "M%.1f %dV%d", px(d, d->x.ticks[i]), d->top, d->bottom);
    buf_printf(d->out, "\"/>\n<path class=\"axis\" d=\"M%d %dH%dM%d %dV%d\"/>\n", LEFT, d->bottom,
               d->right, LEFT, d->top, d->bottom);
    for (int i = 0; i < d->y.n_ticks; i++) {
        char text[32];
        snprintf(text, sizeof text, "%g", d->y.ticks[i] / 1e12);
        put_text(d->out, LEFT - 8, py(d, d->y.ticks[i]) + 4, "end", NULL, text);
    }
    for (int i = 0; i < d->x.n_ticks; i++) {
        char text[32];
        snprintf(text, sizeof text, "%g", d->x.ticks[i]);
        put_text(d->out, px(d, d->x.ticks[i]), d->bottom + 18, "middle", NULL, text);
    }
    put_text(d->out, 8, d->top - 8, NULL, "y-label", "TFLOP/s");
    put_text(d->out, (LEFT + d->right) / 2.0, d->bottom + 38, "middle", "x-label",
             "FLOP per byte of DRAM; L2 roof: of L2");
}

/* The part of a memory roof that is inside the plot, below the highest roof of computing. */
static void put_memory(struct roofline_drawing *d, const char *name, const char *words, bool dashed,
                       double highest)
{
    double rate_ = rate(d->r, name), x0 = d->x.min, x1 = d->x.max;
    if (!(rate_ > 0))
        return;
    x1 = fmin(x1, highest / rate_);
    x0 = fmax(x0, d->y.min / rate_);
    if (!(x1 > x0))
        return;
    char label[64];
    buf_printf(d->out, "<path class=\"line s6%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
               dashed ? " dashed" : "", px(d, x0), py(d, x0 * rate_), px(d, x1), py(d, x1 * rate_));
    snprintf(label, sizeof label, "%s %.0f GB/s", words, rate_ / 1e9);
    /* Both rise to the right: the upper one's label is left of it, the lower one's right. */
    double at = x0 * pow(x1 / x0, dashed ? 0.7 : 0.55);
    put_text(d->out, px(d, at) + (dashed ? -14 : 8), py(d, at * rate_) + (dashed ? -2 : 14),
             dashed ? "end" : NULL, "name", label);
}

static void put_unit(struct roofline_drawing *d, const struct deep_roof_row *roof)
{
    double dram = rate(d->r, "dram"), l2 = rate(d->r, "l2"), memory = fmax(dram, l2);
    double from = memory > 0 ? fmax(d->x.min, roof->per_s / memory) : d->x.min;
    if (roof->per_s <= d->y.min || from >= d->x.max)
        return;
    char label[64];
    double y = py(d, roof->per_s), text_y = fmax(y - 5, d->last_label + LABEL_PX);
    buf_printf(d->out, "<path class=\"line s4\" d=\"M%.1f %.1fH%d\"/>\n", px(d, from), y, d->right);
    snprintf(label, sizeof label, "%s %.3g TFLOP/s", roof->name, roof->per_s / 1e12);
    put_text(d->out, d->right - 2, text_y, "end", "name", label);
    d->last_label = text_y;
}

static void put_roofs(struct roofline_drawing *d)
{
    double highest = 0;
    const struct deep_result *r = d->r;
    bool *done = mem_alloc((r->n_roof_rows + 1) * sizeof *done);
    memset(done, 0, (r->n_roof_rows + 1) * sizeof *done);
    d->last_label = 0;
    for (size_t round = 0; round < r->n_roof_rows; round++) { /* highest first: labels go down */
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < r->n_roof_rows; i++)
            if (!done[i] && !is_memory(r->roof_rows[i].name) && used(r, r->roof_rows[i].name) &&
                (best == SIZE_MAX || r->roof_rows[i].per_s > r->roof_rows[best].per_s))
                best = i;
        if (best == SIZE_MAX)
            break;
        done[best] = true;
        highest = fmax(highest, r->roof_rows[best].per_s);
        put_unit(d, &r->roof_rows[best]);
    }
    mem_free(done);
    highest = highest > 0 ? highest : d->y.max;
    put_memory(d, "dram", "DRAM", false, highest);
    put_memory(d, "l2", "L2", true, highest);
}

static void put_kernels(struct roofline_drawing *d)
{
    for (size_t i = 0; i < d->r->n_kernels; i++) {
        const struct deep_kernel_row *k = &d->r->kernels[i];
        if (!deep_roofline_places(k))
            continue;
        double x = px(d, k->intensity), y = py(d, k->tflop_per_s * 1e12);
        y = fmin(fmax(y, d->top), d->bottom);
        buf_printf(d->out, "<g><title>%zu ", i + 1);
        html_escape(d->out, k->label);
        buf_printf(d->out, ": %.1f %% of GPU time, %.3g FLOP/byte, %.3g TFLOP/s, ",
                   k->share_percent, k->intensity, k->tflop_per_s);
        html_escape(d->out, k->class ? k->class : "unknown");
        buf_printf(d->out,
                   "</title><path class=\"dot s%d\" d=\"M%.1f %.1fh0\"/><text x=\"%.1f\" "
                   "y=\"%.1f\">%zu</text></g>\n",
                   colour_of(k), x, y, x + 6, y - 5, i + 1);
    }
}

static bool has_class(const struct roofline_drawing *d, int class)
{
    for (size_t k = 0; k < d->r->n_kernels; k++)
        if (deep_roofline_places(&d->r->kernels[k]) &&
            colour_of(&d->r->kernels[k]) == classes[class].colour)
            return true;
    return false;
}

/* The legend from its first row at y on, or how many rows it takes where nothing is put. */
static int legend(struct roofline_drawing *d, int y, bool put)
{
    int rows = 1, x = 8;
    for (int i = 0; i < N_CLASSES; i++) {
        int need = KEY_PX + CHAR_PX * (int)strlen(classes[i].class);
        if (!has_class(d, i))
            continue;
        if (x > 8 && x + need > d->width) {
            x = 8;
            y += LABEL_PX + 2;
            rows++;
        }
        if (put) {
            buf_printf(d->out, "<path class=\"dot s%d\" d=\"M%d %dh0\"/>\n", classes[i].colour,
                       x + 4, y - 4);
            put_text(d->out, x + 12, y, NULL, "name", classes[i].class);
        }
        x += need;
    }
    return rows;
}

void deep_roofline(struct buf *out, const struct deep_result *r, bool alone)
{
    struct roofline_drawing d = {
        .out = out, .r = r, .width = alone ? 860 : 400, .height = alone ? 470 : 330};
    bool any = deep_roofline_any(r);
    d.right = d.width - 24; /* room for half of the last tick's label */
    d.top = 64 + (any ? (LABEL_PX + 2) * (legend(&d, 0, false) - 1) : 0);
    d.bottom = d.height - 50;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"%d\" "
               "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<style>%s</style>\n"
               "<title>Roofline</title>\n",
               d.width, d.height, d.width, d.height, svg_css);
    put_text(out, 8, 18, NULL, "title",
             alone ? "Roofline; numbers are those of the table of kernels" : "Roofline");
    choose_scales(&d);
    put_axes(&d);
    if (any) {
        legend(&d, d.top - 28 - (LABEL_PX + 2) * (legend(&d, 0, false) - 1), true);
        put_roofs(&d);
        put_kernels(&d);
    } else {
        put_text(out, (LEFT + d.right) / 2.0, (d.top + d.bottom) / 2.0, "middle", NULL, "no data");
    }
    buf_puts(out, "</svg>\n");
}
