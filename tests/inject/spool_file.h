/* A whole spool in memory, for tests: every block is checked as the format demands. */
#ifndef TESTS_INJECT_SPOOL_FILE_H
#define TESTS_INJECT_SPOOL_FILE_H

#include "support/support.h"
#include "trace/spool.h"

struct spool_file {
    struct spool_header header;
    size_t bytes, whole_bytes;  /* of the file; up to the first bad block */
    char *records[SPOOL_KINDS]; /* of this version's size, one after the other */
    size_t n[SPOOL_KINDS];
    const char **strings; /* [n_strings], "" where an id is missing */
    size_t n_strings;
};

/* Fails the test when the file is none, or when an event refers to what does not stand before it.
 */
struct spool_file *spool_file(struct test *t, const char *path);

#define spool_records(f, kind, type) ((const struct type *)(const void *)(f)->records[kind])
const char *spool_text(const struct spool_file *f, uint32_t id);
/* Is there a note with that text in it? */
bool spool_noted(const struct spool_file *f, const char *text);
uint64_t spool_dropped(const struct spool_file *f, enum spool_source source);

#endif
