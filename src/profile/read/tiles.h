/* Kernels compute in whole tiles: a GEMM of 129 rows takes the time of 192 where its tiles have 64,
 * and attention over 129 keys that of 256. Between two measured sizes a time therefore jumps at the
 * edge of a tile instead of growing evenly. A profile does not record tile sizes; the readers try a
 * few (powers of two) and take the one that predicts the measured points best from their
 * neighbours.
 *
 * Size 0 means no tiles: all functions are then the plain, even ones. */
#ifndef PROFILE_READ_TILES_H
#define PROFILE_READ_TILES_H

#include <math.h>

/* Tiles are searched only above this mean error of predicting points from their neighbours, and
 * accepted when they remove this part of the error. */
#define TILE_ERROR_FLOOR 1e-3
#define TILE_GAIN        0.1
/* Large ones are tried first: half their size predicts points as well where the grid is coarse, so
 * it has to be better by this part. */
#define TILE_BETTER 0.02

/* v rounded up to whole tiles. */
static inline double tile_end(double v, double size)
{
    return size > 0 ? ceil(v / size) * size : v;
}

/* Position of v between knots a <= v <= b, from 0 to 1: in tiles of its own; evenly where a and b
 * share one. */
static inline double tile_weight(double a, double b, double v, double size)
{
    double ka = size > 0 ? ceil(a / size) : 0, kb = size > 0 ? ceil(b / size) : 0;
    return ka == kb ? (v - a) / (b - a) : (ceil(v / size) - ka) / (kb - ka);
}

/* Query-key pairs that causal attention computes for a chunk of c tokens after kv: every tile of
 * queries meets whole tiles of the keys up to its last query. size_q and size_k: powers of two. */
double tile_pairs(double kv, double c, double size_q, double size_k);

#endif
