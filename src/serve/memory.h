/* How many KV blocks a replica has: by rule, where the memory of a device is known.
 *
 * MEMORY_VLLM (memory_plan_vllm, its manual is memory_vllm.c): what vLLM leaves for keys and values
 * after weights, a profiling batch and CUDA graphs.
 *
 * MEMORY_VIDUR (memory_plan_vidur), as Vidur's planner says:
 *
 *     avail    = memory_gb 2^30 (1 - margin)
 *     weights  = bytes x L x [E h (q/tp + 2 ceil(kv/tp)) + E h q/tp + g E mlp/tp]
 *     request  = bytes x 2 h ceil(kv/tp) x request_tokens x L pp
 *     max_batch  = floor((avail - weights) / request)
 *     num_blocks = floor(request_tokens / block_size) x max_batch x pp
 *
 * A model whose layers differ has the projections of the stage with most of them, and a request pp
 * times what it leaves on the stage that keeps most: keys and values of all its tokens, windows
 * included, since policies with one table of blocks give none back behind a window, and its states.
 * Blocks do not count states, so no more requests may run at once than the plan has room for.
 *
 * With experts the last term is that of all of them; ep > tp devices share them, and their ep / tp
 * groups have keys and values of their own.
 *
 * per device, with E hidden size, h head size, q and kv heads, g = 3 for gated MLPs, else 2.
 * Divisions of dimensions round down, as Vidur's do. Bytes are those of the
 * model's formats (model/precision.h), 2 unless it says otherwise; the embedding, the
 * router, LM head, activations and workspace are not counted: the margin must cover them. L is
 * layers/pp, rounded up. A request is charged the layers of all stages even where a device holds
 * those of one, and the pp-fold number of requests pays that back; rounding aside the two cancel.
 *
 * Engines that keep keys and values in the host's memory (memory_plan_host): room for as many of
 * the longest requests as may run at once, but at most cache_bytes and at least one request; the
 * same on every machine. They keep what a window no longer shows: blocks are counted as for full
 * attention. */
#ifndef SERVE_MEMORY_H
#define SERVE_MEMORY_H

#include "model/model.h"
#include "serve/kv_group.h"

enum memory_rule { MEMORY_VIDUR, MEMORY_VLLM };

struct memory_facts {
    enum memory_rule rule;
    const char *hardware_id; /* for messages; NULL = not told */
    double memory_gb;        /* of one device, GiB; 0 = not known */
    double reserved_gb;      /* vLLM's: of that, what the driver keeps */
    double margin;           /* Vidur's: fraction kept free, [0, 1) */
    double utilization;      /* vLLM's: fraction used of what the driver leaves, (0, 1] */
    bool nvlink;             /* vLLM's: devices of a replica are joined by more than PCIe */
    const struct model *model;
    int64_t tp, pp;
    int64_t ep;                     /* devices that share the experts, or 0 */
    int64_t block_size;             /* tokens per block */
    int64_t request_tokens;         /* the longest request */
    int64_t batch_cap;              /* requests at once */
    int64_t batch_tokens;           /* vLLM's: most tokens of a batch */
    const struct kv_groups *groups; /* of models whose layers differ, of a shard; NULL = alike */
    int64_t in_flight;              /* most tokens of batches that are out at once */
    int64_t num_blocks;             /* asked for: nothing is to be planned; 0 = not */
    int64_t cache_bytes;            /* of memory_plan_host; 0 = 2 GiB */
};

/* Bytes are per device, of the pipeline stage with the least room. */
struct memory_plan {
    double weight_bytes, request_bytes;
    double usable_bytes;     /* vLLM's, and so on below: all that it may take */
    double activation_bytes; /* at most, of the profiling batch */
    double graph_bytes;      /* CUDA graphs, as vLLM estimates them */
    double other_bytes;      /* sampler state, communication, context */
    double cache_bytes;      /* what is left: keys and values */
    int64_t max_batch;       /* of the longest requests */
    int64_t most_requests;   /* of a replica at once, of any length; 0 = as the blocks say */
    int64_t num_blocks;      /* of a replica */
};

/* By the facts' rule. ST_USAGE when there is no room for one request. */
enum st memory_plan(const struct memory_facts *f, struct memory_plan *out, struct err *e);
enum st memory_plan_vidur(const struct memory_facts *f, struct memory_plan *out, struct err *e);
enum st memory_plan_vllm(const struct memory_facts *f, struct memory_plan *out, struct err *e);
/* Weights of the device that holds most of them, as of MEMORY_VLLM. */
double memory_weight_bytes(const struct model *m, int64_t tp, int64_t pp, int64_t ep);
/* Keys and values of that many bytes an element. max_batch is no limit. */
void memory_plan_host(const struct memory_facts *f, int element_bytes, struct memory_plan *out);

#endif
