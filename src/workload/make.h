/* The parts of workload_make. Each fills all n requests. */
#ifndef WORKLOAD_MAKE_H
#define WORKLOAD_MAKE_H

#include "workload/workload.h"

/* Columns of a trace, in the order of the file; NULL where not asked for. Arrivals never go back.
 */
struct trace_rows {
    int64_t *arrival_ns;
    double *arrival_s; /* as written in arrived_at, or arrival_time_ns / 1e9 */
    int64_t *prefill, *decode;
    size_t n; /* >= 1 */
};
/* Arrivals come from arrived_at (seconds) or, without it, arrival_time_ns. */
enum st trace_read(struct arena *a, const char *path, bool arrivals, bool lengths,
                   struct trace_rows *out, struct err *e);

/* trace: rows of p->arrival_trace, at least n, for ARRIVAL_TRACE. */
enum st workload_arrivals(const struct workload_params *p, const struct trace_rows *trace,
                          struct workload_request *r, size_t n, struct err *e);
/* trace: rows of p->lengths_trace, at least n, for LENGTHS_TRACE. */
enum st workload_lengths(struct arena *a, const struct workload_params *p,
                         const struct trace_rows *trace, struct workload_request *r, size_t n,
                         struct err *e);

#endif
