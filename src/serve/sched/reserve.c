#include "serve/sched/reserve.h"

void reserve_admit(struct replica *r, int32_t lane)
{
    int64_t longest = r->run->p->max_model_len;
    int64_t room = replica_lane_cap(r) - replica_set(r, lane)->n;
    for (; r->waiting.n && room > 0; room--) {
        const struct request *q = queue_head(&r->waiting);
        int64_t needs = q->w.num_prefill_tokens + q->w.num_decode_tokens - 1;
        int64_t reserve = longest ? longest : needs;
        if (!replica_can_admit(r, reserve))
            return;
        replica_admit(r, lane, reserve, q->prefill);
    }
}

/* All prompts at once, as far as the cache holds them. */
int64_t reserve_max_batch_tokens(const struct serve_params *p, int64_t longest)
{
    int64_t each = p->max_model_len ? p->max_model_len : longest;
    int64_t cache = p->num_blocks * p->block_size;
    return each > 0 && p->batch_cap > cache / each ? cache : p->batch_cap * each;
}

int64_t reserve_blocks_needed(const struct serve_params *p, int64_t kv_tokens)
{
    int64_t tokens = p->max_model_len ? p->max_model_len : kv_tokens;
    return (tokens + p->block_size - 1) / p->block_size;
}
