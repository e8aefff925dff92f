/* The serving core: one scheduler, two clocks.
 *
 * serve_run owns the life of every request: arrival queue, router, scheduling policy, paged KV
 * blocks, batches, token emission, metrics rows. With a computing executor and the real clock it is
 * an engine; with the predicting executor and the virtual clock it is the simulator; nothing else
 * differs.
 *
 * Progress: the batch with the last chunk of a prefill emits token 0; each later token takes one
 * batch. So a request takes its chunks plus num_decode_tokens - 1 batches, and fills num_prefill +
 * num_decode - 1 tokens of the KV cache. A preempted request loses its blocks; prompt and tokens so
 * far are computed again as one prefill, whose last chunk emits the next token. Nothing is
 * preempted while a batch of its lane is in flight: the policy waits for the completion.
 *
 * What an iteration's duration is. A batch starts when the host becomes free for it: at the end of
 * the completion handled last, or, if the loop waited after that, when it woke. It ends when the
 * host has its tokens. So at one batch in flight the time between two ends of a busy loop is the
 * later batch's duration: it holds what the host did for the tokens of the batch before (rows,
 * metrics), taking in arrivals, scheduling, submitting, and the executor. With more in flight,
 * duration counts from the end of the batch before in the same lane if that is later than the
 * start. device_ns is the executor's device_s; host_ns = duration_ns - device_ns, never below 0.
 * With pipeline stages there is a row for each, from the batch's start on that stage to its end. A
 * prediction obeys the same sum: its batch ends host + device after its start, and the loop itself
 * takes no virtual time; so host times measured from real rows can be added as they are. A token's
 * time is the end of its batch. Predictions that say how long the host works at a batch
 * (completion.host_until_s) are treated as a real executor is, whose submit() takes that long: ends
 * and arrivals that come meanwhile are seen when it is done, one end at a time.
 *
 * Order: arrivals come before completions of the same time, completions of equal time go in the
 * order in which the batches were submitted, and requests that these release at once are taken in
 * before the next batch is built; equal inputs give equal bytes. Cost: O(1) per
 * iteration of steady decode batches plus O(1) per chunk, admission, completion and preemption;
 * O(log replicas) per event; token rows cost O(1) each and only when emit_tokens is set. Memory
 * grows with live requests, not with all. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <signal.h>

#include "artifact/run.h"
#include "config/option.h"
#include "profile/read/launching.h"
#include "serve/clock.h"
#include "serve/executor.h"
#include "serve/kv_group.h"
#include "serve/memory.h"
#include "text/fields.h"
#include "workload/workload.h"

/* Asynchronous scheduling: the engine has two batches in flight, with pipeline stages one more than
 * there are (serve/turns.c), and builds the next before the tokens of this one are known. */
enum serve_async {
    ASYNC_OFF,
    ASYNC_SERIAL,  /* host and device time of each batch follow each other all the same */
    ASYNC_OVERLAP, /* the host prepares the next batch beside the device time of this one */
};

/* Time that a request pays once outside the engine: HTTP, tokenization, its client. Added to the
 * times of its tokens and to its completion, of predictions; no batch waits for it, but what
 * follows from its end (closed loops, later turns) does. Seconds. */
struct serve_overheads {
    double front_s;        /* before its engine sees it, and of all that come with it (front.h) */
    double first_token_s;  /* before its first token */
    double prompt_token_s; /* besides, per prompt token */
    double completion_s;   /* besides, after its last token */
    double stream_s; /* besides, per request that runs at the replica when its first token comes */
};

