/* What a record says of a service that ran: the requests it was sent, and the latencies they had.
 *
 * A record is a folder or a file of a load generator. It has one stage or several: parts of
 * constant load with latencies of their own. Formats stand in a table; docs/formats.md has what
 * each must hold:
 *
 *     run              a run directory of twinfer (bench, engine=openai|worker|cpu)
 *     inference_perf   stage_N_lifecycle_metrics.json: quantiles alone, with its config.yaml or an
 *                      experiment.json; its requests where they are there
 *     vllm             result of `vllm bench serve`, with --save-detailed or without
 *     sweep            folders and tables of `vllm bench sweep serve`
 *     llmperf          NAME_summary.json and NAME_individual_responses.json of LLMPerf
 *     trtllm           report of trtllm-bench: quantiles
 *     guidellm         benchmarks.json of GuideLLM, with its requests
 *     aiperf           profile_export.jsonl of AIPerf, or the quantiles that it and GenAI-Perf
 *                      write: profile_export_aiperf.json, profile_export_genai_perf.json, .csv
 *
 * Latencies are those of successful requests, in seconds. Of records with rows they count from the
 * planned arrival where the record has one, else from the send. A record is taken at its word but
 * for lengths of answers that its own latencies refute (observed_settle). Faults are ST_INPUT at
 * file:line:column or at the path of the member that is missing. */
#ifndef CALIBRATE_OBSERVED_H
#define CALIBRATE_OBSERVED_H

#include "metrics/backlog.h"
#include "metrics/batch_load.h"
#include "text/node.h"
#include "workload/workload.h"

enum observed_metric { OBSERVED_TTFT, OBSERVED_TPOT, OBSERVED_E2E, OBSERVED_METRICS };
const char *observed_metric_name(enum observed_metric m); /* "ttft" */

/* Percentiles that are kept. */
enum { OBSERVED_P10, OBSERVED_P25, OBSERVED_P50, OBSERVED_P75, OBSERVED_P90, OBSERVED_P99 };
enum { OBSERVED_POINTS = OBSERVED_P99 + 1 };
extern const double observed_points[OBSERVED_POINTS]; /* 10 25 50 75 90 99 */

/* Unknown is NAN. */
struct observed_series {
    double mean;
    double at[OBSERVED_POINTS];
};

/* Of a request; NAN = unknown. */
struct observed_latency {
    double ttft_s, tpot_s, e2e_s;
};

/* Where a record does not say when requests were sent, arrivals are drawn, and near saturation one
 * draw's percentiles are several per cent from another's: so there are several. */
enum { OBSERVED_DRAWS = 8 };

struct observed_stage {
    const char *name;          /* "0" */
    int64_t completed, failed; /* none completed: no percentile is known */
    double rate;               /* requests/s that were sent */
    struct observed_series of[OBSERVED_METRICS];
    /* What was sent, in order of arrival; ids from 0. Of a closed loop its concurrency, and no
     * arrivals. */
    struct workload w;
    const struct observed_latency *each; /* [w.n]; NULL = the record has no rows */
    struct backlog waits;                /* for first tokens, where the record has rows */
    int64_t warmup; /* first requests of w, which fill caches and are not among the latencies */
    const int64_t *drawn_ns;  /* [OBSERVED_DRAWS - 1][w.n]: other arrivals; NULL = w's are known */
    const char *const *notes; /* what was assumed, [n_notes] */
    size_t n_notes;
};

/* What a record states of the server. 0, NULL and -1 = not stated. */
struct observed_settings {
    const char *model; /* its name on the hub */
    const char *gpu;
    const char *engine; /* "vllm", "transformers, continuous batching" */
    int64_t tp, pp, ep;
    int64_t token_budget, batch_cap, max_model_len, num_blocks, block_size;
    double gpu_memory_utilization;
    int prefix_caching;       /* 0, 1 */
    const char *weights, *kv; /* model.dtype, model.kv_dtype: "fp8"; NULL = as the model has them */
    /* Of the server's own log (server_settings.h). */
    const char *log;         /* its path */
    int64_t kv_tokens;       /* that the KV cache holds, where num_blocks is not stated */
    int64_t graph_tokens;    /* of the largest CUDA graph */
    const char *cuda_graphs; /* vLLM's cudagraph_mode, "none" */
    int async;               /* scheduling: 1 off, 2 on */
};
/* Names on the hub that differ in who tuned or quantised the model: one shape. NULL = NULL alone.
 */
bool observed_same_model(const char *a, const char *b);
/* Names of GPUs that may be of one kind: "H100 SXM 80GB", "NVIDIA H100 80GB HBM3"; not of PCIe or
 * NVL where the other is not, nor of other memory. */
bool observed_same_gpu(const char *a, const char *b);
bool observed_says(const char *text, const char *word); /* in either case */

struct observed {
    const char *path, *name; /* name: of the folder or file, without .json */
    const char *format;
    struct observed_settings settings;
    struct observed_stage *stages;
    size_t n_stages;
    const struct batch_load *batches; /* [n_batches]; NULL = none */
    size_t n_batches;
    const char *const *doubts; /* what it states and is not simulated, or is assumed; [n_doubts] */
    size_t n_doubts;
    const struct logged_run *logged;     /* iterations that its server logged; NULL = none */
    const struct server_metrics *server; /* what its server counted meanwhile; NULL = unknown */
    double first_token_lag_s; /* P50 from the end of the batch to the first token; NAN = unknown */
    const struct key_spans *spans; /* of the model that was served, for batches; NULL = none */
};

