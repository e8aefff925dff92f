/* The timeline as a picture: ranges of the host over streams of the GPUs. What to draw is worked
 * out first, as numbers that kernels.json can hold, and drawn then. */
#ifndef KERNELS_GANTT_H
#define KERNELS_GANTT_H

#include "kernels/kernels.h"

enum kernels_bar {
    KERNELS_BAR_RANGE,
    KERNELS_BAR_COPY,
    KERNELS_BAR_MATRIX,
    KERNELS_BAR_OTHER,
    KERNELS_BAR_COLLECTIVE, /* kernels_communicates */
    KERNELS_BARS
};

struct kernels_gantt {
    int64_t span_ns; /* all of the width */
    const char *const *lanes, *const *names;
    size_t n_lanes, n_names;
    bool more_lanes; /* than a picture holds */
    /* A column of each bar's, in the order of drawing. */
    struct doubles lane; /* its number */
    struct doubles kind; /* enum kernels_bar */
    struct doubles start_percent, width_percent;
    struct doubles name;        /* its number; NAN = too thin for one */
    struct doubles duration_ns; /* NAN as name */
};
extern const struct fields kernels_gantt_fields;

/* Bars thinner than a third of a pixel beside a neighbour, at 1200 pixels, are left out. */
struct kernels_gantt kernels_gantt_of(struct arena *a, const struct kernels *k);
/* Only what runs between two moments, on all processes' one clock, and only lanes with some of it.
 */
struct kernels_gantt kernels_gantt_between(struct arena *a, const struct kernels *k,
                                           int64_t from_ns, int64_t to_ns);
/* What was read draws without harm: columns of one length, numbers in their ranges. */
bool kernels_gantt_ok(const struct kernels_gantt *g);
/* alone: a file, gantt.svg. Else to stand in a page, whose style has the rules `.gantt .b0` ...
 * `.gantt .b7` for bars: as wide as there is room, with text of one size. */
void kernels_gantt_draw(struct buf *out, const struct kernels_gantt *g, bool alone);

#endif