struct serve_params {     /* rows: serve/options.c */
    const char *policy;   /* one of serve/sched/policies.h */
    const char *router;   /* one of serve/router.h; NULL = round_robin */
    int64_t replicas;     /* >= 1 */
    int64_t batch_cap;    /* requests holding KV blocks at once, >= 1 */
    int64_t token_budget; /* tokens per batch; vllm_v1: 0 = 2048, at least batch_cap; sequential:
                             0 = whole prompts */
    int64_t chunk_size;   /* sarathi: tokens per batch, 0 = 512 */
    int64_t max_tokens_in_batch; /* of prefill batches; vllm: padded to the longest; 0 = 4096 */
    int64_t max_waiting_iters;   /* lightllm: batches between looks at the queue; 0 = 10 */
    int64_t prefix_tokens;       /* prefix_aware: tokens that identify a prompt; 0 = 256 */
    int64_t block_size;          /* tokens per KV block, 1 .. 65536 */
    int64_t num_blocks;          /* per replica, >= 1 */
    double watermark;            /* fraction of blocks left free by an admission, [0, 1) */
    bool prefix_caching;         /* serve/prefix.h; not every policy */
    struct kv_groups
        kv_groups;            /* of layers that keep different things, for predictions by
                                 vllm_0_33, vllm_v1; n = 0: one table of blocks serves all layers */
    int64_t draft_tokens;     /* speculation (serve/speculate.h): tokens proposed per step, 0 = off;
                                 predictions only, not every policy */
    double acceptance;        /* probability that one is accepted, [0, 1] */
    double draft_cost;        /* of predictions: of a pass of the draft model, in decode batches */
    int64_t prefill_replicas; /* the first of the replicas only prefill (serve/transfer.h), 0 =
                                 none; predictions only, not every policy */
    double kv_bandwidth_gb_s; /* of a replica's link, > 0 */
    double kv_latency_s;      /* of a transfer */
    double kv_bytes_per_token; /* keys and values of all layers */
    struct key_spans spans;    /* of the model: batches have sums of the keys that queries see */
    int64_t max_model_len;     /* prompt + output limit, a longer request is rejected; 0 = none */
    uint64_t seed;             /* of routers and policies that draw */
    int64_t warmup_requests;   /* the first n requests are labelled warm-up */
    bool emit_tokens;          /* call sink.token */
    const struct concurrency *concurrency; /* closed loop (workload/release.h); NULL = open */
    bool op_times;                         /* ask for the operator times of every batch */

    /* vllm_0_33 */
    bool reserve_full_prompt;             /* admission asks for blocks of the whole prompt */
    int64_t long_prefill_token_threshold; /* of one prompt in a batch with others; 0 = none */
    struct launching launching;           /* of predictions, likewise; the loop does not read it */
    enum serve_async async;               /* of predictions (sim/sim.h) */
    enum serve_async
        own_async; /* likewise, of an engine that has several batches in flight whatever
                      the policy: counts where async is off, and is no setting */

    struct serve_overheads overheads; /* of predictions */

    /* What plans num_blocks (serve/memory.h, serve/kv_group.h); the loop does not read it. */
    enum memory_rule memory_plan;
    double gpu_memory_utilization; /* 0 = by the hardware's margin */
    bool hybrid_kv_cache;
};
extern const struct option_section scheduler_options, cluster_options;

/* Requests in the order of the workload; pulled one ahead, and with sessions the turns of one, so a
 * stream of any length is fine. When they are taken in is decided by workload/release.h. prompt_id
 * is borrowed until the request's row was delivered. */
struct request_source {
    void *self;
    enum st (*next)(void *self, struct workload_request *out, struct err *e); /* ST_END = no more */
    /* Fill ids[num_prefill_tokens] of the request with that `row`. Called when the request is taken
     * in, on the loop's thread: have the ids ready. Needed by computing executors; predictions with
     * prefix caching call it too, if it is there, and otherwise identify prompts by hash_ids and
     * prompt_id. */
    enum st (*prompt_ids)(void *self, const struct workload_request *r, int32_t *ids,
                          struct err *e);
    const struct request_live *live; /* NULL = all requests are known beforehand */
};

/* Requests that arrive while the loop runs on the real clock (a server): next() returns ST_END
 * while there is none. The hooks take the source's self and are called on the loop's thread. */
struct request_live {
    bool (*open)(void *self); /* more requests may come or wait for next(); called in every turn of
                                 the loop; false ends the run when all are over */
    void (*wait)(void *self, double deadline_s); /* until next() has one, or the time */
    /* The next abandoned request (client gone), each once; false = none now. One that was never in
     * a batch is cancelled; serve_sink.over ends any other. */
    bool (*gone)(void *self, int64_t *request_id);
};

/* A completed batch, and the state of its replica when it was submitted. */
struct serve_iteration {
    const struct batch *b;
    const struct completion *c;
    double start_s, end_s;   /* start: as of its first row */
    int64_t waiting;         /* requests in the replica's queue */
    int64_t running;         /* requests that hold KV blocks */
    int64_t kv_blocks_after; /* that requests hold now, when its tokens have been handled */
    /* Totals of the replica since the run began, as in serve_counters. */
    int64_t preemptions, prefix_looked_tokens, prefix_hit_tokens;
};

