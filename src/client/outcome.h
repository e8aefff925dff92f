/* Converts received chunks to tokens, files and figures.
 *
 * Tokens of a chunk. Where ids or usage in every chunk give a chunk's tokens, these are used.
 * Otherwise the request's total (of usage, else of the tokenizer, else one per chunk) is spread
 * evenly over its chunks, the first chunk holding at least one. All tokens of a chunk have the
 * chunk's time: rows after the first have latency 0 in token_metrics.csv.
 *
 * Reasoning that is counted and never sent (usage's reasoning_tokens, in an answer without a text
 * of reasoning) has no time: it is in `hidden_tokens` and in totals, and in no token's latency.
 *
 * A usage total above OUTCOME_MOST times the tokens requested and received (chunks and bytes of
 * text together) is rejected, and so is a prompt of more than 2^31 - 1 tokens.
 *
 * ITL is the gap between two chunks that carry tokens, as in vLLM's benchmark; tokens_per_chunk
 * stands beside it, for a gap is a token's only where that is 1. */
#ifndef CLIENT_OUTCOME_H
#define CLIENT_OUTCOME_H

#include "client/client.h"
#include "text/fields.h"
#include "workload/workload.h"

enum { OUTCOME_MOST = 16 };

enum count_from { COUNT_IDS, COUNT_USAGE, COUNT_TOKENIZER, COUNT_CHUNKS, COUNTS };
const char *count_from_name(enum count_from c); /* "token_ids", "usage", "tokenizer", "chunks" */

/* Output tokens against those requested. Ids and usage are exact; a tokenizer's count of another
 * program's text is right within a tenth; chunks are a lower bound, hence right or long; short only
 * where the server reports a stop, else unknown. */
enum length { LENGTH_RIGHT, LENGTH_SHORT, LENGTH_LONG, LENGTH_UNKNOWN, LENGTHS };
const char *length_name(enum length l); /* "right", "short", "long", "unknown" */

/* What prompts are judged by. */
struct outcome_prompts {
    bool known;              /* planned lengths are those of what is sent */
    bool ids;                /* it is sent as ids: known of later turns too */
    int64_t template_tokens; /* that the server adds to each, as of a chat template */
};

/* The final record of a request. */
struct outcome {
    const struct workload_request *w;
    const struct client_result *r;
    int64_t prompt_tokens;
    int64_t output_tokens; /* without hidden ones */
    int64_t hidden_tokens;
    int32_t *chunk_tokens; /* [r->chunks.n], sum output_tokens */
    enum count_from count; /* of output_tokens */
    enum length length;
    enum length prompt; /* prompt_tokens, by usage, against those planned */
    bool at_once;       /* several tokens, all at one time: it has no TPOT */
    bool prompt_from_usage, spread, warmup;
};

/* outcomes[w->n]; results in the workload's order. tokenizer may be NULL. The first n_warmup are
 * labelled warm-up. A text that the tokenizer refuses counts by its chunks. A prompt is right
 * within a tenth and a few tokens, for special tokens. prompts NULL: none is judged. */
void outcomes_make(struct arena *a, const struct workload *w, const struct client_result *results,
                   const struct tokenizer *tokenizer, int64_t n_warmup,
                   const struct outcome_prompts *prompts, struct outcome *outcomes);

/* Rows of request_metrics.csv and, where the writer has that file, token_metrics.csv. */
void outcomes_write(struct run_writer *writer, const struct outcome *o, size_t n,
                    const char *backend, bool tokens);

/* Limits in ms, INFINITY = none; a request that lacks a figure meets its limit. */
struct outcome_limits {
    bool set;
    double ttft_ms, tpot_ms, e2el_ms;
};

/* mean, median, std (of the population) and percentiles in ms; NAN without samples. */
enum { OUTCOME_PERCENTILES = 3 };
extern const int outcome_percentiles[OUTCOME_PERCENTILES]; /* 90 95 99 */
struct outcome_stat {
    size_t n;
    double mean, median, std, p[OUTCOME_PERCENTILES];
};

/* Over requests with status ok that are no warm-up. From the planned send time and from the actual
 * one: with a healthy client and no max_concurrency the two agree. */
struct outcome_figures {
    int64_t completed, failed, warmup; /* failed: not ok and no warm-up */
    double duration_s;                 /* first planned send to the last end; NAN */
    int64_t input_tokens, output_tokens, chunks;
    int64_t hidden_tokens; /* of output_tokens */
    int64_t planned_input_tokens;
    int64_t counted[COUNTS]; /* requests by source of their count */
    int64_t spread, prompt_from_usage;
    int32_t max_tokens_per_chunk;
    int64_t lengths[LENGTHS], prompts[LENGTHS], at_once;
    double requests_per_s, output_tokens_per_s, total_tokens_per_s;
    double goodput;      /* requests/s within the limits, from the planned send time; NAN */
    double goodput_sent; /* the same from the actual send time */
    struct outcome_stat ttft, ttft_sent, tpot, itl, e2el, e2el_sent;
};
void outcomes_figures(struct arena *a, const struct outcome *o, size_t n,
                      const struct outcome_limits *limits, struct outcome_figures *out);

/* Share of the completed requests whose length is wrong; early: shorter ones are not. 0 of none. */
double outcomes_wrong_lengths(const struct outcome_figures *f, bool early);

/* answers.jsonl: a line for each request with its answer, failed ones included. */
void outcomes_answers(struct buf *out, const struct outcome *o, size_t n);

/* bench.json: vLLM's keys with vLLM's meanings (latencies from the actual send), latencies from the
 * planned time in `planned`, sources of counts in `tokens`, the client's health in `client`. */
struct outcome_labels {
    const char *endpoint;                /* "completions", "chat" */
    const char *model_id, *tokenizer_id; /* NULL = null */
    double request_rate, burstiness;     /* NAN = null: not of a rate */
    int64_t max_concurrency;             /* 0 = null */
    int64_t started_wall_ns;
    const char *goodput; /* the limits as given, or NULL */
};
struct node *outcomes_bench_json(struct arena *a, const struct outcome *o, size_t n,
                                 const struct outcome_figures *f, const struct client_health *h,
                                 const struct outcome_labels *labels);
/* The same figures of a part of the requests, in short. */
struct node *outcomes_stage_node(struct arena *a, const struct outcome_figures *f);

/* `client` of run_meta.json and of bench.json: a client's health in their units. NAN, and -1 in a
 * count, is unknown where it was read loosely. */
struct client_record {
    struct client_health h; /* what stands in the file: counts, wall_s, cpu_s, busy_fraction */
    double schedule_delay_p50_ms, schedule_delay_p90_ms, schedule_delay_p99_ms;
    double schedule_delay_max_ms, limit_ms, cpu_fraction;
    const char *verdict; /* "healthy", "rejected" */
};
extern const struct fields client_record_fields;
struct node *client_health_node(struct arena *a, const struct client_health *h);

/* The block for a terminal. */
void outcomes_print(struct buf *out, struct arena *a, const struct outcome_figures *f,
                    const struct client_health *h);

#endif
