/* Prefill/decode disaggregation: some replicas only compute prompts, the others only decode, and
 * the KV cache of a request moves from one to the other when its prefill is complete.
 *
 *     arrival -> router over the prefill replicas -> prefill, token 0 -> transfer -> decode replica
 *
 * The prefill replica emits token 0, so TTFT excludes the transfer; token 1 waits for it. The
 * decode replica is the one with the fewest requests that run there, wait or are on their way. A
 * transfer moves the KV of the whole prompt,
 *
 *     bytes = tokens in the cache x kv_bytes_per_token
 *     start = when the batch of the last chunk ended and both links are free
 *     end   = start + bytes / kv_bandwidth + kv_latency_s
 *
 * Contention: a replica has one link, which carries one transfer at a time, in the order in which
 * prefills end; it is taken for bytes / kv_bandwidth, latencies overlap. The fabric between the
 * links is not modelled: it is taken to be non-blocking. Layers are not sent while later ones are
 * computed. Blocks of the prefill replica, and its place in the batch cap, are held until the end
 * of the transfer; those of the decode replica are taken when it admits the request, in order of
 * the ends, while batch cap, blocks and watermark allow and no preempted request waits there.
 * Earlier arrivals are held in host memory meanwhile. A request preempted on a decode replica is
 * computed again on that replica.
 *
 * With prefix caching the prefill replicas look up prompts; a decode replica neither looks up what
 * is sent to it nor saves the sending. Both kinds of replica run the same policy and predictor. */
#ifndef SERVE_TRANSFER_H
#define SERVE_TRANSFER_H

#include "base/vec.h"
#include "serve/serve.h"

struct request;

struct transfer {
    double end_s;
    uint64_t seq; /* ties: order of the starts */
    struct request *q;
    int32_t from, to; /* replicas */
};

struct transfers {
    double bandwidth, latency_s, bytes_per_token;
    double *link_free_s;       /* [replicas] */
    VEC(struct transfer) heap; /* by end_s, then seq */
    uint64_t seq;
};

void transfers_init(struct transfers *t, struct arena *a, const struct serve_params *p);
void transfers_free(struct transfers *t);

/* Sends q's `tokens` tokens of KV; books it in the counters. */
void transfers_start(struct transfers *t, struct request *q, int64_t tokens, int32_t from,
                     int32_t to, double now_s, struct serve_counters *n);

/* End of the next transfer, INFINITY when none is on its way. */
double transfers_next_s(const struct transfers *t);
struct transfer transfers_pop(struct transfers *t);

#endif
