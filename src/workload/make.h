/* Generators and readers of workloads, one request at a time. Private to workload/. */
#ifndef WORKLOAD_MAKE_H
#define WORKLOAD_MAKE_H

#include "base/rng.h"
#include "text/csv.h"
#include "workload/workload.h"

/* ---- traces ------------------------------------------------------------------------------- */

/* A row; fields that were not requested are 0. */
struct trace_row {
    int64_t arrival_ns;
    double arrival_s; /* as written in arrived_at, or arrival_time_ns / 1e9 */
    int64_t prefill, decode;
};

/* A CSV of arrivals (arrived_at in s or, without it, arrival_time_ns; they never go back), of
 * lengths, or of both. */
struct trace_reader {
    struct csv_reader *csv;
    int arrived_at, arrival_ns, prefill, decode; /* columns; -1 = not requested */
    double last_s;                               /* of the previous row; negative = none */
};
enum st workload_trace_open(const char *path, bool arrivals, bool lengths, struct trace_reader *out,
                            struct err *e);
enum st workload_trace_next(struct trace_reader *r, struct trace_row *out,
                            struct err *e); /* or ST_END */
void workload_trace_close(struct trace_reader *r);

/* workload_load_mooncake for an import: the first max_requests lines (0 = all) in any order; those
 * without a prompt or an output token are left out and counted. Lines with a session_id are the
 * turns of a session: a later one comes `delay` after the end of the one before, and has the length
 * of what is new in it, unless its hash_ids hold those of the turn before. Times of which no
 * service's could be are ST_INPUT unless the unit is stated. */
struct mooncake_params {
    int64_t block_tokens, unit_ns;
    bool stated; /* the unit */
};

/* Reads and checks the whole file: *n >= 1 rows. */
enum st workload_trace_count(const char *path, bool arrivals, bool lengths, int64_t *n,
                             struct err *e);

/* ---- made requests ------------------------------------------------------------------------ */

struct arrivals {
    const struct workload_params *p;
    struct rng rng;
    int64_t i, now_ns;
    double unit; /* stages: the arrival at rate 1 */
    struct stages_at at;
    struct trace_reader trace;
};
/* p is borrowed. arrivals_end: frees a trace's reader; a zeroed struct is fine. */
enum st arrivals_begin(const struct workload_params *p, struct arrivals *out, struct err *e);
enum st arrivals_next(struct arrivals *g, struct workload_request *r, struct err *e);
void arrivals_end(struct arrivals *g);

/* Zipf ranks after Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD
 * 1994. */
struct zipf {
    double items, theta, zeta, alpha, eta;
};

struct lengths {
    const struct workload_params *p;
    struct rng rng;
    struct zipf zipf;
    int64_t i;
    const int64_t *prompt_tokens; /* [p->n_prompts], or of as many as there are requests */
    struct trace_reader trace;
};
/* n = number of requests; token counts of prompts live in the arena. */
enum st lengths_begin(struct arena *a, const struct workload_params *p, int64_t n,
                      struct lengths *out, struct err *e);
enum st lengths_next(struct lengths *g, struct workload_request *r, struct err *e);
void lengths_end(struct lengths *g);

/* Puts the prefix of a group, drawn from rng, before r's prompt; nothing without prefixes. The ids
 * go to the arena. */
enum st shared_prefix_add(struct arena *a, const struct workload_params *p, struct rng *rng,
                          struct workload_request *r, struct err *e);

/* Turns of sessions. A zeroed one is of no use; begin never fails without sessions. */
struct sessions {
    const struct workload_params *p;
    struct rng rng, think, prefix; /* of turns, think times, groups */
    int64_t n;                     /* sessions made */
};
#define THINK_MOST_NS INT64_C(100000000000000000) /* three years */
bool sessions_wanted(const struct workload_params *p);
enum st sessions_begin(const struct workload_params *p, struct sessions *out, struct err *e);
int64_t sessions_turns(struct sessions *g); /* draws the number of the next session's turns */
/* Makes a session of n turns: turns[0] has request_id and arrival, each turn the lengths of what is
 * new in it. Ids of pieces go to the arena. */
enum st sessions_make(struct arena *a, struct sessions *g, struct workload_request *turns,
                      int64_t n, struct err *e);

/* ---- workload directories ----------------------------------------------------------------- */

struct workload_paths {
    const char *dir, *id, *model; /* id, model: NULL = not recorded */
    char *prompts, *lengths, *intervals;
    char *hash_ids, *sessions; /* NULL = none */
    const struct concurrency *concurrency;
};
enum st workload_find(struct arena *a, const char *dir, struct workload_paths *out, struct err *e);

/* Reads both tables in step: rows of the same requests in the same order, ids ascending, as written
 * by this program. */
struct tables {
    struct csv_reader *lengths, *intervals;
    int id, prompt, prefill, decode; /* of lengths; prompt -1 = no such column */
    int interval_id, gap, arrival;   /* of intervals */
    int64_t last_id, now_ns;
};
enum st tables_open(const struct workload_paths *p, struct tables *out, struct err *e);
/* *prompt is empty for none, and lives until the next call. ST_END after the last row of both. */
enum st tables_next(struct tables *t, struct workload_request *out, struct sv *prompt,
                    struct err *e);
void tables_close(struct tables *t);

/* ---- what prompts hold, beside the tables -------------------------------------------------- */

/* Writes a line for each request with hash_ids. */
/* Number of ids of a prompt: its tokens in pieces of hash_tokens. */
int64_t hash_ids_pieces(const struct workload_request *q, int64_t hash_tokens);
enum st hash_ids_write(const struct artifact *art, const struct workload *w, struct err *e);
/* Reads them into the requests of w. */
enum st hash_ids_load(struct arena *a, const char *path, struct workload *w, struct err *e);

/* Where the next turn's prompt holds a prompt and its answer and says so, hash_ids go on beyond the
 * prompt: hash_covers. */
void sessions_join(struct workload *w);

/* sessions.csv: the session of each request that has one. */
enum st sessions_write(const struct artifact *art, const struct workload *w, struct err *e);
enum st sessions_load(const char *path, struct workload *w, struct err *e);

#endif
