/* trace.json: the batches of a run as Chrome trace events, for ui.perfetto.dev or chrome://tracing.
 * A process is a replica, a thread one of its pipeline stages, a slice a batch on that stage, named
 * prefill, decode or mixed, with the columns of batches.csv as its arguments; KV blocks and batch
 * size of each replica are counters. Written during the run; valid JSON once closed, at whatever
 * point. */
#ifndef ARTIFACT_BATCH_TRACE_H
#define ARTIFACT_BATCH_TRACE_H

#include "artifact/run.h"

#define BATCH_TRACE "trace.json"

struct batch_trace;

enum st batch_trace_open(const struct artifact *art, struct batch_trace **out, struct err *e);
void batch_trace_write(struct batch_trace *t, const struct run_batch *b);
/* Reports the first error since it was opened. *t is cleared either way; NULL is fine. */
enum st batch_trace_close(struct batch_trace **t, struct err *e);

#endif
