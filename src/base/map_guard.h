/* Mapped input files that become shorter while they are read.
 *
 * The kernel answers the access to a page that the file no longer has with SIGBUS. Of a mapping
 * that is known here it ends the process with the file's name and the exit code of ST_INPUT; any
 * other SIGBUS is a crash as before. Thread-safe. */
#ifndef BASE_MAP_GUARD_H
#define BASE_MAP_GUARD_H

#include <stddef.h>

void map_guard_add(const void *p, size_t n, const char *path);
void map_guard_remove(const void *p); /* before it is unmapped */

#endif
