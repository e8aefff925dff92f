/* The order of a region's operations (capsule/format.h) as streams and events: a list of steps
 * that, given to the device in this order, runs each operation after those that it must wait for.
 *
 * Each stream of the capsule is a lane, and lanes of their own carry branches inside a graph
 * launch. A step is an operation in a lane, or a wait of its lane for a step of another one, which
 * records an event. Waits that an earlier wait implies are left out. Captured into a graph, the
 * steps give the operations as nodes with exactly these dependencies; the lanes are then no streams
 * any more.
 *
 * More than PROGRAM_BRANCHES parallel branches of one graph launch share lanes: they run one after
 * the other then, which is a correct order too. */
#ifndef REPLAY_PROGRAM_H
#define REPLAY_PROGRAM_H

#include "capsule/capsule.h"

enum { PROGRAM_BRANCHES = 32 };

enum program_kind {
    PROGRAM_OP,    /* launch, copy or set */
    PROGRAM_WAIT,  /* for the event of step `item` */
    PROGRAM_POINT, /* nothing: a place for an event */
};

struct program_step {
    uint32_t kind; /* enum program_kind */
    uint32_t lane;
    uint32_t item;  /* operation of the capsule; step waited for */
    uint32_t event; /* recorded after it; CAPSULE_NONE = none */
    /* The launch may start before the one before it in the lane has ended
     * (programmatic stream serialization). */
    bool early;
};

struct program {
    struct program_step *steps;
    size_t n;
    uint32_t n_lanes, n_events;
    int32_t *priority; /* of lanes */
    size_t n_ops;      /* launches, copies, sets among the steps */
};

/* Operations from .. to - 1 of the capsule; what they would wait for before `from` has been done.
 */
void program_build(struct arena *a, const struct capsule *c, size_t from, size_t to,
                   struct program *out);

/* The operation runs on the GPU: a launch, copy or set. */
bool program_is_work(const struct capsule_op *op);

#endif
