/* request_metrics_vidur.csv: a run's requests under the names, definitions and units (s) of Vidur's
 * request_metrics.csv, for tools and readers used to those. Rows stand in order of completion;
 * failed requests have none. docs/formats.md lists the columns. */
#ifndef ARTIFACT_VIDUR_METRICS_H
#define ARTIFACT_VIDUR_METRICS_H

#include "artifact/run.h"

#define VIDUR_METRICS "request_metrics_vidur.csv"

struct vidur_metrics;

enum st vidur_metrics_open(const struct artifact *art, struct vidur_metrics **w, struct err *e);
void vidur_metrics_write(struct vidur_metrics *w, const struct run_request *r);
/* Reports the first error since it was opened. *w is cleared either way; NULL is fine. */
enum st vidur_metrics_close(struct vidur_metrics **w, struct err *e);

/* One row's values in order of the columns, NAN = empty. */
enum { VIDUR_COLUMNS = 21 };
extern const char *const vidur_metrics_columns[VIDUR_COLUMNS];
void vidur_metrics_row(const struct run_request *r, double out[VIDUR_COLUMNS]);

#endif
