/* Times of a loaded capsule: the region, and its classes alone and inside it. */
#ifndef REPLAY_MEASURE_H
#define REPLAY_MEASURE_H

#include "replay/classes.h"
#include "replay/issue.h"
#include "replay/timing.h"

struct measure {
    struct load *l;
    const struct replay_classes *classes;
    struct issue *issue;
    struct timer timer;
    const bool *in_front; /* [classes->n] alone as measure_class says; NULL = none */
};

/* The whole region as a graph; streams: given to streams by the host, each time anew. */
enum st measure_region(struct measure *m, bool streams, struct timing *out, struct err *e);

/* A class alone: its operations in turn, up to 512 of them, one after the other, memory being as
 * the region found it. What they read may only be made by operations before them, so that they may
 * fail, as one that takes an index from there does: the GPU is lost to this process then. A class
 * of in_front is its first operation alone, over and over, behind all operations before that.
 *
 * Here and below an operation has the sets before it that belong to it (reach.h). What those take
 * by themselves, sets_s an operation, is taken off the times; their windows and runs are of both.
 */
struct measured_class {
    struct timing warm, cold; /* cold.n 0: not wanted */
    double sets_s;            /* warm; 0 = it has none */
};
enum st measure_class(struct measure *m, size_t class, bool cold, struct measured_class *out,
                      struct err *e);

/* The graph of a class alone, each of its operations once, up to 64 of them: *ops. Close it. */
enum st measure_class_graph(struct measure *m, size_t class, CUgraphExec *out, int64_t *ops,
                            struct err *e);

/* The region, and operations [n] of it (in_front: the first of them, as of a class) in turn in this
 * order, over and over for a sensor of power (timer_hold): the region launches times at least; the
 * operations as many as they are, all of them, so that those of several classes run in their
 * proportions. A step of *out is one operation with those of its sets that are not among the
 * operations themselves. */
enum st measure_hold_region(struct measure *m, int64_t launches, double s, struct timing *out,
                            struct err *e);
enum st measure_hold(struct measure *m, const uint32_t *ops, size_t n, bool in_front, double s,
                     struct timing *out, struct err *e);

/* The class repeated in its places inside the region: seconds of one more of it there. region_s: of
 * the region; alone: of the class. Repeats so often that the region takes at least a fifth longer,
 * 2 to 9 times. */
enum st measure_repeated(struct measure *m, size_t class, double region_s,
                         const struct measured_class *alone, struct timing *out, struct err *e);

#endif
