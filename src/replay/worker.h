/* The process that replays a capsule.
 *
 * A replay runs in a process of its own, with the capsule's addresses free and no more in it than
 * it needs. A kernel that fails takes the GPU from its process; the one that started it goes on. It
 * is started by replay_capsule (replay.h) as
 *
 *     twinfer --replay-worker ORDER          ORDER: struct worker_order as JSON
 *
 * and answers on stdout, a JSON map a line, in this order; those it is not asked for are missing:
 *
 *     {"taken": address}                     something is there; nothing else follows
 *     {"loaded": {...}}                      GPU and classes
 *     {"trial": true}                        the region ran
 *     {"verified": {...}}
 *     {"region": timing}                     struct timing as JSON
 *     {"begin": class}, {"class": {...}}     of each class alone,
 *     {"begin_repeated": class}, {"repeated": {...}}     and repeated in the region
 *     {"begin_nodes": true}
 *     {"nodes": {...}}                       times inside the region
 *     {"alone": [seconds]}                   of each class, without gaps
 *     {"begin": loop}, {"held": {...}}       of each loop that is held
 *     {"extracted": {...}}
 *     {"done": {...}}                        conditions under which it was measured
 *
 * {"error": {...}} ends it at any point. What is on stderr is for people. */
#ifndef REPLAY_WORKER_H
#define REPLAY_WORKER_H

#include <signal.h>

#include "replay/timing.h"
#include "text/fields.h"

struct worker_order {
    const char *dir;
    int64_t gpu;
    bool trial, verify, time, hold; /* what to do */
    const char **classes; /* [n_classes] to be timed, as of replay_classes_choose; none = all */
    size_t n_classes;
    /* What is held for a sensor of power, hold_s each: loop 0 is the region, twice as long and
     * region_runs times at least; then each class of `alone`, then all classes of `pooled` in one
     * loop. The first to be done is from_loop. */
    double hold_s;
    int64_t *alone, *pooled; /* [n_alone], [n_pooled] */
    size_t n_alone, n_pooled;
    int64_t from_loop;
    bool again;        /* memory is put back between samples */
    int64_t *in_front; /* [n_in_front] classes that are repeated so (measure.h) */
    size_t n_in_front;
    bool streams, cold, repeated;
    int64_t samples;
    double sample_s;
    int64_t region_runs; /* least launches of the region while it is timed; 0 = any */
    double tolerance;
    int64_t dtype;    /* enum verify_dtype */
    int64_t dispatch; /* this operation alone; -1 = the region */
    int64_t
        from_class;  /* the first to be timed; the region is not timed again when it is above 0 */
    double region_s; /* then its time */
    const char *extract; /* folder for the operation `dispatch` as a capsule; NULL = not */
};

extern const struct fields worker_order_fields, worker_timing_fields;

#define WORKER_FLAG "--replay-worker"

/* The process' main function. 0 whatever was found: the answer says it. */
int replay_worker(const char *order, const volatile sig_atomic_t *stop);

#endif
