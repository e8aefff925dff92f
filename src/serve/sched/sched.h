/* Scheduling policies: choose the requests of the next batch.
 *
 * A policy holds no state of its own: queues, decode sets and KV blocks belong to the replica
 * (serve/replica.h), whose functions it calls. To add one: a file in this folder, a line in
 * registry.c; tests/conform/sched_test.c then runs it over random workloads. */
#ifndef SERVE_SCHED_SCHED_H
#define SERVE_SCHED_SCHED_H

#include "serve/serve.h"

struct replica;
struct request;

enum { SCHED_VERSION = 1 };

/* Settings a policy reads; one that is set and not read is refused. */
enum {
    KNOB_CHUNK_SIZE = 1 << 0,
    KNOB_TOKEN_BUDGET = 1 << 1,
    KNOB_MAX_TOKENS_IN_BATCH = 1 << 2,
    KNOB_WATERMARK = 1 << 3,
    KNOB_MAX_WAITING_ITERS = 1 << 4,
    KNOB_PREFIX_CACHING = 1 << 5, /* admits through replica_head */
    KNOB_SPECULATION = 1 << 7,    /* counts replica_decode_tokens; takes blocks as tokens come */
    KNOB_DISAGGREGATION = 1 << 6, /* takes blocks as tokens come: prefill and decode may part */
    KNOB_RESERVE_FULL_PROMPT = 1 << 8,
    KNOB_LONG_PREFILL = 1 << 9,
    KNOB_ASYNC = 1 << 10,
};

/* Properties of a policy that other modules depend on. */
enum {
    SCHED_PREEMPTS = 1 << 0,        /* takes blocks back when they run out */
    SCHED_RESTS = 1 << 1,           /* batches of prefills leave decodes idle */
    SCHED_BY_ARRIVAL = 1 << 2,      /* decodes stand in order of arrival, else of joining */
    SCHED_ONE_LANE = 1 << 3,        /* refuses pipeline stages */
    SCHED_TOKEN_BLOCKS = 1 << 4,    /* KV blocks must hold one token */
    SCHED_PLANNED_BATCH = 1 << 5,   /* Vidur caps its batch by the memory planner too, and batch_cap
                                       is of each pipeline stage's batch */
    SCHED_SHARES = 1 << 6,          /* an idle request belongs to no lane: replica_gather */
    SCHED_BY_ADMISSION = 1 << 7,    /* decodes stand in order of admission */
    SCHED_CHUNKS_FOLLOW = 1 << 8,   /* a prompt's next chunk does not wait for the one in flight */
    SCHED_ARRIVALS_WAIT = 1 << 9,   /* an arrival starts no batch while another is in flight */
    SCHED_NAMELESS_FIRST = 1 << 10, /* of free KV blocks: prefix_cache.nameless_first */
    SCHED_NULL_BLOCK = 1 << 11, /* has a KV block that holds nothing: memory plans take it off, the
                                   watermark counts it */
    SCHED_FREES_AT_ONCE = 1 << 12, /* of KV blocks, whatever batches in flight hold: neither a
                                      preemption nor an early end waits for them */
    SCHED_KV_GROUPS = 1 << 14,   /* keeps a table of blocks for each KV group (serve/kv_group.h) */
    SCHED_BATCH_QUEUE = 1 << 13, /* with pipeline stages, a step that gives no batch takes a place
                                    of those in flight (serve/turns.c) */
};

/* What an engine looks at for its defaults. */
struct sched_hardware {
    const char *id;
    double memory_gb; /* of one device; 0 = not known */
    int64_t devices;  /* of a replica */
};

struct sched_ops {
    const char *name, *help;
    int version; /* SCHED_VERSION */
    uint32_t knobs, traits;
    /* Build the next batch of the lane through the replica's functions. An empty batch is not
     * submitted. */
    void (*next_batch)(struct replica *r, int32_t lane);
    /* The most tokens a batch can hold; `longest` as in serve_max_batch_tokens. */
    int64_t (*max_batch_tokens)(const struct serve_params *p, int64_t longest);
    /* Optional: the engine's own token_budget, batch_cap and launching for that hardware where they
     * are 0. */
    enum st (*defaults)(struct serve_params *p, const struct sched_hardware *hw, struct err *e);
    /* Optional: further checks of the parameters. */
    enum st (*check)(const struct serve_params *p, struct err *e);
    /* Optional: blocks that guarantee completion of a request with that many KV tokens; NULL = what
     * the tokens fill. More than num_blocks: rejected. */
    int64_t (*blocks_needed)(const struct serve_params *p, int64_t kv_tokens);
};

extern const struct sched_ops *const sched_registry[];  /* NULL-terminated */
const struct sched_ops *sched_find(const char *name);   /* NULL when unknown */
void sched_with_knobs(struct buf *out, uint32_t knobs); /* "vllm_v1|vllm": that read one of them */

extern const struct option_capability sched_capabilities[]; /* what rows of options ask */

/* Whether the policy reads that setting ("scheduler.chunk_size"); true for settings that are no
 * knobs. */
bool sched_reads(const struct sched_ops *sched, const char *key);

#endif
