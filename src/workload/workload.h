/* Workloads: which requests arrive when, with how many tokens.
 *
 * On disk: prompts.jsonl, trace_lengths.csv, trace_intervals.csv, workload_meta.json
 * (docs/formats.md). Same inputs and seed give the same bytes in the three data files. A single
 * trace.csv (arrived_at in seconds, num_prefill_tokens, num_decode_tokens; Vidur's) is a workload
 * too. */
#ifndef WORKLOAD_WORKLOAD_H
#define WORKLOAD_WORKLOAD_H

#include <signal.h>

#include "artifact/artifact.h"
#include "base/log.h"
#include "config/option.h"
#include "model/sampling.h"
#include "model/tokenizer.h"
#include "workload/concurrency.h"
#include "workload/stages.h"

struct workload_request {
    int64_t request_id;
    const char *prompt_id;      /* NULL when made without prompts */
    int64_t arrival_ns;         /* from the start of the run, non-decreasing */
    double arrival_s;           /* the same; exact when read from a Vidur trace.csv */
    int64_t num_prefill_tokens; /* >= 1 */
    int64_t num_decode_tokens;  /* >= 1, the first output token included */
    /* Content of the prompt as in Mooncake's traces: equal hash_ids[i] of two prompts mean equal
     * tokens up to and including the i-th hash_tokens of them, the last piece possibly shorter.
     * [ceil(num_prefill_tokens / hash_tokens)], each >= 0; NULL = unknown. */
    const int64_t *hash_ids;
    int64_t hash_tokens;
    /* Tokens that hash_ids describe, where they go on beyond the prompt: with the answer, which the
     * next turn's prompt holds; 0 = the prompt's. */
    int64_t hash_covers;
    /* Sampling parameters, borrowed until the request's row was delivered. NULL = greedy. */
    const struct sampling *sampling;
    /* Sessions: the turns of one stand one after the other. Their arrival_ns is that of turn 1; a
     * later turn is sent think_ns after the end of the one before (workload/release.h). */
    int64_t session_id; /* >= 0 */
    int64_t turn;       /* from 1; 0 = of no session */
    int64_t think_ns;   /* 0 for turn 1 */
    int64_t row;        /* its place in the workload, from 0; set when it is released */
};

struct workload {
    const char *id, *dir;              /* NULL for a bare trace.csv and before it is written */
    const char *prompts;               /* path of prompts.jsonl; NULL as dir */
    struct workload_request *requests; /* [n] in order of arrival; ids are unique */
    size_t n;
    const char *model; /* as recorded; NULL for a trace */
    /* Closed loop: arrivals are not used. NULL = open loop. */
    const struct concurrency *concurrency;
};

/* ---- prompts ----------------------------------------------------------------------------- */

struct prompt {
    const char *id, *text;
};

enum { PROMPT_MAX_BYTES = 16 << 20 }; /* of one line */

/* prompts.jsonl: one JSON object a line with the strings prompt_id and text; other members are
 * allowed and ignored, blank lines too. An integer prompt_id is taken as its digits. Duplicate ids,
 * empty text, bad UTF-8, missing keys, a line that is no object are errors at file:line. An empty
 * file is no prompts. */
enum st prompts_load(struct arena *a, const char *path, struct prompt **out, size_t *n,
                     struct err *e);

/* ---- making ------------------------------------------------------------------------------ */

