#include <string.h>

#include "model/weights.h"

static const struct {
    const char *name;
    size_t bytes;
} table[DTYPES] = {
    [DTYPE_F64] = {"F64", 8},   [DTYPE_F32] = {"F32", 4}, [DTYPE_F16] = {"F16", 2},
    [DTYPE_BF16] = {"BF16", 2}, [DTYPE_I64] = {"I64", 8}, [DTYPE_I32] = {"I32", 4},
    [DTYPE_I16] = {"I16", 2},   [DTYPE_I8] = {"I8", 1},   [DTYPE_U8] = {"U8", 1},
    [DTYPE_BOOL] = {"BOOL", 1},
};

size_t dtype_bytes(enum dtype t)
{
    ASSERT(t >= 0 && t < DTYPES);
    return table[t].bytes;
}

const char *dtype_name(enum dtype t)
{
    ASSERT(t >= 0 && t < DTYPES);
    return table[t].name;
}

bool dtype_from_name(struct sv name, enum dtype *out)
{
    for (int t = 0; t < DTYPES; t++) {
        if (sv_eq(name, table[t].name)) {
            *out = (enum dtype)t;
            return true;
        }
    }
    return false;
}

int64_t tensor_elements(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

const char *tensor_shape(struct arena *a, const struct tensor *t)
{
    const char *text = "[";
    for (int i = 0; i < t->n_dims; i++)
        text = arena_printf(a, "%s%s%lld", text, i ? ", " : "", (long long)t->dims[i]);
    return arena_printf(a, "%s]", text);
}

static float f32_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. A subnormal is fraction * 2^-24.
 */
static float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 0x1f, fraction = h & 0x3ff;
    if (exponent == 0x1f)
        return f32_from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) {
        float f = (float)fraction * 0x1p-24f;
        return sign ? -f : f;
    }
    return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Tensors start at any byte of a file: values are copied out, since they may be unaligned. */
#define CONVERT(type, expression)                       \
    for (size_t i = 0; i < n; i++) {                    \
        type x;                                         \
        memcpy(&x, p + i * sizeof(type), sizeof(type)); \
        out[i] = (expression);                          \
    }                                                   \
    return

void tensor_to_f32(const struct tensor *t, size_t first, size_t n, float *out)
{
    const char *p = (const char *)t->data + first * dtype_bytes(t->dtype);
    ASSERT(n <= (size_t)tensor_elements(t) && first <= (size_t)tensor_elements(t) - n);
    if (n == 0)
        return;
    switch (t->dtype) {
    case DTYPE_F64:
        CONVERT(double, (float)x);
    case DTYPE_F32:
        memcpy(out, p, n * sizeof *out);
        return;
    case DTYPE_F16:
        CONVERT(uint16_t, f16_to_f32(x));
    case DTYPE_BF16:
        CONVERT(uint16_t, f32_from_bits((uint32_t)x << 16));
    case DTYPE_I64:
        CONVERT(int64_t, (float)x);
    case DTYPE_I32:
        CONVERT(int32_t, (float)x);
    case DTYPE_I16:
        CONVERT(int16_t, (float)x);
    case DTYPE_I8:
        CONVERT(int8_t, (float)x);
    case DTYPE_U8:
    case DTYPE_BOOL:
        CONVERT(uint8_t, (float)x);
    case DTYPES:
        break;
    }
    err_bug("dtype", __FILE__, __LINE__);
}
