/* A part of a forward pass over and over, for sensors of power: the kernels of some operators, of
 * all layers, so that weights, keys and values come from where they come from in a pass; without
 * gaps of the host between repeats.
 *
 * They are captured into a graph of several passes, which takes LOOP_GRAPH_S or more; two such
 * graphs are in the queue at any time. How much of a pass is kernels and how much lies between them
 * says one pass that is recorded (gpu/records.h); how long a pass takes say events without records.
 *
 * Operators that work in place (a residual addition without the embedding before it) do so on what
 * the pass before left: values grow as far as the type's rounding lets them and no further. */
#ifndef ENGINE_CUDA_OP_LOOP_H
#define ENGINE_CUDA_OP_LOOP_H

#include "engine/cuda/forward.h"
#include "serve/executor.h"

/* The batch of the pass must stand in device memory, and have been run as a whole: kernels are
 * loaded then. What f->only and f->charges were is lost. ST_DEVICE. */
enum st cuda_op_loop_run(struct cuda_forward *f, struct gpu_records *records,
                         const struct cuda_pass *pass, CUstream stream, const struct op_loop *l,
                         struct op_loop_times *out, struct err *e);

#endif
