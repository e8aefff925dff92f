/* Positions across are per cent of the width, so that a picture fits any; heights and text are
 * pixels. The curve, which cannot have per cents, is an inner picture that is stretched. */
#include "report/energy_figures.h"

#include <math.h>

#include "text/html.h"
#include "text/svg.h"
#include "text/svg_scale.h"

enum { SLIVERS = 900, CURVE_HEIGHT = 1000 };

static void begin(struct buf *out, int height, const char *title)
{
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart gantt\" width=\"100%%\" "
               "height=\"%d\" role=\"img\"><style>%s</style>\n<title>",
               height, svg_css);
    html_escape(out, title);
    buf_puts(out, "</title>\n");
}

static void put_text(struct buf *out, const char *x, int y, const char *attributes,
                     const char *text)
{
    buf_printf(out, "<text x=\"%s\" y=\"%d\"%s>", x, y, attributes);
    html_escape(out, text);
    buf_puts(out, "</text>\n");
}

/* ---- power over time ------------------------------------------------------------------------- */

/* Colour of a mark: one of .gantt's. */
static const struct {
    const char *name;
    int colour, px; /* of the name in the legend */
} kinds[ENERGY_MARKS] = {
    [ENERGY_MARK_WHOLE] = {"the whole", 3, 84},
    [ENERGY_MARK_APPLICATION] = {"the application", 1, 116},
    [ENERGY_MARK_COPY] = {"copies, sets", 4, 98},
    [ENERGY_MARK_MATRIX] = {"matrix products", 0, 118},
    [ENERGY_MARK_OTHER] = {"other kernels", 2, 104},
    [ENERGY_MARK_POOL] = {"small kernels in turn", 5, 150},
};

struct strip {
    struct buf *out;
    int64_t from_ns, to_ns;
    struct scale y;
    int top, bottom;
};

static double percent_of(const struct strip *s, int64_t ns)
{
    const double x = (double)(ns - s->from_ns) / (double)(s->to_ns - s->from_ns) * 100;
    return x < 0 ? 0 : x > 100 ? 100 : x;
}

static double y_of(const struct strip *s, double w)
{
    return s->bottom - svg_scale_at(&s->y, w) * (s->bottom - s->top);
}

/* Lowest and highest of each sliver, in the order in which they come. */
static void put_curve(const struct strip *s, const struct power_log *log)
{
    struct buf *out = s->out;
    size_t points = 0;
    buf_printf(out,
               "<svg y=\"%d\" width=\"100%%\" height=\"%d\" viewBox=\"0 0 %d %d\" "
               "preserveAspectRatio=\"none\"><path class=\"line s6 thin\" d=\"",
               s->top, s->bottom - s->top, SLIVERS, CURVE_HEIGHT);
    for (size_t i = 0; i < log->n;) {
        const int sliver = (int)(percent_of(s, log->p[i].ns) / 100 * SLIVERS);
        size_t low = log->n, high = log->n;
        for (; i < log->n && (int)(percent_of(s, log->p[i].ns) / 100 * SLIVERS) == sliver; i++) {
            if (!isfinite(log->p[i].power_w))
                continue;
            low = low == log->n || log->p[i].power_w < log->p[low].power_w ? i : low;
            high = high == log->n || log->p[i].power_w > log->p[high].power_w ? i : high;
        }
        const size_t order[2] = {low < high ? low : high, low < high ? high : low};
        for (int k = 0; k < 2 && low < log->n; k++)
            if (k == 0 || order[1] != order[0])
                buf_printf(out, "%s%.1f %.0f", points++ ? "L" : "M",
                           percent_of(s, log->p[order[k]].ns) / 100 * SLIVERS,
                           (1 - svg_scale_at(&s->y, log->p[order[k]].power_w)) * CURVE_HEIGHT);
    }
    buf_puts(out, "\"/></svg>\n");
}

