/* Workloads: which requests arrive when, with how many tokens.
 *
 * On disk (DESIGN section 4): prompts.jsonl, trace_lengths.csv, trace_intervals.csv,
 * workload_meta.json. Same inputs and seed give the same bytes in the three data files. */
#ifndef WORKLOAD_WORKLOAD_H
#define WORKLOAD_WORKLOAD_H

#include "artifact/artifact.h"
#include "model/tokenizer.h"

struct workload_request {
    int64_t request_id;
    const char *prompt_id; /* NULL when made without prompts */
    int64_t arrival_ns;    /* from the start of the run, non-decreasing */
    double arrival_s;      /* the same; exact when read from a Vidur trace.csv */
    int64_t num_prefill_tokens, num_decode_tokens; /* >= 1; decode counts the first output token */
};

struct workload {
    const char *id, *dir; /* dir NULL for a bare trace.csv */
    struct workload_request *requests;
    size_t n;
    const char *model; /* as recorded; NULL for a trace */
};

struct prompt {
    const char *id, *text;
};

/* prompts.jsonl; duplicate ids, empty text, bad UTF-8, missing keys are errors at file:line. */
enum st prompts_load(struct arena *a, const char *path, struct prompt **out, size_t *n,
                     struct err *e);

struct workload_params {
    uint64_t seed;
    int64_t num_requests;
    int arrival_kind;        /* enum plan_arrival of config/plan.h, same numbers */
    double rate, burstiness; /* requests/s; gamma shape, 1 = poisson */
    int64_t inter_arrival_ns;
    const char *arrival_trace; /* CSV with arrived_at (s) or arrival_time_ns */
    int lengths_kind;          /* enum plan_lengths */
    int64_t prefill_tokens, decode_tokens, min_tokens, max_tokens;
    double zipf_theta, prefill_decode_ratio;
    const char *lengths_trace;    /* CSV with num_prefill_tokens, num_decode_tokens */
    const struct prompt *prompts; /* NULL = none; used in order, wrapping around */
    size_t n_prompts;
    const struct tokenizer *tokenizer; /* for LENGTHS_TOKENIZER */
};

/* The requests, in memory. Wrong combinations are ST_USAGE with the key's name. */
enum st workload_make(struct arena *a, const struct workload_params *p, struct workload *out,
                      struct err *e);

/* Writes the three data files into the artifact. */
enum st workload_write(const struct artifact *art, const struct workload *w,
                       const struct prompt *prompts, size_t n_prompts, struct err *e);

enum st workload_load(struct arena *a, const char *dir, struct workload *out, struct err *e);
enum st workload_load_trace(struct arena *a, const char *csv, struct workload *out, struct err *e);

/* Token ids a real engine is fed for a request: the prompt's ids cut or repeated to exactly
 * num_prefill_tokens, or seeded random ids below vocab when there is no prompt. */
enum st workload_prompt_ids(struct arena *a, const struct workload_request *r, const char *text,
                            const struct tokenizer *tok, int64_t vocab, uint64_t seed, int32_t *out,
                            struct err *e);

#endif
