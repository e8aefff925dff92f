/* First tokens of a real run, split by what its server counted (metrics/server_metrics.h). */
#include <math.h>

#include "compare/intern.h"
#include "metrics/server_metrics.h"

/* Means of a simulated run's requests that ended well, in ms: to the first batch, and from there.
 */
struct simulated_parts {
    double wait_ms, rest_ms;
    size_t n;
};

static struct simulated_parts parts_of(const struct run *r)
{
    struct simulated_parts p = {0};
    for (size_t i = 0; i < r->n_requests; i++) {
        const struct run_request *q = &r->requests[i];
        if (q->status != RUN_OK || q->scheduled_ns == RUN_NONE || q->first_token_ns == RUN_NONE)
            continue;
        p.wait_ms += (double)(q->scheduled_ns - q->arrival_ns) / 1e6;
        p.rest_ms += (double)(q->first_token_ns - q->scheduled_ns) / 1e6;
        p.n++;
    }
    p.wait_ms /= (double)p.n;
    p.rest_ms /= (double)p.n;
    return p;
}

static void tell(struct arena *a, const struct comparison *c, const struct first_token_split *s,
                 struct notes *notes)
{
    const struct simulated_parts p = parts_of(&c->sim);
    compare_note(
        notes, "First tokens of the real run by its server's own metrics (" SERVER_METRICS "): %s.",
        first_token_words(a, s));
    if (p.n)
        compare_note(notes,
                     "Those of the other run: %.2f ms: to the first batch %.2f, from there %.2f; "
                     "means of %zu requests.",
                     p.wait_ms + p.rest_ms, p.wait_ms, p.rest_ms, p.n);
}

enum st compare_tell_first_tokens(struct arena *a, const struct comparison *c, struct notes *notes,
                                  struct err *e)
{
    const struct server_metrics *m;
    struct first_token_split split;
    const char *why;
    TRY(server_metrics_load(a, c->real.dir, &m, e));
    if (m && first_token_split(a, m, &split, &why))
        tell(a, c, &split, notes);
    else if (m && !m->alone)
        compare_note(notes, "First tokens are not split by the server's own metrics: %s.", why);
    return ST_OK;
}
