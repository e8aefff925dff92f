#include "serve/router.h"

#include <string.h>

static int32_t round_robin(struct router_state *s, const struct replica *replicas, int32_t n,
                           const struct request *q)
{
    (void)replicas;
    (void)q;
    return (int32_t)(s->routed % n);
}

static const struct router_ops router_round_robin = {
    .name = "round_robin",
    .help = "the replicas in turn",
    .version = ROUTER_VERSION,
    .pick = round_robin,
};

const struct router_ops *const router_registry[] = {&router_round_robin, NULL};

const struct router_ops *router_find(const char *name)
{
    if (!name)
        return &router_round_robin;
    for (int i = 0; router_registry[i]; i++)
        if (strcmp(router_registry[i]->name, name) == 0)
            return router_registry[i];
    return NULL;
}
