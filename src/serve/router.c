#include "serve/router.h"

#include "serve/kv_tables.h"

#include <string.h>

#include "base/hash.h"

enum { DEFAULT_PREFIX = 256 };

static int32_t round_robin(struct router_state *s, const struct replica *replicas, int32_t n,
                           const struct request *q)
{
    (void)replicas;
    (void)q;
    return (int32_t)(s->routed % n);
}

static int32_t uniform(struct router_state *s, const struct replica *replicas, int32_t n,
                       const struct request *q)
{
    (void)replicas;
    (void)q;
    return (int32_t)rng_below(&s->rng, (uint64_t)n);
}

static int32_t fewest_waiting(struct router_state *s, const struct replica *replicas, int32_t n,
                              const struct request *q)
{
    (void)s;
    (void)q;
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (replicas[i].waiting.n < replicas[best].waiting.n)
            best = i;
    return best;
}

static int64_t outstanding(const struct replica *r)
{
    return (int64_t)r->waiting.n + r->active;
}

static int32_t fewest_outstanding(struct router_state *s, const struct replica *replicas, int32_t n,
                                  const struct request *q)
{
    (void)s;
    (void)q;
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (outstanding(&replicas[i]) < outstanding(&replicas[best]))
            best = i;
    return best;
}

static int64_t blocks_to_do(const struct replica *r, const struct request *q)
{
    const struct kv *kv = &r->kv;
    if (kv->pool) /* as if all layers were full */
        return kv_blocks_for(kv, q->prefill) - kv_tables_hits(kv, q) / kv->block_size +
               kv_blocks_for(kv, r->waiting_tokens) + kv->num_blocks - kv->free;
    return kv_blocks_for(kv, q->prefill) - prefix_hits(kv->cache, q) +
           kv_blocks_for(kv, r->waiting_tokens) + kv->num_blocks - kv->free;
}

static int32_t least_to_do(const struct replica *replicas, int32_t n, const struct request *q)
{
    int32_t best = 0;
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < n; i++) {
        int64_t blocks = blocks_to_do(&replicas[i], q);
        if (blocks < least) {
            least = blocks;
            best = i;
        }
    }
    return best;
}

static int32_t by_prefix(struct router_state *s, const struct replica *replicas, int32_t n,
                         const struct request *q)
{
    uint64_t hash;
    if (q->prefix)
        return least_to_do(replicas, n, q);
    if (q->ids) {
        int64_t tokens = q->w.num_prefill_tokens;
        tokens = tokens < s->prefix_tokens ? tokens : s->prefix_tokens;
        hash = hash_bytes(q->ids, (size_t)tokens * sizeof *q->ids);
    } else if (q->w.prompt_id) {
        hash = hash_bytes(q->w.prompt_id, strlen(q->w.prompt_id));
    } else {
        return round_robin(s, replicas, n, q);
    }
    return (int32_t)(hash % (uint64_t)n);
}

static const struct router_ops router_round_robin = {
    .name = "round_robin",
    .help = "the replicas in turn",
    .version = ROUTER_VERSION,
    .pick = round_robin,
};

static const struct router_ops router_random = {
    .name = "random",
    .help = "any replica, seeded",
    .version = ROUTER_VERSION,
    .pick = uniform,
};

static const struct router_ops router_lor = {
    .name = "lor",
    .help = "fewest waiting requests (Vidur's rule)",
    .version = ROUTER_VERSION,
    .pick = fewest_waiting,
};

static const struct router_ops router_least_outstanding = {
    .name = "least_outstanding",
    .help = "fewest requests waiting or running",
    .version = ROUTER_VERSION,
    .pick = fewest_outstanding,
};

static const struct router_ops router_prefix_aware = {
    .name = "prefix_aware",
    .help = "equal beginnings to the same replica",
    .version = ROUTER_VERSION,
    .reads_prefix = true,
    .pick = by_prefix,
};

const struct router_ops *const router_registry[] = {
    &router_round_robin,       &router_random,       &router_lor,
    &router_least_outstanding, &router_prefix_aware, NULL,
};

const struct router_ops *router_find(const char *name)
{
    if (!name)
        return &router_round_robin;
    for (int i = 0; router_registry[i]; i++)
        if (strcmp(router_registry[i]->name, name) == 0)
            return router_registry[i];
    return NULL;
}

struct router_state router_begin(const struct serve_params *p)
{
    return (struct router_state){
        .prefix_tokens = p->prefix_tokens ? p->prefix_tokens : DEFAULT_PREFIX,
        .rng = rng_stream(p->seed, "serve.router"),
    };
}
