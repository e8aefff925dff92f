/* Operator times of the CUDA engine, for profiles: where the time of a pass goes, in the CUDA graph
 * or the launches that serve.
 *
 * A pass with op_split is recorded (gpu/records.h) and its kernels charged to operators
 * (engine/cuda/charges.h). Later passes of the same batch are undisturbed: device_s is by events
 * alone, without records. Their kernels are taken to be as long as the recorded ones, for what
 * CUPTI does besides lies between kernels; what is left of device_s, so the copies of the batch's
 * arrays and of its tokens too, is OP_GAP's. Where the recorded kernels are longer than the whole
 * undisturbed pass, they are scaled down to it and the gap is 0.
 *
 * Meanwhile clocks, power and what limits them are watched (gpu/watch.h). */
#ifndef ENGINE_CUDA_OP_TIMES_H
#define ENGINE_CUDA_OP_TIMES_H

#include "engine/cuda/charges.h"
#include "gpu/watch.h"
#include "serve/executor.h"
#include "text/node.h"

/* What makes two batches' passes alike. */
struct cuda_pass_shape {
    int64_t chunks, prefill_tokens, prefill_kv, decodes, decode_kv;
};

struct cuda_op_times {
    struct gpu_records *records; /* NULL: not profiled */
    struct gpu_watch *watch;
    struct cuda_charges direct;   /* of the pass that is launched kernel by kernel */
    struct cuda_pass_shape shape; /* of the pass that was recorded last */
    bool known;                   /* there is one */
    double kernel_s[OP_ROWS];     /* of that pass, from its records; OP_GAP: between kernels */
    double recorded_s;            /* between its events */
    VEC(double) slowdown;         /* recorded / undisturbed, of passes that were both */
    VEC(double) sm_mhz, power_w, celsius; /* a value for each stretch that was watched */
    double power_w_high, sm_mhz_low;
    unsigned long long reasons; /* of all of them, and of those that were rejected */
    int64_t stretches, rejected;
};

/* Close in any case. */
enum st cuda_op_times_open(struct cuda_op_times *t, const struct gpu *g, struct err *e);
void cuda_op_times_close(struct cuda_op_times *t); /* zeroed is fine */

/* Around the launch of a pass that is recorded, alone on the device. */
enum st cuda_op_times_begin(struct cuda_op_times *t, struct err *e);
/* charges: of the pass. */
enum st cuda_op_times_end(struct cuda_op_times *t, const struct batch *b,
                          const struct cuda_charges *charges, struct err *e);

/* The pass took device_s. split: it is the one recorded last. False: not known how it divides. */
bool cuda_op_times_of(struct cuda_op_times *t, const struct cuda_pass_shape *shape, bool split,
                      double device_s, double op_s[OP_ROWS]);
struct cuda_pass_shape cuda_pass_shape_of(const struct batch *b);

/* executor_ops.undisturbed */
bool cuda_op_times_undisturbed(struct cuda_op_times *t);
/* {clocks and power, records}: parts of executor_ops.facts */
void cuda_op_times_facts(struct cuda_op_times *t, struct arena *a, struct node *facts);

#endif
