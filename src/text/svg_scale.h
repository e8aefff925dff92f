/* Axes of a picture: which range, which ticks, how a value becomes a position. Charts of lines are
 * svg.h's; this is for it and for pictures that it does not draw. */
#ifndef TEXT_SVG_SCALE_H
#define TEXT_SVG_SCALE_H

#include <stdbool.h>

enum { SCALE_MAX_TICKS = 12, SCALE_LABEL_MAX = 24 };

struct scale {
    double min, max; /* min < max; both > 0 when log */
    bool log;
    int n_ticks;
    double ticks[SCALE_MAX_TICKS]; /* inside [min, max], ascending */
    char labels[SCALE_MAX_TICKS][SCALE_LABEL_MAX];
};

/* A linear axis over the data. Ticks are 1, 2 or 5 times a power of ten, three to seven over the
 * data; `whole` moves both ends out to ticks, else only an end that lies near one. An empty range
 * gets some room, on both sides but never over 0: [0, 0] becomes [0, 1]. All finite, below 1e300.
 */
struct scale svg_scale_linear(double min, double max, bool whole);
/* A logarithmic axis, 0 < min <= max: powers of ten, with 2 and 5 between them when there is room;
 * round linear ticks within one decade. */
struct scale svg_scale_log(double min, double max);
/* 0 at min, 1 at max; values outside lie beyond. */
double svg_scale_at(const struct scale *s, double v);

#endif
