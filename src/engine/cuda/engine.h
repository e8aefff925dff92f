/* The CUDA engine: the transformer on one GPU, with a paged KV cache, continuous batching and two
 * batches in flight.
 *
 * A batch is one copy of its arrays (engine/cuda/step.h), the kernels of a forward pass (a CUDA
 * graph when it holds decode rows alone, engine/cuda/graphs.h), and one copy of the sampled tokens
 * back, on one stream. So a batch may be submitted while the one before computes: its decode rows
 * take their token on the GPU, and blocks that changed hands meanwhile are written in the order of
 * the batches. The host sees a token, and an end of sequence, when its copy has arrived.
 *
 * Each batch is an NVTX range (engine/cuda/batch_range.h).
 *
 * In completions device_s is the time between two events on the stream, around the three parts;
 * host_s is what submit() and the taking of tokens took, as far as the device did not cover it.
 *
 * The first error of the GPU ends the run: it names the batch, the operators and the kernel. A
 * fault inside a kernel is noticed when the batch should be done; its kernel is then found by
 * computing the batch again in a process of its own (engine/cuda/fault.h). engine.check=true waits
 * behind every kernel and uses no graphs: there the kernel is known at once, whatever the fault
 * depends on. */
#ifndef ENGINE_CUDA_ENGINE_H
#define ENGINE_CUDA_ENGINE_H

#include "engine/cuda/kernels.h"
#include "engine/registry.h"

struct cuda_engine_params {
    const struct model *model;
    const char *weights_dir; /* folder with safetensors; NULL = random from weights_seed */
    uint64_t weights_seed;
    int ordinal; /* of the GPU */
    enum cuda_dtype dtype;
    int64_t block_size, num_blocks;
    int64_t max_batch_tokens; /* most tokens a batch may hold */
    int64_t max_rows;         /* most sequences at once */
    int64_t sample_vocab;     /* ids from here on are never sampled; 0 = the model's vocabulary */
    bool ignore_eos, check;
    bool op_times; /* for profiles: EXEC_OP_TIMES and EXEC_OP_SPLIT (engine/cuda/op_times.h) */
    bool fused;    /* decode steps of a few rows in one kernel where model and GPU allow it */
    bool stamps;   /* of such steps: keep the times of the last one's phases */
    const struct serve_clock *clock;
    const char *rerun; /* path of a program whose main calls cuda_fault_main; NULL = faults of
                          kernels name the batch alone */
};

/* ST_USAGE: a shape the kernels do not take, more memory than the GPU has free. ST_INPUT: bad
 * weights. ST_DEVICE: no GPU, no NVRTC or cuBLASLt. p->model and p->clock are borrowed until close.
 *
 * max_in_flight is 2. In float32 tokens are those of the CPU engine but for ties; a token's logits
 * depend on the sizes of its batch by rounding, for these decide which kernels run. Sampling is
 * greedy, the first of equal logits, unless the request has sampling parameters. */
enum st cuda_engine_open(const struct cuda_engine_params *p, struct executor *out, struct err *e);

/* Of the row of the table (engine/registry.h). Without a GPU the plan is that of hosts, and opening
 * says what is missing. */
enum st cuda_engine_plan(const struct engine_settings *settings, const struct memory_facts *f,
                         struct engine_plan *out, struct err *e);
enum st cuda_engine_start(const struct engine_job *job, struct executor *out, struct err *e);

/* Of the row of the table. */
enum st cuda_engine_logits(const struct executor *ex, int64_t n, float *out, struct err *e);

/* For engine/cuda/fault.c: computes the batches one after the other, kernel by kernel, with zeros
 * for weights and cache. *failed: the first that cannot be computed, -1 = none, or the engine could
 * not be opened. */
struct cuda_fault_batch;
enum st cuda_engine_rerun(const struct cuda_engine_params *p,
                          const struct cuda_fault_batch *batches, int n, int *failed,
                          struct err *e);

/* For tests. */
struct cuda_engine_counts {
    int64_t graphs_captured, graphs_launched, passes; /* passes: launched kernel by kernel */
};
struct cuda_engine_counts cuda_engine_counts(const struct executor *ex);
/* Phases of the last step in one kernel, which closing the engine logs (debug); as
 * cuda_forward_phases. */
bool cuda_engine_phases(const struct executor *ex, double s[CUDA_STEP_PHASES]);

#endif
