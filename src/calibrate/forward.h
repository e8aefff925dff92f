/* Device times of exact batches: what `vllm bench forward --output-json` writes (vLLM 0.33).
 *
 *     forward_read    its cases as loads of batches
 *     forward_prior   what they say of the device's parameters, as a prior for a fit
 *
 * The file is a list of {case, requests, median_us, ranks}: requests of {query_len, kv_len (with
 * the query), num_draft_tokens, chunked}, after lengths were drawn; ranks of {num_tokens, routing,
 * timing_scope, finite, latency_us{median, sample_spread_pct}}, one a GPU
 * (vllm/benchmarks/forward/main.py and capture.py). A request with a prefix and a query of one
 * token decodes, any other is a chunk of a prompt.
 *
 * What is timed: the model's forward alone, as one CUDA graph, the slowest GPU. Not in it are the
 * LM head, sampling and the host. So a case is a batch of no rows, and only parameters of the
 * device are told, not the host's, nor requests' overheads. vLLM measures without torch.compile,
 * and by default with random weights and evenly routed experts: kernels are like those of a server,
 * not the same. So what cases say is let off as what a calibration of another server says
 * (calibrate_pool), and records of the server itself go before it.
 *
 * The fit: least squares of ln(predicted / measured), each case with the standard deviation
 * max(1.48 MAD of the residuals, what a model of this kind leaves over of TPOT) beside the spread
 * of its samples, Huber's weights beyond 3, and the prior.
 *
 * Refused, ST_INPUT: files of another shape, at file:line:column; drafts and drafters; a prefix
 * that was replayed (num_tokens differs); results that are not finite; other numbers of GPUs in one
 * file. ST_USAGE: cases of another number of GPUs than parallel.tp, pipeline stages, groups of
 * experts. */
#ifndef CALIBRATE_FORWARD_H
#define CALIBRATE_FORWARD_H

#include "calibrate/calibrate.h"

struct forward_case {
    const char *name;
    struct op_load load; /* rows 0: no LM head */
    int64_t chunks;
    double device_s;
    double spread; /* of its samples' medians, over the median */
};

struct forward_bench {
    const char *path;
    struct forward_case *of; /* [n], n > 0 */
    size_t n;
    int64_t gpus;
};

/* spans: of the model that was measured; NULL = none. */
enum st forward_read(struct arena *a, const char *path, const struct key_spans *spans,
                     struct forward_bench *out, struct err *e);

/* The same of a text; path is what faults call it. */
enum st forward_parse(struct arena *a, const char *path, struct sv text,
                      const struct key_spans *spans, struct forward_bench *out, struct err *e);

/* shape: as of an engine of which nothing is known how it launches (LAUNCHING_UNTOLD). between: as
 * of calibrate_pool. *note: what was fitted and what is left over, for people. */
enum st forward_prior(struct arena *a, const struct iteration_shape *shape,
                      const struct forward_bench *b, double between,
                      const struct theta_prior *prior, struct theta_prior *out, const char **note,
                      struct err *e);

#endif
