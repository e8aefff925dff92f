/* Profiles an engine that is seen only whole: a grid of batches, each carried out a number of
 * times on request, becomes a bundle of iterations (profile/whole.h).
 *
 * Grid: powers of two of sequences, cached tokens and prompt tokens up to the limits, in two
 * levels, powers of four first; batches of a prompt beside decodes at every fourth of these. A
 * visit of a batch is up to PASSES_VISIT passes; rounds over all batches in shuffled order go on
 * until each has `samples` or the time is up, so that a slow phase of the machine touches all of
 * them. The finer level is begun where one more round over it fits into half of the time. The first
 * round of the coarse level is always finished.
 *
 * The very first pass of each batch is measured by itself: what it takes more than the median of
 * the others, in the median over the batches with prompt tokens, and over those without, is what
 * this engine prepares for each new shape (sim/first_use.h), where that is beyond three times its
 * error and 2 % of a pass.
 *
 * Batches that the engine refuses, and kinds that it does not make, are left out and counted.
 *
 * Where the engine takes requests as well, PASSES_SHARE of the time is theirs, and the rest is for
 * a calibration run (rehearsal.h). Without one the bundle is of passes alone, and says why. */
#ifndef PROFILE_PASSES_H
#define PROFILE_PASSES_H

#include <signal.h>

#include "profile/whole.h"

enum { PASSES_VISIT = 5 };
extern const double PASSES_SHARE;

/* Kinds of batches, as bits. */
enum passes_kind {
    PASSES_DECODE = 1 << 0,
    PASSES_PROMPT = 1 << 1,
    PASSES_CHUNK = 1 << 2, /* prompt tokens after cached ones */
    PASSES_MIXED = 1 << 3, /* prompt tokens beside decodes */
};

struct passes_point {
    int64_t decodes, kv;     /* sequences that decode, tokens in the cache of each before */
    int64_t chunk, chunk_kv; /* prompt tokens, those of it that are cached already */
    int level;
};

struct passes_limits {
    int64_t max_tokens; /* of a batch */
    int64_t max_batch;  /* sequences */
    int64_t max_kv;     /* of a sequence, the batch's own tokens included */
};

/* The grid, coarse level first; *n points. kinds: those that the engine makes. */
struct passes_point *passes_grid(struct arena *a, const struct passes_limits *l, uint32_t kinds,
                                 size_t *n);
enum passes_kind passes_kind_of(const struct passes_point *p);

/* The engine. ST_END: it does not carry this batch out, for *why. total_s, device_s: [n] of each
 * pass; device_s[i] < 0: not told apart. */
struct passes_engine {
    void *self;
    enum st (*run)(void *self, const struct passes_point *p, int64_t warmup, int64_t n,
                   double *total_s, double *device_s, const char **why, struct err *e);
    const struct rehearsal_engine *loop; /* NULL: it takes no requests, for the reason */
    const char *why_no_loop;
};

struct passes_params {
    struct whole_params to;
    struct passes_limits limits;
    uint32_t kinds;
    int64_t samples, warmup;
    double time_budget_s; /* 0 = none */
    uint64_t seed;
    const volatile sig_atomic_t *stop;
};

struct passes_result {
    struct whole_result bundle;
    size_t points, left_out, samples;
    double first_use_s[2];   /* without and with prompt tokens; 0 = it does not show */
    const char *why;         /* of the last that was left out */
    const char *why_no_loop; /* NULL = there was a calibration run */
};

/* ST_INTERRUPTED: *stop was set, and nothing is written. ST_REJECTED: the engine refused so many
 * batches that none of a kind is left. */
enum st passes_profile(struct arena *a, const struct passes_params *p,
                       const struct passes_engine *engine, struct passes_result *out,
                       struct err *e);

#endif
