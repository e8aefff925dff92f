/* Means and percentiles that AIPerf and, before it, GenAI-Perf write: profile_export_aiperf.json,
 * profile_export_genai_perf.json and the same tables as CSV. Values carry their unit. */
#ifndef CALIBRATE_READ_AIPERF_H
#define CALIBRATE_READ_AIPERF_H

#include "calibrate/observed.h"

/* Whether the file looks like one. */
bool aiperf_is_summary(const char *path);
/* The one in a folder, JSON before CSV; NULL = none. */
const char *aiperf_summary_in(struct arena *a, const char *dir);
/* Its stage, as stages[0] of out; what it states of the server. */
enum st aiperf_read_summary(struct arena *a, const char *path, struct observed *out, struct err *e);

/* metrics.<name>.<member> in s by the unit beside it, or a count as it is; NAN where there is none.
 */
enum st aiperf_value(const struct node *metrics, const char *name, const char *member, double *out,
                     struct err *e);

#endif
