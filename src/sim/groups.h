/* What the busiest of the groups attends to, at ep > tp (model/shard.h).
 *
 * A sequence lives on one group: its chunk, or its decode row, is computed there alone, and fewer
 * sequences than groups leave groups idle. A layer ends when the last group does, as all of them
 * meet in the all-to-all of the experts. So the time of a batch is that of its most loaded group:
 *
 *     chunks are dealt in their order, each to the group with the fewest sequences, of these to the
 *     one with the fewest tokens (vLLM sends a request to the rank with the fewest);
 *     decode rows fill the groups up to an equal number of sequences, ceil(sequences / groups);
 *     the longest of them is among those of the busiest group, others are of the mean length.
 *
 * The busiest may be the group with most tokens of chunks, the one with most pairs of query and
 * key, or one with decode rows alone: up to three parts, and a predictor takes the slowest. */
#ifndef SIM_GROUPS_H
#define SIM_GROUPS_H

#include "base/arena.h"
#include "serve/executor.h"

enum { GROUP_PARTS = 3 };

struct groups {
    int64_t n;
    struct key_spans spans;      /* of the model */
    int64_t *sequences, *tokens; /* [n]; of the chunks that were dealt */
    double *pairs;               /* of query and key; likewise */
};

struct group_part {
    int64_t group;                             /* for groups_deal; -1 = has no chunks */
    struct op_load load;                       /* of its sequences */
    int64_t decodes, decode_kv, decode_kv_max; /* as in struct batch */
};

struct groups groups_new(struct arena *a, int64_t n, struct key_spans spans);
/* Fills out[GROUP_PARTS]; returns how many there are, at least 1. */
int groups_busiest(struct groups *g, const struct batch *b, struct group_part *out);
/* The group of the next chunk, after groups_begin and in the order of the batch. */
void groups_begin(struct groups *g);
int64_t groups_deal(struct groups *g, const struct chunk *c);

#endif
