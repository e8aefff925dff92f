/* What positions do to attention: the rotation's angles, or ALiBi's slopes. Every engine takes them
 * from here, so that they agree bit by bit. */
#ifndef ENGINE_POSITIONS_H
#define ENGINE_POSITIONS_H

#include "model/model.h"

/* Cosine and sine of the angle of pair i at positions 0 .. n - 1: [n, head_dim / 2] each. Angle of
 * pair i at position p: p * theta^(-2 i / head_dim). Frequencies and products are rounded to
 * float32 as in Hugging Face's code, whose models were trained that way. */
void positions_rotation(const struct model *m, int64_t n, float *cosine, float *sine);

/* [heads]. Press et al. 2022: with n the largest power of two <= heads, 2^(-8 (i + 1) / n) for the
 * first n heads, every second slope of 2 n heads for the others. */
void positions_slopes(const struct model *m, float *slopes);

#endif
