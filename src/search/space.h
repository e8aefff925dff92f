/* The space of a search: settings with the values to try, and every combination of them.
 *
 *     search:
 *       space:
 *         hardware: [a100, h200]           a group: picks its file
 *         parallel: {tp: [1, 2]}           a setting; parallel.tp: [1, 2] is the same
 *         scheduler: [vllm, sarathi]
 *         scheduler.chunk_size: [256, 512]
 *
 * On the command line: +search.space.parallel.tp=[1,2]; where a group and its settings are both
 * tried, +search.space.scheduler.group=[vllm,sarathi] names the group.
 *
 * A value is a scalar, null = leave the setting unchanged; a scalar in place of a list is a list of
 * one. The first setting varies slowest. */
#ifndef SEARCH_SPACE_H
#define SEARCH_SPACE_H

#include "text/node.h"

enum { SPACE_MAX_AXES = 16, SPACE_MAX_POINTS = 10000 };

struct space_axis {
    const char *key;           /* "parallel.tp", "scheduler" */
    const char *const *values; /* [n] as written; NULL = unchanged */
    const char *const *words;  /* [n] "parallel.tp=2" as on a command line; NULL likewise */
    size_t n;
};

struct space {
    struct space_axis axes[SPACE_MAX_AXES];
    size_t n_axes;
    size_t n; /* combinations */
};

/* ST_USAGE at the place of the fault: no settings, an empty list, a value that is no scalar, a key
 * twice, more than SPACE_MAX_AXES settings or SPACE_MAX_POINTS combinations. */
enum st space_read(struct arena *a, const struct node *map, struct space *out, struct err *e);

/* Index of axis k's value in combination i. */
size_t space_at(const struct space *s, size_t i, size_t k);

#endif
