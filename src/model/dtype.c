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

/* ---- to the types of engines --------------------------------------------------------------- */

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* The upper half, rounded to nearest even; NaN stays NaN. */
static uint16_t f32_to_bf16(float f)
{
    const uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Rounded to nearest even; from 65,520 on infinite; NaN stays NaN. */
static uint16_t f32_to_f16(float f)
{
    const uint32_t bits = bits_of(f), magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65,520 */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* 2^-14: subnormal, a multiple of 2^-24; the sum rounds */
        const float shifted = f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112 << 10)));
}

void tensor_convert(const struct tensor *t, size_t first, size_t n, enum dtype to, void *out)
{
    enum { PIECE = 4096 };
    float piece[PIECE];
    ASSERT(to == DTYPE_F32 || to == DTYPE_F16 || to == DTYPE_BF16);
    if (t->dtype == to) {
        const size_t bytes = dtype_bytes(to);
        ASSERT(n <= (size_t)tensor_elements(t) && first <= (size_t)tensor_elements(t) - n);
        if (n > 0)
            memcpy(out, (const char *)t->data + first * bytes, n * bytes);
        return;
    }
    if (to == DTYPE_F32) {
        tensor_to_f32(t, first, n, out);
        return;
    }
    uint16_t *half = out;
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t some = n - at < PIECE ? n - at : PIECE;
        tensor_to_f32(t, first + at, some, piece);
        for (size_t i = 0; i < some; i++)
            half[at + i] = to == DTYPE_BF16 ? f32_to_bf16(piece[i]) : f32_to_f16(piece[i]);
    }
}
