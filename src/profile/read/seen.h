/* How many keys queries see, in the terms of attention tables: tokens in the cache before the
 * batch, as means over sequences, so not whole numbers. model/spans.h counts them for whole tokens.
 *
 * A table holds what an attention took at so many cached tokens. Where a query sees only the last w
 * tokens, its own among them, those before the last w - 1 change nothing: a place (x, kv) of the
 * table is (x, min(kv, w - 1)), points beyond have the same place, and look-ups as well. Within
 * pieces of w tokens it is (x, kv mod w). */
#ifndef PROFILE_READ_SEEN_H
#define PROFILE_READ_SEEN_H

#include "model/model.h"

struct seen {
    double tokens; /* w; 0 = all */
    bool piece;    /* of the present piece of w tokens, else the last w */
    int32_t span;  /* bounded: place in op_load.spans of the sums over sequences; -1 = none */
};

/* Of an operator of the model's list; all for what is not attention, and for attention to several
 * lists, of which some are bounded. Entries of several tokens count by their tokens. */
struct seen seen_of(const struct model *m, const struct op *op);

/* Cached tokens that count, of kv. */
double seen_kv(const struct seen *s, double kv);

/* How the lengths of a profile's decode rows differ: evenly around their mean, by up to a half of
 * it or as far as there is room, in whole blocks. */
struct seen_rows {
    int64_t max_kv; /* of a sequence, its new token included */
    int64_t block;  /* tokens */
};
/* Of row 0 .. n - 1 around kv. */
int64_t seen_row_kv(const struct seen_rows *r, int64_t kv, int64_t n, int64_t row);
/* Mean of seen_kv over the rows of such a decode; rows NULL: all have kv. */
double seen_kv_mean(const struct seen *s, double kv, double n, const struct seen_rows *rows);
/* Pairs of a query and a key it sees, of a chunk of c tokens behind kv. */
double seen_pairs(const struct seen *s, double kv, double c);

#endif
