/* What the power limit does to a GPU's clock, measured: trains of prompts after rest, decodes and
 * short prompts right behind the longest prompts, and prompts that alternate with decodes. Private
 * to profile/. What is made of it: read/power_cap.h.
 *
 * The tables come from passes by ones and twos, in a run a device is busy for minutes. On an H200
 * of 700 W a prompt of 2,048 tokens of Llama-2-7B took 41.9 ms after rest and 47.9 ms once prompts
 * had run for 100 ms; decodes never slowed down by themselves, but took 7 % longer right behind
 * prompts, and were back after 60 to 100 ms.
 *
 * Sizes are powers of two, as far as a pass ends before the clock can fall. Each one's train lasts
 * TRAIN_S after REST_S of rest, and sizes with few passes at the clock of rest get more short ones.
 * Then come mixed trains, each after rest too: the longest prompts until they are sustained and
 * each shorter size behind two of them; and the two longest sizes, with decodes of some 10 or 40 ms
 * behind each prompt, and with rests of that length behind each two: which is what tells how fast
 * the clock comes back, as in trains of one size it only falls. The journal has a row "t" per pass,
 * "m" in mixed trains: number of its train, 1 for prompts or 0 for decodes, tokens or sequences,
 * when it began, in the train, and its time; a row "u" ends the trains. */
#ifndef PROFILE_POWER_CAP_H
#define PROFILE_POWER_CAP_H

#include "profile/read/meta.h"
#include "profile/session.h"

/* Runs the trains, into the journal; the executor has EXEC_OP_SPLIT. ST_INTERRUPTED: *stop was set,
 * and the journal will forget the trains. *spent_s: of the budget, rest included. */
enum st power_cap_measure(struct session *s, double *spent_s, struct err *e);

/* From the journal's trains; false: it has none.
 *
 * rested: median of the passes of a size that begin RESTED_S or less after rest; sustained: of
 * those that begin in the second half of the longest trains; behind: of those in mixed trains that
 * follow two of the longest. decode_ratio: of the decodes right behind prompts to those that have
 * settled. Sizes whose passes vary as no clock does wait for their launches and are left out, and
 * none is faster behind others than after rest: that is waking up (wake.h). The clock is held where
 * a size takes HELD_LEAST longer than rested. smoothing_s, control_s, decode_below, rest_below:
 * those with which the state model of read/power_cap.h has the least sum of absolute errors over
 * all passes, in order, as a coarse table and steps along each from its best place find them. */
bool power_cap_fit(struct arena *a, const struct journal *j, struct bundle_power_cap *out);

#endif
