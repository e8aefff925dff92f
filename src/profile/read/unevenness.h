/* How batches that should take equally long differ on a machine, and for how long.
 *
 * unevenness.csv of a bundle (docs/formats.md) holds, for the batches of the calibration run in
 * their order, measured / predicted time with all factors applied. A machine is slow for a while:
 * of 48 decodes in a row all may take 1.3 times as long, and a request's time per token with them.
 * So the ratios are replayed in their order, from a place that is drawn, by class of batches: with
 * and without prefill chunks, by tokens or sequences. Each class is scaled to mean 1: it moves
 * percentiles, not means. */
#ifndef PROFILE_READ_UNEVENNESS_H
#define PROFILE_READ_UNEVENNESS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/rng.h"

#define BUNDLE_UNEVENNESS "unevenness.csv"

/* Classes with fewer batches are left even. */
enum { UNEVENNESS_CLASSES = 16, UNEVENNESS_LEAST = 8 };

struct unevenness {
    struct unevenness_class {
        int64_t from; /* least tokens or sequences; ascending */
        int64_t n, next;
        const double *ratio;     /* [n] */
    } of[2][UNEVENNESS_CLASSES]; /* without prefill chunks, with */
    int n[2];
};

/* *out: NULL when there is no such file. ST_INPUT names the file and the line. */
enum st unevenness_load(struct arena *a, const char *path, struct unevenness **out, struct err *e);

/* A copy whose classes begin where r draws. */
struct unevenness *unevenness_begin(struct arena *a, const struct unevenness *u, struct rng *r);

/* The next ratio of the class that size falls into; 1 below the first. */
double unevenness_next(struct unevenness *u, bool prompt, int64_t size);

#endif
