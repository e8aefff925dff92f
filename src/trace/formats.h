/* The members of the table trace_formats. Private to trace/. */
#ifndef TRACE_FORMATS_H
#define TRACE_FORMATS_H

#include "trace/trace.h"

extern const struct trace_format trace_spool, trace_sqlite, trace_kineto, trace_perfetto;

#endif
