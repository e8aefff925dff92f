/* The members of the table trace_formats. Private to trace/. */
#ifndef TRACE_FORMATS_H
#define TRACE_FORMATS_H

#include "trace/trace.h"

extern const struct trace_format trace_spool, trace_sqlite, trace_kineto, trace_perfetto;

/* Creates an empty file; ST_USAGE when it exists. */
enum st trace_create_file(const char *path, struct err *e);

/* Readers of the formats. */
bool trace_kineto_recognises(struct sv head);
enum st trace_kineto_read(const char *path, struct trace_dict *d, const struct trace_sink *sink,
                          struct err *e);
bool trace_sqlite_recognises(struct sv head);
enum st trace_sqlite_read(const char *path, struct trace_dict *d, const struct trace_sink *sink,
                          struct err *e);

#endif
