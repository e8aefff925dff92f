/* Pictures of a page of energy: as wide as there is room, text of one size. Private to report/. */
#ifndef REPORT_ENERGY_FIGURES_H
#define REPORT_ENERGY_FIGURES_H

#include "energy/energy_report.h"

/* What ran during a part of the log. */
struct energy_mark {
    int64_t from_ns, to_ns; /* of the log's kind */
    double mean_w;          /* NAN = no level is drawn */
    enum energy_mark_kind {
        ENERGY_MARK_WHOLE,
        ENERGY_MARK_APPLICATION,
        ENERGY_MARK_COPY, /* the tiers */
        ENERGY_MARK_MATRIX,
        ENERGY_MARK_OTHER,
        ENERGY_MARK_POOL, /* several kernels in turn */
        ENERGY_MARKS
    } kind;
    const char *name; /* for its tooltip */
};

/* Power over time with the windows marked, each by a level at its mean; idle_w: a line; NAN = none.
 * Of a log of more than some thousand samples the lowest and highest of each sliver of the width
 * are drawn. Nothing for a log without power. */
void energy_draw_power(struct buf *out, const struct power_log *log,
                       const struct energy_mark *marks, size_t n, double idle_w);

/* Predicted under measured, of the whole and of the application where they are known: bars on one
 * scale each, with their intervals. */
void energy_draw_predictions(struct buf *out, const struct energy_report *r);

#endif
