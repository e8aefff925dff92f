/* The sequences of a lane that each emit one token per batch.
 *
 * Nothing per sequence changes while they all run: the set counts its batches (ticks), and a
 * member's KV length is what it was at joining plus the ticks since. Events of a tick are found
 * without visiting members: those that finish are in a timing wheel by their last tick, those that
 * need a new KV block are counted by that tick modulo block_size (a member needs one when its KV
 * length is a multiple of the block size). So a tick costs O(1) plus O(1) per completion, and O(1)
 * per new block where block ids are wanted. How many keys their queries see, where a model bounds
 * that, is summed in the same way (span_sums.h).
 *
 * With speculation (serve/speculate.h) a tick computes 1 + draft_tokens tokens per member, and
 * decode_set_skip advances a member by the accepted tokens. */
#ifndef SERVE_DECODE_SET_H
#define SERVE_DECODE_SET_H

#include "serve/kv.h"
#include "serve/span_sums.h"

enum { DECODE_WHEEL = 512 }; /* a member further away is visited once per turn */

struct decode_set {
    struct link members; /* ascending by request.order, equal ones by joining */
    int64_t n;
    int64_t tick;           /* batches run so far */
    int64_t kv_sum;         /* tokens in the cache, all members */
    int64_t longest;        /* kv - t0 of the member with the longest cache */
    bool longest_left;      /* it has left: recompute */
    int64_t block_size;     /* of the replica's KV cache */
    int64_t phase;          /* tick modulo block_size */
    int32_t draft_tokens;   /* 0 without speculation */
    int32_t *crossings;     /* [block_size] members that need a block at ticks of that phase */
    struct span_sums spans; /* keys that queries see; of models whose queries all see all: none */
    struct link *phases;    /* [block_size] the same as lists; NULL without block ids */
    struct link wheel[DECODE_WHEEL];
    struct link *looks; /* [DECODE_WHEEL] with KV groups: members by the tick of their next look;
                           NULL = one table of blocks serves all layers */
};

void decode_set_init(struct decode_set *s, struct arena *a, int64_t block_size, bool with_ids);

/* Of a model with spans; draft_tokens is set, and the set is empty. */
void decode_set_see(struct decode_set *s, struct arena *a, const struct key_spans *spans);
/* With KV groups (serve/kv_tables.h): members take no blocks by themselves; each has a tick before
 * which its tables are looked at. */
void decode_set_with_looks(struct decode_set *s, struct arena *a);

/* q has kv tokens in the cache, in n_blocks just enough or reserved blocks, and emits `tokens` >= 1
 * more. */
void decode_set_join(struct decode_set *s, struct request *q, int64_t tokens);

/* Brings q's kv, generated and n_blocks up to date. */
void decode_set_leave(struct decode_set *s, struct request *q);

static inline int64_t decode_set_kv(const struct decode_set *s, const struct request *q)
{
    return q->kv + (s->tick - q->t0);
}

/* Tokens in the longest cache of a member; 0 when there is none. O(1), except O(n) after the
 * longest left. */
int64_t decode_set_kv_max(struct decode_set *s);

/* Blocks that the next tick takes. */
static inline int64_t decode_set_blocks(const struct decode_set *s)
{
    int64_t n = s->crossings[s->phase];
    for (int32_t i = 1; i <= s->draft_tokens; i++)
        n += s->crossings[(s->phase + i) % s->block_size];
    return n;
}

/* Those of them for q. */
int64_t decode_set_needs(const struct decode_set *s, const struct request *q);

/* Appends the members to be looked at before the next tick, in order of admission. */
void decode_set_due(const struct decode_set *s, struct request_list *out);
/* q, which was due, is next looked at with so many tokens in the cache. */
void decode_set_look_at(struct decode_set *s, struct request *q, int64_t kv);

/* Call before the tick in which q emits `extra` tokens more than one. Without block ids. */
void decode_set_skip(struct decode_set *s, struct request *q, int64_t extra);

static inline struct request *decode_set_last(struct decode_set *s)
{
    return link_empty(&s->members) ? NULL : request_of(s->members.prev);
}

/* Takes the blocks of the next tick, which must be free; returns their number. */
int64_t decode_set_take_blocks(struct decode_set *s, struct kv *kv);

/* All members ran once. Those that emitted their last token leave the set; they are appended to
 * `finished` in order of joining. */
void decode_set_tick(struct decode_set *s, struct link *finished);

#endif
