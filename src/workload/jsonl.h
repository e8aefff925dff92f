/* Files of one JSON object a line, plain or gzip. Blank lines and a byte-order mark are skipped;
 * bad UTF-8, a line that is no object or longer than the limit is ST_INPUT at file:line:column, and
 * nodes carry their place in the file, so the getters of text/node.h name it too. */
#ifndef WORKLOAD_JSONL_H
#define WORKLOAD_JSONL_H

#include "text/gz.h"
#include "text/node.h"

struct jsonl {
    const char *path; /* borrowed */
    long line;        /* line of the last object, from 1 */
    size_t max_line_bytes;
    struct gz_file file;
    struct sv left;
    struct arena *scratch;
};

enum st jsonl_open(struct jsonl *j, const char *path, size_t max_line_bytes, struct err *e);
/* The next object, which lives until the next call; ST_END after the last. */
enum st jsonl_next(struct jsonl *j, struct node **out, struct err *e);
void jsonl_close(struct jsonl *j); /* after a failed open too */

#endif
