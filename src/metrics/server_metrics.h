/* What a server counted while a run went on: its own part of latencies, server_metrics.json.
 *
 *     server_metrics_make   from two snapshots of GET /metrics, before and after the run
 *     server_metrics_node   as server_metrics.json; server_metrics_load reads it in a run's folder
 *     first_token_split     a first token's time, from the client's end to the server's inside
 *
 * Servers have names of their own for one meaning, and change them; server_metrics.c has the table:
 * vLLM V1 (0.8 to 0.33), SGLang, and twinfer serve. What the numbers are, by the servers' sources:
 *
 *     ttft      in the frontend, from the request's arrival there (vLLM: before its prompt is
 *               tokenized) until its first token came back from the engine
 *     queue     in the engine, from its arrival there until it is scheduled first
 *     prefill   in the engine, from there until its first token
 *     decode    in the engine, from its first token to its last
 *     itl       gaps between the tokens of a request
 *     tpot      a request's decode time over its tokens but the first
 *     e2e       in the frontend, arrival to last token
 *     prompt_tokens, output_tokens    of a request
 *     iteration_tokens                of an engine's iteration
 *
 * vLLM notes queue, prefill, decode and e2e when a request ends, ttft when its first token comes.
 * Counters: tokens looked up and found in the prefix cache, preemptions.
 *
 * The server counts every request it gets. Only where it counted as many ends as the client sent
 * requests that ended well are means those of the run: `alone`. Else `why` says what was counted.
 *
 * The split. With means over the same requests, and the client's TTFT from the send,
 *
 *     client = queue + prefill + front + outside      front = ttft - queue - prefill
 *                                                     outside = client - ttft
 *
 * front: what the server's frontend adds before and after the engine (tokenizer, passing on between
 * processes, detokenizer). outside: client, wire, HTTP. These are differences of means over the
 * same requests, so they hold without further assumption but one, that clocks of one machine tick
 * alike. A part may come out slightly below 0 where a server takes times late. */
#ifndef METRICS_SERVER_METRICS_H
#define METRICS_SERVER_METRICS_H

#include "metrics/prometheus.h"
#include "text/node.h"

#define SERVER_METRICS "server_metrics.json"

enum server_stat_id {
    SERVER_TTFT,
    SERVER_QUEUE,
    SERVER_PREFILL,
    SERVER_DECODE,
    SERVER_ITL,
    SERVER_TPOT,
    SERVER_E2E,
    SERVER_PROMPT_TOKENS,
    SERVER_OUTPUT_TOKENS,
    SERVER_ITERATION_TOKENS,
    SERVER_STATS
};
enum server_counter_id {
    SERVER_CACHE_QUERIES,
    SERVER_CACHE_HITS,
    SERVER_PREEMPTIONS,
    SERVER_COUNTERS
};

const char *server_stat_unit(unsigned id);  /* "s", "tokens" */
const char *server_stat_label(unsigned id); /* for people: "TTFT", "prompt tokens" */

struct server_stat {
    const char *metric; /* as the server calls it; NULL: it has none, and the rest is void */
    double count;       /* observations during the run */
    double mean;        /* NAN = none */
    double p50_low, p50_high, p90_low, p90_high; /* brackets (prometheus.h); NAN, INFINITY */
};

struct server_counter {
    const char *metric; /* NULL as above */
    double value;
};

/* Of the requests that ended well, warm-up of the workload included: the server counts those too.
 */
struct client_side {
    int64_t requests;
    double ttft_s, e2e_s; /* means, from the actual send; NAN */
};

struct server_metrics {
    const char *url;    /* where they are from */
    const char *server; /* "vllm", "sglang", "twinfer" */
    struct server_stat of[SERVER_STATS];
    struct server_counter counters[SERVER_COUNTERS];
    struct client_side client;
    double waited_s; /* for the server's counts to catch up with the client's */
    bool alone;
    const char *why; /* it is not; NULL */
};

/* Name of the server whose metrics these are; NULL: of none that is known. */
const char *server_metrics_known(const struct prom_snapshot *s);

/* Requests that ended by the server's count, since its start; NAN: it does not count them. */
enum st server_metrics_ended(struct arena *a, const struct prom_snapshot *s, double *out,
                             struct err *e);

/* url, client and waited_s are the caller's to set before. ST_INPUT: metrics that are known by name
 * and malformed, or no known ones; ST_REJECTED: the server was restarted (prometheus.h). */
enum st server_metrics_make(struct arena *a, const struct prom_snapshot *before,
                            const struct prom_snapshot *after, struct server_metrics *m,
                            struct err *e);

struct node *server_metrics_node(struct arena *a, const struct server_metrics *m);
/* Of a run's folder; *out: NULL = it has none. */
enum st server_metrics_load(struct arena *a, const char *dir, const struct server_metrics **out,
                            struct err *e);

struct first_token_split {
    double queue_s, prefill_s, front_s, outside_s; /* means; their sum is client_s */
    double client_s;
    int64_t requests;
};
/* False, and why, where the server lacks a part or counted other requests. */
bool first_token_split(struct arena *a, const struct server_metrics *m,
                       struct first_token_split *out, const char **why);
/* "queue 0.3 ms, prefill 21.4 ms, ..., of 32.1 ms, means of 420 requests" */
const char *first_token_words(struct arena *a, const struct first_token_split *s);

#endif
