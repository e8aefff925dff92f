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

void kv_take(struct kv *kv, struct request *q, int64_t n)
{
    ASSERT(n <= kv->free);
    if (kv->ids) {
        if (q->n_blocks + n > q->blocks_cap) {
            q->blocks_cap = q->n_blocks + n;
            q->blocks = mem_resize(q->blocks, (size_t)q->blocks_cap * sizeof *q->blocks);
        }
        for (int64_t i = 0; i < n; i++)
            q->blocks[q->n_blocks + i] = kv->ids[kv->free - 1 - i];
    }
    q->n_blocks += n;
    kv_count(kv, n);
}

void kv_give(struct kv *kv, struct request *q)
{
    if (kv->ids)
        for (int64_t i = 0; i < q->n_blocks; i++)
            kv->ids[kv->free + i] = q->blocks[q->n_blocks - 1 - i];
    kv->free += q->n_blocks;
    q->n_blocks = 0;
    ASSERT(kv->free <= kv->num_blocks);
}
