#include "workload/make.h"

/* Ids reserved for a request's own pieces: those of 2^27 requests stay below 2^53, which every JSON
 * reader holds exactly. */
enum { OWN_IDS = 1 << 20, MAX_TOKENS = INT32_MAX };

enum st shared_prefix_add(struct arena *a, const struct workload_params *p, struct rng *rng,
                          struct workload_request *r, struct err *e)
{
    const int64_t size = p->prefix_tokens;
    if (size == 0)
        return ST_OK;
    r->num_prefill_tokens += size;
    const int64_t n = (r->num_prefill_tokens + size - 1) / size;
    if (n > OWN_IDS || r->num_prefill_tokens > MAX_TOKENS) {
        err_set(e, ST_USAGE, "workload.prefix.tokens=%lld with a prompt of %lld tokens",
                (long long)size, (long long)r->num_prefill_tokens);
        return err_hint(e, "at most %d tokens, and at most %d times the prefix", MAX_TOKENS,
                        OWN_IDS);
    }
    int64_t *ids = arena_array(a, int64_t, n);
    ids[0] = (int64_t)rng_below(rng, (uint64_t)p->prefix_groups);
    for (int64_t i = 1; i < n; i++)
        ids[i] = p->prefix_groups + r->request_id * OWN_IDS + i;
    r->hash_ids = ids;
    r->hash_tokens = size;
    return ST_OK;
}
