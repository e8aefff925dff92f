/* Scheduling policies: who runs in the next batch. */
#ifndef SERVE_SCHED_SCHED_H
#define SERVE_SCHED_SCHED_H

#include "serve/serve.h"

struct replica; /* serve/replica.h: queues, decode sets, KV blocks; the verbs a policy uses */

enum { SCHED_VERSION = 1 };

/* Knobs a policy reads; a knob that is set and not read is refused. */
enum {
    KNOB_CHUNK_SIZE = 1 << 0,
    KNOB_TOKEN_BUDGET = 1 << 1,
    KNOB_MAX_TOKENS_IN_BATCH = 1 << 2,
    KNOB_WATERMARK = 1 << 3,
};

struct sched_ops {
    const char *name, *help;
    int version; /* SCHED_VERSION */
    uint32_t knobs;
    /* Build the next batch of the lane through the replica's verbs. False: nothing can run now. */
    bool (*next_batch)(struct replica *r, int32_t lane);
    /* optional: called once before the first batch, e.g. to derive limits */
    enum st (*init)(struct replica *r, struct err *e);
};

extern const struct sched_ops *const sched_registry[]; /* NULL-terminated */
const struct sched_ops *sched_find(const char *name);  /* NULL when unknown */

#endif
