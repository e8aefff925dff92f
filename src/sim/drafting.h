/* Cost of the draft model of speculative decoding (its effect: serve/speculate.h).
 *
 * One pass of it over a batch takes c times the model's time to decode the batch's rows without
 * speculation, and a step has k passes before the model verifies:
 *
 *     time(batch) = verify(batch) + k c decode(batch)
 *
 * c is the cost ratio of Leviathan et al.; with their assumption verify = decode the speed-up of a
 * full decode batch is (1 - a^(k+1)) / ((1 - a) (k c + 1)), for acceptance a. Here verify is the
 * predictor's own time for rows of 1 + k tokens. Energy is charged alike. The draft runs on the
 * first pipeline stage; prefills of the draft model are not charged. */
#ifndef SIM_DRAFTING_H
#define SIM_DRAFTING_H

#include "sim/predictor.h"

/* The predictor plus the cost of drafting, under the same name. Lives in the arena; *p is copied,
 * its pointers are borrowed. */
struct predictor predictor_drafting(struct arena *a, const struct predictor *p, double cost);

#endif
