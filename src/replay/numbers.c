#include "replay/numbers.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

size_t numbers_bytes(enum verify_dtype t)
{
    static const size_t bytes[] = {1, 4, 2, 2, 8};
    return bytes[t];
}

static double number(const unsigned char *p, enum verify_dtype t)
{
    uint16_t half;
    uint32_t word;
    float f;
    double d;
    switch (t) {
    case VERIFY_F64:
        memcpy(&d, p, 8);
        return d;
    case VERIFY_F32:
        memcpy(&f, p, 4);
        return (double)f;
    case VERIFY_BF16:
        memcpy(&half, p, 2);
        word = (uint32_t)half << 16;
        memcpy(&f, &word, 4);
        return (double)f;
    case VERIFY_F16:
        memcpy(&half, p, 2);
        const int exponent = half >> 10 & 31, mantissa = half & 1023;
        d = exponent == 31  ? (mantissa ? NAN : INFINITY)
            : exponent == 0 ? ldexp(mantissa, -24)
                            : ldexp(mantissa + 1024, exponent - 25);
        return half & 0x8000 ? -d : d;
    case VERIFY_BYTES:
        break;
    }
    return *p;
}

double numbers_apart(const unsigned char *x, const unsigned char *y, enum verify_dtype t)
{
    const double a = number(x, t), b = number(y, t), large = fmax(fabs(a), fabs(b));
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isfinite(a) && isfinite(b) ? fabs(a - b) / large : INFINITY;
}
