/* Run directories without an engine: a small batching loop whose batches take the times given here.
 * Two runs that differ in nothing but a few parameters are what comparisons and reports need.
 *
 * Each iteration takes up to max_prefills waiting prompts whole, and one token of every running
 * sequence; it takes
 *     host_s + base_s + prefill_token_s * prompt tokens + sequence_s * decode rows
 * times 1 +- jitter. A token is there when its batch ends. */
#ifndef SUPPORT_FAKE_RUN_H
#define SUPPORT_FAKE_RUN_H

#include "artifact/run.h"
#include "support/support.h"

struct fake_run {
    const char *type;       /* "real", "vidur" */
    const char *run_id;     /* NULL = "r" */
    const char *model;      /* NULL = "tiny" */
    const char *prompt_id;  /* of every request; NULL = none */
    size_t n;               /* requests, warm-up included */
    size_t n_warmup;        /* the first ones */
    size_t n_failed;        /* the last ones end with status timeout and without tokens */
    uint64_t workload_seed; /* arrivals and lengths */
    uint64_t jitter_seed;
    double rate; /* requests/s, Poisson */
    double host_s, base_s, prefill_token_s, sequence_s, jitter;
    size_t max_prefills, batch_cap;
    const char *url;           /* a run over HTTP, with a client that was late; NULL = none */
    const char *error_message; /* of those that failed, with error_type http_503; NULL = none */
    size_t stop_every;         /* every such request stops at half its length; 0 = none */
    double waiting;            /* share of the time it waited for cores */
    double pressure;           /* of the time in which tasks of the machine did */
    double reference;          /* s; 0 = none */
    int64_t extrapolated;      /* of 1,000 look-ups in a bundle */
    int64_t kv_tokens;         /* that the KV cache holds; 0 = not told */
    bool no_tokens, no_batches;
    int32_t series_replicas; /* time_series.csv of that many equal replicas; 0 = none */
};

/* 160 requests at about 60 % load; real and simulated alike but for the jitter. */
struct fake_run fake_run_default(const char *type);

/* Writes the run into the folder `name` of the test; returns its path. */
const char *fake_run_write(struct test *t, const char *name, const struct fake_run *p);
/* The same into any folder, which must not exist. */
enum st fake_run_write_to(struct arena *a, const char *dir, const struct fake_run *p,
                          struct err *e);

#endif
