/* Block tables of a request where layers keep different things: one table for each KV group
 * (serve/kv_group.h), all of blocks of one pool. The rules are those of vLLM 0.33
 * (vllm/v1/core/single_type_kv_cache_manager.py, kv_cache_coordinator.py), which tests/vllm holds
 * them to. Predictions only; a replica without groups never comes here.
 *
 * A table has a block for each block_size tokens, from the first token on; KV_NO_BLOCK stands where
 * none is held: behind a window, before the present piece, between states. Such blocks are free as
 * soon as the tokens that need them came back (`processed`), not when they were scheduled.
 *
 * States without prefix caching have one block a sequence. With it ("align") a chunk of a prompt
 * ends at a block's boundary, where its state is kept, and the last chunk has the state of the last
 * boundary written beside its own where the kernel can (kv_group.checkpoint); a sequence holds the
 * last state and, for one step, the one before. A prompt whose state another request computes in
 * the same step waits for the next.
 *
 * Names (serve/prefix.h) are of hash_tokens tokens each; a block of a group is known by the last
 * one it covers and the group. Of full groups and pieces all full blocks get names, and of full
 * groups the last part of a prompt, if it is shorter than a block. Of windows and states only what
 * a later prompt can go on from: the blocks before the end of this prompt, and before the junction,
 * a prefix that the full group found and the others had lost (prefix_cache_retention_interval 0,
 * vLLM's default).
 *
 * Hits. The longest prefix that all groups have, in multiples of the least common multiple of
 * their block sizes: the full group's run of blocks first, then each other group shortens it, until
 * none does. A window needs the blocks of its last tokens; a state the one at the end.
 *
 * Admission counts for a window no more blocks than it may ever hold (kv_group_cap). */
#ifndef SERVE_KV_TABLES_H
#define SERVE_KV_TABLES_H

#include "base/vec.h"
#include "serve/kv.h"
#include "serve/kv_group.h"

enum { KV_NO_BLOCK = -1 };

struct kv_table {
    int32_t *blocks; /* [n], heap */
    int64_t n, cap;
    int64_t named; /* blocks that were looked at for a name */
    /* aligned states */
    bool allocated;     /* has blocks beside those it found */
    int64_t last_state; /* place of the state before the present one; -1 = none */
    int64_t retired;    /* all before it were given back */
    int64_t checkpoint; /* tokens of the state that this chunk writes beside its own; 0 = none, */
    int64_t checkpoint_at; /* and its place */
    int32_t *hits;         /* [n_hits] found by the last look, heap */
    int64_t n_hits, hits_cap;
};

struct request_tables {
    struct kv_table *t; /* [n] */
    int32_t n;
    int64_t epoch;    /* of the cache at the last look; -1 = none */
    int64_t junction; /* tokens; 0 = none */
};

/* What a pool of groups has beside its blocks. */
struct kv_pool {
    const struct kv_groups *groups;
    struct prefix_cache cache;
    bool caching;          /* prefixes are kept */
    int64_t max_model_len; /* of admissions */
    int64_t in_flight;     /* most tokens of batches that are out at once */
    int64_t spare;         /* kv_groups_spare */
    VEC(uint64_t) stepped; /* names of states computed in this step of the scheduler */
    bool splits;           /* chunks end where states are kept */
};

/* Replaces the blocks of kv by a pool for these groups. batches: most that are out at once, of
 * in_flight tokens together. */
void kv_pool_init(struct kv *kv, struct arena *a, const struct kv_groups *groups, bool caching,
                  int64_t max_model_len, int64_t in_flight, int64_t batches);
/* Blocks that a request of so many tokens must find to be done ever: kv_groups_needed, _spare. */
int64_t kv_pool_needed(const struct kv_pool *p, int64_t tokens);
void kv_pool_free(struct kv *kv);
void kv_pool_step(struct kv *kv); /* a step of the scheduler begins */

struct request_tables *request_tables_new(int32_t n);
void request_tables_free(struct request_tables **t);

/* Looks the request up for its next prefill: q->kv becomes the tokens found. Repeated looks between
 * changes of the cache cost O(1). */
void kv_tables_look(struct kv *kv, struct request *q);

/* Tokens that q would find, for routers. */
int64_t kv_tables_hits(const struct kv *kv, const struct request *q);

/* Tokens of the chunk that begins at q->kv, at most `tokens`, so that it ends where a state is to
 * be kept; `most` tokens fit a batch. 0: the batch has no room for such a chunk. */
int64_t kv_tables_split(const struct kv *kv, const struct request *q, int64_t tokens, int64_t most);

/* Admits q, looked up just before, with blocks for `tokens` more than it found, where its whole
 * prefill (`whole`) and these find blocks and leave `watermark`. False, and nothing done, where
 * not. */
bool kv_tables_admit(struct kv *kv, struct request *q, int64_t tokens, bool whole,
                     int64_t watermark);

/* Blocks for `tokens` behind computed ones, of which `processed` came back; blocks that are needed
 * no more are given back first. False: blocks do not suffice. */
bool kv_tables_extend(struct kv *kv, struct request *q, int64_t computed, int64_t tokens,
                      int64_t processed);

/* While it decodes: with how many tokens in the cache q is to be looked at next, after
 * kv_tables_extend for a token behind `computed`. */
int64_t kv_tables_next(const struct kv *kv, const struct request *q, int64_t computed,
                       int64_t processed);

/* Names what `known` tokens fill, and gives all blocks back, of each table the last first. */
void kv_tables_give(struct kv *kv, struct request *q, int64_t known);

#endif
