/* Which operator each kernel of a pass is charged to, and how the time of a recorded pass divides
 * over operators.
 *
 * The list is made by the forward pass itself, a line a launch, in order. Records of the pass
 * (gpu/records.h) must be those kernels in that order: one of ours by its name, a matrix product of
 * cuBLASLt as one kernel or several with other names.
 *
 * Kernels overlap: each may start before the one ahead of it has ended, and waits then. So a kernel
 * is charged from the end of those before it, or its start if that is later, to its end; the time
 * in which none runs is OP_GAP's. Where a kernel carries several operators one of them has all of
 * its time (rule_charged). */
#ifndef ENGINE_CUDA_CHARGES_H
#define ENGINE_CUDA_CHARGES_H

#include "base/vec.h"
#include "gpu/records.h"
#include "model/model.h"

struct cuda_charge {
    int32_t row;        /* of the operator (model.h) */
    const char *kernel; /* name of its entry; NULL = of cuBLASLt */
};
struct cuda_charges {
    VEC(struct cuda_charge) of;
};

/* op_s: [OP_ROWS] seconds; their sum is the time from the first kernel's start to the last one's
 * end. ST_DEVICE: the records are not those of the list. */
enum st cuda_charges_divide(const struct cuda_charges *c, const struct gpu_record *r, size_t n,
                            double op_s[OP_ROWS], struct err *e);

#endif
