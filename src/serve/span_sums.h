/* For each span of a model (model/spans.h), the keys that the next queries of a decode set see.
 *
 * A member's query moves on by a token a tick, so the number of its keys changes by the clock
 * alone, and a tick costs O(1) for each span whatever the number of members. With T the tick and v
 * the tokens that a member's last query sees at T if it sees all, T - v stays as it is:
 *
 *     entries of r      one more at the ticks that are T - v modulo r: members are counted by that
 *                       (growing), and all of one count grow together
 *     at most k of them no more from v = W = k r on, at a tick that is T - v modulo W: they are
 *                       counted by that too (turning), and leave `growing` then
 *     chunk of w        one more a tick; at ticks that are T - v + 1 modulo w down to 1 again
 *
 * A bound lies at most W ticks ahead, so a count for each tick modulo W tells members apart. */
#ifndef SERVE_SPAN_SUMS_H
#define SERVE_SPAN_SUMS_H

#include "base/arena.h"
#include "model/spans.h"

struct span_sum {
    struct key_span span;
    int64_t sum, members;
    int64_t bound;             /* W, or w; 0 = without end */
    int32_t *growing;          /* [span.unit]; not of chunks */
    int32_t *turning;          /* [bound] */
    int64_t unit_at, bound_at; /* the tick modulo each */
};

struct span_sums {
    int32_t n; /* 0: all members see all, and the calls below do nothing */
    struct span_sum of[SPANS_MOST];
};

/* spans: NULL or none = n 0. At tick 0. */
void span_sums_init(struct span_sums *s, struct arena *a, const struct key_spans *spans);
/* A member whose last query of the next batch would see v >= 1 tokens, v - 1 of them before. */
void span_sums_add(struct span_sums *s, int64_t v, int64_t tick);
void span_sums_remove(struct span_sums *s, int64_t v, int64_t tick);
/* All members move on by a token. */
void span_sums_tick(struct span_sums *s);

#endif
