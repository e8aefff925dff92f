/* Was it the same a second time? Kernel totals of a session beside those of an earlier one of the
 * same command. Private to deep/.
 *
 * Compared are kernel_totals in both deep.json, name by name, as far as one of them gives a kernel
 * DEEP_REPEAT_SHARE of the GPU's time or more: so a folder without its timeline, as those in
 * docs/examples, can be held against, and what deep.top= cut off the tables counts. Both must be of
 * stages, or both of a whole trace.
 *
 * A collective's kernel runs until the last rank has come: that part is the ranks' hosts, which no
 * run repeats, so it is left out of its total and of the GPU's time, and told. */
#ifndef DEEP_REPEAT_H
#define DEEP_REPEAT_H

#include "deep/result.h"

#define DEEP_REPEAT_SHARE   1.0  /* percent */
#define DEEP_REPEAT_PERCENT 10.0 /* a change up to this is called the same */

/* Fills now->repeat, or says in a note why there is nothing to compare. dir: where `before` is
 * from. */
void deep_repeat(struct arena *a, const char *dir, const struct deep_result *before,
                 struct deep_result *now);

#endif