static void put_mark(const struct strip *s, const struct energy_mark *m)
{
    const double x = percent_of(s, m->from_ns), width = percent_of(s, m->to_ns) - x;
    struct buf *out = s->out;
    if (m->to_ns <= s->from_ns || m->from_ns >= s->to_ns || width <= 0)
        return;
    buf_printf(out, "<g class=\"b%d\"><title>", kinds[m->kind].colour);
    html_escape(out, m->name);
    if (isfinite(m->mean_w))
        buf_printf(out, ", %.1f W", m->mean_w);
    buf_printf(out,
               "</title><rect class=\"window\" x=\"%.3f%%\" width=\"%.3f%%\" y=\"%d\" "
               "height=\"%d\"/>",
               x, width, s->top, s->bottom - s->top);
    if (isfinite(m->mean_w))
        buf_printf(out, "<rect x=\"%.3f%%\" width=\"%.3f%%\" y=\"%.1f\" height=\"3\"/>", x, width,
                   y_of(s, m->mean_w) - 1.5);
    buf_puts(out, "</g>\n");
}

static void put_grid(const struct strip *s)
{
    for (int i = 0; i < s->y.n_ticks; i++) {
        const int y = (int)lround(y_of(s, s->y.ticks[i]));
        buf_printf(s->out, "<line class=\"grid\" x2=\"100%%\" y1=\"%d\" y2=\"%d\"/>", y, y);
    }
    buf_puts(s->out, "\n");
}

/* Over the curve, which may run under a number. */
static void put_axes(const struct strip *s)
{
    const double span_s = (double)(s->to_ns - s->from_ns) / 1e9;
    const struct scale x = svg_scale_linear(0, span_s, false);
    struct buf text = {0};
    for (int i = 0; i < s->y.n_ticks; i++) {
        const int y = (int)lround(y_of(s, s->y.ticks[i]));
        buf_clear(&text);
        buf_printf(&text, "%s W", s->y.labels[i]);
        put_text(s->out, "0", y - 3, " class=\"tick\"", buf_str(&text));
    }
    for (int i = 0; i < x.n_ticks; i++) {
        const double at = x.ticks[i] / span_s * 100;
        char px[32];
        if (at < 0 || at > 100)
            continue;
        snprintf(px, sizeof px, "%.3f%%", at);
        buf_clear(&text);
        buf_printf(&text, "%s s", x.labels[i]);
        put_text(s->out, px, s->bottom + 16,
                 at < 5    ? ""
                 : at > 95 ? " text-anchor=\"end\""
                           : " text-anchor=\"middle\"",
                 buf_str(&text));
    }
    buf_free(&text);
}

/* In rows that a phone shows whole. Returns their height. */
static int put_legend(struct buf *out, const bool seen[ENERGY_MARKS])
{
    enum { ROOM = 330, LINE = 18 };
    int x = 0, y = 0;
    for (int k = 0; k < ENERGY_MARKS; k++) {
        if (!seen[k])
            continue;
        if (x + kinds[k].px > ROOM) {
            x = 0;
            y += LINE;
        }
        buf_printf(out,
                   "<rect class=\"b%d\" x=\"%d\" y=\"%d\" width=\"10\" height=\"10\"/>"
                   "<text x=\"%d\" y=\"%d\">%s</text>\n",
                   kinds[k].colour, x, y + 3, x + 14, y + 12, kinds[k].name);
        x += kinds[k].px;
    }
    return x ? y + LINE : 0;
}

static void put_idle(const struct strip *s, double idle_w)
{
    const double y = y_of(s, idle_w);
    if (!isfinite(idle_w) || y > s->bottom || y < s->top)
        return;
    buf_printf(s->out, "<line class=\"mark\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", y, y);
    put_text(s->out, "100%", (int)y - 4, " class=\"tick\" text-anchor=\"end\"", "idle");
}

void energy_draw_power(struct buf *out, const struct power_log *log,
                       const struct energy_mark *marks, size_t n, double idle_w)
{
    enum { TOP = 16, HEIGHT = 210, BELOW = 22 };
    struct strip s = {.out = out};
    struct buf legend = {0};
    bool seen[ENERGY_MARKS] = {false};
    double most = -INFINITY;
    for (size_t i = 0; i < log->n; i++)
        most = isfinite(log->p[i].power_w) ? fmax(most, log->p[i].power_w) : most;
    if (most < 0 || log->p[log->n - 1].ns <= log->p[0].ns)
        return;
    s.from_ns = log->p[0].ns;
    s.to_ns = log->p[log->n - 1].ns;
    s.y = svg_scale_linear(0, most > 0 ? most : 1, true);
    for (size_t i = 0; i < n; i++)
        seen[marks[i].kind] =
            seen[marks[i].kind] || (marks[i].to_ns > s.from_ns && marks[i].from_ns < s.to_ns);
    s.top = TOP + put_legend(&legend, seen);
    s.bottom = s.top + HEIGHT;
    begin(out, s.bottom + BELOW, "Power over time");
    buf_puts(out, buf_str(&legend));
    buf_free(&legend);
    for (size_t i = 0; i < n; i++)
        put_mark(&s, &marks[i]);
    put_grid(&s);
    put_idle(&s, idle_w);
    put_curve(&s, log);
    put_axes(&s);
    buf_puts(out, "</svg>\n");
}

