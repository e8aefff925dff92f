/* Paged KV blocks of one replica: a count; with a computing executor the free ids; with prefix
 * caching the holders of each block (serve/prefix.h). */
#ifndef SERVE_KV_H
#define SERVE_KV_H

#include "base/arena.h"
#include "serve/prefix.h"

struct kv_pool;

struct kv {
    int64_t block_size, num_blocks;
    int64_t free;      /* free blocks */
    int64_t peak;      /* most blocks in use at once */
    int64_t watermark; /* blocks an admission leaves free */
    int32_t *ids; /* [num_blocks] stack of free ids, ids[free - 1] is next; NULL = count only */
    struct prefix_cache
        *cache; /* replaces the stack; NULL = off. Then `free` counts blocks without a holder */
    struct kv_pool *pool; /* where layers keep different things (serve/kv_tables.h): in place of
                             both; NULL = one table of blocks serves all layers */
};

/* watermark is a fraction: floor(watermark * num_blocks) blocks. */
void kv_init(struct kv *kv, struct arena *a, int64_t block_size, int64_t num_blocks,
             double watermark, bool with_ids);

/* Turns prefix caching on, before any block is taken. */
void kv_cache_prefixes(struct kv *kv, struct arena *a, bool knows_output);

/* Whether requests have block tables. */
static inline bool kv_has_ids(const struct kv *kv)
{
    return kv->ids || kv->cache;
}

static inline int64_t kv_blocks_for(const struct kv *kv, int64_t tokens)
{
    return (tokens + kv->block_size - 1) / kv->block_size;
}

/* Appends n free blocks to q's table. */
void kv_take(struct kv *kv, struct request *q, int64_t n);
/* Takes n free blocks, counted only (without ids). */
static inline void kv_count(struct kv *kv, int64_t n)
{
    kv->free -= n;
    int64_t used = kv->num_blocks - kv->free;
    if (used > kv->peak)
        kv->peak = used;
}
/* Free blocks that admitting q with room for that many tokens takes. */
static inline int64_t kv_admission(const struct kv *kv, const struct request *q, int64_t tokens)
{
    return kv_blocks_for(kv, tokens) - (kv->cache ? q->prefix->shared : 0);
}
/* Prefix caching: makes the blocks that q's lookup just found q's table. */
void kv_share(struct kv *kv, struct request *q);
/* Releases all of q's blocks. */
void kv_give(struct kv *kv, struct request *q);

#endif
