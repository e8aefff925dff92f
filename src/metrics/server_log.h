/* What a vLLM server's own log states of its settings.
 *
 *     server_log_read    facts of a log, each with its line
 *     server_log_beside  the log in a run's folder, if it has one that states any
 *
 * Read of the lines of vLLM V1, 0.11 to 0.33, with whatever the logger or a container puts before
 * them, plain or gzip:
 *
 *     Initializing a V1 LLM engine (vVERSION) with config: KEY=VALUE, ...
 *     non-default args: {'KEY': VALUE, ...}
 *     Chunked prefill is enabled with max_num_batched_tokens=N.
 *     Asynchronous scheduling is enabled.            (0.14 on, not in 0.33)
 *     GPU KV cache size: N tokens                    (the least, of several workers)
 *     ... cache_config_info with initialization after num_gpu_blocks is: N        (to 0.12 or so)
 *     Setting attention block size to N tokens       (of models with states beside attention)
 *     Using NAME attention backend out of ..., Using AttentionBackendEnum.NAME backend,
 *     Using NAME backend on V1 engine
 *
 * The engine's own line counts before the arguments, for those are what was asked for. CUDA graphs
 * are in its compilation_config, as JSON (0.11) or as Python writes it. vLLM does not tell
 * max_num_seqs, block_size and gpu_memory_utilization where they are its defaults.
 *
 * Faults are ST_INPUT at file:line: a count that is none; a fact that a later line states otherwise
 * (the log is of several servers, and nobody knows which one served); a log without the engine's
 * line. A line that was cut, so that a bracket is open, gives no fact of what is in the bracket. */
#ifndef METRICS_SERVER_LOG_H
#define METRICS_SERVER_LOG_H

#include "base/arena.h"
#include "base/str.h"

/* Names are vLLM's (server_fact_name). */
enum server_fact_id {
    FACT_VERSION,
    FACT_MODEL,
    FACT_DTYPE,        /* "bfloat16" */
    FACT_QUANTIZATION, /* "none", "fp8" */
    FACT_KV_DTYPE,     /* "auto", "fp8" */
    FACT_TP,
    FACT_PP,
    FACT_DP,
    FACT_EP, /* "true": experts are spread over the devices */
    FACT_MAX_MODEL_LEN,
    FACT_TOKEN_BUDGET,
    FACT_BATCH_CAP,
    FACT_BLOCK_SIZE,
    FACT_KV_TOKENS,
    FACT_NUM_BLOCKS,
    FACT_MEMORY_UTILIZATION,
    FACT_PREFIX_CACHING, /* this and those below: "true", "false" */
    FACT_CHUNKED_PREFILL,
    FACT_ASYNC,
    FACT_EAGER,
    FACT_GRAPHS,      /* cudagraph_mode in lower case: "full_and_piecewise" */
    FACT_GRAPH_SIZES, /* "1 2 4 8", ascending */
    FACT_ATTENTION,   /* "FLASH_ATTN"; several by blanks */
    FACT_SPECULATIVE, /* "none", or how it drafts */
    FACTS
};
const char *server_fact_name(unsigned id); /* "version", "tensor_parallel_size", ... */

struct server_fact {
    const char *value; /* NULL = not told */
    long line;
};

struct server_log {
    const char *path;
    struct server_fact of[FACTS];
    int64_t iterations, throughputs; /* lines of either kind: iteration_log.h, and "Avg prompt
                                        throughput", which has no compositions */
};

/* 0 = not told. Counts are checked when they are read. */
int64_t server_fact_count(const struct server_log *l, enum server_fact_id id);
double server_fact_number(const struct server_log *l, enum server_fact_id id); /* NAN = not told */
bool server_fact_is(const struct server_log *l, enum server_fact_id id, const char *value);
/* FACT_GRAPHS; an eager server captures none, whatever its configuration has for them. */
struct server_fact server_log_graphs(const struct server_log *l);
int64_t server_log_graph_tokens(const struct server_log *l); /* the largest size; 0 = not told */
/* Blocks of the KV cache: as told, else whole ones of block_size (0 = unknown) in its tokens. 0 =
 * not known, and then *why says what is missing, NULL where nothing was told of it. */
int64_t server_log_blocks(struct arena *a, const struct server_log *l, int64_t block_size,
                          const char **why);

enum st server_log_read(struct arena *a, const char *path, struct server_log *out, struct err *e);
/* The same of a text; path is what faults call it. */
enum st server_log_parse(struct arena *a, const char *path, struct sv text, struct server_log *out,
                         struct err *e);

/* Whether the text has the line of an engine. */
bool server_log_states(struct sv text);
/* "server.log" or "iterations.log" in dir, also .gz, the first that states settings, or that cannot
 * be read: server_log_read says why. NULL = none states any. */
const char *server_log_beside(struct arena *a, const char *dir);

#endif
