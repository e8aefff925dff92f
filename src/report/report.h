/* Artifacts to one self-contained report.html: inline CSS and SVG, no scripts, no network. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "compare/compare.h"

/* The page of a comparison. */
void report_comparison(struct arena *a, struct buf *html, const struct comparison *c,
                       const struct node *meta);

/* Any mix of artifact directories (run, comparison, workload, bundle), told by their meta files. */
enum st report_artifacts(struct arena *a, const char *const *dirs, size_t n, struct buf *html,
                         struct err *e);

#endif
