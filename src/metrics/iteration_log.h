/* The log of iterations that a vLLM server writes with --enable-logging-iteration-details.
 *
 *     iteration_log_beside   the log in a run directory, if it has one
 *     iteration_log_read     its iterations, in the order of the file
 *
 * An iteration is a line of the server's log, with whatever the logger put before it:
 *
 *     (EngineCore_DP0 pid=7) INFO 11-27 10:11:12 [core.py:345] Iteration(626): 1 context requests,
 * \ 4 context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 0.03 ms
 *
 * as vLLM 0.24 has it. 0.33 puts "Engine 000: " before it, " (dummy)" after the time where other
 * engines alone had work, and then ", GPU KV cache usage: 1.5%" and what an encoder took. Lines of
 * other kinds are skipped, those of throughput ("Avg prompt throughput: ...") too, which have no
 * compositions; server_log.h reads what such a log states of settings. The file may be gzip, by its
 * first bytes.
 *
 * What the numbers are (vllm/v1/utils.py, compute_iteration_details): a context request has no
 * output yet, so each chunk of its prompt counts as one; a generation request has output, and has
 * more tokens than one where it was preempted and is computed again, or where drafts are verified.
 *
 * elapsed_s is what the engine's loop waited for the iteration's result, and no more
 * (vllm/v1/engine/core.py, step and step_with_batch_queue). Scheduling and launching come before
 * it. Under asynchronous scheduling the next iteration, too, was launched before, so a wait is
 * short where the host is slow, and may be 0. metrics/iteration_times.h makes times of it.
 *
 * Faults are ST_INPUT at file:line:column: a line with "Iteration(" and a number that does not go
 * on as above; a file without iterations. An iteration whose index does not follow the one before
 * it of its engine begins another piece of log (`follows` is false): a server that was started
 * anew, or lines that are missing. */
#ifndef METRICS_ITERATION_LOG_H
#define METRICS_ITERATION_LOG_H

#include "base/arena.h"
#include "base/str.h"

struct logged_iteration {
    int64_t index;  /* as logged */
    int32_t engine; /* of several, by data parallelism */
    int64_t context_requests, context_tokens;
    int64_t generation_requests, generation_tokens;
    double elapsed_s;
    double kv_usage; /* fraction of the KV cache; NAN = not logged */
    int64_t encoder_inputs, encoder_tokens;
    long line;
    bool dummy;   /* without work of its own */
    bool follows; /* the one before it of its engine, without a gap */
};

struct iteration_log {
    const char *path;
    struct logged_iteration *of; /* [n] */
    size_t n;
    int32_t engines; /* how many different ones */
};

/* Text and iterations live in a. */
enum st iteration_log_read(struct arena *a, const char *path, struct iteration_log *out,
                           struct err *e);
/* The same of a text; path is what faults call it. */
enum st iteration_log_parse(struct arena *a, const char *path, struct sv text,
                            struct iteration_log *out, struct err *e);

/* "DIR/iterations.log" or "DIR/iterations.log.gz"; NULL = neither is there. */
const char *iteration_log_beside(struct arena *a, const char *dir);

#endif
