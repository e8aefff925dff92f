/* Line charts as SVG: deterministic bytes, no scripts, colours through CSS classes so that one file
 * works on light and dark pages (and stands alone with its own defaults).
 *
 * Axes pick 3 to 7 round ticks (1, 2, 5 x 10^k). Series may be lines or steps (CDFs). Points that
 * are not finite are left out. Long series are thinned so that no more than about 1,000 points are
 * written and no visible step is lost: of every 1/250 of the width the first, lowest, highest and
 * last point stay. */
#ifndef TEXT_SVG_H
#define TEXT_SVG_H

#include <stdbool.h>

#include "base/str.h"

struct svg_series {
    const char *name;    /* legend, shown for two series or more; escaped. One that is too long for
                            the chart is cut, whole in its tooltip */
    const double *x, *y; /* in the order they are drawn */
    size_t n;
    bool step; /* horizontal then vertical; a CDF begins with a point at y = 0 */
    bool dashed;
    bool points;  /* a dot at every point */
    bool no_line; /* the dots alone */
};

struct svg_chart {
    const char *title, *x_label, *y_label; /* NULL or "" = none; labels name the unit */
    int width, height;                     /* 0 = 640 x 320 */
    bool log_x;              /* non-positive x are left out and counted in the note below */
    double y_min, y_max;     /* both 0 = from the data, with 0 when it is near. Never below 0 unless
                                the data is */
    const char *x_mark_name; /* NULL = none; else a line up the plot at x_mark, its name above */
    double x_mark;
    const struct svg_series *series;
    size_t n_series;
};

void svg_chart(struct buf *out, const struct svg_chart *c);

/* The text of the <style> that every chart carries: pages allow it by its hash. The variables it
 * defines (--chart-0 ... --chart-7, --chart-fg, --chart-muted, --chart-grid) serve other SVG too.
 */
extern const char svg_css[];

#endif
