/* Results of capacity and search over a server whose waits are known (M/M/1), for what reads and
 * shows them. */
#ifndef SUPPORT_FAKE_SEARCH_H
#define SUPPORT_FAKE_SEARCH_H

#include "artifact/artifact.h"
#include "search/probe.h"

/* Serves 10 requests/s times `speed` on average, a little more with some seeds than with others.
 * speed must outlive the probe. */
struct rate_probe fake_probe(const double *speed);

struct fake_search {
    const char *id, *model; /* of run_meta.json */
    const char *text;       /* stands wherever a user's text may */
    bool unmet;             /* capacity: a limit that no rate meets */
};

/* The folder of a capacity, or of a search over 2 policies and 3 degrees of which one is refused.
 */
enum st fake_capacity_write(struct arena *a, const char *dir, const struct fake_search *f,
                            struct err *e);
enum st fake_search_write(struct arena *a, const char *dir, const struct fake_search *f,
                          struct err *e);

#endif
