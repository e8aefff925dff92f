#include "model/precision.h"

#include "base/err.h"

static const struct {
    const char *name;
    double bytes;
} table[PRECISIONS] = {
    [PRECISION_BF16] = {"bf16", 2}, [PRECISION_FP16] = {"fp16", 2},
    [PRECISION_FP32] = {"fp32", 4}, [PRECISION_TF32] = {"tf32", 4},
    [PRECISION_FP8] = {"fp8", 1},   [PRECISION_FP4] = {"fp4", 0.5},
    [PRECISION_INT8] = {"int8", 1}, [PRECISION_INT4] = {"int4", 0.5},
};

const char *precision_name(enum precision p)
{
    ASSERT((int)p >= 0 && p < PRECISIONS);
    return table[p].name;
}

bool precision_from_name(struct sv name, enum precision *out)
{
    for (int p = 0; p < PRECISIONS; p++) {
        if (sv_eq(name, table[p].name)) {
            *out = (enum precision)p;
            return true;
        }
    }
    return false;
}

bool precision_is_half(enum precision p)
{
    return p == PRECISION_BF16 || p == PRECISION_FP16;
}

double precision_bytes(enum precision p)
{
    ASSERT((int)p >= 0 && p < PRECISIONS);
    return table[p].bytes;
}
