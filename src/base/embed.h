/* Files compiled into the program (cmake/embed.cmake): the configuration groups, the report's CSS.
 *
 * A table ends with a row whose path is NULL. Bytes are followed by a 0 that size does not count.
 */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H

#include <stddef.h>

struct embed_file {
    const char *path; /* relative to the embedded folder, '/' separated */
    const char *bytes;
    size_t size;
};

extern const struct embed_file embed_cmd[];    /* configs/ */
extern const struct embed_file embed_report[]; /* src/report/assets/ */
extern const struct embed_file embed_doctor[]; /* src/doctor/kernels/ */
extern const struct embed_file embed_engine[]; /* src/engine/cuda/kernels/ */

/* The row of that path, or NULL. */
const struct embed_file *embed_find(const struct embed_file *table, const char *path);

#endif
