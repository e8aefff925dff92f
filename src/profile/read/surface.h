/* Attention times over two variables: x (sequences of a decode batch, or tokens of a prefill chunk)
 * and kv (tokens in the cache before, per sequence).
 *
 * The shape comes from the work that attention does, fitted with weights 1/time and coefficients >=
 * 0:
 *     decode  [1, x, x kv, kv]                            rows, keys and values read
 *     prefill [1, x, x kv + x (x + 1) / 2, kv + x]        rows, scores computed, keys read
 * (of bounded attention, seen.h, the scores that it computes and the keys that it sees) in whole
 * tiles (tiles.h) where the points show any, and the residual, the ratio measured /
 * fitted, is interpolated: along kv inside the two neighbouring rows of equal x, then along x. So
 * times of exactly that form are reproduced everywhere, kinks are followed as finely as the grid
 * resolves them, and outside the grid the nearest edge is extended in proportion to the work.
 *
 * Points need not form a product grid; each x has its own kv knots. A knot that a row lacks and
 * rows on both sides of it have is filled in from their shape: the median of their values, each
 * scaled to the row at a nearby common knot. */
#ifndef PROFILE_READ_SURFACE_H
#define PROFILE_READ_SURFACE_H

#include "profile/read/curve.h"
#include "profile/read/seen.h"

enum surface_kind { SURFACE_DECODE, SURFACE_PREFILL };
enum { SURFACE_FEATURES = 4 };

struct surface_point {
    double x, kv, y; /* y >= 0 */
};

/* Tiles of queries (prefill) and of keys, in tokens; 0 = none were found. */
struct surface_tiles {
    double q, k;
};

/* Sorts by (x, kv) and replaces points of equal place by one with their mean. Returns how many
 * remain. */
int64_t surface_points_merge(struct surface_point *p, int64_t n);

struct surface {
    enum surface_kind kind;
    struct seen seen;
    struct surface_tiles tiles;
    double theta[SURFACE_FEATURES];
    struct grid *rows;       /* the distinct x; NULL = no surface */
    const struct curve *row; /* [rows->n]: ratio over kv */
};

/* p: merged points, n >= 1. tiles: NULL = find them. */
void surface_build(struct arena *a, enum surface_kind kind, const struct surface_point *p,
                   int64_t n, const struct surface_tiles *tiles, struct surface *out);

/* The same where queries see that much; kv of the points and of look-ups is seen_kv of it. */
void surface_build_seen(struct arena *a, enum surface_kind kind, const struct seen *seen,
                        const struct surface_point *p, int64_t n, const struct surface_tiles *tiles,
                        struct surface *out);

/* Prefill: fitted seconds per score; 0 where scores never bind. */
double surface_score_s(const struct surface *s);

/* Outside the grid *outside is set, as by curve_at; it is not read. */
double surface_at(const struct surface *s, double x, double kv, bool *outside);

#endif
