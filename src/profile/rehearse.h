/* The calibration run: the serving loop over a short mixed workload, each batch held against what
 * the tables predict for it.
 *
 * Tables hold medians of like passes in a row; a run is a sum of passes, each coming after another
 * kind of pass. Stalls make the mean larger than the median, and the caches are in another state.
 * By how much is measured here, for iterations of prefill chunks alone, of chunks beside decodes,
 * and of decodes alone by their place in the train, and kept as a factor; what is left after it is
 * the honest error of a predicted iteration on that machine. */
#ifndef PROFILE_REHEARSE_H
#define PROFILE_REHEARSE_H

#include <signal.h>

#include "base/vec.h"
#include "profile/journal.h"
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

/* Sequences at a time, requests, their output tokens on average: trains of decodes between two
 * prompts are output tokens / sequences long. */
enum { REHEARSAL_SETTINGS = 6 };
extern const struct rehearsal_setting {
    int64_t sequences, requests, decodes;
} rehearsal_settings[REHEARSAL_SETTINGS];

/* What a round runs of a setting: `longest` is the longest prompt, their lengths are even over its
 * octaves. */
struct rehearsal_part {
    int64_t requests, decodes, longest;
};
/* The part for `length` (0 to 1): outputs are shortened down to REHEARSAL_FEWEST tokens, then there
 * are fewer requests. Prompts are shortened until they take no more than half the time of the
 * decodes, since most batches of a run are decodes: on a CPU prompts of 120 tokens on average left
 * them a sixth. A decode batch of the setting takes decode_s, a prompt token token_s, no prompt
 * less than decode_s; 0 = not known: nothing is shortened. *seconds: about how long the part takes.
 */
enum { REHEARSAL_FEWEST = 16 };
struct rehearsal_part rehearsal_part(const struct rehearsal_setting *set, double length,
                                     double decode_s, double token_s, double *seconds);

/* One round: the part of each setting, as far as the limits go; `round` draws the workload. */
enum st rehearse_round(const struct profile_params *p, struct executor ex, int round,
                       const struct rehearsal_part parts[REHEARSAL_SETTINGS],
                       const volatile sig_atomic_t *stop, struct rehearsal *out, struct err *e);

/* The batches from number `from` on into the journal, as one round that took spent_s. */
enum st rehearsal_keep(const struct rehearsal *r, size_t from, double spent_s, struct journal *j,
                       struct err *e);
/* All rounds of a journal. */
void rehearsal_load(const struct journal *j, struct rehearsal *out);

/* What has a factor of its own. Batches without chunks by their place in the train of such batches:
 * the first finds in the caches what the prompt left there, the second and third what the first
 * could not yet replace. */
enum rehearsal_kind {
    REHEARSAL_DECODE,
    REHEARSAL_FIRST,
    REHEARSAL_SECOND,
    REHEARSAL_PROMPT,
    REHEARSAL_MIXED, /* chunks and decodes: the decodes' caches are as cold as those of a first */
};
enum { REHEARSAL_KINDS = REHEARSAL_MIXED + 1 };

/* Batches without prefill chunks are classed by their sequences, those with by their tokens. */
enum { REHEARSAL_CLASSES = 6 };

/* Measured / predicted over the batches of a class in a round, the mean of the rounds: a machine
 * that is fast and slow by turns is both in a run, too. A batch counts at most three times its
 * prediction. What is beyond that are stalls: too few in a class and a round to be counted there,
 * so the time of all the kind's batches with them / without them, `stall`, is a part of each
 * factor: the mean of the rounds, none with more than 1.1.
 *
 * error: mean |measured - factor * predicted| / measured over the batches of all rounds. drift:
 * standard deviation over the rounds of ln(ratio); 0 with one round. x: mean sequences or tokens.
 * n: batches; 0 = none, and factor 1. */
struct rehearsal_scale {
    double x, factor, error, drift, stall;
    int64_t n;
    int rounds;
};
/* `unscaled` predicts without factors. */
void rehearse_scales(struct arena *a, const struct rehearsal *r, const struct model *m,
                     const struct bundle *unscaled, enum rehearsal_kind kind,
                     struct rehearsal_scale out[REHEARSAL_CLASSES]);

#endif
