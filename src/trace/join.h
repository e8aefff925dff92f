/* Joins operations to what launched them. Private to trace/. */
#ifndef TRACE_JOIN_H
#define TRACE_JOIN_H

#include "trace/trace.h"

/* Fills ops.call: the call of the same process and correlation. Operations of a team of processes
 * (trace_process.team) go to the one that can have launched them first. Fills ops.range for those
 * without a call whose operator's id is known. Records are sorted. */
void trace_join(struct trace *t);

#endif
