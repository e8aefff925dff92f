/* Engines: executors that compute, or stand in for one that does. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "model/model.h"
#include "serve/clock.h"
#include "serve/serve.h"

struct engine_job; /* engine/registry.h */

struct cpu_engine_params {
    const struct model *model;
    const char *weights_dir; /* folder with safetensors; NULL = random from weights_seed */
    uint64_t weights_seed;
    int threads; /* 0 = all cores this process may use */
    int64_t block_size, num_blocks;
    int64_t busy_blocks; /* blocks, from 0 on, whose memory is touched at open instead of at first
                            use; 0 = all */
    bool ready_later;    /* a background thread touches the others while the engine is idle */
    int64_t max_batch_tokens; /* most tokens a batch may hold */
    int64_t max_rows;         /* most sequences that emit a token in a batch */
    int64_t sample_vocab;     /* ids from here on are never sampled; 0 = the model's vocabulary */
    bool ignore_eos;
    bool spin; /* threads busy-wait for the next batch */
    const struct serve_clock *clock;
};

/* float32; loads or makes the weights, allocates the paged KV cache. ST_INPUT for bad weights, by
 * tensor name; ST_USAGE when weights, KV cache and buffers do not fit into the free memory.
 * p->model and p->clock are borrowed until close.
 *
 * max_in_flight is 1 and next() computes on the calling thread, so it may return after deadline_s;
 * such a batch is delivered by the next call. A token's logits are bitwise independent of the rest
 * of its batch, of chunking and of the number of threads. Sampling is greedy, the first of equal
 * logits wins, unless the request has sampling parameters (engine/sampler.h). */
enum st cpu_engine_open(const struct cpu_engine_params *p, struct executor *out, struct err *e);
enum st cpu_engine_start(const struct engine_job *job, struct executor *out, struct err *e);

/* Logits of the rows of the last completed batch, [n_rows, vocab], in the order: chunks with last
 * == true in batch order, then decode rows in order of slot. For tests. */
const float *cpu_engine_logits(const struct executor *ex, int64_t *n_rows);
/* Of the first n of them, as engine/registry.h has it. */
enum st cpu_engine_read_logits(const struct executor *ex, int64_t n, float *out, struct err *e);

/* Memory bandwidth, bytes/s: best of `rounds` reads of `bytes` of memory by `threads` threads (0 =
 * all cores); 0 when the memory cannot be had. */
double cpu_stream_bandwidth(int threads, size_t bytes, int rounds);

/* Seconds of each of n passes, after one that does not count. threads 0 = all cores. Reading
 * `bytes` of memory; a float32 product [rows, size] x [size, size]. ST_USAGE: the memory cannot be
 * had. */
enum st cpu_measure_read(int threads, size_t bytes, int n, double *pass_s, struct err *e);
enum st cpu_measure_gemm(int threads, int64_t rows, int64_t size, int n, double *pass_s,
                         struct err *e);

/* An executor that computes nothing: every batch ends batch_s seconds after it was submitted and
 * every row emits one token (tokens NULL, as in predictions). Measures the floor of the loop's own
 * cost. Follows the clock: EXEC_VIRTUAL on a virtual one, waits on a real one. The clock is
 * borrowed until close. */
struct executor null_executor(double batch_s, const struct serve_clock *clock);
enum st null_engine_start(const struct engine_job *job, struct executor *out, struct err *e);

struct predictor;
/* The simulator (sim/sim.h) in real time, for a server: each batch's completion is held back until
 * its predicted end, and every emitting row has a token id: those of its prompt, repeated.
 * Completions look like a computing executor's. Predicted ends count, not the moments the thread
 * woke: a late batch does not delay the next. *late_s (may be NULL) keeps the largest lateness,
 * which shows a machine that cannot keep up. slots is the scheduler's batch_cap. Lives in the
 * arena; close() is still required. */
struct executor paced_executor(struct arena *a, const struct predictor *p, int32_t slots,
                               enum serve_async async, const struct serve_clock *clock,
                               double *late_s);
enum st paced_engine_start(const struct engine_job *job, struct executor *out, struct err *e);

#endif
