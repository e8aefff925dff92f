/* Routers: which replica a request goes to, decided once, when it arrives.
 *
 *     round_robin        the replicas in turn
 *     random             uniform, a seeded stream of its own (Vidur draws from Python's generator)
 *     lor                fewest waiting requests; those that run do not count (Vidur's rule)
 *     least_outstanding  fewest requests waiting or running
 *     prefix_aware       requests with equal beginnings go to the same replica
 *
 * Of equal replicas the first is taken. With prefix caching prefix_aware looks prompts up in the
 * caches: it takes the replica with the least to do until the request decodes and while it does, in
 * blocks: those of the prompt that its cache does not hold, the prompts waiting there, and the
 * blocks in use (after NVIDIA Dynamo's KV-aware router, with an overlap weight of 1). Without, it
 * identifies a prompt by the hash of its first serve_params.prefix_tokens ids where ids are known
 * (computing executors), else by its prompt_id, and takes replica hash % replicas: a prompt's place
 * depends on nothing but itself, whatever the load. A request with neither goes in turn. */
#ifndef SERVE_ROUTER_H
#define SERVE_ROUTER_H

#include "base/rng.h"
#include "serve/replica.h"

enum { ROUTER_VERSION = 1 };

struct router_state {
    int64_t routed; /* requests routed so far */
    int64_t prefix_tokens;
    struct rng rng;
};

struct router_ops {
    const char *name, *help;
    int version;       /* ROUTER_VERSION */
    bool reads_prefix; /* of serve_params.prefix_tokens */
    int32_t (*pick)(struct router_state *s, const struct replica *replicas, int32_t n,
                    const struct request *q);
};

extern const struct router_ops *const router_registry[]; /* NULL-terminated */
const struct router_ops *router_find(const char *name);  /* NULL name = round_robin; NULL unknown */

struct router_state router_begin(const struct serve_params *p);

#endif
