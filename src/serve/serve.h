/* The serving core: one scheduler, two clocks.
 *
 * serve_run owns the life of every request: arrival queue, router, scheduling policy, paged KV
 * blocks, batches, token emission, metrics rows. With a computing executor and the real clock it is
 * an engine; with the predicting executor and the virtual clock it is the simulator; nothing else
 * differs.
 *
 * Events of equal time go in the order in which they were created, so equal inputs give equal
 * bytes. Cost: O(1) per iteration of steady decode batches plus O(log n) per admission, completion
 * and preemption; memory grows with live requests, not with all. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <signal.h>

#include "artifact/run.h"
#include "serve/clock.h"
#include "serve/executor.h"
#include "workload/workload.h"

struct serve_params {
    const char *policy; /* vllm_v1, sarathi, ... (serve/sched/registry.c) */
    const char *router; /* round_robin, ... */
    int32_t replicas;
    int64_t batch_cap;    /* sequences running at once, >= 1 */
    int64_t token_budget; /* vllm_v1: tokens per batch */
    int64_t chunk_size;   /* sarathi: tokens per batch */
    int64_t max_tokens_in_batch;
    int64_t block_size;    /* tokens per KV block */
    int64_t num_blocks;    /* per replica, >= 1 */
    double watermark;      /* fraction of blocks kept free at admission */
    int64_t max_model_len; /* prompt + output limit; a longer request is rejected */
    uint64_t seed;
    int64_t warmup_requests; /* the first n requests are labelled warm-up */
    bool emit_tokens;        /* call sink.token */
};

/* Requests in order of arrival; pulled one ahead, so a stream of any length is fine. */
struct request_source {
    void *self;
    enum st (*next)(void *self, struct workload_request *out, struct err *e); /* ST_END = no more */
    /* Computing executors only: fill ids[num_prefill_tokens]. */
    enum st (*prompt_ids)(void *self, const struct workload_request *r, int32_t *ids,
                          struct err *e);
};

/* Where results go; any hook may be NULL. Rows are complete when handed over. */
struct serve_sink {
    void *self;
    void (*request)(void *self, const struct run_request *r);
    void (*token)(void *self, const struct run_token *t);
    void (*batch)(void *self, const struct run_batch *b, const struct completion *c);
    void (*progress)(void *self, int64_t finished, double now_s);
};

struct serve_counters {
    int64_t iterations, events, requests, rejected;
    int64_t tokens;         /* output tokens */
    int64_t prefill_tokens; /* computed, recomputed ones included */
    int64_t preemptions;
    int64_t kv_blocks_peak;
    double loop_seconds; /* wall time in the loop */
    double end_s;        /* clock at the end */
};

/* executors[replicas]. *stop != 0 ends the run after the batches in flight (ST_INTERRUPTED; rows of
 * unfinished requests are written with status cancelled). */
enum st serve_run(const struct serve_params *p, struct serve_clock *clock,
                  const struct executor *executors, const struct request_source *source,
                  const struct serve_sink *sink, const volatile sig_atomic_t *stop,
                  struct serve_counters *counters, struct err *e);

/* Knobs a policy does not model are refused by name (ST_USAGE); 0 means "not set". */
enum st serve_check_params(const struct serve_params *p, struct err *e);

#endif
