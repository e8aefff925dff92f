/* Artifacts to one self-contained report.html: inline CSS and SVG, no scripts, no network.
 *
 * A page begins with the answer (verdict, key figures), then the evidence, then uncertainty and
 * provenance. All text from artifacts is escaped. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "compare/ab.h"
#include "deep/result.h"

/* The page of a comparison. meta: its run_meta tree, or NULL. */
void report_comparison(struct arena *a, struct buf *html, const struct comparison *c,
                       const struct node *meta);

void report_runs(struct arena *a, struct buf *html, const struct ab *x, const struct node *meta);

/* The page of a deep session of that name. meta: its run_meta tree, or NULL. */
void report_deep(struct arena *a, struct buf *html, const struct deep_result *r, const char *id,
                 const struct node *meta);

/* Any mix of artifact directories on one page with a table of contents, distinguished by their meta
 * files: comparisons, runs, capacities, searches, traces, runs of kernels, deep sessions, power
 * logs and energies (run_meta.json), workloads (workload_meta.json), profiling bundles
 * (bundle_meta.json, in the model's folder). A comparison is made again from compare.json and
 * tables/ alone, so a folder that was moved, or whose runs are gone, still reports.
 *
 * ST_USAGE: no directory. ST_INPUT, naming the directory: missing, incomplete, of a kind without a
 * page, or damaged; html is unchanged then. */
enum st report_artifacts(struct arena *a, const char *const *dirs, size_t n, struct buf *html,
                         struct err *e);

#endif
