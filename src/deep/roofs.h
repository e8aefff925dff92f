/* What the GPU can do at most, for rooflines: from roofs.json of `doctor doctor.measure=true`, else
 * the rates of a hardware group, else what Nsight Compute says of its counters' peaks. Private to
 * deep/. */
#ifndef DEEP_ROOFS_H
#define DEEP_ROOFS_H

#include "deep/ncu_csv.h"
#include "profile/read/hardware.h"
#include "text/node.h"

/* Arithmetic, by the unit that does it. */
#define DEEP_UNITS(X)             \
    X(FP64, "fp64")               \
    X(FP32, "fp32")               \
    X(FP16, "fp16")               \
    X(TENSOR_FP64, "tensor_fp64") \
    X(TENSOR_TF32, "tensor_tf32") \
    X(TENSOR_BF16, "tensor_bf16") \
    X(TENSOR_FP16, "tensor_fp16") \
    X(TENSOR_FP8, "tensor_fp8")   \
    X(TENSOR_FP4, "tensor_fp4")   \
    X(TENSOR_INT8, "tensor_int8")

enum deep_unit {
#define X(id, name) UNIT_##id,
    DEEP_UNITS(X)
#undef X
        UNITS
};
const char *deep_unit_name(unsigned unit); /* "tensor_bf16" */

struct deep_roofs {
    double flop_per_s[UNITS];    /* NAN = not known */
    double dram_per_s, l2_per_s; /* bytes; NAN = not known */
    const char *source;          /* "measured: data/h200/roofs.json (NVIDIA H200)" */
    const char *l2_source;       /* where it is another; NULL = none */
    const char *gpu;             /* that was measured; NULL = not known */
    bool measured;
};

/* file: a roofs.json; NULL = none. What it lacks is taken from nowhere else, except the bandwidth
 * of the L2, which older files lack and ncu's table (NULL = none) may have. ST_INPUT: the file
 * cannot be read or has no GPU's roofs. */
enum st deep_roofs_make(struct arena *a, const char *file, const struct hardware *hw,
                        const struct ncu_table *ncu, struct deep_roofs *out, struct err *e);
bool deep_roofs_known(const struct deep_roofs *r); /* memory and one unit at least */

#endif
