/* What positions do to attention: the rotation's angles, or ALiBi's slopes. Every engine takes them
 * from here, so that they agree bit by bit. */
#ifndef ENGINE_POSITIONS_H
#define ENGINE_POSITIONS_H

#include "model/model.h"

/* Cosine and sine of the angle of pair i of `dims` dimensions at positions 0 .. n - 1: [n, dims /
 * 2] each. The angle at position p is p f(i); frequencies and products are rounded to float32 as in
 * Hugging Face's code, whose models were trained that way. With g(i) = theta^(-2 i / dims), f is
 *
 *   plain    g
 *   linear   g / factor
 *   llama3   by the wavelength w = 2 pi / g: g / factor where w > original / low, g where w <
 *            original / high, and in between (1 - s) g / factor + s g, s = (original / w - low) /
 *            (high - low)
 *   yarn     (1 - t) g / factor + t g, t = 1 - (i - a) / (b - a) within 0 .. 1, where pair a turns
 *            `high` times within the original positions and b turns `low` times (Peng et al. 2023);
 *            a is rounded down and b up where rope.whole is set
 *
 * and both are multiplied by rope.attention. */
void positions_rotation(const struct rope *rope, int64_t dims, int64_t n, float *cosine,
                        float *sine);

/* [heads]. Press et al. 2022: with n the largest power of two <= heads, 2^(-8 (i + 1) / n) for the
 * first n heads, every second slope of 2 n heads for the others. */
void positions_slopes(const struct model *m, float *slopes);

#endif
