/* Tells of runs above what their system carries. */
#include "compare/intern.h"
#include "metrics/backlog.h"

/* Moments that follow from ends wait for nothing. */
static bool follows(const struct run *r)
{
    bool turns = false;
    for (size_t i = 0; i < r->n_requests; i++)
        turns = turns || r->requests[i].turn > 1;
    return turns || node_find(r->meta, "concurrency");
}

static void tell(const struct run *r, const char *what, struct notes *notes)
{
    struct backlog b = {0};
    char second[WORDS_MAX], last[WORDS_MAX];
    for (size_t i = 0; i < r->n_requests; i++)
        backlog_add(&b, &r->requests[i]);
    const struct backlog_trend t = backlog_trend(&b);
    if (!t.grew || follows(r))
        return;
    compare_note(notes,
                 "%s is saturated: its requests waited %s in the second quarter of the arrivals "
                 "and %s in the last. Its latencies are those of a queue that grows: a small "
                 "difference of speed makes a large one of them.",
                 what, words_duration(second, t.wait_s[1]), words_duration(last, t.wait_s[3]));
}

void compare_saturated_tell(const struct comparison *c, struct notes *notes)
{
    tell(&c->real, "The real run", notes);
    tell(&c->sim, "The simulated run", notes);
}