/* Receiver of results; any hook may be NULL. Rows are complete and borrowed for the call. Every
 * request taken in gets one row, a rejected one too; every batch one per pipeline stage. The tokens
 * of a request come in order and before its row; the order between requests is unspecified. batch
 * is called in order of completion. sent_ns is RUN_NONE: there is no client. */
struct serve_sink {
    void *self;
    void (*request)(void *self, const struct run_request *r);
    void (*token)(void *self, const struct run_token *t);
    /* Called after each token of a computing executor: true ends the request with it and with
     * *status (ok by default). */
    bool (*over)(void *self, const struct run_token *t, enum run_status *status);
    void (*batch)(void *self, const struct run_batch *b, const struct completion *c);
    void (*progress)(void *self, int64_t finished, double now_s);   /* after each request's row */
    void (*iteration)(void *self, const struct serve_iteration *i); /* beside batch, without rows */
};

struct serve_counters {
    int64_t iterations;
    int64_t events;   /* arrivals and completions handled */
    int64_t requests; /* taken in, rejected ones included */
    int64_t rejected;
    int64_t tokens;         /* output tokens */
    int64_t prefill_tokens; /* computed, recomputed ones included */
    int64_t preemptions;
    int64_t kv_blocks;      /* that a replica has */
    int64_t kv_blocks_peak; /* most in use in one replica */
    /* Prefix caching, all replicas. */
    int64_t prefix_looked_tokens; /* of admitted prefills, those after a preemption included */
    int64_t prefix_hit_tokens;    /* those of them found in the cache */
    int64_t prefix_evictions;     /* cached blocks reused for other content */
    /* Disaggregation: transfers of KV. */
    int64_t kv_transfers, kv_transfer_bytes;
    double kv_transfer_s;      /* from the end of the prefill to arrival at the decode replica */
    double kv_transfer_wait_s; /* part of it spent waiting for a link */
    /* Speculation. */
    int64_t spec_steps;           /* decode rows */
    int64_t spec_draft_tokens;    /* draft tokens they verified */
    int64_t spec_accepted_tokens; /* those of them emitted */
    double busy_s;                /* of all batches, every pipeline stage: host and device */
    double energy_j;              /* of all batches; 0 = unknown */
    double loop_seconds;          /* wall time in the loop */
    double end_s;                 /* clock at the end */
    /* Planned moments that follow from ends (workload/release.h). */
    bool follows;            /* there were such: a closed loop, or sessions */
    double concurrency_mean; /* requests between planned moment and end, over time; NAN = unknown */
    int64_t concurrency_peak;
    int64_t sessions;
};
/* `counters` of run_meta.json; what a run did not use (prefix caching, speculation, transfers) has
 * no members there. */
extern const struct fields serve_counters_fields;

/* What predictions have of both. */
enum serve_async serve_async_of(const struct serve_params *p);

/* Runs to the end of the source. A real clock is set to second 0 when the loop begins, so that
 * earlier work (loading weights) delays no request. executors[replicas] stay open; with a computing
 * executor or the real clock all of them must be of that kind.
 *
 * A request that can never run (longer than max_model_len, or its blocks never fit) gets status
 * rejected and the reason. *stop != 0 (stop may be NULL) ends the run after the batches in flight:
 * ST_INTERRUPTED, requests taken in and not over have status cancelled. An error of source or
 * executor ends it at once, with status error. counters are filled in every case. */
enum st serve_run(const struct serve_params *p, struct serve_clock *clock,
                  const struct executor *executors, const struct request_source *source,
                  const struct serve_sink *sink, const volatile sig_atomic_t *stop,
                  struct serve_counters *counters, struct err *e);

/* Knobs a policy does not model are refused by name (ST_USAGE); 0 means "not set". */
enum st serve_check_params(const struct serve_params *p, struct err *e);

/* Maximum of tokens in a batch under checked parameters: sizes an engine's buffers. longest = the
 * longest prompt plus output there can be (used when max_model_len is 0). */
int64_t serve_max_batch_tokens(const struct serve_params *p, int64_t longest);

#endif
