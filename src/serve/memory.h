/* How many KV blocks a replica has. Where the memory of a device is known (memory_plan), as Vidur's
 * planner says:
 *
 *     avail    = memory_gb 2^30 (1 - margin)
 *     weights  = 2 bytes x layers/pp x [E h (q/tp + 2 ceil(kv/tp)) + E h q/tp + g E mlp/tp]
 *     request  = 2 bytes x 2 h ceil(kv/tp) x request_tokens x layers
 *     max_batch  = floor((avail - weights) / request)
 *     num_blocks = floor(request_tokens / block_size) x max_batch x pp
 *
 * With experts the last term is that of all of them; ep > tp devices share them, and their ep / tp
 * groups have keys and values of their own.
 *
 * per device, with E hidden size, h head size, q and kv heads, g = 3 for gated MLPs, else 2.
 * Divisions of dimensions round down, as Vidur's do. float16 weights and keys; the embedding, the
 * router, LM head, activations and workspace are not counted: the margin must cover them. A request
 * is charged all layers even where a device holds layers/pp of them, and the pp-fold number of
 * requests pays that back; rounding aside the two cancel.
 *
 * Unknown memory (memory_plan_host): room for as many of the longest requests as may run at once,
 * but at most cache_bytes of keys and values and at least one request; the same on every machine.
 */
#ifndef SERVE_MEMORY_H
#define SERVE_MEMORY_H

#include "model/model.h"

struct memory_facts {
    double memory_gb; /* of one device; 0 = not known */
    double margin;    /* fraction kept free, [0, 1) */
    const struct model *model;
    int64_t tp, pp;
    int64_t ep;             /* devices that share the experts, or 0 */
    int64_t block_size;     /* tokens per block */
    int64_t request_tokens; /* the longest request */
    int64_t batch_cap;      /* requests at once */
    int64_t num_blocks;     /* asked for: nothing is to be planned; 0 = not */
    int64_t cache_bytes;    /* of memory_plan_host; 0 = 2 GiB */
};

struct memory_plan {
    double weight_bytes, request_bytes; /* per device */
    int64_t max_batch;                  /* of the longest requests */
    int64_t num_blocks;                 /* of a replica */
};

/* Reads memory, shards and the longest request. ST_USAGE when there is no room for one request. */
enum st memory_plan(const struct memory_facts *f, struct memory_plan *out, struct err *e);
/* Keys and values of that many bytes an element. max_batch is no limit. */
void memory_plan_host(const struct memory_facts *f, int element_bytes, struct memory_plan *out);

#endif
