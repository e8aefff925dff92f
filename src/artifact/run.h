/* The files of a run (runs/real/<id>, runs/sim/<id>), written as a stream and read whole. Their
 * columns are tables (artifact/columns.h), from which docs/formats.md is made. */
#ifndef ARTIFACT_RUN_H
#define ARTIFACT_RUN_H

#include "artifact/artifact.h"

enum run_status { RUN_OK, RUN_ERROR, RUN_TIMEOUT, RUN_REJECTED, RUN_CANCELLED };
enum { RUN_STATUSES = RUN_CANCELLED + 1 };
const char *run_status_name(enum run_status s);
bool run_status_parse(struct sv text, enum run_status *out);

enum { RUN_NONE = -1 }; /* "missing" in the integer fields below: written as an empty cell */

/* One row of request_metrics.csv. Times are int64 ns from the start of the run. */
struct run_request {
    int64_t request_id;
    const char *prompt_id;  /* NULL = missing */
    int64_t arrival_ns;     /* planned moment */
    int64_t sent_ns;        /* actual send; RUN_NONE when there was none */
    int64_t scheduled_ns;   /* first time in a batch; RUN_NONE */
    int64_t first_token_ns; /* RUN_NONE when no token came */
    int64_t completion_ns;  /* RUN_NONE */
    int64_t num_prefill_tokens, num_decode_tokens, num_decode_tokens_actual;
    int64_t preemptions;
    enum run_status status;
    bool warmup;                                  /* excluded from metrics; column "warmup" 0/1 */
    const char *backend, *error_type, *error_msg; /* NULL = missing */
    double energy_j;                              /* share of its batches' energy; 0 = unknown */
    int64_t session_id, turn; /* of a session, turns from 1; RUN_NONE, and turn also 0: of none */

    /* The fields below are no columns of request_metrics.csv but inputs of Vidur's request metrics
     * (artifact/vidur_metrics.h). Filled by the serving core; 0 in runs that were read. */
    int64_t arrival_before_ns;   /* of the request before it; RUN_NONE for the first */
    int64_t first_start_ns;      /* its first batch started; RUN_NONE */
    int64_t last_prefill_tokens; /* prompt, and output so far, at the last (re)start */
    double busy_s;               /* sum over the batches it was in */
    double device_s;             /* their time on the device */
};

struct run_token {
    int64_t request_id;
    int64_t token_index; /* 0 = the first output token */
    int64_t token_time_ns, token_latency_ns;
    int64_t token_id; /* RUN_NONE when unknown */
};

struct run_batch {
    int64_t iteration;
    int32_t replica, stage;
    int64_t start_ns, duration_ns, host_ns, device_ns;
    int64_t num_prefill_tokens, num_decode_tokens, batch_size, kv_blocks;
};

/* ---- writing ----------------------------------------------------------------------------- */

struct run_writer;
/* with_tokens / with_batches false leaves that file out. Rows of request_metrics.csv may come in
 * any order and stand sorted by request_id in the file: a row waits in memory only until all ids
 * from 0 to its own have come, so a run numbered from 0 holds as many rows as finish out of order.
 * The other two files are streamed in the order given. */
/* Further files and columns: energy_j; session_id and turn. */
enum {
    RUN_WITH_TOKENS = 1 << 0,
    RUN_WITH_BATCHES = 1 << 1,
    RUN_WITH_ENERGY = 1 << 2,
    RUN_WITH_SESSIONS = 1 << 3,
};
enum st run_writer_open_with(const struct artifact *art, unsigned with, struct run_writer **out,
                             struct err *e);
enum st run_writer_open(const struct artifact *art, bool with_tokens, bool with_batches,
                        struct run_writer **w, struct err *e);
void run_write_request(struct run_writer *w, const struct run_request *r); /* strings are copied */
void run_write_token(struct run_writer *w, const struct run_token *t);
void run_write_batch(struct run_writer *w, const struct run_batch *b);
/* Reports the first error since it was opened: a full disk, a request_id given twice (ST_INPUT). *w
 * is cleared either way; NULL is fine. */
enum st run_writer_close(struct run_writer **w, struct err *e);
void run_writer_discard(struct run_writer **w); /* after another error; quiet */

/* ---- reading ----------------------------------------------------------------------------- */

struct run {
    const char *dir;
    const struct node *meta;
    struct run_request *requests; /* [n_requests] by request_id; ids are unique */
    size_t n_requests;
    struct run_token *tokens; /* [n_tokens] by (request_id, token_index); NULL when no file */
    size_t n_tokens;
    size_t *first_token;       /* [n_requests + 1]: request i has tokens first_token[i] up to, not
                                * including, first_token[i + 1]; NULL when no file */
    struct run_batch *batches; /* [n_batches] in file order; NULL when no file */
    size_t n_batches;
    /* Derived cells (ttft_ns, ttft_sent_ns, token_latency_ns, and the first token's time in both
     * files) that differ by more than 1 us from the times they derive from. The times take
     * precedence; our own runs have none. */
    size_t n_contradictions;
};

/* type "real", "vidur" or NULL for either.
 *
 * Beyond the columns it is checked that ids are unique, counts and times are not negative, first
 * token and completion are not before the arrival or out of order, every request's tokens have
 * indices 0..n-1 and times that never go back, and every token belongs to a request. Errors name
 * file, line and column. A file without completion_time_ns (foreign) takes each request's last
 * token as its completion, or leaves fields that need it missing where there are no tokens. In a
 * folder of schema "v1" (artifact_is_foreign_v1) a missing number may be spelled null, None or NaN
 * as well. */
enum st run_load(struct arena *a, const char *dir, const char *type, struct run *out,
                 struct err *e);
const struct run_request *run_find(const struct run *r, int64_t request_id); /* NULL = none */

#endif
