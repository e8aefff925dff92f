/* Prefix caching: KV blocks outlive the request that filled them, and a later prompt that begins
 * with the same tokens takes them instead of computing them again. The rules are those of vLLM V1.
 *
 * Names. A full block of a sequence is known by a 64-bit hash of its tokens and of the name of the
 * block before it, so equal names mean equal tokens from the start of the sequence on. (Two of n
 * blocks with different tokens share a name with a probability of about n^2 / 2^65.) A block's
 * content is identified by the first of these that is known
 *     its token ids       computing executors, and predictions whose source has prompt_ids
 *     hash_ids            of a trace (workload/workload.h): the ids that cover the block
 *     prompt_id           the name of the prompt and the block's place in it
 *     the request itself  such a block is found again only by the same request after a preemption,
 *                         as are the blocks that hold predicted output, unless a session goes on
 *                         and the hash_ids of its next prompt cover them
 * A block gets its name when the batch that fills it is built, output blocks when the request ends
 * or is preempted. A chunk may so read a block that another chunk of the same batch, or of one
 * before it, fills: executors save a layer's keys and values before its attention reads them, and
 * carry batches out in the order of submission.
 *
 * Life. A block is held by any number of requests. One without a holder counts as free, keeps its
 * name, and waits in a queue ordered by time of release: the oldest is taken first and loses its
 * name. A request releases its last block first, so beginnings stay longest.
 * With nameless_first a block without a name goes to the head of that queue, which costs nothing
 * that could be found again, and of blocks with equal names a lookup finds the one named first.
 *
 * Hits. At admission a request takes the longest run of named blocks from its start, but computes
 * at least the last token of its prefill, since that one emits. A preempted request looks up again,
 * and mostly finds its own blocks.
 *
 * Cost: O(blocks of the prompt) per request for the names, O(hits) per lookup, O(1) per block taken
 * or released; none when off. */
#ifndef SERVE_PREFIX_H
#define SERVE_PREFIX_H

#include "base/arena.h"
#include "serve/request.h"

struct prefix_block {
    uint64_t name;        /* 0 = none */
    int32_t holders;      /* requests; 0 = stands in the queue */
    int32_t older, newer; /* in the queue of blocks without a holder; -1 = none */
    int32_t same;         /* next in the chain of the bucket; -1 = none */
    int32_t same_of;      /* the one before; -1 = none */
};

struct prefix_cache {
    struct prefix_block *blocks; /* [num_blocks] by id */
    int32_t *buckets;            /* [mask + 1] blocks by name */
    uint64_t mask;
    int32_t oldest, newest; /* ends of the queue */
    int64_t block_size;
    int64_t epoch;         /* count of changes that can affect a lookup */
    bool knows_output;     /* ids of the output tokens are known */
    bool nameless_first;   /* SCHED_NAMELESS_FIRST */
    int64_t looked_tokens; /* of the prefills admitted so far */
    int64_t hit_tokens;    /* those of them found here */
    int64_t evictions;     /* named blocks taken for other content */
};

/* Of a request; only with prefix caching. */
struct request_prefix {
    uint64_t *names; /* [n] of its first blocks, heap */
    int64_t n, cap;
    int64_t named;  /* blocks of its table that have their names */
    int64_t epoch;  /* epoch of its last lookup; -1 = none */
    int64_t hits;   /* blocks found by its last lookup */
    int64_t shared; /* those of them held by others */
};

/* All blocks free and nameless; block 0 is taken first. */
void prefix_init(struct prefix_cache *c, struct arena *a, int64_t block_size, int64_t num_blocks);

/* ---- blocks: what serve/kv.h is made of ------------------------------------------------------ */

/* Takes the block that has been without a holder longest: now nameless and held once. There must be
 * one. */
int32_t prefix_take(struct prefix_cache *c);
/* Adds a holder; true when it had none. */
bool prefix_hold(struct prefix_cache *c, int32_t block);
/* Removes a holder; true when none is left. */
bool prefix_drop(struct prefix_cache *c, int32_t block);
/* The n blocks to be taken next lose their names. */
void prefix_forget(struct prefix_cache *c, int64_t n);
void prefix_name(struct prefix_cache *c, int32_t block, uint64_t name); /* a held, nameless block */
void prefix_unname(struct prefix_cache *c, int32_t block);              /* one that has a name */
int32_t prefix_find(const struct prefix_cache *c, uint64_t name);       /* -1 = none */

/* ---- requests -------------------------------------------------------------------------------- */

struct request_prefix *request_prefix_new(void);
void request_prefix_free(struct request_prefix **p);

/* Looks the request up for its next prefill: sets hits and shared of q->prefix, and q->kv to the
 * tokens found. Repeated lookups between changes of the cache cost O(1). */
void prefix_look(struct prefix_cache *c, struct request *q);

/* Blocks that a request would find, without booking anything: for routers. */
int64_t prefix_hits(const struct prefix_cache *c, const struct request *q);

/* The names of q's first n blocks of c->block_size tokens. */
const uint64_t *prefix_names(const struct prefix_cache *c, const struct request *q, int64_t n);

/* Names the blocks of q's table that `tokens` tokens fill. */
void prefix_name_blocks(struct prefix_cache *c, struct request *q, int64_t tokens);

#endif
