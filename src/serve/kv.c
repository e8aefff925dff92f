#include "serve/kv.h"

void kv_init(struct kv *kv, struct arena *a, int64_t block_size, int64_t num_blocks,
             double watermark, bool with_ids)
{
    *kv = (struct kv){.block_size = block_size,
                      .num_blocks = num_blocks,
                      .free = num_blocks,
                      .watermark = (int64_t)(watermark * (double)num_blocks)};
    if (!with_ids)
        return;
    kv->ids = arena_array(a, int32_t, num_blocks);
    for (int64_t i = 0; i < num_blocks; i++)
        kv->ids[i] = (int32_t)(num_blocks - 1 - i);
}

void kv_cache_prefixes(struct kv *kv, struct arena *a, bool knows_output)
{
    kv->cache = arena_one(a, struct prefix_cache);
    kv->ids = NULL;
    prefix_init(kv->cache, a, kv->block_size, kv->num_blocks);
    kv->cache->knows_output = knows_output;
}

static void grow_table(struct request *q, int64_t n)
{
    if (n <= q->blocks_cap)
        return;
    q->blocks_cap = n;
    q->blocks = mem_resize(q->blocks, (size_t)n * sizeof *q->blocks);
}

void kv_take(struct kv *kv, struct request *q, int64_t n)
{
    ASSERT(n <= kv->free);
    if (kv_has_ids(kv)) {
        grow_table(q, q->n_blocks + n);
        for (int64_t i = 0; i < n; i++)
            q->blocks[q->n_blocks + i] =
                kv->cache ? prefix_take(kv->cache) : kv->ids[kv->free - 1 - i];
    }
    q->n_blocks += n;
    kv_count(kv, n);
}

void kv_share(struct kv *kv, struct request *q)
{
    struct request_prefix *p = q->prefix;
    ASSERT(p->epoch == kv->cache->epoch && q->n_blocks == 0);
    grow_table(q, p->hits);
    int64_t taken = 0;
    for (int64_t i = 0; i < p->hits; i++) {
        q->blocks[i] = prefix_find(kv->cache, p->names[i]);
        taken += prefix_hold(kv->cache, q->blocks[i]);
    }
    q->n_blocks = p->named = p->hits;
    kv_count(kv, taken);
    kv->cache->looked_tokens += q->prefill;
    kv->cache->hit_tokens += q->kv;
}

/* Releases the last block of a sequence first. */
static void let_go(struct kv *kv, struct request *q)
{
    for (; q->n_blocks > 0; q->n_blocks--)
        kv->free += prefix_drop(kv->cache, q->blocks[q->n_blocks - 1]);
    q->prefix->named = 0;
}

void kv_give(struct kv *kv, struct request *q)
{
    if (kv->cache) {
        let_go(kv, q);
        return;
    }
    if (kv->ids)
        for (int64_t i = 0; i < q->n_blocks; i++)
            kv->ids[kv->free + i] = q->blocks[q->n_blocks - 1 - i];
    kv->free += q->n_blocks;
    q->n_blocks = 0;
    ASSERT(kv->free <= kv->num_blocks);
}
