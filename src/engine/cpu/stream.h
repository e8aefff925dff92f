/* The bandwidth floor of decoding: reading memory from end to end and nothing else. */
#ifndef ENGINE_CPU_STREAM_H
#define ENGINE_CPU_STREAM_H

#include <stddef.h>

#include "base/err.h"

struct stream;

/* bytes of touched memory, huge pages where possible, and the threads to read it. */
enum st stream_open(int threads, size_t bytes, struct stream **out, struct err *e);
double stream_pass_s(struct stream *s); /* seconds to read all of it once */
void stream_close(struct stream **s);

#endif
