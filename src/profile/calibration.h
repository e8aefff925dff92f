/* The calibration run: the serving loop over a short mixed workload, each batch compared with its
 * prediction from the tables.
 *
 * Tables hold medians of like passes in a row; a run is a sum of passes, each coming after another
 * kind of pass. Stalls make the mean larger than the median, and the caches are in another state.
 * The ratio is measured here, for iterations of prefill chunks alone, of chunks beside decodes, and
 * of decodes alone by their place in the train, and stored as a factor; the remaining error is that
 * of a predicted iteration on that machine. */
#ifndef PROFILE_CALIBRATION_H
#define PROFILE_CALIBRATION_H

#include <signal.h>

#include "base/vec.h"
#include "profile/journal.h"
#include "profile/profile.h"
#include "profile/read/bundle.h"
#include "profile/read/meta.h"

struct calibration_batch {
    int round;
    struct batch b; /* chunks NULL; they are at first_chunk */
    size_t first_chunk;
    double device_s;    /* sum over operators */
    double launch_s;    /* host time until it was launched, with chunks; 0 = not told apart */
    double idle_s;      /* of a deep executor's device, before it; 0 = none, or not known */
    double predicted_s; /* of calibration_predict; 0 = unknown */
    bool waited;        /* calibration_find_waiting: for launches */
};

struct calibration {
    bool deep; /* of an executor with several batches in flight: finer classes of large batches */
    VEC(struct calibration_batch) batches;
    VEC(struct chunk) chunks;
};

void calibration_free(struct calibration *r);

/* Sequences at a time, requests, their output tokens on average: trains of decodes between two
 * prompts are output tokens / sequences long. Prompts take at most `prompts` times the time of the
 * decodes. busy: part of the time in which the device computes, with requests that come by
 * themselves; 1 = the next comes when one ends. A GPU that has few sequences at a time rests
 * between them, which its clock shows (read/power_cap.h). */
enum { CALIBRATION_SETTINGS = 6 };
struct calibration_setting {
    int64_t sequences, requests, decodes, longest;
    double prompts, busy;
};
/* The settings; deep: for devices that serve a hundred sequences at once. */
const struct calibration_setting *calibration_settings_of(bool deep);
/* Whether the executor has several batches in flight. */
bool calibration_is_deep(const struct executor *ex);

/* A round's part of a setting: `longest` is the longest prompt, lengths are uniform over octaves.
 */
struct calibration_part {
    int64_t requests, decodes, longest;
    double gap_s; /* between arrivals, in the mean; 0 = all are there */
};
/* The part for `length` (0 to 1): outputs are shortened down to CALIBRATION_FEWEST tokens, then
 * there are fewer requests. Prompts are shortened until their tokens take no more than the setting
 * allows: on a CPU half the time of the decodes, since most batches of a run are decodes (prompts
 * of 120 tokens on average left decodes a sixth of the batches); where a batch holds a hundred
 * sequences twice, as prompts take two thirds of the time of a loaded GPU, and batches of many
 * prompt tokens would be missing. A decode batch of the setting takes decode_s, a prompt token
 * token_s; 0 = unknown: nothing is shortened. *seconds: estimated duration of the part, in which no
 * prompt takes less than decode_s. */
enum { CALIBRATION_FEWEST = 16 };
struct calibration_part calibration_part(const struct calibration_setting *set, double length,
                                         double decode_s, double token_s, double *seconds);

/* Runs one round: the part of each setting, within the limits; `round` seeds the workload. */
enum st calibration_round(const struct profile_params *p, struct executor ex, int round,
                          const struct calibration_part parts[CALIBRATION_SETTINGS],
                          const volatile sig_atomic_t *stop, struct calibration *out,
                          struct err *e);

/* Appends the batches from number `from` on to the journal, as one round that took spent_s. */
enum st calibration_keep(const struct calibration *r, size_t from, double spent_s,
                         struct journal *j, struct err *e);
/* All rounds of a journal. */
void calibration_load(const struct journal *j, struct calibration *out);

