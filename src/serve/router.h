/* Routers: which replica a request goes to, decided when it arrives. */
#ifndef SERVE_ROUTER_H
#define SERVE_ROUTER_H

#include "serve/replica.h"

enum { ROUTER_VERSION = 1 };

struct router_state {
    int64_t routed; /* requests routed so far */
};

struct router_ops {
    const char *name, *help;
    int version; /* ROUTER_VERSION */
    int32_t (*pick)(struct router_state *s, const struct replica *replicas, int32_t n,
                    const struct request *q);
};

extern const struct router_ops *const router_registry[]; /* NULL-terminated */
const struct router_ops *router_find(const char *name);  /* NULL name = round_robin; NULL unknown */

#endif
