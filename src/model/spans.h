/* How many keys a query sees, of those that stand before it: all, or fewer.
 *
 * With v = its position + 1, the tokens up to and with its own:
 *
 *     last w             min(v, w)                       a window
 *     chunk of w         (v - 1) mod w + 1               attention within pieces of w tokens
 *     entries of r       floor(v / r)                    a cache of r tokens to an entry
 *     most k of these    min(floor(v / r), k)            chosen by an index; r = 1: of tokens
 *
 * A model has few such bounds, whatever its number of layers: they are listed once (struct
 * key_spans), and loads of batches (struct op_load) hold a sum for each. A bound of no tokens,
 * "all", is not listed: loads have its sums in fields of their own, so a model all of whose layers
 * see all has no spans and pays for none. */
#ifndef MODEL_SPANS_H
#define MODEL_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/structure.h"

struct key_span {
    int64_t unit;  /* tokens to an entry, >= 1 */
    int64_t most;  /* entries seen at most; 0 = no bound */
    int64_t chunk; /* > 0: pieces of so many tokens; unit 1, most 0 */
    bool chosen;   /* an index says which: queries of a prompt may see different ones */
};

enum {
    SPANS_MOST = 6,
    SPAN_TOKENS_MOST = 1 << 20, /* a bound of so many tokens or more is taken for none */
};

struct key_spans {
    int32_t n;
    struct key_span of[SPANS_MOST]; /* all differ, and from "all" */
};

/* Numbers of spans: 0 is "all", i + 1 is of[i]. A set of them has bit k for number k. */
enum { SPAN_ALL = 0 };

/* Of all kinds of attention of s. False: more than SPANS_MOST. */
bool key_spans_of(const struct structure *s, struct key_spans *out);
/* The set that an attention's queries see, and its index reads; 0 = none. Of key_spans_of(s). */
uint32_t spans_attended(const struct key_spans *l, const struct attention *t);
uint32_t spans_indexed(const struct key_spans *l, const struct attention *t);

/* Keys that a query sees; v >= 0. */
int64_t span_seen(const struct key_span *s, int64_t v);
/* For how many tokens the number of keys repeats or grows: 0 = without end. span_seen does not
 * change above `most` x `unit`; a chunk begins anew after `chunk`. */
int64_t span_period(const struct key_span *s);

/* Of a chunk of `tokens` queries behind `before` tokens: the sum of the keys that each sees, at
 * most INT64_MAX; and the keys that some query sees, each counted once. Of those that an index
 * chooses, as many of all as there are pairs. */
struct span_chunk {
    int64_t pairs, keys;
} span_chunk(const struct key_span *s, int64_t before, int64_t tokens);

#endif