/* Batches without prefill chunks are classed by their sequences, those with by their tokens. */
enum { CALIBRATION_CLASSES = 15 }; /* at most */

/* What `unscaled`, tables without factors, predicts of each batch: before scales and rests, with
 * what waking up takes after a pause. With a power cap (read/power_cap.h) where the batches before
 * it in its round, as they were measured, and the rests between them left the clock: what the cap
 * does is in no factor then. Rounds begin rested. */
void calibration_predict(struct arena *a, struct calibration *r, const struct model *m,
                         const struct bundle *unscaled);

/* What the host took at most to launch a batch with chunks: one in twenty, the stalls, took longer.
 * Not behind another such batch: a GPU's driver takes some thousand kernels, and the host waits
 * while these are more. On an H100 launching Qwen3-30B-A3B took 19 ms there in the median, 3
 * elsewhere. 0 = launching is not told apart. */
double calibration_launch_s(struct arena *a, const struct calibration *r);

/* Batches with chunks are launched kernel by kernel. Where that takes longer than the batch and
 * what is left of the one before, the device waits, and its time says nothing of its kernels: such
 * batches count nowhere. The executor's word (`starved`) is not enough, as a loop that is late in
 * asking sees a batch end long after its launches; so the run is gone through again, each batch
 * launched from when the second before it was done and the host was free. launch_s: what launching
 * one takes at most; 0 = not launched so. After calibration_predict. */
void calibration_find_waiting(struct calibration *r, double launch_s);

/* What decode attention takes beside prompts (predict_decode_beside_s): per cached token and per
 * row, so that with one factor a class the squares of measured / predicted - 1 are least over the
 * batches with prompts and decodes. *out: batches 0 where it is not told, as of other executors
 * than deep ones and of too few such batches; then nothing changes. Else `unscaled` has it from
 * then on (borrowed), and the batches are predicted anew. After calibration_find_waiting.
 *
 * With the tables' decode attention single batches of Qwen3-0.6B on an H200 were off by 1.95 % in
 * the mean, up or down with what was beside the prompt; so by 1.23 %. */
void calibration_fit_beside(struct arena *a, struct calibration *r, const struct model *m,
                            struct bundle *unscaled, struct bundle_decode_beside *out);

/* Measured / predicted over the batches of a class in a round, the mean of the rounds: on a machine
 * that is fast and slow by turns a run includes both. A batch counts at most three times its
 * prediction. The excess is stalls: too few in a class and a round to be averaged there, so
 * `stall`, the time of all the kind's batches with them / without them, is a part of each factor:
 * the mean of the rounds, none with more than 1.1.
 *
 * error: mean |measured - factor * predicted| / measured over the batches of all rounds. drift:
 * standard deviation over the rounds of ln(ratio); 0 with one round. x: mean sequences or tokens.
 * n: batches. A class of a single one, which says nothing of its spread, is joined to that above
 * it, the last one to that below; the last class of such a group tells their factor, the others
 * have it with n 0. One batch of 1,035 tokens decided over all larger ones of an H200: 3 % of them.
 * 0 in all classes = none, and factor 1. */
struct calibration_scale {
    double x, factor, error, drift, stall;
    int64_t n;
    int rounds;
};
/* What is left of a batch: measured / (factor * predicted), not cut off. `from` is the least size
 * of its class. */
struct calibration_rest {
    bool prompt; /* with prefill chunks */
    int64_t from;
    double ratio;
};
struct calibration_rests {
    VEC(struct calibration_rest) of;
};
/* Of all batches that can be predicted, in the order in which they ran. */
void calibration_rests(const struct calibration *r,
                       struct calibration_scale scale[CALIBRATION_KINDS][CALIBRATION_CLASSES],
                       struct calibration_rests *out);

/* As a bundle says them: those that had batches. */
struct bundle_classes calibration_classes(struct arena *a,
                                          const struct calibration_scale s[CALIBRATION_CLASSES]);

void calibration_scales(struct arena *a, const struct calibration *r, enum calibration_kind kind,
                        struct calibration_scale out[CALIBRATION_CLASSES]);

#endif