/* ---- predicted and measured ------------------------------------------------------------------ */

enum { ROW = 36, LABEL = 16, BAR = 14, GROUP = 22 };

struct bars {
    struct buf *out;
    double most; /* joules at the right edge */
    int y;
};

static double part(const struct bars *b, double j)
{
    return isfinite(j) && j > 0 ? j / b->most * 100 : 0;
}

static void put_bar(struct bars *b, int colour, double from_j, double j, const char *what)
{
    if (!(j > 0))
        return;
    buf_printf(
        b->out,
        "<rect class=\"b%d\" x=\"%.3f%%\" width=\"%.3f%%\" y=\"%d\" height=\"%d\"><title>%s, "
        "%.4g J</title></rect>\n",
        colour, part(b, from_j), part(b, j), b->y, BAR, what, j);
}

static void put_interval(struct bars *b, double low, double high)
{
    if (!isfinite(low) || !isfinite(high))
        return;
    const double middle = b->y + BAR / 2.0;
    buf_printf(b->out,
               "<line class=\"whisker\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"%.1f\" y2=\"%.1f\"/>",
               part(b, low), part(b, high), middle, middle);
    for (int k = 0; k < 2; k++)
        buf_printf(b->out,
                   "<line class=\"whisker\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"%d\" y2=\"%d\"/>",
                   part(b, k ? high : low), part(b, k ? high : low), b->y + 2, b->y + BAR - 2);
    buf_puts(b->out, "\n");
}

/* Its text above a bar. */
static void put_value(struct bars *b, double j, const char *what)
{
    char text[64];
    snprintf(text, sizeof text, "%s %.4g %s", what, fabs(j) >= 1 ? j : j * 1e3,
             fabs(j) >= 1 ? "J" : "mJ");
    put_text(b->out, "0", b->y + LABEL - 4, "", text);
    b->y += LABEL;
}

static void put_prediction(struct bars *b, const char *what, const struct energy_prediction *p)
{
    if (!p->known)
        return;
    b->most =
        1.01 * fmax(fmax(p->energy_j, isfinite(p->high_j) ? p->high_j : 0),
                    fmax(p->measured_j, isfinite(p->measured_high_j) ? p->measured_high_j : 0));
    put_text(b->out, "0", b->y + GROUP - 7, " class=\"name\"", what);
    b->y += GROUP;
    put_value(b, p->energy_j, "predicted");
    put_bar(b, 0, 0, p->kernels_j, "kernels");
    put_bar(b, 6, p->kernels_j, p->idle_j, "idle");
    put_interval(b, p->low_j, p->high_j);
    b->y += ROW - LABEL;
    put_value(b, p->measured_j, "measured");
    put_bar(b, 2, 0, p->measured_j, "measured");
    put_interval(b, p->measured_low_j, p->measured_high_j);
    b->y += ROW - LABEL;
}

void energy_draw_predictions(struct buf *out, const struct energy_report *r)
{
    const int groups = r->whole.known + r->app.known;
    struct bars b = {.out = out};
    if (!groups)
        return;
    begin(out, groups * (GROUP + 2 * ROW) + 22, "Predicted and measured energy of a run");
    put_prediction(&b, "the whole", &r->whole);
    put_prediction(&b, "the application", &r->app);
    static const struct {
        const char *name;
        int colour, x;
    } legend[] = {{"kernels", 0, 0}, {"idle", 6, 74}, {"measured", 2, 124}};
    for (size_t i = 0; i < sizeof legend / sizeof *legend; i++)
        buf_printf(out,
                   "<rect class=\"b%d\" x=\"%d\" y=\"%d\" width=\"10\" height=\"10\"/>"
                   "<text x=\"%d\" y=\"%d\">%s</text>\n",
                   legend[i].colour, legend[i].x, b.y + 8, legend[i].x + 14, b.y + 17,
                   legend[i].name);
    buf_puts(out, "</svg>\n");
}
