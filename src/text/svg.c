#include "text/svg.h"

#include <math.h>
#include <string.h>

#include "base/vec.h"
#include "text/html.h"
#include "text/svg_scale.h"

const char svg_css[] =
    ":root{color-scheme:light dark}\n"
    ".chart{--chart-fg:#1b1f24;--chart-muted:#5c6670;--chart-grid:#e3e6ea;--chart-axis:#aab2bb;"
    "--chart-0:#2563eb;--chart-1:#d9480f;--chart-2:#0d8a7e;--chart-3:#9333ea;--chart-4:#b7791f;"
    "--chart-5:#d6267c;--chart-6:#64748b;--chart-7:#4d7c0f;"
    "font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "@media (prefers-color-scheme:dark){.chart{--chart-fg:#e6e9ed;--chart-muted:#9aa4af;"
    "--chart-grid:#2b3036;--chart-axis:#5a636d;--chart-0:#6ea8fe;--chart-1:#ff9a5c;"
    "--chart-2:#3ad1c0;--chart-3:#c79bff;--chart-4:#f2c14e;--chart-5:#ff7ab6;--chart-6:#a8b3c1;"
    "--chart-7:#a6d75b}}\n"
    ".chart text{fill:var(--chart-muted)}\n"
    ".chart .title{fill:var(--chart-fg);font-size:14px;font-weight:600}\n"
    ".chart .name{fill:var(--chart-fg)}\n"
    ".chart .grid{stroke:var(--chart-grid);fill:none}\n"
    ".chart .axis{stroke:var(--chart-axis);fill:none}\n"
    ".chart .line{fill:none;stroke-width:2;stroke-linejoin:round}\n"
    ".chart .dot{stroke-width:6;stroke-linecap:round}\n"
    ".chart .dashed{stroke-dasharray:6 4}\n"
    ".chart .mark{stroke:var(--chart-fg);stroke-dasharray:2 3;fill:none}\n"
    ".chart .s0{stroke:var(--chart-0)}.chart .s1{stroke:var(--chart-1)}"
    ".chart .s2{stroke:var(--chart-2)}.chart .s3{stroke:var(--chart-3)}"
    ".chart .s4{stroke:var(--chart-4)}.chart .s5{stroke:var(--chart-5)}"
    ".chart .s6{stroke:var(--chart-6)}.chart .s7{stroke:var(--chart-7)}\n";

enum { COLOURS = 8, MAX_POINTS = 1000, BUCKETS = 250 };

/* Estimates: the reader's font is unknown. */
static const double CHAR_PX = 7.4, LINE_PX = 18, GAP_PX = 8, KEY_PX = 22;

struct chart_point {
    double x, y; /* data first, pixels once placed */
};

struct chart_drawing {
    struct buf *out;
    const struct svg_chart *c;
    struct scale x, y;
    double left, right, top, bottom; /* of the plot, pixels */
    size_t left_out;                 /* points that a logarithmic axis cannot show */
    bool empty;                      /* no point to show */
};

static bool has_text(const char *s)
{
    return s && *s;
}

/* ---- ranges ---- */

static bool shown(const struct chart_drawing *d, double x, double y)
{
    return isfinite(x) && isfinite(y) && fabs(x) < 1e300 && fabs(y) < 1e300 &&
           !(d->c->log_x && x <= 0);
}

static void widen(double *min, double *max, double v)
{
    *min = v < *min ? v : *min;
    *max = v > *max ? v : *max;
}

static void choose_scales(struct chart_drawing *d)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
    for (size_t k = 0; k < d->c->n_series; k++) {
        const struct svg_series *s = &d->c->series[k];
        for (size_t i = 0; i < s->n; i++) {
            if (!shown(d, s->x[i], s->y[i])) {
                d->left_out += d->c->log_x && s->x[i] <= 0;
                continue;
            }
            widen(&x0, &x1, s->x[i]);
            widen(&y0, &y1, s->y[i]);
        }
    }
    d->empty = x0 > x1;
    if (!d->empty && has_text(d->c->x_mark_name))
        widen(&x0, &x1, d->c->x_mark);
    if (d->empty) {
        x0 = d->c->log_x ? 1 : 0;
        x1 = d->c->log_x ? 10 : 1;
        y0 = 0;
        y1 = 1;
    }
    bool fixed = d->c->y_min < d->c->y_max;
    if (fixed) {
        y0 = d->c->y_min;
        y1 = d->c->y_max;
    } else if (y0 > 0 && (y0 < 0.5 * y1 || y0 == y1)) {
        y0 = 0; /* start at zero where it is near, and always for a flat curve */
    }
    d->x = d->c->log_x ? svg_scale_log(x0, x1) : svg_scale_linear(x0, x1, false);
    d->y = svg_scale_linear(y0, y1, !fixed);
}

static double x_px(const struct chart_drawing *d, double v)
{
    return d->left + svg_scale_at(&d->x, v) * (d->right - d->left);
}

static double y_px(const struct chart_drawing *d, double v)
{
    return d->bottom - svg_scale_at(&d->y, v) * (d->bottom - d->top);
}

/* ---- text ---- */

/* A tenth of a pixel, without a needless ".0" or "-0". */
static void put_px(struct buf *out, double v)
{
    double tenths = round(v * 10) / 10;
    if (tenths == floor(tenths))
        buf_printf(out, "%d", (int)tenths);
    else
        buf_printf(out, "%.1f", tenths);
}

static void put_text(struct chart_drawing *d, double x, double y, const char *anchor,
                     const char *class, const char *text)
{
    buf_puts(d->out, "<text x=\"");
    put_px(d->out, x);
    buf_puts(d->out, "\" y=\"");
    put_px(d->out, y);
    buf_puts(d->out, "\"");
    if (anchor)
        buf_printf(d->out, " text-anchor=\"%s\"", anchor);
    if (class)
        buf_printf(d->out, " class=\"%s\"", class);
    buf_puts(d->out, ">");
    html_escape(d->out, text);
    buf_puts(d->out, "</text>\n");
}

static double text_px(const char *s)
{
    double n = 0;
    for (; *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n * CHAR_PX;
}

/* ---- series ---- */

typedef VEC(struct chart_point) points;

/* The first, lowest, highest and last of p[0, n), each once, in their order. */
static void keep_extremes(points *out, const struct chart_point *p, size_t n)
{
    size_t low = 0, high = 0;
    for (size_t i = 1; i < n; i++) {
        low = p[i].y < p[low].y ? i : low;
        high = p[i].y > p[high].y ? i : high;
    }
    for (size_t i = 0; i < n; i++)
        if (i == 0 || i == low || i == high || i + 1 == n)
            vec_push(out, p[i]);
}

static bool ascending(const points *p)
{
    for (size_t i = 1; i < p->n; i++)
        if (p->p[i].x < p->p[i - 1].x)
            return false;
    return true;
}

/* Keeps the extremes of each of BUCKETS slices of the width; where x goes to and fro, of each of
 * BUCKETS equal runs of points. */
static void thin(const struct chart_drawing *d, points *p)
{
    points kept = {0};
    double slice = (d->right - d->left) / BUCKETS;
    size_t run = ascending(p) ? 0 : 1 + p->n / BUCKETS;
    for (size_t first = 0, i = 1; i <= p->n; i++) {
        bool together = i < p->n && (run ? i - first < run
                                         : floor((p->p[i].x - d->left) / slice) ==
                                               floor((p->p[first].x - d->left) / slice));
        if (together)
            continue;
        keep_extremes(&kept, p->p + first, i - first);
        first = i;
    }
    vec_free(p);
    *p = kept;
}

static void put_path(struct chart_drawing *d, const points *p, bool step)
{
    struct buf *out = d->out;
    int x = 0, y = 0; /* the pen, in tenths of a pixel */
    for (size_t i = 0; i < p->n; i++) {
        int nx = (int)lround(p->p[i].x * 10), ny = (int)lround(p->p[i].y * 10);
        if (i && nx == x && ny == y)
            continue;
        if (i && step) {
            if (nx != x) {
                buf_puts(out, "H");
                put_px(out, nx / 10.0);
            }
            if (ny != y) {
                buf_puts(out, "V");
                put_px(out, ny / 10.0);
            }
        } else {
            buf_puts(out, i ? "L" : "M");
            put_px(out, nx / 10.0);
            buf_puts(out, " ");
            put_px(out, ny / 10.0);
        }
        x = nx;
        y = ny;
    }
}

/* Clamps positions far outside the plot, so that pixel numbers stay short. */
static double near_plot(double px)
{
    return px < -1e4 ? -1e4 : px > 1e4 ? 1e4 : px;
}

static void put_class(struct buf *out, size_t k, const struct svg_series *s, bool dot)
{
    bool dashed = s->dashed != (k / COLOURS % 2 == 1); /* dashed when the colours repeat */
    dashed = dashed && !dot;
    buf_printf(out, "class=\"line s%zu%s%s\"", k % COLOURS, dashed ? " dashed" : "",
               dot ? " dot" : "");
}

static void put_dots(struct chart_drawing *d, size_t k, const points *p)
{
    buf_puts(d->out, "<path ");
    put_class(d->out, k, &d->c->series[k], true);
    buf_puts(d->out, " d=\"");
    for (size_t i = 0; i < p->n; i++) {
        buf_puts(d->out, "M");
        put_px(d->out, p->p[i].x);
        buf_puts(d->out, " ");
        put_px(d->out, p->p[i].y);
        buf_puts(d->out, "h0");
    }
    buf_puts(d->out, "\"/>\n");
}

static void put_series(struct chart_drawing *d, size_t k)
{
    const struct svg_series *s = &d->c->series[k];
    points p = {0};
    for (size_t i = 0; i < s->n; i++)
        if (shown(d, s->x[i], s->y[i]))
            vec_push(
                &p, (struct chart_point){near_plot(x_px(d, s->x[i])), near_plot(y_px(d, s->y[i]))});
    if (p.n > MAX_POINTS)
        thin(d, &p);
    if (p.n > 1 && !s->no_line) {
        buf_puts(d->out, "<path ");
        put_class(d->out, k, s, false);
        buf_puts(d->out, " d=\"");
        put_path(d, &p, s->step);
        buf_puts(d->out, "\"/>\n");
    }
    if (p.n == 1 || (p.n && (s->points || s->no_line)))
        put_dots(d, k, &p);
    vec_free(&p);
}

/* The plot clips what leaves it; an inner svg needs no id, so charts can share a page. */
static void put_plot(struct chart_drawing *d)
{
    double x = d->left - 2, y = d->top - 2, w = d->right - d->left + 4, h = d->bottom - d->top + 4;
    buf_puts(d->out, "<svg");
    const struct {
        const char *name;
        double v;
    } attributes[] = {{" x=\"", x},         {"\" y=\"", y}, {"\" width=\"", w}, {"\" height=\"", h},
                      {"\" viewBox=\"", x}, {" ", y},       {" ", w},           {" ", h}};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        buf_puts(d->out, attributes[i].name);
        put_px(d->out, attributes[i].v);
    }
    buf_puts(d->out, "\">\n");
    for (size_t k = 0; k < d->c->n_series; k++)
        put_series(d, k);
    buf_puts(d->out, "</svg>\n");
}

/* ---- axes ---- */

static void put_line(struct buf *out, double x0, double y0, char direction, double to)
{
    buf_puts(out, "M");
    put_px(out, x0);
    buf_puts(out, " ");
    put_px(out, y0);
    buf_printf(out, "%c", direction);
    put_px(out, to);
}

static void put_axes(struct chart_drawing *d)
{
    buf_puts(d->out, "<path class=\"grid\" d=\"");
    for (int i = 0; i < d->y.n_ticks; i++)
        put_line(d->out, d->left, y_px(d, d->y.ticks[i]), 'H', d->right);
    for (int i = 0; i < d->x.n_ticks; i++)
        put_line(d->out, x_px(d, d->x.ticks[i]), d->top, 'V', d->bottom);
    buf_puts(d->out, "\"/>\n<path class=\"axis\" d=\"");
    put_line(d->out, d->left, d->bottom, 'H', d->right);
    buf_puts(d->out, "\"/>\n");
    for (int i = 0; i < d->y.n_ticks; i++)
        put_text(d, d->left - GAP_PX, y_px(d, d->y.ticks[i]) + 4, "end", NULL, d->y.labels[i]);
    double free_from = 0;
    for (int i = 0; i < d->x.n_ticks; i++) {
        double at = x_px(d, d->x.ticks[i]), half = text_px(d->x.labels[i]) / 2;
        if (at - half < free_from) /* would overlap its neighbour */
            continue;
        put_text(d, at, d->bottom + LINE_PX, "middle", NULL, d->x.labels[i]);
        free_from = at + half + GAP_PX;
    }
}

static void put_labels(struct chart_drawing *d, double y_label_at)
{
    const struct svg_chart *c = d->c;
    double below = d->bottom + 2 * LINE_PX;
    if (has_text(c->y_label))
        put_text(d, GAP_PX, y_label_at, NULL, "y-label", c->y_label);
    if (has_text(c->x_label))
        put_text(d, (d->left + d->right) / 2, below, "middle", "x-label", c->x_label);
    if (d->left_out) {
        char note[80];
        snprintf(note, sizeof note, "%zu point%s at or below 0 not shown", d->left_out,
                 d->left_out == 1 ? "" : "s");
        put_text(d, d->right, below + LINE_PX, "end", NULL, note);
    }
    if (d->empty)
        put_text(d, (d->left + d->right) / 2, (d->top + d->bottom) / 2, "middle", NULL, "no data");
}

/* The vertical mark, its name above it in the row of the y label. */
static void put_mark(struct chart_drawing *d, double name_at, double width)
{
    const char *name = d->c->x_mark_name;
    if (!has_text(name) || d->empty || !shown(d, d->c->x_mark, 0))
        return;
    double at = near_plot(x_px(d, d->c->x_mark)), half = text_px(name) / 2;
    double from = has_text(d->c->y_label) ? 2 * GAP_PX + text_px(d->c->y_label) : GAP_PX;
    buf_puts(d->out, "<path class=\"mark\" d=\"");
    put_line(d->out, at, d->top - 4, 'V', d->bottom);
    buf_puts(d->out, "\"/>\n");
    at = fmin(at, width - GAP_PX - half);
    put_text(d, fmax(at, from + half), name_at, "middle", "name", name);
}

/* A name of the legend, cut where it would leave the chart; whole in its tooltip. */
static void put_name(struct chart_drawing *d, double x, double y, double width, const char *name)
{
    size_t most = (size_t)fmax(1, (width - x) / CHAR_PX), n = 0, at = 0;
    for (; name[at]; at++)
        if ((name[at] & 0xc0) != 0x80 && n++ == most)
            break;
    if (!name[at]) {
        put_text(d, x, y, NULL, "name", name);
        return;
    }
    buf_puts(d->out, "<text x=\"");
    put_px(d->out, x);
    buf_puts(d->out, "\" y=\"");
    put_px(d->out, y);
    buf_puts(d->out, "\" class=\"name\"><title>");
    html_escape(d->out, name);
    buf_puts(d->out, "</title>");
    struct buf cut = {0};
    while (at > 0 && (name[--at] & 0xc0) == 0x80)
        ;
    buf_add(&cut, name, at);
    buf_puts(&cut, "…");
    html_escape(d->out, buf_str(&cut));
    buf_puts(d->out, "</text>\n");
    buf_free(&cut);
}

/* A line, a dot, or both: what the series is drawn as. */
static void put_key(struct chart_drawing *d, size_t k, double x, double y)
{
    const struct svg_series *s = &d->c->series[k];
    if (!s->no_line) {
        buf_puts(d->out, "<path ");
        put_class(d->out, k, s, false);
        buf_puts(d->out, " d=\"");
        put_line(d->out, x, y, 'h', KEY_PX);
        buf_puts(d->out, "\"/>\n");
    }
    if (s->points || s->no_line) {
        struct chart_point middle = {x + KEY_PX / 2, y};
        put_dots(d, k, &(const points){.p = &middle, .n = 1});
    }
}

/* Names in rows under the title, the first at y. Returns the rows. */
static int put_legend(struct chart_drawing *d, double y, double width)
{
    int rows = 1;
    double x = GAP_PX;
    for (size_t k = 0; k < d->c->n_series; k++) {
        const struct svg_series *s = &d->c->series[k];
        const char *name = s->name ? s->name : "";
        double need = KEY_PX + 4 + text_px(name) + 2 * GAP_PX;
        if (x > GAP_PX && x + need > width) {
            x = GAP_PX;
            rows++;
        }
        double at = y + (rows - 1) * LINE_PX;
        put_key(d, k, x, at - 4);
        put_name(d, x + KEY_PX + 4, at, width - GAP_PX, name);
        x += need;
    }
    return rows;
}

static void put_head(struct chart_drawing *d, int width, int height)
{
    buf_printf(d->out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"%d\" "
               "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<style>%s</style>\n",
               width, height, width, height, svg_css);
    if (has_text(d->c->title)) {
        buf_puts(d->out, "<title>");
        html_escape(d->out, d->c->title);
        buf_puts(d->out, "</title>\n");
    }
}

void svg_chart(struct buf *out, const struct svg_chart *c)
{
    struct chart_drawing d = {.out = out, .c = c};
    int width = c->width > 0 ? c->width : 640, height = c->height > 0 ? c->height : 320;
    choose_scales(&d);
    put_head(&d, width, height);
    double y = 4, widest = 0;
    if (has_text(c->title)) {
        y += LINE_PX;
        put_text(&d, GAP_PX, y, NULL, "title", c->title);
    }
    if (c->n_series > 1) {
        y += LINE_PX + 2;
        y += (put_legend(&d, y, width) - 1) * LINE_PX;
    }
    if (has_text(c->y_label) || has_text(c->x_mark_name))
        y += LINE_PX + 4;
    for (int i = 0; i < d.y.n_ticks; i++)
        widest = fmax(widest, text_px(d.y.labels[i]));
    d.left = ceil(2 * GAP_PX + widest);
    d.right = width - 2 * GAP_PX;
    d.top = y + GAP_PX + 2;
    d.bottom = height - LINE_PX - GAP_PX - (has_text(c->x_label) ? LINE_PX : 0) -
               (d.left_out ? LINE_PX : 0);
    d.right = d.right < d.left + 50 ? d.left + 50 : d.right;
    d.bottom = d.bottom < d.top + 50 ? d.top + 50 : d.bottom;
    put_axes(&d);
    put_mark(&d, y, width);
    put_plot(&d);
    put_labels(&d, y);
    buf_puts(out, "</svg>\n");
}
