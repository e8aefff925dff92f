/* What a trace says of logged iterations: iterations.csv of `twinfer kernels
 * kernels.iterations=true kernels.iteration_log=LOG` (docs/formats.md), in the folder of the run
 * whose requests they were.
 *
 * Only the time on the device is read. What the host took is in the file too, but a recording slows
 * launching (of kernels one by one by a third), and the device not at all. */
#ifndef METRICS_ITERATION_TRACE_H
#define METRICS_ITERATION_TRACE_H

#include "metrics/iteration_match.h"

/* "DIR/iterations.csv"; NULL = it is not there. */
const char *iteration_trace_beside(struct arena *a, const char *dir);

/* *device_s: [m->n] of each matched iteration, NAN = not in the file. *n: how many are. ST_INPUT: a
 * cell that is no time, an iteration twice; iterations whose tokens are not those of the log, which
 * is another then. */
enum st iteration_trace_read(struct arena *a, const char *path, const struct iteration_match *m,
                             double **device_s, size_t *n, struct err *e);

#endif