struct observed_format {
    const char *name, *help;
    const char *marks; /* how a record of it is recognised, for messages */
    /* Whether the path looks like one; reads little. */
    bool (*is)(struct arena *a, const char *path);
    enum st (*read)(struct arena *a, const char *path, struct observed *out, struct err *e);
};
extern const struct observed_format observed_formats[]; /* ends with name == NULL */

/* Reads the record at path by the first format that it looks like; ST_INPUT names what was looked
 * for. */
enum st observed_load(struct arena *a, const char *path, struct observed *out, struct err *e);
/* The same of a model with spans (model/spans.h), which lives as long as *out. */
enum st observed_load_of(struct arena *a, const char *path, const struct key_spans *spans,
                         struct observed *out, struct err *e);

/* Takes the log of iterations of the server that served a run (metrics/iteration_log.h): the file,
 * or with NULL the one in the run's folder, if any. A run with batches.csv has none. ST_USAGE: a
 * file for a record that can have none. */
enum st observed_take_log(struct arena *a, const char *log, struct observed *x, struct err *e);

/* Takes what the log of the server that served a record states (calibrate/server_settings.h): the
 * file, or with NULL the one in the record's folder, if any. */
enum st observed_take_server_log(struct arena *a, const char *log, struct observed *x,
                                 struct err *e);

/* ---- for formats ----------------------------------------------------------------------------- */

struct observed_series observed_unknown(void);
/* Of n values, which are sorted in place. None: unknown. */
struct observed_series observed_of(struct arena *a, double *v, size_t n);

/* A request as rows have it: times in s on any one clock. NAN = unknown. */
struct observed_row {
    double arrival_s, first_token_s, end_s;
    int64_t prompt_tokens, output_tokens;
    int64_t cached_tokens; /* of the prompt, found in the prefix cache; -1 = unknown */
    int64_t gaps;          /* between the messages that brought the answer; 0 = unknown */
    bool ok;
};
/* Requests and latencies of a stage from its rows; rows without output or times are failures.
 * ST_INPUT when no request ended well, or when messages brought several tokens each, as speculative
 * decoding does. */
enum st observed_from_rows(struct arena *a, const char *path, const struct observed_row *rows,
                           size_t n, struct observed_stage *out, struct err *e);

/* Leaves the first n requests of a stage with rows out of its latencies: they are its warm-up. */
void observed_leave_out(struct arena *a, struct observed_stage *s, size_t n);

/* Requests of a record that holds none: as many as ended well, all of its mean lengths, at arrivals
 * drawn anew: gamma gaps of shape `burstiness` (1 = poisson), INFINITY = evenly spaced. ST_INPUT
 * for counts and lengths that say no requests. Notes it. */
struct observed_means {
    double rate, burstiness, prompt_tokens, output_tokens;
    /* Longest prompt and answer where lengths were drawn evenly up to them; 0 = all have the mean.
     */
    double most_prompt_tokens, most_output_tokens;
    int64_t concurrency; /* of a closed loop, whose rate is what came of it; 0 = open loop */
};
enum st observed_from_means(struct arena *a, const char *path, const struct observed_means *m,
                            struct observed_stage *out, struct err *e);

/* Whether a limit of `most` requests at a time (0 = none) held back those that were to come at
 * `rate`: nearly so many were in the service, by Little's law of the rate that was served and the
 * mean latency, or, where that is unknown, they came slower than asked for. */
bool observed_limit_decided(double served, double e2e_s, double rate, int64_t most);

/* ST_INPUT where a member of the map states that the server decoded speculatively: accept lengths
 * above 1, drafts, a draft model. No such server is simulated. */
enum st observed_check_speculation(const struct node *map, struct err *e);

void observed_note(struct arena *a, struct observed_stage *s, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

bool observed_is_run(struct arena *a, const char *path);
bool observed_is_inference_perf(struct arena *a, const char *path);
bool observed_is_vllm(struct arena *a, const char *path);
bool observed_is_guidellm(struct arena *a, const char *path);
bool observed_is_llmperf(struct arena *a, const char *path);
bool observed_is_sweep(struct arena *a, const char *path);
bool observed_is_trtllm(struct arena *a, const char *path);
bool observed_is_aiperf(struct arena *a, const char *path);
enum st observed_read_run(struct arena *a, const char *path, struct observed *out, struct err *e);
enum st observed_read_inference_perf(struct arena *a, const char *path, struct observed *out,
                                     struct err *e);
enum st observed_read_vllm(struct arena *a, const char *path, struct observed *out, struct err *e);
enum st observed_read_guidellm(struct arena *a, const char *path, struct observed *out,
                               struct err *e);
enum st observed_read_llmperf(struct arena *a, const char *path, struct observed *out,
                              struct err *e);
enum st observed_read_sweep(struct arena *a, const char *path, struct observed *out, struct err *e);
enum st observed_read_trtllm(struct arena *a, const char *path, struct observed *out,
                             struct err *e);
enum st observed_read_aiperf(struct arena *a, const char *path, struct observed *out,
                             struct err *e);

#endif
