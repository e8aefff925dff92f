/* The columns of a bundle's cpu_overheads.csv (docs/formats.md), in order: Vidur's, then the whole
 * host time of an iteration with its spread. Times in ms. Read by bundle_files.c, written by
 * profiles and from traces. */
#ifndef PROFILE_READ_HOST_COLUMNS_H
#define PROFILE_READ_HOST_COLUMNS_H

enum { HOST_COLUMNS = 26 };
extern const char *const host_columns[HOST_COLUMNS];

#endif
