/* The journal of a search: finished jobs, so that the same command resumes after a signal, a kill
 * or a crash. One JSON object a line, each synced to disk before the next job is reported done:
 *
 *     {"jobs": 24, "search": "search_0123456789", "version": "0.1.0"}
 *     {"job": 3, "result": {...}}
 *
 * A last line that was cut off is dropped. Another first line is another search: the journal then
 * begins anew. */
#ifndef SEARCH_SEARCH_JOURNAL_H
#define SEARCH_SEARCH_JOURNAL_H

#include <stdio.h>

#include "text/node.h"

struct search_journal {
    const char *path;
    FILE *f;
    struct node **results; /* [n] by job; NULL = not done */
    size_t n, done;
    bool other; /* a journal of another search was discarded */
};

/* id: identifies the search by everything that results depend on. */
enum st search_journal_open(struct arena *a, const char *path, const char *id, size_t n,
                            struct search_journal *out, struct err *e);
/* `bytes`: the result as JSON on one line. Fills results[job]. */
enum st search_journal_add(struct arena *a, struct search_journal *j, size_t job, struct sv bytes,
                           struct err *e);
void search_journal_close(struct search_journal *j, bool remove);

/* The results in a journal's text; *keep = bytes up to the end of the last whole line, 0 when it is
 * of another search. For tests and fuzzing. */
void search_journal_parse(struct arena *a, struct sv text, const char *id, struct node **results,
                          size_t n, size_t *keep);

#endif
