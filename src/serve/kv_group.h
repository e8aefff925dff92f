/* KV groups: what vLLM 0.33 makes of the layers' caches, so that one pool of blocks serves layers
 * that keep different things (vllm/v1/core/kv_cache_planning.py, get_kv_cache_groups).
 *
 * A spec is what one layer keeps, in pages: a page is a block's share of one layer.
 *
 *     KV_FULL     keys and values of every token; latent vectors and the keys of an index likewise
 *     KV_WINDOW   of the last `span` tokens
 *     KV_CHUNKED  of the present piece of `span` tokens
 *     KV_STATE    a state of fixed size
 *
 * Groups. Layers whose specs have as many tokens a block and as long a use (all KV_FULL; one
 * window; equal pages of states) make one group, whose block has the pages of all of them. Other
 * models are split:
 *
 *   1. Pages are made equal. Those of a smaller spec get more tokens a block where that makes them
 *      as large; else they are padded; latent vectors cannot be.
 *   2. Equal specs make a bucket, in the order of their first layer. The smallest bucket says how
 *      many layers a group has, or the largest, where that has less than 1.5 times as many. A
 *      bucket of n groups gives layers i, i + n, ... to its group i.
 *   3. A block is then as large as the group with the most layers; a block belongs to one group at
 *      a time, and groups take blocks of the same pool.
 *
 * Models of states and of keys and values: the block gets so many tokens that its page of keys and
 * values holds a state, in steps of `block_size` (128 at least for latent vectors, a multiple of 64
 * for gated delta nets, whose prefill kernel writes states at such places); states are padded to
 * it. Without prefix caching a state's block spans max_model_len, so that a sequence has one; with
 * it, as many tokens as the other blocks ("align").
 *
 * Pieces (KV_CHUNKED) and, with `hybrid` false, windows are kept as KV_FULL where the model has
 * that too: vLLM's hybrid manager is off for models with pieces, unless
 * VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is set. The same is done where latent vectors
 * stand beside windows and pages cannot be made equal.
 *
 * Layers that keep one entry for several tokens beside the last ones (DeepSeek V4) have pages of
 * several sizes side by side in a block: kv_packed.c.
 *
 * Not made, and refused by name: such layers without the hybrid manager, or beside states (GLM 5.3
 * Flash); blocks of states and of keys that differ in tokens with prefix caching, where vLLM finds
 * prefixes inside a block. Not modelled: block sizes that attention kernels prefer
 * (scheduler.block_size says it). */
#ifndef SERVE_KV_GROUP_H
#define SERVE_KV_GROUP_H

#include "model/structure.h"

enum kv_kind { KV_FULL, KV_WINDOW, KV_CHUNKED, KV_STATE };
const char *kv_kind_name(enum kv_kind k);

enum { KV_GROUPS_MOST = 32 };

struct kv_group {
    enum kv_kind kind;
    int32_t spec;       /* groups of equal specs have equal numbers, from 0 */
    int64_t block_size; /* tokens of a block */
    int64_t span;       /* of KV_WINDOW and KV_CHUNKED */
    int64_t layers;
    int64_t page_bytes;  /* of a block in all of its layers, padding included */
    double token_bytes;  /* what a token leaves in them */
    int64_t state_bytes; /* what a sequence leaves in them */
    bool aligned;        /* KV_STATE with prefix caching: states at block boundaries are kept */
    int64_t checkpoint;  /* aligned: a prefill writes the last one of these by itself where its
                            distance from the chunk's start is a multiple of so many tokens; 0 =
                            the chunk must end there */
};

/* A layer's share of a group. */
struct kv_page {
    int32_t layer, group;
    int64_t bytes; /* of a block */
};

struct kv_groups {
    struct kv_group g[KV_GROUPS_MOST];
    int32_t n;             /* 0 = nothing is cached */
    int64_t block_bytes;   /* of a block, all layers */
    int64_t lcm_tokens;    /* least common multiple of block sizes: hits end at a multiple */
    int64_t hash_tokens;   /* greatest common divisor: what a hash covers */
    struct kv_page *pages; /* [n_pages] by layer */
    int32_t n_pages;
};

/* Where a cache has a packed layout (structure.h): */
enum kv_packing {
    KV_PACK_QUANTIZED, /* where keys and values are FP8 or FP4: FlashMLA's kernels */
    KV_PACK_FP4,       /* FP4 alone: FlashInfer's, which vLLM prefers on data-centre Blackwell */
    KV_PACK_ALWAYS,    /* whatever their format is: those of consumer Blackwell read nothing else */
};

struct kv_settings {
    int64_t block_size;
    double element_bytes; /* of keys and values */
    double state_bytes;   /* of an element in the model's type */
    enum kv_packing packing;
    int64_t max_model_len; /* of KV_STATE without prefix caching */
    bool prefix_caching;
    bool hybrid;    /* windows are groups of their own */
    bool chunked;   /* and pieces are */
    bool keeps_all; /* windows and pieces are kept as full layers, whatever the model: what our
                       engines do, and policies with one table of blocks */
};

/* s: of one shard (structure_shard). ST_INPUT for what is not made, by name. Pages live in the
 * arena. */
enum st kv_groups_make(struct arena *a, const char *model, const struct structure *s,
                       const struct kv_settings *set, struct kv_groups *out, struct err *e);

/* Whether one full group is all there is: serving needs no groups then. */
bool kv_groups_plain(const struct kv_groups *g);

/* Bytes of a block in the layers [from, to): a pipeline stage's. */
int64_t kv_groups_stage_bytes(const struct kv_groups *g, int64_t from, int64_t to);

/* Most blocks that a request of so many tokens holds at once; in_flight: tokens of batches that
 * may be out at once, whose blocks behind a window are not free yet. */
int64_t kv_groups_needed(const struct kv_groups *g, int64_t tokens, int64_t in_flight);
/* Blocks besides that a request must find free to be done ever, with so many batches out at once:
 * states of chunks in flight wait for them, a block for each batch, which vLLM's own check leaves
 * out (MambaSpec, max_memory_usage_bytes). With fewer a request would preempt itself for ever. */
int64_t kv_groups_spare(const struct kv_groups *g, int64_t batches);
/* The same of one group, before the request is admitted; INT64_MAX = no bound. */
int64_t kv_group_cap(const struct kv_group *g, int64_t in_flight, int64_t max_model_len);

#endif
