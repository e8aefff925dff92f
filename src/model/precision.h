/* Number formats: of weights, activations, keys and values, and of the units that multiply them. */
#ifndef MODEL_PRECISION_H
#define MODEL_PRECISION_H

#include "base/str.h"

/* BF16 is 0: models without a stated format hold 16-bit floats. */
enum precision {
    PRECISION_BF16,
    PRECISION_FP16,
    PRECISION_FP32,
    PRECISION_TF32, /* stored as FP32 */
    PRECISION_FP8,
    PRECISION_FP4,
    PRECISION_INT8,
    PRECISION_INT4, /* of weights alone: no unit multiplies in it */
    PRECISIONS,
};

const char *precision_name(enum precision p); /* "bf16" */
bool precision_from_name(struct sv name, enum precision *out);
double precision_bytes(enum precision p); /* of one stored element, without scales */
bool precision_is_half(enum precision p); /* bf16 or fp16: of equal size and speed */

#endif
