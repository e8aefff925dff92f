/* The rehearsal: the serving loop over a short mixed workload, each batch held against what the
 * tables predict for it.
 *
 * Tables hold medians of single passes; a run is a sum of passes, each coming after another kind of
 * pass. Stalls make the mean larger than the median, and the caches are in another state. By how
 * much, for iterations with and without prefill chunks, is measured here and kept as a factor; what
 * is left after it is the honest error of a predicted iteration on that machine. */
#ifndef PROFILE_REHEARSE_H
#define PROFILE_REHEARSE_H

#include <signal.h>

#include "base/vec.h"
#include "profile/profile.h"
#include "profile/read/bundle.h"

struct rehearsed {
    int round;
    struct batch b; /* chunks NULL; they are at first_chunk */
    size_t first_chunk;
    double device_s; /* sum over operators */
};

struct rehearsal {
    VEC(struct rehearsed) batches;
    VEC(struct chunk) chunks;
};

void rehearsal_free(struct rehearsal *r);

/* Sequences at a time, requests, their output tokens on average. Trains of decodes between two
 * prompts are output tokens / sequences long, and caches settle within some ten passes: so the more
 * sequences, the more tokens. */
enum { REHEARSAL_SETTINGS = 3 };
extern const struct rehearsal_setting {
    int64_t sequences, requests, decodes;
} rehearsal_settings[REHEARSAL_SETTINGS];

/* One round: each setting, as far as the limits go; `length` (0 to 1) shortens the outputs. */
enum st rehearse_round(const struct profile_params *p, struct executor ex, int round, double length,
                       const volatile sig_atomic_t *stop, struct rehearsal *out, struct err *e);

/* Batches without prefill chunks are classed by their sequences, those with by their tokens. */
enum { REHEARSAL_CLASSES = 3 };

/* Measured / predicted over the batches of a class in a round, the round in the middle (a while in
 * which something else ran does not count); a batch counts at most three times its prediction.
 * error: mean |measured - factor * predicted| / measured of the batches of that round. x: mean
 * sequences or tokens. n: batches; 0 = none, and factor 1. */
struct rehearsal_scale {
    double x, factor, error;
    int64_t n;
};
/* `unscaled` predicts without factors. */
void rehearse_scales(struct arena *a, const struct rehearsal *r, const struct model *m,
                     const struct bundle *unscaled, bool with_prefill,
                     struct rehearsal_scale out[REHEARSAL_CLASSES]);

#endif