/* Random streams: "workload.arrivals" and "workload.lengths" of the seed, so that lengths do not
 * change when the arrivals do.
 *
 * Arrivals (gaps are rounded to whole ns, an arrival is the sum of the gaps):
 *   static          all at 0
 *   fixed_interval  request i at i * inter_arrival_ns, or i / rate when that is 0; the first at 0
 *   poisson         exponential gaps of mean 1/rate; the first request comes one gap after 0
 *   gamma           gamma gaps of shape `burstiness` and scale 1/(rate * burstiness), so of mean
 *                   1/rate and coefficient of variation 1/sqrt(burstiness), as in vLLM's benchmark;
 *                   the first request comes one gap after 0
 *   trace           arrived_at (s) or arrival_time_ns of a CSV
 * Vidur cuts its poisson gaps at three means, which makes its true rate 1.052 times the configured
 * one; ours are not cut.
 *
 * Lengths (prefill, decode; each at least 1):
 *   tokenizer  prefill = the tokens of the request's prompt, decode = decode_tokens; without a
 *              tokenizer a token for each WORKLOAD_TOKEN_BYTES of the prompt, rounded up
 *   fixed      prefill_tokens, decode_tokens
 *   uniform    total uniform in [min_tokens, max_tokens), decode = ceil(total / (1 +
 *              prefill_decode_ratio)), prefill = total - decode, rounded down: Vidur's
 *   zipf       the same with total = min_tokens + a zipf rank of exponent zipf_theta among
 *              max_tokens - min_tokens + 1 (Gray et al. 1994, as in YCSB and Vidur)
 *   trace      num_prefill_tokens, num_decode_tokens of a CSV
 *   normal     prefill and decode drawn by themselves, of mean prefill_tokens, decode_tokens and
 *              standard deviation prefill_stddev, decode_stddev; drawn again while below 1/2, and
 *              rounded: where the deviation is more than half of the mean, the mean grows by that
 *   lognormal  the same, lognormal: a long tail, and nothing below 1/2 but what is rounded up to 1
 * A trace must have a row for every request.
 *
 * Sessions: with session_turns > 1 each arrival begins a session, whose number of turns is drawn
 * evenly from session_turns to session_max_turns (stream "workload.sessions", think times
 * "workload.think"; the last session ends with the last request). Lengths are of what is new: the
 * prompt of a turn is the prompt of the turn before, as many tokens as its answer has, and the
 * drawn length. Think times are of mean think_s, fixed, exponential or lognormal. All turns carry
 * the arrival of the first. hash_ids say that the prompts of a session begin alike. Tokens of
 * answers are the workload's; a run puts the engine's own in their place where it knows them.
 *
 * Prefixes: with prefix_tokens > 0 each request belongs to one of prefix_groups groups, drawn
 * evenly (stream "workload.prefix"), and that many tokens of the group stand before its own, which
 * the lengths count: prefill = length + prefix_tokens. hash_ids reflect this, with hash_tokens =
 * prefix_tokens: the group's number, then numbers that no other request has. */
enum workload_arrival {
    ARRIVAL_STATIC,
    ARRIVAL_FIXED_INTERVAL,
    ARRIVAL_POISSON,
    ARRIVAL_GAMMA,
    ARRIVAL_TRACE
};
enum workload_lengths {
    LENGTHS_TOKENIZER,
    LENGTHS_FIXED,
    LENGTHS_UNIFORM,
    LENGTHS_ZIPF,
    LENGTHS_TRACE,
    LENGTHS_NORMAL,
    LENGTHS_LOGNORMAL
};
enum workload_think { THINK_FIXED, THINK_EXPONENTIAL, THINK_LOGNORMAL };
enum { WORKLOAD_TOKEN_BYTES = 4 }; /* mean of large vocabularies on English text */
struct workload_params {
    uint64_t seed;
    int64_t
        num_requests;  /* 0 = as many as the (shorter) trace has rows, else as there are prompts */
    double duration_s; /* only requests that arrive before it, num_requests at most; 0 = all */
    int arrival_kind;  /* enum workload_arrival */
    double rate;       /* requests/s */
    double burstiness; /* gamma shape, 1 = poisson */
    int64_t inter_arrival_ns;
    const struct rate_stage *stages; /* [n_stages]: instead of rate; not of static and trace */
    size_t n_stages;
    const char *arrival_trace;
    int lengths_kind; /* enum workload_lengths */
    int64_t prefill_tokens, decode_tokens, min_tokens, max_tokens;
    double zipf_theta, prefill_decode_ratio, prefill_stddev, decode_stddev;
    int64_t prefix_groups, prefix_tokens;
    const char *lengths_trace;
    int64_t session_turns, session_max_turns; /* turns of a session, drawn evenly; 0, 1 = none */
    int think_kind;                           /* enum workload_think */
    double think_s, think_stddev_s;
    const struct prompt *prompts; /* NULL = none; used in order, wrapping around */
    size_t n_prompts;
    const struct tokenizer *tokenizer; /* for LENGTHS_TOKENIZER; NULL = none */
};

/* What is run, or made: settings with rows in workload/options.c. */
struct workload_settings {
    const char *import, *export, *path; /* of another tool: a format, and its file */
    int64_t block_tokens;               /* of import: workload/format.h, as time_unit */
    const char *time_unit;
    const char *dir, *trace; /* of a workload that is there; NULL = make */
    const char *prompts;     /* prompts.jsonl */
    int64_t prompts_seed;    /* 0 = seed */
    int64_t warmup_requests, concurrency;
    double concurrency_ramp_s, ramp_s;
    struct texts concurrency_stages, rate_stages;
    struct workload_params make; /* prompts, stages, tokenizer and seed are of the run */
};
extern const struct option_section workload_options;

