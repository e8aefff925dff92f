/* Drives an executor through one batch of a grid point, with sequences, block tables and token ids
 * of its own. */
#ifndef PROFILE_DRIVE_H
#define PROFILE_DRIVE_H

#include "base/vec.h"
#include "profile/grid.h"
#include "serve/executor.h"

struct drive;

/* Binds the executor to the driver's slots; its next user binds it again. A sequence's blocks are
 * contiguous, as the serving loop allocates them for a prompt: attention over randomly placed
 * blocks took 1.8 times as long at one sequence of 128 tokens on a CPU. ids are random below vocab,
 * other ones in each slot: with equal ones all rows of a decode went through the same experts, and
 * a batch of 128 read the weights of 8 of Qwen3-30B-A3B's 128. */
struct drive *drive_new(struct arena *a, struct executor ex, const struct grid_limits *l,
                        int64_t vocab, uint64_t seed);

/* Binds again after another use of the executor. */
void drive_bind(struct drive *d);

/* Measured passes of a decode's train. */
enum { DRIVE_TRAIN = 6 };

/* Executors with EXEC_OP_SPLIT: a visit begins with a pass alone that says how the time divides.
 * The passes that count are undisturbed, and the device is busy when each is submitted, as in a
 * loaded run: a decode's follow each other with two in flight; a prompt's follow a long decode
 * each, behind which its kernels queue up, so that the host's launching is not in its time. Decodes
 * have a lead-in of LEAD_SHORT passes, and SHORT_TRAIN count at most: such a device has no cache
 * that holds a model, and its times are steady.
 *
 * One visit of a point: of a prompt one forward pass, of a decode up to `most` (1 to DRIVE_TRAIN)
 * passes at the end of a train of its like, as in a run: earlier batches have left the caches by
 * then. Fewer passes, at least one, where they take long. op_s[i][OP_ROWS]: seconds of pass i
 * summed over repeats; *n of them; *spent_s: machine time of all passes. */
enum st drive_point(struct drive *d, const struct point *p, int most, double op_s[][OP_ROWS],
                    int *n, double *spent_s, struct err *e);

/* A pass of a train. */
struct drive_pass {
    double begin_s;  /* of the device's, since the train's first began there */
    double device_s; /* 0 = the device waited for the host: not known */
    size_t point;    /* of the train's points */
};
struct drive_passes {
    VEC(struct drive_pass) of;
};

/* Passes of the points in turn, two in flight where the executor can: once through all [n], then
 * around until one begins after `seconds`, and at least two; appended to out. Their time is the
 * device's, no operators are told apart. */
enum st drive_train(struct drive *d, const struct point *points, size_t n, double seconds,
                    struct drive_passes *out, struct err *e);

/* One pass of the point, then its operators of the loop over and over (executor_ops.loop, which the
 * executor must have). */
enum st drive_loop(struct drive *d, const struct point *p, const struct op_loop *l,
                   struct op_loop_times *out, struct err *e);

#endif
