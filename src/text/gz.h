/* Whole files that may be compressed by gzip. */
#ifndef TEXT_GZ_H
#define TEXT_GZ_H

#include "base/str.h"

/* The file's bytes, unpacked where it is gzip (by its first bytes, not its name). More than
 * max_bytes, or a broken or cut stream, is ST_INPUT. out->p is NUL-terminated and lives in a. */
enum st gz_read(struct arena *a, const char *path, size_t max_bytes, struct sv *out, struct err *e);

#endif