/* The requests, in memory, ids from 0. Wrong combinations are ST_USAGE with the key's name; an
 * arrival beyond the range of int64 ns (292 years) is one of them. */
enum st workload_make(struct arena *a, const struct workload_params *p, struct workload *out,
                      struct err *e);

/* ---- files ------------------------------------------------------------------------------- */

/* Hooks while files are written. */
struct workload_watch {
    const volatile sig_atomic_t *stop; /* raised by a signal: ST_INTERRUPTED */
    struct progress *progress;         /* begun; counts rows */
};

/* Writes the three data files into the artifact, and hash_ids.jsonl and sessions.csv where a
 * request has them. watch may be NULL. */
#define HASH_IDS_NAME "hash_ids.jsonl"
#define SESSIONS_NAME "sessions.csv"
enum st workload_write(const struct artifact *art, const struct workload *w,
                       const struct prompt *prompts, size_t n_prompts,
                       const struct workload_watch *watch, struct err *e);
/* Rows that workload_write will write, for progress, and estimated bytes. */
int64_t workload_rows(const struct workload *w, size_t n_prompts);
int64_t workload_disk_bytes(const struct workload *w, const struct prompt *prompts,
                            size_t n_prompts);

bool workload_has_hash_ids(const struct workload *w); /* of some request */
bool workload_has_sessions(const struct workload *w);

struct workload_meta {
    const char *workload_id, *model, *tokenizer_ref; /* NULL = null */
    uint64_t seed;
    struct hydra hydra;
    const struct node *params; /* map or NULL: the composed configuration */
    bool hash_ids;             /* workload_write wrote hash_ids.jsonl: a request has them */
    bool sessions;             /* and sessions.csv */
    const struct concurrency *concurrency; /* NULL = open loop */
};

/* The tree for artifact_commit; the meta file's name is WORKLOAD_META. */
#define WORKLOAD_META "workload_meta.json"
enum { WORKLOAD_SCHEMA_RELEASE = 2 }; /* schema_version of one with sessions or a concurrency */
struct node *workload_meta_node(struct arena *a, const struct workload_meta *m);

/* Reads and checks a whole workload directory except the prompts' texts: both tables hold the same
 * requests, arrivals are the sums of the gaps, the turns of a session stand one after the other. */
enum st workload_load(struct arena *a, const char *dir, struct workload *out, struct err *e);
/* Vidur's trace.csv (*.jsonl: workload_load_mooncake); request ids are row numbers from 0; rows
 * stand in order of arrival. Seconds are read correctly rounded. */
enum st workload_load_trace(struct arena *a, const char *csv, struct workload *out, struct err *e);

/* Mooncake's trace: a JSON object a line with timestamp (ms, with or without a fraction),
 * input_length, output_length and, if known, hash_ids: one id for each MOONCAKE_BLOCK tokens of the
 * prompt, equal ids standing for equal tokens up to the end of that piece. Request ids are numbered
 * from 0; lines stand in order of arrival; other members are ignored. The file may be gzip. */
enum { MOONCAKE_BLOCK = 512 };
enum st workload_load_mooncake(struct arena *a, const char *path, struct workload *out,
                               struct err *e);
bool workload_is_mooncake(const char *path); /* by its name: *.jsonl */

/* texts[i] = text of request i's prompt among the n, NULL for a request without a prompt_id. One
 * that is not among them is ST_INPUT. */
enum st workload_texts(struct arena *a, const struct workload *w, const struct prompt *prompts,
                       size_t n, const char ***texts, struct err *e);

/* ---- token ids --------------------------------------------------------------------------- */

/* Tokens of each prompt, special tokens of the tokenizer's post-processor included. */
enum st workload_count_tokens(struct arena *a, const struct tokenizer *t, const struct prompt *p,
                              size_t n, int64_t **counts, struct err *e);

/* Token ids of a request's prompt for a real engine, out[num_prefill_tokens]: the text's ids cut or
 * repeated to that length, or random ids below vocab when text is NULL: stream
 * "workload.hash_ids.<id>" of the seed for the piece under each of the request's hash_ids, else
 * "workload.prompt_ids.<request_id>". An id that is not below vocab is ST_INPUT: the tokenizer is
 * not the model's. scratch may be reset afterwards. */
enum st workload_prompt_ids(struct arena *scratch, const struct workload_request *r,
                            const char *text, const struct tokenizer *tok, int64_t vocab,
                            uint64_t seed, int32_t *out, struct err *e);

#endif
