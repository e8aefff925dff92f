/* Contents of /metrics, in Prometheus' text format (version 0.0.4).
 *
 * Names are vLLM's, with twinfer_ in place of vllm:, where the meaning is the same. Counters and
 * histograms grow from the start of the server. Not thread-safe: the server's lock guards it. */
#ifndef SERVER_GAUGES_H
#define SERVER_GAUGES_H

#include "artifact/run.h"

enum { GAUGE_BUCKETS = 20 };

struct gauge_histogram { /* seconds */
    uint64_t count[GAUGE_BUCKETS + 1];
    double sum;
};

/* A replica of the serving core after its last batch. */
struct gauge_replica {
    int64_t kv_blocks_used;
    int64_t preemptions, prefix_looked_tokens, prefix_hit_tokens;
};

struct gauges {
    int64_t kv_blocks;             /* of all replicas */
    struct gauge_replica replicas; /* their sum */
    int64_t running, waiting, connections;
    int64_t requests[RUN_CANCELLED + 1]; /* over, by status */
    int64_t refused_overload, refused_bad, slow_clients;
    int64_t prompt_tokens, output_tokens;
    bool draining;
    struct gauge_histogram ttft, itl, e2e;
    struct gauge_histogram queue, prefill, decode; /* of requests that ended well, at their end */
};

void gauges_observe(struct gauge_histogram *h, double s);
void gauges_write(struct buf *out, const struct gauges *g, const char *model);

#endif
