/* Line charts as SVG: deterministic bytes, no scripts, colours through CSS classes so that one file
 * works on light and dark pages (and stands alone with its own defaults).
 *
 * Axes pick 4-7 round ticks (1, 2, 5 x 10^k). Series may be lines or steps (CDFs). Long series are
 * thinned so that no more than about 1,000 points are written and no visible step is lost. */
#ifndef TEXT_SVG_H
#define TEXT_SVG_H

#include <stdbool.h>

#include "base/str.h"

struct svg_series {
    const char *name; /* legend; escaped */
    const double *x, *y;
    size_t n;
    bool step; /* horizontal then vertical, as a CDF */
    bool dashed;
};

struct svg_chart {
    const char *title, *x_label, *y_label;
    int width, height;   /* 0 = 640 x 320 */
    bool log_x;          /* non-positive x are left out and counted in the note below */
    double y_min, y_max; /* both 0 = from the data */
    const struct svg_series *series;
    size_t n_series;
};

void svg_chart(struct buf *out, const struct svg_chart *c);

#endif
