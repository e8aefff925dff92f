/* The longest prefix that all KV groups have (serve/kv_tables.h). */
#ifndef SERVE_KV_LOOKUP_H
#define SERVE_KV_LOOKUP_H

#include "serve/kv_tables.h"

/* A block's name in one group. */
uint64_t kv_lookup_name(uint64_t name, int32_t group);

/* Fills the hits of q's tables, and its junction; returns the tokens found. */
int64_t kv_lookup(struct kv_pool *p, const struct request *q);

#endif
