/* Does the replay produce what the program produced?
 *
 * The region is replayed several times, each time from the memory as it was when it began, and all
 * captured memory is compared with what the capsule says it was at its end: the pages that changed,
 * and all others as at its start. Memory freed inside the region is not compared.
 *
 * A byte that differs is
 *   - nondeterministic, when two replays differ in it too: atomics in another order, random
 * numbers. It proves nothing, and is reported with the kernels that wrote it.
 *   - undefined, when it is in memory allocated inside the region and holds in each replay what the
 *     replayer had filled that memory with: nothing wrote it.
 *   - within the tolerance, when one is given with the type of the numbers: |a - b| <= tolerance *
 *     max(|a|, |b|).
 *   - wrong otherwise. */
#ifndef REPLAY_VERIFY_H
#define REPLAY_VERIFY_H

#include <signal.h>

#include "replay/issue.h"

enum verify_dtype { VERIFY_BYTES, VERIFY_F32, VERIFY_F16, VERIFY_BF16, VERIFY_F64 };

struct verify_params {
    int replays;      /* 0 = 3; at least 2 */
    bool streams;     /* on streams instead of as a graph */
    double tolerance; /* 0 = byte-exact */
    enum verify_dtype dtype;
    const volatile sig_atomic_t *stop;
};

struct verify_writer { /* an operation that wrote bytes which differ */
    size_t op;
    uint64_t bytes; /* of them; each counts for the last that changed it */
    bool wrong;     /* some of them are wrong, not only nondeterministic */
};

struct verified {
    uint64_t compared, changed; /* bytes: of all memory, of the pages that the region changes */
    uint64_t wrong, nondeterministic, undefined, tolerated;
    uint64_t first_wrong;          /* address; 0 = none */
    double worst;                  /* largest relative difference of tolerated numbers */
    struct verify_writer *writers; /* by bytes, most first */
    size_t n_writers;
    bool writers_cut; /* only the first VERIFY_WATCHED bytes that differ were followed */
};

enum { VERIFY_WATCHED = 1 << 20, VERIFY_WRITERS = 16 };

/* ST_OK whatever was found. */
enum st verify_region(struct load *l, const struct program *p, const struct verify_params *params,
                      struct verified *out, struct err *e);

#endif
