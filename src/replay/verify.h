/* Does the replay produce what the program produced?
 *
 * The region is replayed several times, each time from the memory as it was when it began, and all
 * captured memory is compared with what the capsule says it was at its end: the pages that changed,
 * and all others as at its start. Memory freed inside the region is not compared.
 *
 * A byte that differs is
 *   - undefined, when it is in memory allocated inside the region and holds in each replay what the
 *     replayer had filled that memory with: nothing wrote it.
 *   - within the tolerance, when one is given with the type of the numbers: |a - b| <= tolerance *
 *     max(|a|, |b|).
 *   - nondeterministic, when two replays differ in it too: atomics in another order, random
 *     numbers, or what was computed from such.
 *   - unsettled, when all replays agree in it, but the operation that wrote it last also writes
 *     nondeterministic bytes: rounded, a number that varies is often the same in several replays,
 *     and the program's may be another; or such an operation, behind the writer, wrote into the
 * same 16 bytes, which one store may write. More replays find more such bytes nondeterministic; so
 * they go on while they do, up to VERIFY_REPLAYS.
 *   - wrong otherwise: the operation that wrote it gives the same each time, and it is not the
 *     program's; or none wrote it.
 *
 * Nondeterministic and unsettled bytes prove nothing one by one. Together they do: where the
 * program did what the replays do, its memory is one more draw of the same, as far from a replay as
 * another replay is. When it is farther from every replay than any two of these are from each
 * other, it is called unlike. Of R replays and a program that are draws of the same, the program is
 * the one that lies so at most once in R + 1 times; before it is said there are VERIFY_REPLAYS
 * replays.
 *
 * A region that leaves all memory as it was, a pass that an application repeats, would be verified
 * by a replay that does nothing. Then it is replayed operation by operation, and bytes are counted
 * that hold something else on the way than at the end: these the replay wrote, and wrote right.
 * With none of them it is not verified. */
#ifndef REPLAY_VERIFY_H
#define REPLAY_VERIFY_H

#include <signal.h>

#include "replay/issue.h"
#include "replay/numbers.h"
#include "replay/source.h"

struct verify_params {
    int replays;      /* where bytes differ; 0 = 3, and more while more of them vary; at least 2 */
    bool streams;     /* on streams instead of as a graph */
    double tolerance; /* 0 = byte-exact */
    enum verify_dtype dtype;
    const volatile sig_atomic_t *stop;
};

struct verify_writer { /* an operation that wrote bytes which differ */
    size_t op;
    uint64_t bytes;            /* each counts for the last that changed it, */
    uint64_t wrong, unsettled; /* of which; the others are nondeterministic */
};

/* In how many bytes two of a kind differ: least and most. */
struct verify_apart {
    uint64_t low, high;
};

enum verify_verdict {
    VERIFY_SAME,      /* as far as it is deterministic */
    VERIFY_WRONG,     /* bytes are wrong */
    VERIFY_UNLIKE,    /* the program's memory is unlike that of the replays */
    VERIFY_UNCHANGED, /* nothing was written that could be compared */
};

struct verified {
    enum verify_verdict verdict;
    uint64_t compared, changed; /* bytes: of all memory, of the pages that the region changes */
    uint64_t wrong, unsettled, nondeterministic, undefined, tolerated;
    uint64_t rewritten;   /* where changed is 0: other on the way than at the end */
    uint64_t first_wrong; /* address; 0 = none */
    double worst;         /* largest relative difference of tolerated numbers */
    int replays;
    struct verify_apart replays_apart, program_apart; /* where bytes are nondeterministic */
    bool apart_known;              /* 0: none are, or too many differ to be counted */
    struct source source;          /* where replays begin to differ, with nondeterministic bytes */
    struct verify_writer *writers; /* [n_writers] by bytes, most first */
    size_t n_writers;
    size_t more_writers; /* beyond VERIFY_WRITERS */
    bool writers_cut;    /* more bytes differ than were followed */
};

enum {
    VERIFY_REPLAYS = 8,
    VERIFY_FOLLOWED = 4 << 20, /* differing bytes whose writers are looked for, at most */
    VERIFY_WRITERS = 16
};

/* ST_OK whatever was found. */
enum st verify_region(struct load *l, const struct program *p, const struct verify_params *params,
                      struct verified *out, struct err *e);

#endif
