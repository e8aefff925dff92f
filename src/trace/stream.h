/* A file's bytes in pieces, unpacked where it is gzip or zstd (by its first bytes, not its name).
 *
 * Bounded: a zstd window of at most 128 MiB; a file that unpacks to more than 64 MiB and to more
 * than TRACE_STREAM_MAX_RATIO times its size is refused, for no trace is that regular. */
#ifndef TRACE_STREAM_H
#define TRACE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { TRACE_STREAM_MAX_RATIO = 400 };

struct trace_stream;

enum st trace_stream_open(struct trace_stream **s, const char *path, struct err *e);
/* Up to cap bytes into p; *n = 0 at the end only. A broken or cut stream is ST_INPUT. */
enum st trace_stream_read(struct trace_stream *s, char *p, size_t cap, size_t *n, struct err *e);
void trace_stream_close(struct trace_stream **s);

#endif
