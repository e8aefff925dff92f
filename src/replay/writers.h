/* Which operations write given bytes: the region is replayed operation by operation, and after each
 * the bytes are looked at.
 *
 * An operation that writes what is there already is not seen. A region that an application repeats
 * finds its own results in memory, so that most would not be: before it begins, each byte that
 * holds what it is expected to end with is given another value that was seen there. */
#ifndef REPLAY_WRITERS_H
#define REPLAY_WRITERS_H

#include "replay/issue.h"

enum { WRITERS_BYTES = 16 << 20 }; /* that are looked at, with those between them */

struct writers_byte {
    uint64_t at;
    unsigned char usual, other; /* what it is expected to end with, and another value */
    bool varies;                /* not alike in all replays */
    uint32_t writer;            /* out: operation + 1; 0 = none changed it */
};

/* bytes [n], rising. *followed: the first so many of them have their writers, the rest does not fit
 * WRITERS_BYTES. Restores memory first. */
enum st writers_find(struct load *l, const struct program *p, unsigned char fill,
                     struct writers_byte *bytes, size_t n, size_t *followed, struct err *e);

#endif
