/* Drives an executor through one batch of a grid point, with sequences, block tables and token ids
 * of its own. */
#ifndef PROFILE_DRIVE_H
#define PROFILE_DRIVE_H

#include "profile/grid.h"
#include "serve/executor.h"

struct drive;

/* Binds the executor to the driver's slots; whoever uses it next binds it again. A sequence's
 * blocks lie one after another, as the serving loop hands them to a prompt: attention over blocks
 * strewn at random took 1.8 times as long at one sequence of 128 tokens on a CPU. ids are random
 * below vocab. */
struct drive *drive_new(struct arena *a, struct executor ex, const struct grid_limits *l,
                        int64_t vocab, uint64_t seed);

/* After somebody else used the executor. */
void drive_bind(struct drive *d);

/* One measured forward pass, a decode's after others of its like: in a run, too, decodes come in
 * trains. op_s [OP_KINDS]: seconds summed over repeats; *spent_s: machine time of all passes. */
enum st drive_point(struct drive *d, const struct point *p, double op_s[OP_KINDS], double *spent_s,
                    struct err *e);

#endif
