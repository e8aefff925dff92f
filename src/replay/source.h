/* What memory goes through while a region is replayed operation by operation, looked at after some
 * of them. */
#ifndef REPLAY_SOURCE_H
#define REPLAY_SOURCE_H

#include <signal.h>

#include "replay/issue.h"

/* The operation at which replays begin to differ. The region is replayed three times from the same
 * memory, and digests of `pages` are compared after each of up to `points` operations; then again
 * between the last that left them alike and the first that did not, until these are neighbours.
 *
 * What it says is of the operations one by one, each after the end of the one before: replays that
 * differ only where operations overlap do not differ here. It is of `pages` alone: what varies in
 * other memory shows when it reaches them. */
struct source_params {
    const struct place_span *pages; /* [n_pages], each of CAPSULE_PAGE_BYTES at most */
    size_t n_pages;
    size_t points; /* 0 = 16; at least 2 */
    unsigned char fill;
    const volatile sig_atomic_t *stop;
};

struct source {
    bool found;
    size_t first, last; /* operations: it is one of these, mostly one */
};

enum st source_find(struct load *l, const struct program *p, const struct source_params *params,
                    struct source *out, struct err *e);

/* Bytes of captured memory that on the way, after one of `points` operations spread over the
 * region, hold something else than when it began. */
enum st source_rewritten(struct load *l, const struct program *p,
                         const struct source_params *params, uint64_t *bytes, struct err *e);

#endif
