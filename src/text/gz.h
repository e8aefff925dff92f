/* Whole files that may be compressed by gzip, recognised by their first bytes, not by their names.
 */
#ifndef TEXT_GZ_H
#define TEXT_GZ_H

#include "base/fs.h"

/* The file's bytes, unpacked where it is gzip. More than max_bytes, or a broken or cut stream, is
 * ST_INPUT. out->p is NUL-terminated and lives in a. */
enum st gz_read(struct arena *a, const char *path, size_t max_bytes, struct sv *out, struct err *e);

/* The same for files of any size: mapped where they are plain, in memory where they are gzip. What
 * unpacks to more than 64 MiB and to more than GZ_MAX_RATIO times its size is ST_INPUT. A
 * byte-order mark at the beginning is left out of the text. */
enum { GZ_MAX_RATIO = 400 };
struct gz_file {
    struct sv text; /* valid until gz_close */
    struct fs_map map;
    struct buf unpacked;
};
enum st gz_open(const char *path, struct gz_file *out, struct err *e);
void gz_close(struct gz_file *f); /* no-op after a failed open */

#endif
